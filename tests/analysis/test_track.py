"""Checkpoints against a baseline: verdicts that hold over all looks, exit codes, and a judge that is asked again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from refbench.analysis.compare import Systems
from refbench.analysis.compare.records import Pair
from refbench.analysis.compare.runs import differences_of, load_sources
from refbench.analysis.track.drift import _told
from refbench.analysis.track.series import Checkpoint, Rules, _measured, _verdict, level_of, track
from refbench.benchmarks.creval.table import PAPER, released_scores
from refbench.engine import evaluate
from refbench.record import RefBenchError
from refbench.stats import Contrast
from refbench.tables.table import Columns
from support.checkout import plain_items, reply_text, write_checkout, write_outputs
from support.judge_server import JudgeServer, dice

Refbench = Callable[..., tuple[int, str, str]]
N = 12


def right_in(share: float, salt: str = "") -> Callable[[str], str]:
    """A judge that says yes to so many questions."""

    def reply(text: str) -> str:
        asked = re.findall(r"^(Q\d+): ", text, re.MULTILINE)
        return reply_text([(q, "Yes" if dice(text + q, salt) < share else "No") for q in asked])

    return reply


@dataclass
class World:
    """A checkout, a judge on loopback, and runs of one model, each with as good marks as is wished."""

    root: Path
    server: JudgeServer

    @property
    def judge(self) -> str:
        return f"judge=openai:gpt-4o?price=1,1&base_url={self.server.url}/v1"

    def run(self, name: str, share: float, *, judge: str = "", budget: str | None = None) -> Path:
        self.server.reply = right_in(share, name)
        out = self.root / f"run-{name}"
        evaluate(
            "creval", data=self.root / "creval", models=f"m=folder:{self.root / 'outputs'}", out=out,
            judges=judge or self.judge, repair=False, budget=budget,
        )  # fmt: skip
        return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three checkpoints, as good as 90, 90 and 30 in a hundred answers."""
    with JudgeServer() as server:
        world = World(tmp_path_factory.mktemp("series"), server)
        write_checkout(world.root / "creval", plain_items(N))
        write_outputs(world.root / "outputs", plain_items(N))
        for name, share in (("base", 0.9), ("good", 0.9), ("bad", 0.3)):
            world.run(name, share)
        yield world


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    """The runs as they were: a check of the judge is kept in them."""
    for name in ("base", "good", "bad"):
        shutil.copytree(made.root / f"run-{name}", tmp_path / f"run-{name}")
    return replace(made, root=tmp_path)


def test_the_exit_code_tells_a_regression_from_a_pass_and_from_not_knowing(world: World, run_cli: Refbench) -> None:
    base, good, bad = (world.root / f"run-{name}" for name in ("base", "good", "bad"))
    code, said, _ = run_cli("track", good, bad, "--baseline", base, "--gate", -20, "--json")
    told = json.loads(said)
    assert code == 1
    assert [one["verdict"] for one in told["checkpoints"]] == ["passed", "regression"]
    assert told["checkpoints"][1]["interval"][1] < -20
    code, said, _ = run_cli("track", bad, good, "--baseline", base, "--gate", -20)
    assert code == 0, "the code is of the newest run"
    assert "regression" in said
    code, said, _ = run_cli("track", good, "--baseline", base, "--gate", -0.5)
    assert code == 4
    assert "cannot be told to be within or beyond the gate of -0.50" in " ".join(said.split())


def test_a_later_look_has_a_wider_interval_and_more_runs_change_no_earlier_one(world: World) -> None:
    base, good, other = (world.root / f"run-{name}" for name in ("base", "good", "bad"))
    alone = track([str(good)], str(base), Rules(gate=-1)).checkpoints[0]
    both = track([str(good), str(other)], str(base), Rules(gate=-1)).checkpoints
    assert both[0] == alone
    again = track([str(other)], str(base), Rules(gate=-1)).checkpoints[0]
    assert again.ci95 == both[1].ci95
    assert again.interval is not None
    assert both[1].interval is not None
    assert both[1].interval[0] < again.interval[0] < again.interval[1] < both[1].interval[1]
    known = track([str(good), str(other)], str(base), Rules(gate=-1, looks=2)).checkpoints
    assert known[0].level == known[1].level == pytest.approx(0.975)


