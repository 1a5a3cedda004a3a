"""What people's marks of some outputs correct in a judge's numbers, and which outputs they are asked about."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from refbench.analysis.agree.ratings import RaterScales
from refbench.analysis.compare.records import probability
from refbench.analysis.humans.correct import Correction, CorrectOptions, corrected_result
from refbench.analysis.humans.sample import SampleOptions, _drawn, sample
from refbench.analysis.humans.sampling import list_csv, read_list
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.cli.correct import correct_command
from refbench.cli.sample import _written, sample_command
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.result import Result
from refbench.tables.scoring import load, result_of
from support.checkout import METRICS, plain_items, reply_text, write_checkout

MODELS = ("Bagel", "gpt-image-1")
ASKED = CorrectOptions(protocol="paper")
Marks = dict[tuple[str, str], float]


@pytest.fixture(scope="module")
def released() -> Result:
    """Two models on 300 of the released items."""
    cases, scores = released_scores()
    kept = cases[::3][:300]
    names = {case.id for case in kept}
    mine = [score for score in scores if score.model in MODELS and score.case in names]
    return result_of(benchmark("creval"), kept, mine, draws=50)


@pytest.fixture(scope="module")
def people(released: Result) -> Marks:
    """On a scale of their own, from what the judge gave: a bias, a slope, and their own view of each output."""
    rng = np.random.default_rng(1)
    judged = {(row["case"], row["model"]): row["total"] for row in released.items() if row["total"] is not None}
    return {at: 1.0 + 0.03 * total + float(rng.normal(0, 0.4)) for at, total in sorted(judged.items())}


def write(path: Path, rows: Iterable[Sequence[object]], head: Sequence[str] = ("case", "model", "score")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def rated(people: Marks, cases: Iterable[str]) -> list[tuple[object, ...]]:
    return [(case, model, people[case, model]) for case in cases for model in MODELS]


def chosen(released: Result, n: int, seed: int = 2) -> list[str]:
    ids = [case.id for case in released.cases]
    return [ids[i] for i in np.random.default_rng(seed).choice(len(ids), n, replace=False)]


def corrected(released: Result, path: Path, asked: CorrectOptions = ASKED, sampled: Path | None = None) -> Correction:
    return corrected_result(released, path, sampled, asked)


def test_the_judges_bias_is_gone_and_the_interval_is_narrower_than_of_marks_alone(
    released: Result, people: Marks, tmp_path: Path
) -> None:
    file = write(tmp_path / "people.csv", rated(people, chosen(released, 100)))
    found = corrected(released, file)
    assert [row.model for row in found.models] == list(MODELS)
    for row in found.models:
        truth = np.mean([value for (_, model), value in people.items() if model == row.model])
        assert row.judge_alone and row.people_alone and row.corrected and row.corrected.ci95 and row.people_alone.ci95
        assert row.judge_alone.value == released.value(model=row.model, metric="avg", protocol="paper", level="overall")
        assert row.corrected.ci95[0] <= truth <= row.corrected.ci95[1]
        assert np.ptp(row.corrected.ci95) < 0.85 * np.ptp(row.people_alone.ci95)
        assert row.worth and row.worth > 20
        assert row.sentence.startswith(f"By people's marks {row.model} would score {row.corrected.value:.2f} (95 % CI")
    (gap,) = found.gaps
    assert gap.paired and gap.corrected and gap.p is not None
    assert f"; {probability(gap.p)}; marks alone" in gap.sentence
    assert any("nobody recorded how the rated outputs were chosen" in note for note in found.notes)


def test_marks_of_everything_leave_the_judge_nothing_to_say(released: Result, people: Marks, tmp_path: Path) -> None:
    file = write(tmp_path / "all.csv", rated(people, [case.id for case in released.cases]))
    found = corrected(released, file, CorrectOptions(protocol="paper", these_cases=True))
    for row in found.models:
        truth = np.mean([value for (_, model), value in people.items() if model == row.model])
        assert row.corrected and row.corrected.value == pytest.approx(truth)
        assert row.corrected.ci95 is None
        assert row.judge_alone and row.judge_alone.ci95 is None


def test_the_judge_is_put_on_peoples_scale_where_both_are_said(released: Result, people: Marks, tmp_path: Path) -> None:
    file = write(tmp_path / "people.csv", rated(people, chosen(released, 20)))
    apart = corrected(released, file)
    said = corrected(released, file, CorrectOptions(protocol="paper", scale=RaterScales.parse("1-5")))
    assert (apart.judge_on_scale, said.judge_on_scale) == (False, True)
    for own, on_scale in zip(apart.rows, said.rows, strict=True):
        assert own.judge_alone and on_scale.judge_alone
        at_zero = 1.0 if own.versus is None else 0.0
        assert on_scale.judge_alone.value == pytest.approx(at_zero + own.judge_alone.value / 25)
        assert own.corrected == on_scale.corrected


def test_marks_beyond_the_scale_that_is_said_are_refused(released: Result, people: Marks, tmp_path: Path) -> None:
    rows = [(case, model, 3) for case in chosen(released, 20) for model in MODELS]
    file = write(tmp_path / "people.csv", [*rows[:5], (*rows[5][:2], 33), *rows[6:]])
    on_five = CorrectOptions(protocol="paper", scale=RaterScales.parse("1-5"))
    with pytest.raises(RefBenchError, match=r"people.csv, line 7: human gives 33, and --scale says 1 to 5"):
        corrected(released, file, on_five)
    file = write(tmp_path / "low.csv", [*rows[:5], (*rows[5][:2], 0), *rows[6:]])
    with pytest.raises(RefBenchError, match=r"low.csv, line 7: human gives 0, and --scale says 1 to 5"):
        corrected(released, file, on_five)
    marks = [(case, model, metric, 3 if metric == "avg" else 9) for case, model, _ in rows for metric in ("avg", "IF")]
    two = write(tmp_path / "two.csv", marks, ("case", "model", "metric", "score"))
    with pytest.raises(RefBenchError, match="gives 9"):
        corrected(released, two, on_five)
    asked = CorrectOptions(protocol="paper", scale=RaterScales.parse("1-5"), metric="avg")
    assert {row.metric for row in corrected(released, two, asked).rows} == {"avg"}


def test_several_raters_count_as_their_mean_and_their_noise_is_told(
    released: Result, people: Marks, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    cases = chosen(released, 60)
    rows = [
        (case, model, rater, people[case, model] + rng.normal(0, 0.6))
        for case in cases
        for model in MODELS
        for rater in ("ann", "bo", "cy")
    ]
    several = corrected(released, write(tmp_path / "three.csv", rows, ("case", "model", "rater", "score")))
    of_mean: dict[tuple[object, object], list[float]] = defaultdict(list)
    for case, model, _, score in rows:
        of_mean[case, model].append(float(score))
    means = [(*at, np.mean(scores)) for at, scores in of_mean.items()]
    single = corrected(released, write(tmp_path / "means.csv", means))
    for a, b in zip(several.rows, single.rows, strict=True):
        assert a.corrected and b.corrected and a.corrected.value == pytest.approx(b.corrected.value)
        assert a.raters_noise and 0.2 < a.raters_noise < 0.7 and b.raters_noise is None


def test_a_picked_sample_is_noticed(released: Result, people: Marks, tmp_path: Path) -> None:
    worst = sorted({case for case, _ in people}, key=lambda case: people[case, MODELS[0]])[:80]
    found = corrected(released, write(tmp_path / "picked.csv", rated(people, worst)))
    assert any("look how they were chosen" in note for note in found.notes)


def test_models_rated_on_different_cases_are_compared_too(released: Result, people: Marks, tmp_path: Path) -> None:
    ids = chosen(released, 120)
    rows = [(case, MODELS[i % 2], people[case, MODELS[i % 2]]) for i, case in enumerate(ids)]
    (gap,) = corrected(released, write(tmp_path / "apart.csv", rows)).gaps
    assert not gap.paired and gap.corrected and gap.corrected.ci95
    truth = np.mean([people[c.id, MODELS[0]] - people[c.id, MODELS[1]] for c in released.cases])
    assert gap.corrected.ci95[0] <= truth <= gap.corrected.ci95[1]


def test_too_few_marks_and_models_without_any_are_said(released: Result, people: Marks, tmp_path: Path) -> None:
    rows = [(case, MODELS[0], people[case, MODELS[0]]) for case in chosen(released, 4)]
    found = corrected(released, write(tmp_path / "four.csv", rows))
    (row,) = found.rows
    assert row.corrected is None and row.failure and row.failure.detail == "4 rated cases, it takes 5"
    assert "people rated nothing of gpt-image-1 in avg" in found.notes


def test_marks_of_strangers_are_counted_and_change_nothing(released: Result, people: Marks, tmp_path: Path) -> None:
    rows = rated(people, chosen(released, 30))
    plain = corrected(released, write(tmp_path / "people.csv", rows))
    more = corrected(released, write(tmp_path / "more.csv", [*rows, ("elsewhere", "stranger", 5)]))
    assert more.rows == plain.rows
    told = [note for note in more.notes if note not in plain.notes]
    assert len(told) == 1 and "not in the run (first: elsewhere, stranger" in told[0]


def test_outputs_that_failed_are_counted_and_marks_of_them_left_out(
    released: Result, people: Marks, tmp_path: Path
) -> None:
    first = [case.id for case in released.cases][:12]
    failed = Failure(kind="missing_output", detail="no file")
    scores = [
        score.model_copy(update={"value": None, "failure": failed})
        if score.case in first and score.model == MODELS[0]
        else score
        for score in released.scores
    ]
    broken = result_of(released.bench, released.cases, scores, draws=0)
    found = corrected(
        broken, write(tmp_path / "people.csv", rated(people, dict.fromkeys([*first, *chosen(released, 60)])))
    )
    assert any("Bagel: 12 outputs failed or could not be judged" in note for note in found.notes)
    assert "12 marks of outputs without a mark of gpt-4o take no part" in found.notes


def test_nobody_stands_for_an_output_that_the_judge_has_no_mark_of(
    released: Result, people: Marks, tmp_path: Path
) -> None:
    """All of the list came back: the chances are those of the list, however many the judge could not mark."""
    cases = chosen(released, 60)
    failed = Failure(kind="missing_output")
    scores = [
        score.model_copy(update={"value": None, "failure": failed}) if score.case in cases[:5] else score
        for score in released.scores
    ]
    broken = result_of(released.bench, released.cases, scores, draws=0)
    head = ("case", "model", "score", "probability", "stratum")
    rows = [(*row, 0.2, "all") for row in rated(people, cases)]
    found = corrected(broken, write(tmp_path / "people.csv", rows, head))
    assert not any("stand for them" in note for note in found.notes)
    listed = corrected(broken, write(tmp_path / "fewer.csv", [row for row in rows if row[0] not in cases[:5]], head))
    assert [row.people_alone for row in found.rows] == [row.people_alone for row in listed.rows]


def test_a_list_read_back_has_the_chances_it_was_drawn_with(run: Path, tmp_path: Path) -> None:
    drawn = sample(run, SampleOptions(outputs=30))
    (tmp_path / "items.csv").write_text(list_csv(drawn.outputs))
    read = read_list(tmp_path / "items.csv", "--sampled")
    assert read is not None
    assert {place: chance.probability for place, chance in read.chances.items()} == {
        output.place: output.probability for output in drawn.outputs
    }


def test_what_did_not_come_back_is_stood_for_in_its_stratum(run: Path, tmp_path: Path) -> None:
    drawn = sample(run, SampleOptions(outputs=80))
    (tmp_path / "items.csv").write_text(list_csv(drawn.outputs))
    read = read_list(tmp_path / "items.csv", "--sampled")
    assert read is not None
    back = {output.place for output in drawn.outputs if output.case != drawn.outputs[0].case}
    kept, lost = read.rated(back)
    assert lost == 2
    for model in drawn.models:
        counted = sum(1 / kept.chances[place].probability for place in back if place.model == model)
        assert counted == pytest.approx(40)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models and two judges on 40 items, each asked twice."""
    work = tmp_path_factory.mktemp("corrected")
    items = plain_items(40)
    root = write_checkout(work / "creval", items, pictures=False)
    made = Run.create(work / "run", "creval", load("creval", root).cases)
    rng = np.random.default_rng(3)
    with made.writer() as writer:
        for item in items:
            for model, better in (("alpha", 0.15), ("beta", 0.0)):
                right = np.clip(rng.random() * 0.85 + better, 0, 1)
                for judge, metric, repeat in ((j, m, r) for j in ("first", "second") for m in METRICS for r in (0, 1)):
                    answers = [(q, "Yes" if rng.random() < right else "No") for q, *_ in item.of(metric)]
                    place = Purpose(case=item.stem, model=model, judge=judge, part=metric, repeat=repeat)
                    request = {"place": [item.stem, model, judge, metric, repeat]}
                    writer.add(Evidence(kind="chat", request=request, reply=reply_text(answers)), place)
    return made.path


