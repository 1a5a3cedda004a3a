"""IDEA-Bench judged live on loopback: real pictures on every provider's wire, three calls, gates, resuming."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from refbench.benchmarks.ideabench.table import failure_table
from refbench.benchmarks.kit.published import TOTAL
from refbench.engine import evaluate
from refbench.tables.scoring import rescore
from support.ideabench import Design, designs, write_checkout, write_outputs
from support.judge_server import JudgeServer

KINDS = {
    "openai": "openai:gpt-5?base_url={url}/v1",
    "gemini": "gemini:gemini-2.5-pro?base_url={url}/v1beta",
    "anthropic": "anthropic:claude-sonnet-4-5?base_url={url}",
}


def yes(text: str) -> str:
    return '{"reason": "seen", "score": 1}'


def run(work: Path, server: JudgeServer, kind: str = "openai", models: tuple[str, ...] = ("m",), **more: Any) -> Any:
    return evaluate(
        "ideabench",
        data=work / "data",
        models=[f"{model}=folder:{work / model}" for model in models],
        judges=[f"judge={KINDS[kind].format(url=server.url)}"],
        out=work / "run",
        **more,
    )


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "test")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    items = designs(1)
    write_checkout(tmp_path / "data", items)
    write_outputs(tmp_path / "m", items)
    return tmp_path


def pictures_of(value: Any) -> list[bytes]:
    """Every picture of a request in any of the three wire formats, decoded from where pictures belong, never text."""
    found: list[bytes] = []
    if isinstance(value, dict):
        if value.get("type") == "image_url":
            found.append(base64.b64decode(value["image_url"]["url"].partition("base64,")[2]))
        elif "inlineData" in value or "inline_data" in value:
            found.append(base64.b64decode((value.get("inlineData") or value["inline_data"])["data"]))
        elif value.get("type") == "image":
            found.append(base64.b64decode(value["source"]["data"]))
        else:
            for item in value.values():
                found += pictures_of(item)
    elif isinstance(value, list):
        for item in value:
            found += pictures_of(item)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_judge_gets_real_pictures_on_every_provider(work: Path, kind: str) -> None:
    """The released script passes base64 as text, so that its judge has never seen a picture."""
    with JudgeServer(reply=yes) as server:
        run(work, server, kind)
        bodies = [request.body for request in server.requests]
    # 7 cases x 6 questions x 3 calls, twice; the two count questions are counted in corrected.
    assert len(bodies) == 7 * 18 * 2 - 2 * 3
    for body in bodies:
        pictures = [Image.open(io.BytesIO(data)) for data in pictures_of(body)]
        assert pictures
        for picture in pictures:
            picture.load()
            assert picture.format == "JPEG"


def test_a_perfect_model_has_a_hundred_under_both_protocols(work: Path) -> None:
    with JudgeServer(reply=yes) as server:
        found = run(work, server)
        again = run(work, server)
        assert len(server.requests) == 7 * 36 - 6, "running it again asks nothing"
    for result in (found.result, again.result):
        for protocol in ("paper", "corrected"):
            row = {"model": "m", "metric": "score", "protocol": protocol, "level": "overall"}
            assert result.value(**row) == pytest.approx(100)
            assert result.value(**(row | {"metric": "failure_rate"})) == 0
    assert {row.slice["level"] for row in found.result.table.rows} == {"overall", "category", "group", "task"}
    assert found.result.failure_share(missing=True) == 0


def test_three_calls_are_three_replies(work: Path) -> None:
    """A judge that changes its mind: the same request gets 1, 1 and 0 for the first question."""
    tries: Counter[str] = Counter()

    def moody(text: str) -> str:
        tries[text] += 1
        lost = "question 1:" in text and tries[text] % 3 == 0
        return yes(text) if not lost else '{"score": 0, "reason": "no"}'

    with JudgeServer(reply=moody) as server:
        found = run(work, server, limit=1, settings={"ask": "paper"}, protocol="paper", concurrency=1)
        assert len(server.requests) == 18
    assert found.result.value(model="m", metric="score", protocol="paper", level="overall") == pytest.approx(
        100 * (1 + 1 + 1 / 6) / 3
    )


def test_a_model_that_does_two_of_five_categories_is_scored_not_refused(tmp_path: Path) -> None:
    items = designs(1)
    write_checkout(tmp_path / "data", items)
    write_outputs(tmp_path / "m", [item for item in items if item.category in ("T2I", "I2I")])
    with JudgeServer(reply=yes) as server:
        found = run(tmp_path, server).result
    overall = {row.protocol: row for row in found.rows(model="m", metric="score", level="overall")}
    assert overall["paper"].value == pytest.approx(100 * 2 / 5)
    assert overall["paper"].n_imputed == 3
    assert overall["corrected"].value == pytest.approx(100)
    assert "Is2I, T2Is, I(s)2Is" in (overall["corrected"].remark or "")


def test_an_incomplete_set_loses_the_count_in_both_protocols(tmp_path: Path) -> None:
    items = [item for item in designs(1) if item.category == "T2Is"]
    write_checkout(tmp_path / "data", items)
    write_outputs(tmp_path / "m", items, missing=(4,))

    def reads_the_card(text: str) -> str:
        return '{"score": 0, "reason": "it is a 3"}' if "digit" in text else yes(text)

    with JudgeServer(reply=reads_the_card) as server:
        found = run(tmp_path, server).result
    for protocol in ("paper", "corrected"):
        assert found.value(model="m", metric="score", protocol=protocol, level="overall") == pytest.approx(100 / 6)


def test_a_judge_that_refuses_is_in_the_failure_table_and_makes_no_zero(work: Path) -> None:
    def shy(text: str) -> str:
        return "I'm sorry, I can't judge that." if "poster" in text and "question 3:" in text else yes(text)

    with JudgeServer(reply=shy) as server:
        found = run(work, server).result
    by_group = found.rows(model="m", metric="score", protocol="corrected", level="group")
    (poster,) = [row for row in by_group if row.slice["group"] == "poster"]
    assert (poster.value, poster.failures) == (None, {"refused": 1})
    assert found.value(model="m", metric="score", protocol="corrected", level="overall") == pytest.approx(100)
    total = failure_table(found.scores)[-1]
    assert (total.model, total.failed, total.questions) == (TOTAL, 1, 42)


def test_cases_for_people_only_lower_what_is_expected(tmp_path: Path) -> None:
    items = [*designs(1)[:2], Design("ticket_generation", "0030", auto=False)]
    write_checkout(tmp_path / "data", items)
    write_outputs(tmp_path / "m", items)
    with JudgeServer(reply=yes) as server:
        found = run(tmp_path, server).result
        assert len(server.requests) == 2 * 36
    (row,) = found.rows(model="m", metric="score", protocol="corrected", level="overall")
    assert (row.n_expected, row.n_scored) == (2, 2)


# --- the file of the released judge script -----------------------------------------------------------------------


def write_csv(path: Path, items: list[Design], reply: str = '{"score": 1, "reason": "fine"}') -> Path:
    names = ["task_name", "task_id", "case_id", "question_id", "text_prompt", "stitched_image"]
    names += [f"{name}_{call}" for call in (1, 2, 3) for name in ("gemini_result", "score", "explanation")]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for item in items:
            for question in range(1, 7):
                row = [item.slug, item.uid, f"{item.number:04d}", question, "text", "x.jpg"]
                writer.writerow([*row, *[reply, 1, "fine"] * 3])
    return path


def test_the_released_result_file_is_read_again(tmp_path: Path) -> None:
    items = designs(2)
    write_checkout(tmp_path / "data", items)
    path = write_csv(tmp_path / "gemini_results_1.csv", [*items, Design("other", "0001")])
    found = rescore("ideabench", replies=path, data=tmp_path / "data", models=["flux"])
    for protocol in ("paper", "corrected"):
        assert found.value(model="flux", metric="score", protocol=protocol, level="overall") == pytest.approx(100)
    assert found.table.rows[0].judge == "gemini-1.5-pro"
    assert "6 replies for items not in the data were skipped" in found.notes[0]


def test_a_score_of_ten_is_1_in_paper_and_out_of_range_in_corrected(tmp_path: Path) -> None:
    items = designs(1)
    write_checkout(tmp_path / "data", items)
    path = write_csv(tmp_path / "r.csv", items, '{"score": 10}')
    found = rescore("ideabench", replies=path, data=tmp_path / "data")
    assert found.value(model="r", metric="score", protocol="paper", level="overall") == pytest.approx(100)
    (row,) = found.rows(model="r", metric="score", protocol="corrected", level="overall")
    assert (row.value, row.failures) == (None, {"out_of_range": 7})


def test_a_file_that_misses_rows_is_scored_on_the_others(tmp_path: Path) -> None:
    """The released scorer refuses any file without exactly 306 rows."""
    items = designs(1)
    write_checkout(tmp_path / "data", items)
    path = write_csv(tmp_path / "r.csv", items[:3])
    found = rescore("ideabench", replies=path, data=tmp_path / "data")
    (row,) = found.rows(model="r", metric="score", protocol="paper", level="overall")
    assert row.value == pytest.approx(100)
    assert row.failures == {"missing_reply": 4}


def test_cases_that_a_model_cannot_take_are_left_out_of_its_table(work: Path) -> None:
    """`baseline:copy` needs a picture: the cases from text alone lower what is expected, and nothing else."""
    with JudgeServer(reply=yes) as server:
        found = evaluate(
            "ideabench",
            data=work / "data",
            models=["copy=baseline:copy", f"m=folder:{work / 'm'}"],
            judges=[f"judge={KINDS['openai'].format(url=server.url)}"],
            out=work / "run",
        )
    for protocol in ("paper", "corrected"):
        rows = [r for r in found.result.table.rows if r.protocol == protocol and r.slice["level"] == "overall"]
        expected = {(row.model, row.metric): (row.n_expected, row.n_scored) for row in rows}
        assert expected["copy", "score"] == (4, 4)
        assert expected["copy", "failure_rate"] == (4, 4)
        assert expected["m", "score"] == (7, 7)