def test_all_intervals_of_a_series_hold_together() -> None:
    assert sum(1 - level_of(look, None) for look in range(1, 100_000)) == pytest.approx(0.05, abs=1e-5)
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(400):
        for look in range(1, 9):
            drawn = rng.normal(0, 1, 40)
            contrast = Contrast(float(drawn.mean()), float(drawn.std(ddof=1) / 40**0.5), 0.0, 40, 39)
            interval = contrast.interval(level_of(look, None))
            assert interval is not None
            if not interval[0] <= 0 <= interval[1]:
                missed += 1
                break
    assert missed / 400 <= 0.075


def test_a_loss_that_flips_cannot_show_at_the_level_of_the_look_is_no_regression() -> None:
    """Six clusters have no p below 1 / 32, however little their differences spread."""
    cases = [*released_scores()[0]][:6]
    low = np.array([0.2, 0.21, 0.19, 0.2, 0.2, 0.2])
    rows = np.stack([np.full(6, 0.4), low])
    columns = Columns.of_values([("base", "j"), ("new", "j")], dict.fromkeys(("IF", "VC", "VQ"), rows))
    systems = Systems(PAPER, columns, cases, "creval", "CREval", "paper")
    measure = next(one for one in PAPER.measures if one.name == "avg")
    rules = Rules(gate=0, draws=200)
    for look, verdict in ((1, "regression"), (2, "inconclusive")):
        level = level_of(look, 2) if look == 2 else 0.95
        blank = Checkpoint(run="r", model="new", fingerprint=None, look=look, level=level, verdict="inconclusive")
        one = _verdict(_measured(blank, ["base", "new"], systems, measure, rules), systems, measure, rules)
        assert one.interval is not None
        assert (one.verdict, one.interval[1] < 0) == (verdict, verdict == "regression")
        assert one.ci95 is not None
        assert one.ci95[1] < 0


def test_the_sentence_about_a_judge_has_the_p_that_the_claim_goes_by() -> None:
    facts = {"first": "now", "second": "then", "judge": "j", "second_judge": "j", "gap": 1.0, "ci95": (0.1, 1.9)}
    told = _told(Pair(**facts, n_cases=9, p=0.03, p_adjusted=0.06), "avg", 2)  # type: ignore[arg-type]
    assert "no shift seen" in told.sentence
    assert "p = 0.06" in told.sentence


def test_a_run_that_is_not_whole_gets_no_verdict(made: World, run_cli: Refbench) -> None:
    base, part = made.root / "run-base", made.run("part", 0.1, budget="0.02usd")
    code, said, _ = run_cli("track", part, "--baseline", base, "--gate", -5, "--json")
    (told,) = json.loads(said)["checkpoints"]
    assert (code, told["verdict"]) == (4, "incomplete")
    assert not any("pictures" in line for line in told["differences"]), "those that both opened are the same"
    made.run("part", 0.1, budget="9usd")
    code, said, _ = run_cli("track", part, "--baseline", base, "--gate", -5, "--json")
    assert (code, json.loads(said)["checkpoints"][0]["verdict"]) == (1, "regression")