def test_every_output_has_a_chance_and_models_meet_on_the_same_cases(run: Path) -> None:
    drawn = sample(run, SampleOptions(outputs=40))
    assert len(drawn.outputs) == 40 and drawn.aim == "gaps"
    by_case: dict[str, set[str]] = defaultdict(set)
    for output in drawn.outputs:
        by_case[output.case].add(output.model)
        assert 0 < output.probability <= 1
    assert all(models == {"alpha", "beta"} for models in by_case.values())
    assert sum(stratum.n for stratum in drawn.strata) == 40
    assert [s.probability for s in drawn.strata] == sorted(s.probability for s in drawn.strata)
    assert drawn.of == ("the middle of the scale", "judges who differ", "a judge asked again")


def test_over_many_lists_each_unit_is_drawn_as_often_as_its_chance_says() -> None:
    rng = np.random.default_rng(6)
    sizes = 0.5 + rng.random(40)
    times, said = np.zeros(40), np.zeros(40)
    for _ in range(600):
        places, chances, _ = _drawn(sizes, 22, rng)
        assert sum(1 / chance for chance in chances) == pytest.approx(40)
        times[places] += 1
        said[places] = chances
    assert said.min() > 0
    assert np.abs(times / 600 - said).max() < 4.5 * (0.25 / 600) ** 0.5


