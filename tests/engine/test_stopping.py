"""Runs that ask no more than it takes to tell two models apart, judged over HTTP, killed and run again."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from refbench.benchmarks import benchmark
from refbench.cli.app import main
from refbench.engine import evaluate
from refbench.engine.evaluation import Evaluation
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from refbench.tables.scoring import score_run
from support.checkout import Item, plain_items, write_checkout, write_outputs
from support.five_criteria import FIVE
from support.judge_server import JudgeServer, text_of, wire

N = 60
DATA = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")


@dataclass
class LookingJudge(JudgeServer):
    """Gives as many points as the last picture is bright, in tens, and refuses those that are black."""

    asked: Counter[str] = field(default_factory=Counter)
    dies_after: int | None = None

    async def _answer(self, request: web.Request, body: dict[str, Any], digest: str) -> web.StreamResponse:
        pixels = decode(base64.b64decode(DATA.findall(json.dumps(body))[-1]))
        mark, model = int(pixels[0, 0, 0]) // 10, int(pixels[0, 0, 1])
        self.asked[{1: "A", 2: "B", 3: "C"}[model]] += 1
        if self.dies_after is not None and self.asked.total() > self.dies_after:
            return web.json_response({"error": {"message": "invalid key"}}, status=401)
        assert text_of(body)
        return web.json_response(wire(request.path, json.dumps(dict.fromkeys(FIVE, mark)), refused=not mark))


def write(folder: Path, levels: dict[str, float], *, refused: float = 0.0, clusters: int = N) -> None:
    """Cases and what the models painted: pictures as bright as they are good, some of them black."""
    rng = np.random.default_rng(5)
    rows = []
    for n in range(N):
        rows.append({"id": f"case{n:03}", "instruction": f"Paint {n}.", "references": [], "cluster": str(n % clusters)})
        shared = rng.normal(0, 1)
        for number, (model, level) in enumerate(levels.items(), 1):
            mark = int(np.clip(round(level + shared + rng.normal(0, 1)), 1, 10)) if rng.random() >= refused else 0
            place = folder / model / f"case{n:03}.png"
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(encode(np.full((4, 4, 3), (10 * mark, number, n), dtype=np.uint8)))
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(
    folder: Path, server: JudgeServer, models: str, *pairs: tuple[str, str], price: str = "", **more: Any
) -> Evaluation:
    return evaluate(
        folder / "cases.jsonl",
        models=[f"{model}=folder:{folder / model}" for model in models],
        rubric="five_criteria",
        stop_when_resolved=pairs,
        **{
            "judges": f"j=openai:gpt-4o?base_url={server.url}/v1{f'&price={price}' if price else ''}",
            "out": folder / "run",
            "concurrency": 4,
            **more,
        },
    )


def test_a_run_stops_when_the_better_model_is_known_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, {"A": 8, "B": 5})
    with LookingJudge() as server:
        done = run(tmp_path, server, "AB", ("A", "B"))
        (decision,) = done.decisions
        asked = server.asked.total()
        assert done.stopped == "resolved"
        assert (decision.verdict, decision.better) == ("above", "A")
        assert 2 * decision.n_cases <= asked < 2 * N
        assert decision.interval[0] is not None
        assert decision.interval[0] >= 0
        assert f"decided after {decision.n_cases} of {N} cases, valid at every look" in decision.sentence
        again = run(tmp_path, server, "AB", ("A", "B"))
        assert again.decisions == done.decisions
        assert server.asked.total() == asked, "what is decided is not asked again"
    table = score_run(tmp_path / "run")
    (note,) = [note for note in table.notes if note.startswith("asked until pairs were resolved (A and B)")]
    assert decision.sentence.rstrip(".") in note
    assert table.table.parts["stopping"] == ["A and B"]


def test_numbers_of_a_stopped_run_say_everywhere_that_they_do_not_allow_for_it(
    tmp_path: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    write(tmp_path, {"A": 8, "B": 5})
    with LookingJudge() as server:
        (decision,) = run(tmp_path, server, "AB", ("A", "B")).decisions
    place = tmp_path / "run"
    asked = score_run(place, draws=0).stopped["A"]
    assert decision.n_cases <= asked < N
    stop = f"stopped when resolved after {asked} cases"
    whole = f"{stop}: this p and interval do not allow for it."
    (pair,) = json.loads(run_cli("compare", place, "--draws", 100, "--json")[1])["pairs"]
    assert pair["sentence"].endswith(whole)
    assert any(stop in note for note in json.loads(run_cli("compare", place, "--draws", 100, "--json")[1])["notes"])
    assert whole in " ".join(run_cli("compare", place, "--draws", 100)[1].split())
    (of_result,) = score_run(place, draws=0).compare("A", "B", draws=100).pairs
    assert of_result.sentence == pair["sentence"]
    for form in ("--latex", "--csv"):
        assert f"{stop}: intervals do not allow for it".casefold() in run_cli("table", place, form)[1].casefold(), form
    said = " ".join(run_cli("table", place)[1].split())
    assert "not needed to decide; without --stop-when-resolved they are asked" in said
    assert "the same run command goes on" not in said
    for command in (("precision", place), ("profile", place)):
        assert f"{stop}: intervals do not allow for it" in " ".join(run_cli(*command)[1].split()), command


def test_a_rule_under_which_all_was_asked_or_nothing_decided_is_said_as_that(
    tmp_path: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    write(tmp_path, {"A": 5, "B": 5})
    with LookingJudge() as server:
        run(tmp_path, server, "AB", ("A", "B"), price="1,1", budget="0.01usd")
        part = score_run(tmp_path / "run", draws=0)
        run(tmp_path, server, "AB", ("A", "B"), price="1,1")
    whole = score_run(tmp_path / "run", draws=0)
    assert part.waiting() > 0
    (note,) = [note for note in part.notes if "pairs" in note]
    assert note.startswith("to be asked until pairs are resolved (A and B); not decided yet")
    (note,) = [note for note in whole.notes if "pairs" in note]
    assert note.startswith(
        "pairs were followed (A and B); all cases were asked, so intervals are ordinary. Not decided"
    )
    assert part.stopped == whole.stopped == {}
    assert "do not allow" not in run_cli("compare", tmp_path / "run", "--draws", 100)[1]


@pytest.mark.slow
def test_a_run_that_goes_on_without_the_rule_has_the_ordinary_table(tmp_path: Path) -> None:
    write(tmp_path, {"A": 8, "B": 5})
    with LookingJudge() as server:
        run(tmp_path, server, "AB", ("A", "B"))
        whole = run(tmp_path, server, "AB")
        ordinary = run(tmp_path, server, "AB", out=tmp_path / "other")
    assert whole.stopped == ""
    assert whole.table.fingerprint == ordinary.table.fingerprint
    assert whole.table.rows == ordinary.table.rows


def test_killed_and_run_again_it_decides_the_same(tmp_path: Path) -> None:
    write(tmp_path, {"A": 7, "B": 5.5})
    with LookingJudge() as server:
        whole = run(tmp_path, server, "AB", ("A", "B"), out=tmp_path / "whole")
    with LookingJudge(dies_after=21) as server, pytest.raises(RefBenchError):
        run(tmp_path, server, "AB", ("A", "B"))
    with LookingJudge() as server:
        resumed = run(tmp_path, server, "AB", ("A", "B"), concurrency=3)
    assert resumed.decisions == whole.decisions


@pytest.mark.slow
def test_the_level_of_a_run_is_shared_once_and_further_pairs_and_judges_are_refused_before_they_are_paid(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"A": 9, "B": 4, "C": 4})
    with LookingJudge() as server:
        judges = [f"{name}=openai:gpt-4o?base_url={server.url}/v1" for name in ("j", "k")]
        (first, other) = run(tmp_path, server, "AB", ("A", "B"), judges=judges).decisions
        assert first.family == other.family == 2
        asked = server.asked.total()
        with pytest.raises(RefBenchError, match="A and C cannot be followed in this run"):
            run(tmp_path, server, "AC", ("A", "C"), judges=judges)
        with pytest.raises(RefBenchError, match="judge l cannot be followed in this run"):
            run(tmp_path, server, "AB", ("A", "B"), judges=[*judges, judges[0].replace("j=", "l=", 1)])
        assert server.asked.total() == asked
        (again,) = run(tmp_path, server, "AB", ("B", "A"), judges=judges[:1]).decisions
        assert (again.family, again.n_cases, again.better) == (2, first.n_cases, "A")
        assert run(tmp_path, server, "AB", ("A", "B"), judges=judges).decisions == (first, other)


@pytest.mark.slow
def test_models_of_decided_pairs_are_asked_no_more(tmp_path: Path) -> None:
    write(tmp_path, {"A": 9, "B": 4, "C": 4})
    with LookingJudge() as server:
        done = run(tmp_path, server, "ABC", ("A", "B"), ("B", "C"))
    of_a, near = done.decisions
    assert (of_a.verdict, near.verdict, near.family) == ("above", "open", 2)
    assert server.asked["A"] < server.asked["B"] == server.asked["C"] == N
    assert done.stopped == ""
    assert near.sentence.startswith("Not decided between B and C on")
    assert f"total, after all {N} cases" in near.sentence


@pytest.mark.slow
def test_near_equal_models_stop_at_a_margin(tmp_path: Path) -> None:
    write(tmp_path, {"A": 5, "B": 5})
    with LookingJudge() as server:
        done = run(tmp_path, server, "AB", ("A", "B"), margin=2.5)
    (decision,) = done.decisions
    assert (decision.verdict, done.stopped) == ("within", "resolved")
    assert decision.interval[0] is not None
    assert decision.interval[1] is not None
    assert -2.5 <= decision.interval[0] <= decision.interval[1] <= 2.5
    assert "equal within 2.5" in decision.sentence


def test_what_failed_counts_against_every_claim(tmp_path: Path) -> None:
    write(tmp_path, {"A": 8, "B": 6}, refused=0.3)
    with LookingJudge() as server:
        done = run(tmp_path, server, "AB", ("A", "B"))
    (decision,) = done.decisions
    assert decision.n_failed > 5
    assert decision.gap is not None
    assert decision.gap[0] < decision.gap[1]
    assert decision.verdict == "open", "a third of the cases could have gone either way"
    assert "with a failure, counted as the least and the most it could be" in decision.sentence


@pytest.mark.slow
def test_clusters_are_followed_whole(tmp_path: Path) -> None:
    write(tmp_path, {"A": 8, "B": 5}, clusters=20)
    with LookingJudge() as server:
        done = run(tmp_path, server, "AB", ("A", "B"))
    (decision,) = done.decisions
    assert decision.n_cases == 3 * decision.n_clusters
    assert f"in {decision.n_clusters} clusters" in decision.sentence


def test_a_baseline_of_another_run_is_not_asked_again(tmp_path: Path) -> None:
    write(tmp_path, {"A": 8, "B": 5})
    with LookingJudge() as server:
        run(tmp_path, server, "B", out=tmp_path / "old")
        done = run(tmp_path, server, "A", ("A", f"{tmp_path / 'old'}:B"))
        assert server.asked["A"] < server.asked["B"] == N
    (decision,) = done.decisions
    assert (decision.verdict, decision.better, decision.second) == ("above", "A", "B")


@pytest.mark.parametrize(
    ("models", "pairs", "more", "words"),
    [
        ("AB", [("A", "X")], {}, "the models are A, B; a baseline is RUN_DIR:MODEL"),
        ("AB", [("A", "A")], {}, "name two models"),
        ("AB", [("A", "B"), ("B", "A")], {}, "the same pair is named twice"),
        ("ABC", [("A", "B")], {}, "C is in none of the pairs"),
        ("AB", [("x:y", "z:w")], {}, "neither is a model of this run"),
        ("AB", [("A", "B")], {"batch": True}, "leave one of them out"),
        ("AB", [("A", "B")], {"shard": "1/2"}, "leave --shard out"),
        ("AB", [], {"margin": 1.0}, "say which pairs"),
        ("AB", [("A", "B")], {"margin": -1.0}, "greater than 0"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_anything_is_paid(
    tmp_path: Path, models: str, pairs: list[tuple[str, str]], more: dict[str, Any], words: str
) -> None:
    write(tmp_path, {"A": 8, "B": 5, "C": 5})
    with LookingJudge() as server:
        with pytest.raises(RefBenchError, match=re.escape(words)):
            run(tmp_path, server, models, *pairs, **more)
        assert not server.asked


def test_command_line_and_experiment_file_take_the_same_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*words: str) -> None:
        monkeypatch.setattr("sys.argv", ["refbench", *words])
        with pytest.raises(SystemExit, match="0"):
            main()

    write(tmp_path, {"A": 8, "B": 5})
    with LookingJudge() as server:
        judge = f"j=openai:gpt-4o?base_url={server.url}/v1"
        words = ["run", str(tmp_path / "cases.jsonl"), "--rubric", "five_criteria", "--judge", judge]
        words += [w for m in "AB" for w in ("--model", f"{m}=folder:{tmp_path / m}")]
        command(*words, "--out", str(tmp_path / "run"), "--stop-when-resolved", "A", "B", "--margin", "0.1")
        said = " ".join(capsys.readouterr().out.split())
        assert "A scores above B on Five criteria for pictures made from references total, decided after" in said
        asked = server.asked.total()
        (tmp_path / "x.toml").write_text(
            f'benchmark = "{tmp_path / "cases.jsonl"}"\nrubric = "five_criteria"\njudges = ["{judge}"]\n'
            f'models = ["A=folder:{tmp_path / "A"}", "B=folder:{tmp_path / "B"}"]\nout = "{tmp_path / "run"}"\n'
            'stop_when_resolved = [["A", "B"]]\nmargin = 0.1\n'
        )
        command("run", str(tmp_path / "x.toml"))
        assert server.asked.total() == asked


@pytest.mark.slow
def test_released_item_scores_are_a_baseline_that_costs_nothing(tmp_path: Path) -> None:
    released, _ = benchmark("creval").reporting.released(None)  # type: ignore[misc]
    items = [Item(case.id, class_id=1 + n % 9) for n, case in enumerate(released[:60])]
    root = write_checkout(tmp_path / "creval", items)
    write_outputs(tmp_path / "A", items)

    def never(text: str) -> str:
        return "\n\n".join(
            json.dumps({"Question": f"{q}: {t}", "explanation": "Seen.", "answer": "No"})
            for q, t in re.findall(r"^(Q\d+): (.+)$", text, re.MULTILINE)
        )

    with JudgeServer(reply=never) as server:
        done = evaluate(
            "creval",
            data=root,
            models=f"A=folder:{tmp_path / 'A'}",
            judges=f"gpt-4o=openai:gpt-4o?base_url={server.url}/v1",
            stop_when_resolved=("A", "creval:seedream4-0"),
            metrics="none",
            out=tmp_path / "run",
        )
        assert len(server.requests) < 3 * 60
        strangers = write_checkout(tmp_path / "others", plain_items(9))
        write_outputs(tmp_path / "B", plain_items(9))
        with pytest.raises(RefBenchError, match="they share no case"):
            evaluate(
                "creval",
                data=strangers,
                models=f"B=folder:{tmp_path / 'B'}",
                judges=f"gpt-4o=openai:gpt-4o?base_url={server.url}/v1",
                stop_when_resolved=("B", "creval:seedream4-0"),
                metrics="none",
                out=tmp_path / "other",
            )
    (decision,) = done.decisions
    assert (decision.verdict, decision.second, decision.n_all) == ("below", "seedream4-0 (released)", 60)
    assert "on CREval avg, decided after" in decision.sentence
    assert "(paper; " in decision.sentence