@pytest.mark.slow
def test_the_judge_is_asked_again_once_and_a_steady_one_lets_the_verdict_stand(world: World, run_cli: Refbench) -> None:
    base, bad = world.root / "run-base", world.root / "run-bad"
    world.server.reply = right_in(0.9, "base")
    before = len(world.server.requests)
    words = ("track", bad, "--baseline", base, "--gate", -5, "--anchor", base)
    code, _, why = run_cli(*words)
    assert code == 2
    assert "has not been checked against" in why
    code, said, _ = run_cli(*words, "--judge", world.judge)
    assert code == 1
    assert "every mark is the same as then" in " ".join(said.split())
    asked = len(world.server.requests) - before
    assert asked == 3 * N
    assert run_cli(*words, "--judge", world.judge)[0] == 1
    assert run_cli(*words)[0] == 1
    assert len(world.server.requests) - before == asked, "a check is paid for once"
    fewer = [seen.body["messages"] for seen in world.server.requests[:asked]]  # those of the first run
    again = [seen.body["messages"] for seen in world.server.requests[before:]]
    assert sorted(map(str, fewer)) == sorted(map(str, again)), "the same requests as then"


def test_a_judge_that_moved_gives_no_verdict_unless_one_is_asked_for(world: World, run_cli: Refbench) -> None:
    base, bad = world.root / "run-base", world.root / "run-bad"
    world.server.reply = right_in(0.5, "another version")
    words = ("track", bad, "--baseline", base, "--gate", -5, "--anchor", base, "--judge", world.judge)
    code, said, _ = run_cli(*words, "--json")
    (told,) = json.loads(said)["checkpoints"]
    (drift,) = told["drift"]["judges"]
    assert (code, told["verdict"]) == (4, "judge moved")
    assert drift["moved"]
    assert drift["shift"] < -20
    assert drift["n_outputs"] == N
    code, said, _ = run_cli(*words, "--on-drift", "warn")
    assert code == 1
    assert "Warning" in said
    assert "gives other marks than then" in " ".join(said.split())


def test_a_judge_who_would_be_asked_otherwise_is_refused_before_it_is_paid(world: World, run_cli: Refbench) -> None:
    base, good = world.root / "run-base", world.root / "run-good"
    before = len(world.server.requests)
    words = ("track", good, "--baseline", base, "--anchor", base, "--judge")
    code, _, why = run_cli(*words, f"{world.judge}&temperature=0.5")
    assert code == 2
    assert "is asked otherwise than what" in why
    code, _, why = run_cli(*words, world.judge.replace("judge=", "other="))
    assert code == 2
    assert "was judged by judge" in why
    assert len(world.server.requests) == before


def test_runs_of_a_judge_who_was_asked_otherwise_say_so(made: World, run_cli: Refbench) -> None:
    other = made.run("other", 0.9, judge=f"{made.judge}&temperature=1")
    base, good = made.root / "run-base", made.root / "run-good"
    said = " ".join(run_cli("track", good, other, "--baseline", base, "--gate", -50)[1].split())
    assert "not the same: how judge judge was asked" in said
    assert "not the same: fingerprint" in said


def test_pictures_are_not_the_same_where_one_that_both_runs_opened_has_other_content(made: World) -> None:
    first, second = load_sources([str(made.root / "run-base"), str(made.root / "run-good")], None, None)
    name, *others = sorted(first.pictures)

    def said(pictures: Mapping[str, str]) -> list[str]:
        named = ((first, "base", ("judge",)), (replace(second, pictures=pictures), "good", ("judge",)))
        return [line for line in differences_of(*named) if line.startswith("pictures")]

    assert said(second.pictures) == said({other: second.pictures[other] for other in others}) == []
    assert said({**second.pictures, name: "0" * 64}) == [
        f"pictures of the cases: 1 of {1 + len(others)} that both opened have other content (first: {name})"
    ]


