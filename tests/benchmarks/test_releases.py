"""A checkout as each benchmark's own users have it goes through check, run, rescore and table, from any directory."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refbench import load, rescore
from refbench.models.folder import FolderModel
from refbench.pictures import encode
from refbench.specs import Spec
from support import checkout, icebench, ideabench, multibanana, multiref
from support.judge_server import JudgeServer

Refbench = Callable[..., tuple[int, str, str]]


def anomaly_kinds(run_cli: Refbench, benchmark: str, data: Path) -> set[str]:
    code, out, err = run_cli("check", benchmark, "--data", data, "--json")
    assert code in (0, 1), err
    return {anomaly["kind"] for anomaly in json.loads(out)["anomalies"]}


def judged(run_cli: Refbench, reply: str | None, *words: object) -> str:
    """By a judge that always gives the same reply, or (None) a plausible one."""
    with JudgeServer(reply=None if reply is None else lambda text: reply) as judge:
        code, out, err = run_cli("run", *words, "--judge", f"j=openai:x?base_url={judge.url}/v1")
    assert code == 0, err
    return out


def rows(run_cli: Refbench, *words: object) -> list[dict[str, Any]]:
    code, out, err = run_cli(*words, "--json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["rows"]
    return found


def overall(found: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    return [row for row in found if row["metric"] == metric and row["slice"] == {"level": "overall"}]


def test_icebench(run_cli: Refbench, tmp_path: Path) -> None:
    items = [icebench.Item(task, number) for task in ("Image Colorization", "Virtual Try On") for number in range(2)]
    root = icebench.write_release(tmp_path / "ICE-Bench", items)
    method = root / "results/painter"
    assert anomaly_kinds(run_cli, "icebench", root) == {"other_count", "missing_task", "unusual_task_size"}
    run = ("icebench", "--data", root, "--model", f"painter=folder:{method / 'gen_info.json'}", "--out")
    judged(run_cli, "1", *run, tmp_path / "run", "--metrics", "l1_raw")
    for metric in ("qa", "l1_raw"):
        (row,) = overall(rows(run_cli, "table", tmp_path / "run", "--protocol", "paper"), metric)
        assert (row["n_scored"], row["failures"]) == (2, {})
    replies = ("--replies", method, "--protocol", "paper")
    (score,) = overall(rows(run_cli, "rescore", "icebench", "--data", root, *replies), "score")
    assert (score["model"], score["n_scored"], score["failures"]) == ("painter", 4, {})


def test_creval(run_cli: Refbench, tmp_path: Path) -> None:
    root = checkout.write_release(tmp_path / "CREval")
    outputs = checkout.write_outputs(tmp_path / "out", checkout.release_items())
    assert anomaly_kinds(run_cli, "creval", root) == {
        *("markdown_reference", "braces_in_question", "duplicate_question", "lost_question", "lower_case_choice"),
        *("wrong_extension", "unusual_pixels"),
    }
    run = ("creval", "--data", root, "--model", f"OmniGen2=folder:{outputs}", "--out", tmp_path / "run")
    judged(run_cli, None, *run, "--metrics", "colorfulness")
    found = rows(run_cli, "table", tmp_path / "run", "--protocol", "paper")
    for metric in ("avg", "colorfulness"):
        (row,) = overall(found, metric)
        assert (row["n_scored"], row["failures"]) == (9, {})
    assert overall(found, "colorfulness")[0]["value"] < 1, "in the metric's own units, not in per cent"
    replies = ("--replies", root / "answer_gpt", "--protocol", "paper")
    (average,) = overall(rows(run_cli, "rescore", "creval", "--data", root, *replies), "avg")
    assert (average["model"], average["judge"], average["n_scored"]) == ("OmniGen2", "gpt-4o", 9)


def test_ideabench(run_cli: Refbench, tmp_path: Path) -> None:
    root = ideabench.write_release(tmp_path / "IDEA-Bench")
    assert anomaly_kinds(run_cli, "ideabench", root) == {"release_size"}
    run = ("ideabench", "--data", root, "--model", f"m=folder:{root / 'outputs/model_results'}", "--out")
    reply = '{"score": 1, "reason": "fine"}'
    judged(run_cli, reply, *run, tmp_path / "run", "--set", "ask=paper", "--protocol", "paper")
    replies = ("--replies", root / "eval_results", "--protocol", "paper")
    for words in (
        ("table", tmp_path / "run", "--protocol", "paper"),
        ("rescore", "ideabench", "--data", root, *replies),
    ):
        (score,) = overall(rows(run_cli, *words), "score")
        assert (score["value"], score["n_scored"], score["failures"]) == (100.0, 7, {})


def test_multibanana(run_cli: Refbench, tmp_path: Path) -> None:
    root = multibanana.write_release(tmp_path / "multibanana")
    assert anomaly_kinds(run_cli, "multibanana", root) == {"missing_task"}
    run = ("multibanana", "--data", root, "--model", f"m=folder:{root / 'data'}", "--out", tmp_path / "run")
    judged(run_cli, multibanana.reply(), *run)
    replies = ("--replies", root / "data", "--model", "m", "--protocol", "paper")
    for words in (
        ("table", tmp_path / "run", "--protocol", "paper"),
        ("rescore", "multibanana", "--data", root, *replies),
    ):
        found = rows(run_cli, *words)
        (total,) = overall(found, "total")
        assert (total["value"], total["n_scored"]) == (pytest.approx(multibanana.TOTAL), 4)
        generators = [row["slice"]["generator"] for row in found if row["slice"]["level"] == "generator"]
        assert sorted(set(generators)) == ["both", "gpt_image_1", "nano_banana"]


def test_multiref(run_cli: Refbench, tmp_path: Path) -> None:
    """The Hub's rows have no categories, until the older release's taxonomy lies beside them."""
    root, older = tmp_path / "multiref", tmp_path / "older"
    blends, requests = multiref.blends()[:2], multiref.requests(5)
    multiref.write_checkout(older, blends, requests)
    multiref.write_hub_release(root, blends, requests)
    lacks = {"missing_target", "missing_enhanced", "drawn_box", "other_count"}
    assert anomaly_kinds(run_cli, "multiref", root) == {*lacks, "unknown_category", "missing_taxonomy"}
    (taxonomy,) = older.rglob("final_1000_prompts_taxonomy.json")
    shutil.copy(taxonomy, root)
    assert anomaly_kinds(run_cli, "multiref", root) == lacks
    for case in load("multiref", root).cases:
        (tmp_path / "out" / case.id).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"out/{case.id}.png").write_bytes(encode(multiref.original()))
    reply = '{"reason": "x", "image_quality": 4, "instruction_following": 3, "source_fidelity": 5}'
    run = ("multiref", "--data", root, "--model", f"m=folder:{tmp_path / 'out'}", "--out", tmp_path / "run")
    judged(run_cli, reply, *run, "--metrics", "none")
    found = rows(run_cli, "table", tmp_path / "run", "--protocol", "paper")
    (marks,) = [
        row for row in found if row["metric"] == "IQ" and row["slice"] == {"level": "split", "split": "real-world"}
    ]
    assert (marks["value"], marks["n_scored"]) == (pytest.approx(0.8), 5)


# --- the same releases after Windows has had them in its hands --------------------------------------------------------


def written_on_windows(root: Path) -> None:
    """Every text has a byte order mark and CRLF at the end of its lines; lists name paths with backslashes."""
    for path in root.rglob("*"):
        if path.suffix in (".txt", ".json", ".jsonl", ".csv", ".py"):
            text = path.read_text("utf-8")
            if path.suffix != ".py":
                text = re.sub(r'(?<=")[^"\n]*?images?/[^"\n]*(?=")', lambda name: name[0].replace("/", r"\\"), text)
            path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())


@pytest.mark.parametrize("name", ["creval", "icebench", "ideabench", "multibanana", "multiref"])
def test_a_release_that_went_through_windows_has_the_same_cases_and_scores(name: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"draws": 0, "protocol": "paper"}

    def made(root: Path) -> Path:
        if name == "creval":
            return checkout.write_release(root) / "answer_gpt"
        if name == "icebench":
            return icebench.write_release(root, [icebench.Item("Virtual Try On", 1)]) / "results/painter"
        if name == "ideabench":
            return ideabench.write_release(root) / "eval_results"
        if name == "multibanana":
            given["models"] = ["m"]
            return multibanana.write_release(root) / "data"
        multiref.write_checkout(root, multiref.blends(), multiref.requests())
        values = {blend.name: {"fid": 0.1, **dict.fromkeys(blend.types, 0.5)} for blend in multiref.blends()}
        return multiref.write_evaluation(root / "r.json", root / "m", multiref.blends(), {}, values)

    here, there = tmp_path / "here/release", tmp_path / "there/release"
    replies, copied = made(here), made(there)
    written_on_windows(there)
    assert load(name, there).cases == load(name, here).cases
    assert load(name, there).lacking() == load(name, here).lacking()
    expected, found = (
        rescore(name, data=root, replies=place, **given) for root, place in ((here, replies), (there, copied))
    )
    assert [row.value for row in found.table.rows] == [row.value for row in expected.table.rows]
    assert any(row.n_scored for row in found.table.rows)


def test_outputs_are_found_by_a_list_that_was_made_on_windows(tmp_path: Path) -> None:
    items = [icebench.Item("Virtual Try On", number) for number in range(2)]
    root = icebench.write_release(tmp_path, items)
    listed = root / "results/painter/gen_info.json"
    written_on_windows(root)
    assert r"results\\painter" in listed.read_text("utf-8-sig")
    cases = load("icebench", root).cases
    model = FolderModel(Spec.read(f"m=folder:{listed}"), cases, lambda case: [])
    assert [model.find(case) for case in cases] == [
        (root / f"results/painter/images/image{number}.jpg",) for number in (1, 2)
    ]
