"""What is logged of a run: the same for every tracker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refbench.record import RefBenchError
from refbench.report.trackers.kinds import tracker_of
from refbench.report.trackers.logged import Logged, Wanted, logged_of
from refbench.runs import Run
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from support.brief_runs import evaluated

KEY = "A/eye/corrected/total"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(tmp_path_factory.mktemp("logged"), {"A": (0.8, 0.5, 0), "B": (0.3, 0.5, 2)}, cases=6)


@pytest.fixture(scope="module")
def result(run: Path) -> Result:
    return score_run(run, draws=200)


def logged(run: Path, result: Result, **wanted: Any) -> Logged:
    return logged_of(result, Run.open(run), Wanted(**wanted))


def test_numbers_have_their_interval_and_their_counts(run: Path, result: Result) -> None:
    numbers = logged(run, result).numbers
    row = next(row for row in result.rows(model="A", level="overall", protocol="corrected", metric="total"))
    assert numbers[f"{KEY}/value"] == row.value
    assert row.ci95 and (numbers[f"{KEY}/ci95_low"], numbers[f"{KEY}/ci95_high"]) == row.ci95
    assert numbers[f"{KEY}/n_scored"] == row.n_scored == 6
    assert {name: value for name, value in numbers.items() if name.endswith("/value")} == {
        f"{key.removeprefix('own/')}/value": value for key, value in result.flat().items()
    }


def test_failures_and_coverage_are_logged_as_such_and_never_as_zeros(run: Path, result: Result) -> None:
    made = logged(run, result)
    of_b = KEY.replace("A/", "B/", 1)
    assert made.numbers[f"{of_b}/failed_missing_output"] == 2
    assert made.numbers[f"{of_b}/coverage"] == pytest.approx(4 / 6)
    assert len([row for row in made.tables["failures"].rows if "B" in row]) == len(result.failures()) > 0
    nothing = next(iter(result.table.rows)).model_copy(
        update={"value": None, "ci95": None, "bounds": None, "n_scored": 0}
    )
    empty = Result(result.bench, result.table.model_copy(update={"rows": (nothing,)}), result.scores, result.cases)
    numbers = logged_of(empty, Run.open(run), Wanted(worst=0)).numbers
    assert not [name for name in numbers if name.endswith(("/value", "_low", "_high"))]
    assert [value for name, value in numbers.items() if name.endswith("/n_scored")] == [0]


def test_the_worst_pictures_have_their_score_and_the_judges_words(run: Path, result: Result) -> None:
    made = logged(run, result, worst=2)
    assert [picture.key for picture in made.pictures] == ["worst/A/01", "worst/A/02", "worst/B/01", "worst/B/02"]
    worst = result["A"].cases.worst(1)[0]
    assert made.pictures[0].caption.startswith(f"{worst.case}: total {worst.total:.4g}")
    assert "eye, " in made.pictures[0].caption and "instruction_alignment" in made.pictures[0].caption
    assert made.pictures[0].jpeg.startswith(b"\xff\xd8")
    assert logged(run, result, worst=0).pictures == ()


def test_the_configuration_says_how_the_numbers_came_about_and_names_no_folder(run: Path, result: Result) -> None:
    config = logged(run, result).config
    assert config["fingerprint"] == result.table.fingerprint and config["judges"]["eye"]["model"] == "gpt-4o"
    assert config["run"] == "run" and str(run.parent) not in str(config)


def test_names_that_no_key_can_have_are_told_apart() -> None:
    from refbench.report.trackers import logged as module

    class Rows:
        table = type("T", (), {"rows": ()})

    names = module._names(Rows, ["a b", "a/b", "..", "plain-1.0"], "")  # type: ignore[arg-type]
    short = {name: names["model", name] for name in ("a b", "a/b", "..", "plain-1.0")}
    assert len(set(short.values())) == 4 and short["plain-1.0"] == "plain-1.0"
    assert all("/" not in name and " " not in name and name.strip(".") for name in short.values())


def test_the_same_numbers_have_the_same_id_and_others_another(run: Path, result: Result) -> None:
    assert logged(run, result).id == logged(run, result, worst=0).id
    assert logged(run, result).id != logged(run, result, models=("A",)).id
    first, second = (logged(run, result, models=("A",), series="s", step=step) for step in (1, 2))
    assert first.run_id == second.run_id and first.id != second.id
    assert "s/eye/corrected/total/value" in first.numbers


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"models": ("C",)}, "the models are A, B"),
        ({"series": "s", "step": 1}, "choose it with --model"),
        ({"series": "s"}, "belong together"),
        ({"step": 1}, "belong together"),
    ],
)
def test_what_cannot_be_logged_is_said(run: Path, result: Result, wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(RefBenchError, match=words):
        logged(run, result, **wanted)


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("wnadb", "did you mean wandb"),
        ("tensorboard:x?color=red", "no option"),
        ("wandb:p?mode=loud", "online or offline"),
        ("mlflow:http://user:secretpass@h/?experimnt=x", "no option"),
    ],
)
def test_a_mistaken_target_is_said_without_its_secrets(to: str, words: str) -> None:
    with pytest.raises(RefBenchError, match=words) as error:
        tracker_of(to)
    assert "secretpass" not in str(error.value)


def test_a_missing_extra_is_one_sentence(
    run: Path, run_cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.delitem(sys.modules, name)
    code, _, said = run_cli("log", str(run), "--to", "tensorboard")
    assert code == 2 and "pip install 'refbench[tensorboard]'" in said