def test_checkpoints_in_the_order_of_a_shell_are_refused_with_the_right_one(world: World, run_cli: Refbench) -> None:
    steps = [world.root / f"step{number}" for number in (1000, 2000, 10000)]
    for step, name in zip(steps, ("good", "good", "bad"), strict=True):
        shutil.copytree(world.root / f"run-{name}", step)
    base = world.root / "run-base"
    code, _, why = run_cli("track", *sorted(steps), "--baseline", base, "--gate", -20)
    assert code == 2
    assert " ".join(map(str, steps)) in why
    code, said, _ = run_cli("track", *steps, "--baseline", base, "--gate", -20, "--json")
    assert code == 1
    assert [Path(one["run"]).name for one in json.loads(said)["checkpoints"]] == ["step1000", "step2000", "step10000"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--metric", "none such"),
        ("--gate", 1),
        ("--looks", 0),
        ("--by-judge", "nobody"),
        ("--baseline", "nowhere"),
    ],
)
def test_nothing_is_paid_for_where_what_is_given_is_wrong(
    world: World, run_cli: Refbench, wrong: tuple[object, ...]
) -> None:
    base, good = world.root / "run-base", world.root / "run-good"
    before = len(world.server.requests)
    words = ["track", good, "--anchor", base, "--judge", world.judge, *wrong]
    code, _, why = run_cli(*words, *(() if "--baseline" in wrong else ("--baseline", base)))
    assert (code, len(world.server.requests)) == (2, before), why


@pytest.mark.parametrize("alone", [("--on-drift", "warn"), ("--frozen", 20), ("--again",)])
def test_what_is_about_the_anchor_is_refused_without_one(run_cli: Refbench, alone: tuple[object, ...]) -> None:
    code, _, why = run_cli("track", "creval:Bagel", "--baseline", "creval:OmniGen2", *alone)
    assert code == 2
    assert "are about --anchor: add it" in why


def test_a_check_can_be_made_again_and_earlier_ones_are_kept_and_said(world: World, run_cli: Refbench) -> None:
    base, bad = world.root / "run-base", world.root / "run-bad"
    words = ("track", bad, "--baseline", base, "--gate", -5, "--anchor", base, "--judge", world.judge)
    world.server.reply = right_in(0.5, "another version")
    assert run_cli(*words)[0] == 4
    world.server.reply = right_in(0.9, "base")
    before = len(world.server.requests)
    assert run_cli(*words)[0] == 4, "the check that there is"
    assert len(world.server.requests) == before
    code, said, _ = run_cli(*words, "--again")
    assert code == 1
    assert len(world.server.requests) == before + 3 * N
    flat = " ".join(said.split())
    assert re.search(r"\(asked \d{4}-\d\d-\d\d \d\d:\d\d UTC\): judge on 12 recorded outputs: gives other marks", flat)
    assert "every mark is the same as then" in flat
    assert "an earlier check of this run found that the judge moved" in flat
    (told,) = json.loads(run_cli(*words, "--json")[1])["checkpoints"]
    assert (told["verdict"], [check["judges"][0]["moved"] for check in told["drift"]["earlier"]]) == (
        "regression",
        [True],
    )


def test_runs_without_a_judge_in_common_are_told_who_judged_them(made: World, run_cli: Refbench) -> None:
    code, _, why = run_cli("track", made.root / "run-good", "--baseline", "creval:Bagel")
    assert code == 2
    flat = " ".join(why.split())
    assert "no judge has judged both the baseline and all runs" in flat
    assert "released Bagel by gpt-4o" in flat
    assert "nobody" not in flat


@pytest.mark.parametrize("gate", [0.5, float("nan")])
def test_a_gate_above_zero_is_refused(gate: float) -> None:
    with pytest.raises(RefBenchError, match="--gate"):
        track(["creval:Bagel"], "creval:OmniGen2", Rules(gate=gate))


def test_released_models_can_stand_for_runs_and_a_name_twice_is_refused() -> None:
    found = track(["creval:Bagel"], "creval:gpt-image-1", Rules(gate=-0.5))
    assert found.checkpoints[0].verdict == "regression"
    with pytest.raises(RefBenchError, match="given twice"):
        track(["creval:Bagel"], "creval:Bagel", Rules(gate=-0.5))
    with pytest.raises(RefBenchError, match="write RUN:MODEL"):
        track(["creval"], "creval:Bagel", Rules(gate=-0.5))
    with pytest.raises(RefBenchError, match="--looks 1"):
        track(["creval:Bagel", "creval:OmniGen2"], "creval:gpt-image-1", Rules(gate=-0.5, looks=1))
