"""A part of the calls, judged live: nothing paid for twice, any stop is an estimate, all of them are the ordinary run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.analysis.agree.runs import agree
from refbench.analysis.fewer.design import make_design
from refbench.analysis.fewer.references import References
from refbench.analysis.fewer.subset import Subset, chosen_in
from refbench.analysis.humans.correct import correct
from refbench.analysis.humans.sample import SampleOptions, sample
from refbench.analysis.profile import profile
from refbench.benchmarks import benchmark
from refbench.cli.app import main
from refbench.cli.items import items_command
from refbench.engine import Evaluation, evaluate
from refbench.engine.progress import Progress
from refbench.engine.sampling import check_tells
from refbench.record import RefBenchError
from refbench.report import to_csv, to_json
from refbench.report.latex.write import to_latex
from refbench.report.leaderboard import failure_sentences, leaderboards, left_out
from refbench.runs import Run
from refbench.tables.sampled import percent
from refbench.tables.scoring import score_run
from refbench.tables.table import Row, ranked
from support import multibanana
from support.checkout import plain_items, write_checkout, write_outputs
from support.judge_server import Faults, JudgeServer, answer

ITEMS = 36
CALLS = 3 * ITEMS


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer() as server:
        yield server


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fewer")
    items = plain_items(ITEMS)
    write_checkout(place / "creval", items)
    write_outputs(place / "a", items)
    return place


def run(work: Path, server: JudgeServer, out: Path, **changes: Any) -> Evaluation:
    arguments: dict[str, Any] = {
        "data": work / "creval",
        "models": f"A=folder:{work / 'a'}",
        "judges": f"judge=openai:gpt-4o?base_url={server.url}/v1",
        "out": out,
        "concurrency": 8,
        "timeout": 60.0,
    }
    return evaluate("creval", **{**arguments, **changes})


def total(evaluation: Evaluation, judge: str = "judge") -> Row:
    (row,) = evaluation.rows(metric="avg", level="overall", protocol="corrected", judge=judge)
    return row


def test_a_run_of_the_same_first_calls_makes_nothing_surer_as_a_reference(
    work: Path, judge: JudgeServer, tmp_path: Path
) -> None:
    """Its marks are those of the drawn cases, so that they tell nothing of the others."""
    part = run(work, judge, tmp_path / "part", calls="40%")
    leaning = run(work, judge, tmp_path / "leaning", calls="40%", references=str(tmp_path / "part"))
    alone, told = total(part).estimate, total(leaning).estimate
    assert alone is not None and told is not None
    assert told.half_width > 0.8 * alone.half_width
    assert told.effective_n < 1.4 * alone.effective_n


def test_a_part_is_paid_for_grows_and_ends_in_the_ordinary_table(
    work: Path, judge: JudgeServer, tmp_path: Path
) -> None:
    part = run(work, judge, tmp_path / "part", calls="40%")
    assert len(judge.requests) == math.ceil(0.4 * CALLS)
    first = total(part).estimate
    assert first is not None and (first.n_judged, first.n_all) == (math.ceil(0.4 * CALLS), CALLS)
    grown = run(work, judge, tmp_path / "part")
    assert len(judge.requests) == CALLS
    whole = run(work, judge, tmp_path / "whole")
    assert to_json(grown.result) == to_json(whole.result)
    low, high = first.all_calls95
    assert low <= (total(whole).value or 0.0) <= high


@pytest.mark.slow
def test_what_is_judged_further_is_added_to_what_was_judged_first(
    work: Path, judge: JudgeServer, tmp_path: Path
) -> None:
    run(work, judge, tmp_path / "run", calls="30%")
    before = {(p.case, p.part) for p, _ in Run.open(tmp_path / "run").evidence()}
    run(work, judge, tmp_path / "run", calls="60%")
    run(work, judge, tmp_path / "run", calls="20%")  # less than is there: nothing is asked, nothing is forgotten
    after = {(p.case, p.part) for p, _ in Run.open(tmp_path / "run").evidence()}
    assert len(judge.requests) == len(after)
    assert before < after
    # Each metric has a sample of its own.
    of_metric = [{case for case, part in before if part == metric} for metric in ("IF", "VC", "VQ")]
    assert of_metric[0] != of_metric[1]


@pytest.mark.slow
def test_within_goes_on_until_the_total_is_known_so_well(work: Path, judge: JudgeServer, tmp_path: Path) -> None:
    found = run(work, judge, tmp_path / "run", within=4.0, calls="90%")
    told = total(found).estimate
    assert told is not None and told.half_width <= 4.0
    assert len(judge.requests) < 0.9 * CALLS
    run(work, judge, tmp_path / "run", within=4.0, calls="90%")
    assert len(judge.requests) == told.n_judged


@pytest.mark.slow
def test_a_proxy_judges_everything_and_narrows_the_others_estimate(
    work: Path, judge: JudgeServer, tmp_path: Path
) -> None:
    alone = run(work, judge, tmp_path / "alone", calls="50%")
    asked = len(judge.requests)
    small = f"small=openai:gpt-4o-mini?base_url={judge.url}/v1"
    leaning = run(work, judge, tmp_path / "leaning", calls="50%", proxy=small)
    assert len(judge.requests) - asked == CALLS + math.ceil(0.5 * CALLS)
    narrow, wide = total(leaning).estimate, total(alone).estimate
    assert narrow is not None and wide is not None and narrow.half_width < wide.half_width
    assert total(leaning, "small").estimate is None
    assert "estimated from a part of the calls, leaning on the marks of small" in leaning.result.notes
    with pytest.raises(RefBenchError, match="leans on small: go on with the same --references and --proxy"):
        run(work, judge, tmp_path / "leaning", calls="60%")


@pytest.mark.slow
def test_an_earlier_run_is_a_reference(work: Path, judge: JudgeServer, tmp_path: Path) -> None:
    run(work, judge, tmp_path / "earlier")
    found = run(work, judge, tmp_path / "new", calls="50%", references=[tmp_path / "earlier"])
    assert any("1 model of the run earlier" in note for note in found.result.notes)
    # The table needs the earlier run no more.
    (tmp_path / "earlier").rename(tmp_path / "gone")
    assert to_json(score_run(tmp_path / "new")) == to_json(found.result)
    with pytest.raises(RefBenchError, match="it has no scores of these cases"):
        run(work, judge, tmp_path / "other", calls="50%", references="released")


@pytest.mark.slow
def test_failures_among_the_judged_are_counted_and_bounded(work: Path, tmp_path: Path) -> None:
    with JudgeServer(faults=Faults(refused=0.15)) as server:
        row = total(found := run(work, server, tmp_path / "run", calls="60%", repair=False))
        assert row.estimate is not None and row.bounds is not None and row.value is not None
        assert row.bounds[0] < row.value < row.bounds[1]
        assert found.result.failed()[0]["refused"] > 0
        grown = run(work, server, tmp_path / "run", repair=False)
        whole = run(work, server, tmp_path / "whole", repair=False)
    assert to_json(grown.result) == to_json(whole.result)


def test_an_estimated_model_is_ranked_though_some_of_its_judged_calls_failed(work: Path, tmp_path: Path) -> None:
    with JudgeServer(faults=Faults(refused=0.15)) as server:
        found = run(work, server, tmp_path / "run", calls="60%", repair=False)
        judged = len(server.requests)
    row = total(found)
    n_failed = sum(1 for score in found.scores if score.failure and score.protocol == "corrected")
    assert row.n_scored < row.n_expected / 2
    assert (row.n_failed, row.n_judged) == (n_failed, judged)
    (one,) = ranked([row], ())
    assert one.rank == 1
    assert row.bounds is not None
    low, high = row.bounds
    (said,) = failure_sentences(row, 2)
    assert said.startswith(f"{n_failed} of the {judged} calls judged failed (")
    assert said.endswith(f"if all fail alike, avg would lie between {low:.2f} and {high:.2f}")
    estimate = row.estimate.model_copy(update={"n_failed": judged - 1}) if row.estimate else None
    (mostly,) = ranked([row.model_copy(update={"estimate": estimate})], ())
    assert mostly.why_not == f"not ranked: {judged - 1} of the {judged} calls judged failed"


def test_a_run_of_a_chosen_subset_says_so_with_the_error_that_was_measured(
    work: Path, judge: JudgeServer, tmp_path: Path
) -> None:
    names = [case.id for case in benchmark("creval").data.load(work / "creval", None).cases[:6]]
    told = Subset(
        benchmark="creval", ids=tuple(names), measure="avg", n_all=36, rmse=1.23, random_rmse=1.6, worst=3.2, models=8
    )
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join([*(f"# {line}" for line in told.said()), *names]), encoding="utf-8")
    run(work, judge, tmp_path / "run", ids=ids)
    (note,) = [note for note in score_run(tmp_path / "run").notes if "not drawn at random" in note]
    assert "6 of the 36 cases" in note
    assert "was off by 1.23" in note
    ids.write_text("\n".join(names[1:]), encoding="utf-8")  # listed by a user: nothing is known of how
    listed = run(work, judge, tmp_path / "listed", ids=ids)
    assert not [note for note in listed.result.notes if "not drawn at random" in note]
    ids.write_text("\n".join([*(f"# {line}" for line in told.said()), *names[1:]]), encoding="utf-8")
    assert chosen_in(ids).startswith("5 cases of a list that was changed since: 6 of the 36")


def test_calls_that_could_not_tell_the_total_are_refused_before_the_first_with_the_least_share(
    judge: JudgeServer, tmp_path: Path
) -> None:
    sets = multibanana.every_task(3)
    multibanana.write_dataset(tmp_path / "data", sets)
    for one in sets:
        (tmp_path / "a" / one.id).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / f"{one.id}.png").write_bytes(multibanana.PNG)
    options = {
        "models": f"A=folder:{tmp_path / 'a'}", "judges": f"judge=openai:gpt-4o?base_url={judge.url}/v1",
        "data": tmp_path / "data", "out": tmp_path / "run",
    }  # fmt: skip
    with pytest.raises(RefBenchError, match="cannot be estimated from 16 of 108 calls") as refused:
        evaluate("multibanana", calls="14%", **options)
    assert not judge.requests
    least = str(refused.value).rpartition("--calls ")[2]
    cases = benchmark("multibanana").data.load(tmp_path / "data", None).cases
    bench = benchmark("multibanana")
    design = make_design(bench, cases, References())
    fewest = math.ceil(float(least.rstrip("%")) / 100 * design.n_units)
    check_tells(bench, cases, design, fewest, "")
    with pytest.raises(RefBenchError):
        check_tells(bench, cases, design, fewest - 2, "")


def test_fewer_calls_than_are_judged_are_said_and_the_progress_counts_what_is_asked(
    work: Path, judge: JudgeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(work, judge, tmp_path / "run", calls="40%", show=True)
    assert [str(part) for part in first.progress.parts()] == ["44/44 calls"]
    assert "judged already" not in capsys.readouterr().err
    run(work, judge, tmp_path / "run", calls="10%", show=True)
    assert "Note: 41 % of the calls are judged already, more than --calls 10%" in capsys.readouterr().err


def test_one_shard_of_a_part_waits_for_the_others(work: Path, judge: JudgeServer, tmp_path: Path) -> None:
    found = run(work, judge, tmp_path / "run", calls="30%", shard="1/2")
    alone, n_judged = total(found), len(judge.requests)
    assert alone.value is None
    assert alone.remark is not None
    assert alone.remark.startswith(f"not estimated from {percent(n_judged / CALLS)} of the calls: waiting for those")
    assert "which other shards judge" in alone.remark
    (board,) = leaderboards(found.result)
    assert f"A: avg is {alone.remark}." in left_out(found.result, board)
    assert total(run(work, judge, tmp_path / "run", calls="30%", shard="2/2")).estimate is not None


def test_a_sample_and_stopping_when_resolved_do_not_share_a_run(work: Path, judge: JudgeServer, tmp_path: Path) -> None:
    two = {"models": [f"A=folder:{work / 'a'}", f"B=folder:{work / 'a'}"]}
    sampled = run(work, judge, tmp_path / "sampled", calls="30%", **two)
    pair = [("A", "B")]
    asked = len(judge.requests)
    with pytest.raises(RefBenchError, match=r"sampled has a sample of its calls .*: choose another --out"):
        run(work, judge, tmp_path / "sampled", stop_when_resolved=pair, **two)
    assert len(judge.requests) == asked
    with pytest.raises(RefBenchError, match="a part of runs/x's calls was judged"):
        sampled.result.needs_all_calls("a comparison", "runs/x")
    run(work, judge, tmp_path / "stopped", stop_when_resolved=pair, margin=90.0, **two)
    with pytest.raises(RefBenchError, match=r"stopped asked about whole cases .*: choose another --out"):
        run(work, judge, tmp_path / "stopped", calls="90%", **two)


def test_a_share_in_two_words_is_told_to_be_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["refbench", "run", "creval", "--calls", "14", "%", "--out", "runs/x"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--calls 14 %: write it in one word, --calls 14%" in " ".join(capsys.readouterr().err.split())


def test_the_total_of_calls_is_read_off_what_a_judge_is_to_be_asked() -> None:
    progress = Progress(cases=90, outputs=2, to_ask=30, laid_out=20, expected=38, done=20)
    assert [str(part) for part in progress.parts()] == ["20/~114 calls"]


@pytest.mark.slow
def test_a_run_that_stops_early_has_an_estimate_from_what_it_judged(
    work: Path, judge: JudgeServer, tmp_path: Path
) -> None:
    spec = f"judge=openai:gpt-4o?base_url={judge.url}/v1&price=100,100"
    found = run(work, judge, tmp_path / "run", calls="90%", judges=spec, budget="7usd", concurrency=2)
    assert found.stopped == "budget"
    row = total(found)
    assert row.estimate is not None and row.estimate.n_judged <= len(judge.requests) < 0.9 * CALLS


def paint(request: Any, seed: int) -> np.ndarray[Any, Any]:
    """A picture that depends on the seed; of some requests the second fails."""
    if seed == 1 and "item_00" in request.instruction:
        raise RuntimeError("out of paint")
    return np.full((8, 8, 3), (len(request.instruction) + 40 * seed) % 255, dtype=np.uint8)


@pytest.mark.slow
def test_with_two_seeds_of_which_one_is_lost_a_part_still_grows_into_the_whole(work: Path, tmp_path: Path) -> None:
    with JudgeServer(reply=answer) as server:
        options = {"models": {"P": paint}, "seeds": 2, "limit": None}
        part = run(work, server, tmp_path / "run", calls="50%", **options)
        assert total(part).estimate is not None
        n_seeds = total(part).n_seeds
        grown = run(work, server, tmp_path / "run", **options)
        whole = run(work, server, tmp_path / "whole", **options)
    assert n_seeds == 2
    assert grown.table.rows == whole.table.rows


def test_what_needs_all_calls_says_so(work: Path, judge: JudgeServer, tmp_path: Path) -> None:
    found = run(work, judge, tmp_path / "run", calls="40%")
    with pytest.raises(RefBenchError, match="a comparison needs all of them"):
        found.compare("A", "A")
    people = tmp_path / "people.csv"
    people.write_text("case,model,score\nitem_000.0,A,3\n")
    place = tmp_path / "run"
    takers: dict[str, Callable[[], object]] = {
        "a sample for people": lambda: sample(place, SampleOptions(outputs=10)),
        "a correction by people's marks": lambda: correct(place, people),
        "refbench items": lambda: items_command(place),
        "refbench agree": lambda: agree(place, humans=people),
        "a profile": lambda: profile([str(place), "creval"]),
    }
    for what, take in takers.items():
        with pytest.raises(RefBenchError, match=rf"a part of .*run's calls was judged.*{what} needs all of them"):
            take()
    told = total(found).estimate
    assert told is not None and found.result.estimated_from == told.share, "not that of some slice"
    paper = to_latex(found.result, interval="range")
    assert "from the standard error of the estimate" in paper
    assert "bootstrap" not in paper
    assert "judge/corrected/avg (estimated)" in " ".join(found.flat())
    assert found.result.table.parts["sample"]["design"]
    rows = [json.loads(to_json(found.result))["rows"][0], to_csv(found.result).splitlines()[0]]
    assert rows[0]["sampled"] is True and "all_calls95_low" in rows[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"calls": "0%"}, "--calls 0%: write a share such as 14%"),
        ({"calls": "lots"}, "--calls lots"),
        ({"calls": "10%", "limit": 5}, "give one of them"),
        ({"within": 1.0, "shard": "1/2"}, "use --calls"),
        ({"references": "released"}, "add --calls 14% or --within 1.0"),
        ({"calls": "10%", "references": ["none", "released"]}, "--references none: give nothing else"),
        ({"calls": "30%", "references": "nowhere"}, "nowhere: there is no such run: give released, none or run dir"),
        ({"calls": "30%", "references": "relased"}, r"--references relased: .*: did you mean released\?"),
    ],
)
def test_mistakes_are_refused_before_anything_is_paid(
    work: Path, judge: JudgeServer, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(RefBenchError, match=said):
        run(work, judge, tmp_path / "run", **changes)
    assert not judge.requests


@pytest.mark.slow
def test_the_command_line_prints_what_an_estimate_rests_on(
    work: Path, judge: JudgeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "creval", "--data", str(work / "creval"), "--model", f"A=folder:{work / 'a'}", "--calls", "40%"]
    words += ["--judge", f"judge=openai:gpt-4o?base_url={judge.url}/v1", "--out", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", ["refbench", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "est. from 41 %" in printed
    assert "avg is estimated from 41 % of the calls (44 of 108)" in printed