@pytest.mark.slow
def test_the_commands_lead_from_a_list_to_corrected_numbers(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = tmp_path / "items.csv"
    assert sample_command(run, for_humans=60, out=items) == 0
    assert f"refbench correct {run} --humans {items}" in capsys.readouterr().out
    rows = list(csv.DictReader(items.read_text().splitlines()))
    rng = np.random.default_rng(5)
    with items.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "rater", "score"])
        writer.writeheader()
        writer.writerows({**row, "rater": who, "score": round(rng.uniform(1, 5), 2)} for row in rows for who in "xy")
    assert correct_command(run, humans=items, judge="first", json=True, these_cases=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["random_sample"] and told["raters"] == ["x", "y"]
    assert [row["n_rated"] for row in told["rows"]] == [30, 30, 30]
    assert correct_command(run, humans=items, csv=True, these_cases=True) == 0
    lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {line["judge"] for line in lines} == {"first", "second"}
    assert correct_command(run, humans=items, judge="first", these_cases=True) == 0
    printed = capsys.readouterr().out
    assert "To paste" in printed and "a random sample" in printed


def test_a_list_that_people_have_rated_is_never_written_over(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = tmp_path / "items.csv"
    sample_command(run, for_humans=20, out=items)
    drawn = items.read_text()
    sample_command(run, for_humans=20, out=items)
    assert f"The list was there already: {items}" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(RefBenchError, match="another list is there, without marks"):
        sample_command(run, for_humans=30, out=items)
    assert items.read_text() == drawn
    head, first, *rest = drawn.splitlines()
    for others in (f"{head},rater,score\n{first},ann,4\n", f"{head}\n{first},4\n", "case,model,score\na,b,3\n", "x"):
        items.write_text(others)
        for replace in (False, True):
            with pytest.raises(RefBenchError, match="holds people's marks, or is no list of outputs; it stays"):
                _written(items, drawn.encode(), replace)
        assert items.read_text() == others
    items.write_text("\n".join([f"{head},rater,score", *(f"{line},," for line in (first, *rest))]))
    assert not _written(items, drawn.encode(), replace=True)
    assert items.read_text() == drawn


@pytest.mark.parametrize(
    ("head", "row", "says"),
    [
        (("case", "model", "score", "probability"), ("item_000.0", "alpha", 3, 0), "probability is '0'"),
        (("case", "model", "score"), ("elsewhere", "alpha", 3), "none of its cases is in the run"),
        (("model", "score"), ("alpha", 3), "has no column case"),
    ],
)
def test_what_cannot_be_read_is_said(
    run: Path, tmp_path: Path, head: Sequence[str], row: Sequence[object], says: str
) -> None:
    with pytest.raises(RefBenchError, match=says):
        correct_command(run, humans=write(tmp_path / "people.csv", [row], head))


def test_a_list_that_is_not_the_raters_own_is_refused(run: Path, tmp_path: Path) -> None:
    listed = write(tmp_path / "list.csv", [("item_001.1", "alpha", 0.5)], ("case", "model", "probability"))
    file = write(tmp_path / "people.csv", [("item_002.2", "alpha", 3)])
    with pytest.raises(RefBenchError, match="not on the list of those sampled"):
        correct_command(run, humans=file, sampled=listed)


def test_a_list_too_short_for_its_models_is_refused(run: Path) -> None:
    with pytest.raises(RefBenchError, match="with 2 models on each case that is 4 cases, and it takes 5"):
        sample_command(run, for_humans=9)


@pytest.mark.slow
def test_corrected_numbers_and_gaps_hold_from_the_list_to_the_interval(released: Result, tmp_path: Path) -> None:
    """The judge is less sure of weak outputs and people differ from it more there; 60 of 300 cases are drawn by that."""
    ids = [case.id for case in released.cases]
    totals = {(row["case"], row["model"]): row["total"] for row in released.items()}
    judged = np.array([[totals[case, model] for case in ids] for model in MODELS])
    rng = np.random.default_rng(5)
    held = []
    for _ in range(120):
        people = 1 + 0.03 * judged + rng.normal(0, 0.4, judged.shape) * np.where(judged < 70, 1.6, 0.6)
        size = 0.5 + (judged.mean(axis=0) < 70)
        places, chances, strata = _drawn(size / size.mean(), 60, rng)
        rows = [
            (ids[i], model, people[m, i], chance, f"s{strata[i]}")
            for i, chance in zip(places, chances, strict=True)
            for m, model in enumerate(MODELS)
        ]
        file = write(tmp_path / "people.csv", rows, ("case", "model", "score", "probability", "stratum"))
        found = corrected(released, file, CorrectOptions(protocol="paper", these_cases=True))
        truths = [*people.mean(axis=1), people[0].mean() - people[1].mean()]
        for row, truth in zip(found.rows, truths, strict=True):
            assert row.corrected and row.corrected.ci95
            held.append(row.corrected.ci95[0] <= truth <= row.corrected.ci95[1])
    assert 0.92 <= np.mean(held) <= 0.98
