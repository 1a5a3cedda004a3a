"""Agreement from runs and files: the right pairs, points and scales, and a reason wherever there is no figure."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclopts import App
from rich.console import Console
from scipy import stats as scipy_stats

from oracle.runs import Plan, make
from refbench.analysis.agree.ratings import Mark, RatedItem, RaterScales, Ratings, ratings_of
from refbench.analysis.agree.rows import AgreeOptions, agreement, agreement_rows
from refbench.analysis.agree.runs import agree
from refbench.analysis.agree.self_preference import self_preference
from refbench.cli.agree import agree_command
from refbench.evidence import Purpose
from refbench.failure import Failure
from refbench.output import Output
from refbench.record import RefBenchError
from refbench.report.agreement import agreement_csv, print_agreement
from refbench.runs import Run
from refbench.stats.agreement import FIGURES
from refbench.tables.result import Result
from refbench.tables.scoring import rescore, score_run
from support.checkout import METRICS, plain_items, write_replies
from support.checkout import write_checkout as write_creval
from support.ideabench import designs, write_checkout

FAST = AgreeOptions(draws=40)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CREval checkout of 27 items with the replies of two judges about three models."""
    root = write_creval(tmp_path_factory.mktemp("creval") / "creval", plain_items(27), pictures=False)
    for seed, judge in enumerate(("gpt-4o", "qwen3-vl")):
        for model in ("alpha", "beta", "gamma"):
            write_replies(root / f"answers-{judge}", model, plain_items(27), seed=seed)
    return root


@pytest.fixture(scope="module")
def judged(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two judges on three models, 27 cases each."""
    path = tmp_path_factory.mktemp("judged") / "run"
    for judge in ("gpt-4o", "qwen3-vl"):
        rescore("creval", replies=checkout / f"answers-{judge}", data=checkout, judge=judge, out=path, draws=0)
    return path


@pytest.fixture(scope="module")
def corrected(judged: Path) -> Result:
    """That run, scored once by the corrected protocol, without intervals."""
    return score_run(judged, protocol="corrected", draws=0)


def values(result: Result, judge: str, metric: str) -> dict[tuple[str, str], float]:
    """The scores of a judge in per cent, by model and case."""
    return {
        (score.model, score.case): 100 * score.value
        for score in result.scores
        if (score.judge, score.metric) == (judge, metric) and score.value is not None
    }


def one(found: Iterable[Any], **wanted: object) -> Any:
    (row,) = (row for row in found if all(getattr(row, key) == value for key, value in wanted.items()))
    return row


def write(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def ratings(marks: Iterable[tuple[str, str, str, float]], **more: Any) -> Ratings:
    """From (case, model, rater, value)."""
    return Ratings(marks=tuple(Mark(RatedItem(c, m, "score"), r, v) for c, m, r, v in marks), one_scale=True, **more)


# --- judges of a run ---------------------------------------------------------------------------------------------


def test_a_point_is_an_item_a_mean_over_a_task_or_a_mean_over_all_cases(corrected: Result) -> None:
    rows = agreement(ratings_of(corrected), FAST)
    dimension = {case.id: case.groups["dimension"] for case in corrected.cases}
    for metric in METRICS:
        first, second = values(corrected, "gpt-4o", metric), values(corrected, "qwen3-vl", metric)
        points = {
            "item": {key: [key] for key in first},
            "task": {
                (m, dimension[c]): [k for k in first if (k[0], dimension[k[1]]) == (m, dimension[c])] for m, c in first
            },
            "system": {model: [key for key in first if key[0] == model] for model, _ in first},
        }
        for level, members in points.items():
            # Rounded, because scipy takes the last digit of a mean for an order where the means are equal.
            x, y = (
                np.round([np.mean([side[k] for k in keys]) for keys in members.values()], 9) for side in (first, second)
            )
            row = one(rows, level=level, metric=metric)
            assert (row.first, row.second, row.kind, row.n, row.n_cases) == (
                "gpt-4o",
                "qwen3-vl",
                "judge-judge",
                len(x),
                27,
            )
            assert row.figures["pearson"].value == pytest.approx(scipy_stats.pearsonr(x, y)[0])
            assert row.figures["spearman"].value == pytest.approx(scipy_stats.spearmanr(x, y)[0])
            assert row.figures["kendall"].value == pytest.approx(scipy_stats.kendalltau(x, y)[0])
            assert row.figures["mse"].value == pytest.approx(np.mean(np.subtract(x, y) ** 2))


def test_the_summary_measure_of_a_case_is_the_benchmarks_own(corrected: Result) -> None:
    sides = []
    for judge in ("gpt-4o", "qwen3-vl"):
        of = {metric: values(corrected, judge, metric) for metric in METRICS}
        sides.append({key: 0.4 * of["IF"][key] + 0.4 * of["VC"][key] + 0.2 * of["VQ"][key] for key in of["IF"]})
    row = one(agreement(ratings_of(corrected), FAST), level="item", metric="avg")
    x, y = ([side[key] for key in sides[0]] for side in sides)
    assert row.figures["pearson"].value == pytest.approx(scipy_stats.pearsonr(x, y)[0])
    assert row.bins == "5 equal bins of 0 to 100"


def test_two_real_judges_agree_on_the_real_replies(creval_mini: Path, tmp_path: Path) -> None:
    for folder in ("answer_gpt", "answer_qwen"):
        rescore(
            "creval",
            replies=creval_mini / folder,
            data=creval_mini,
            models=["seedream4-0"],
            out=tmp_path / "run",
            draws=0,
        )
    found = agree(tmp_path / "run", options=FAST)
    row = one(found.rows, level="item", metric="VC")
    assert row.n == 123
    assert 0.6 < row.figures["pearson"].value < 0.8
    low, high = row.figures["pearson"].ci95
    assert low < row.figures["pearson"].value < high
    system = one(found.rows, level="system", metric="VC")
    assert system.missing["pearson"] == "fewer than three points (1)"
    assert set(system.figures) == {"mse", "mae"}


def test_the_pages_get_every_figure_or_none(corrected: Result) -> None:
    rows = agreement_rows(corrected, options=FAST)
    wanted = {"first", "second", "level", "metric", "group", "n", *FIGURES}
    for row in rows:
        assert wanted <= set(row)
        assert all(row[name] is None or set(row[name]) == {"value", "ci95"} for name in FIGURES)
    json.dumps(rows, allow_nan=False)
    mine = [score for score in corrected.scores if score.judge == "gpt-4o"]
    assert agreement_rows(Result(corrected.bench, corrected.table, tuple(mine), corrected.cases)) == []


def test_two_runs_are_compared_and_judges_of_one_name_told_apart(judged: Path, checkout: Path, tmp_path: Path) -> None:
    again = checkout / "again"
    for model in ("alpha", "beta", "gamma"):
        write_replies(again, model, plain_items(27), seed=7)
    rescore("creval", replies=again, data=checkout, judge="gpt-4o", out=tmp_path / "second", draws=0)
    found = agree(judged, tmp_path / "second", options=AgreeOptions(levels=["item"], draws=0))
    assert found.raters == ("gpt-4o (run)", "qwen3-vl", "gpt-4o (second)")
    assert len({(row.first, row.second) for row in found.rows}) == 3


def test_cases_of_one_cluster_count_once() -> None:
    """Thirty pictures rated once, or ten times each with the same marks: the interval is as wide."""
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, 30)
    y = x + rng.normal(0, 1, 30)

    def width(copies: int) -> float:
        marks = [
            (f"{i}-{n}", "m", rater, float(side[i]))
            for i in range(30)
            for n in range(copies)
            for rater, side in (("a", x), ("b", y))
        ]
        clusters = {f"{i}-{n}": (str(i), "") for i in range(30) for n in range(copies)}
        (row,) = agreement(ratings(marks, clusters=clusters), AgreeOptions(levels=["item"], draws=500))
        assert row.figures["pearson"].ci95 is not None
        low, high = row.figures["pearson"].ci95
        return high - low

    assert width(10) == pytest.approx(width(1), rel=1e-6)


def test_the_interval_covers_a_known_correlation() -> None:
    """Forty samples of a bivariate normal with correlation 0.6, at a nominal 95 %."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(40):
        x = rng.normal(0, 1, 60)
        y = 0.6 * x + 0.8 * rng.normal(0, 1, 60)
        marks = [(str(i), "m", rater, float(side[i])) for i in range(60) for rater, side in (("a", x), ("b", y))]
        (row,) = agreement(ratings(marks), AgreeOptions(levels=["item"], draws=200))
        low, high = row.figures["pearson"].ci95 or (1, -1)
        covered += low <= 0.6 <= high
    assert covered >= 33  # P(32 or fewer | 95 %) is 1 in 1000


def test_models_rated_on_different_cases_are_remarked() -> None:
    marks = [
        (str(i), model, rater, float(i + n + k))
        for k, (model, n) in enumerate((("a", 10), ("b", 10), ("c", 4)))
        for i in range(n)
        for rater in ("x", "y")
    ]
    (row,) = agreement(ratings(marks), AgreeOptions(levels=["system"], draws=0))
    assert row.remark is not None
    assert "c on 4 of 10" in row.remark


# --- people's scores ---------------------------------------------------------------------------------------------


def human_rows(result: Result) -> list[tuple[str, str, str, str, float]]:
    rng = np.random.default_rng(1)
    judge = {metric: values(result, "gpt-4o", metric) for metric in METRICS}
    return [
        (
            case,
            model,
            metric,
            rater,
            round(float(np.clip(1 + judge[metric][model, case] / 25 + rng.normal(0, 1), 1, 5)), 1),
        )
        for metric in METRICS
        for model, case in judge[metric]
        for rater in ("ann", "bo")
    ]


def test_long_and_both_wide_forms_say_the_same(judged: Path, corrected: Result, tmp_path: Path) -> None:
    rows = human_rows(corrected)
    long = write(tmp_path / "long.csv", [("case", "model", "metric", "rater", "score"), *rows])
    by_item: dict[tuple[str, ...], dict[str, float]] = {}
    by_rater: dict[tuple[str, ...], dict[str, float]] = {}
    for case, model, metric, rater, score in rows:
        by_item.setdefault((case, model, metric), {})[rater] = score
        by_rater.setdefault((case, model, rater), {})[metric] = score
    raters = write(
        tmp_path / "raters.csv",
        [("id", "Model", "Metric", "ann", "bo"), *((*k, v["ann"], v["bo"]) for k, v in by_item.items())],
    )
    metrics = write(
        tmp_path / "metrics.csv",
        [("case", "model", "annotator", *METRICS), *((*k, *(v[m] for m in METRICS)) for k, v in by_rater.items())],
    )
    found = [agree(judged, humans=path, options=AgreeOptions(draws=0)).rows for path in (long, raters, metrics)]
    assert found[0] == found[1] == found[2]
    kinds = {(row.kind, row.first) for row in found[0]}
    assert {("judge-human", "gpt-4o"), ("judge-human", "qwen3-vl"), ("human-pairs", "human")} <= kinds
    good, bad = (
        one(found[0], kind="judge-human", first=judge, level="item", metric="IF") for judge in ("gpt-4o", "qwen3-vl")
    )
    assert good.figures["pearson"].value > bad.figures["pearson"].value + 0.2


def test_another_scale_is_mapped_where_it_is_said_and_refused_where_not(
    judged: Path, corrected: Result, tmp_path: Path
) -> None:
    judge = values(corrected, "gpt-4o", "IF")
    rows = [(case, model, "if", 1 + value / 25) for (model, case), value in judge.items()]
    path = write(tmp_path / "h.csv", [("case", "model", "metric", "score"), *rows])
    plain = one(
        agree(judged, humans=path, options=FAST).rows, kind="judge-human", first="gpt-4o", level="item", metric="IF"
    )
    assert plain.figures["pearson"].value == pytest.approx(1)
    assert "mse" not in plain.figures
    assert "--scale 1-5:1-10" in plain.missing["mse"]
    said = AgreeOptions(draws=0, scale=RaterScales.parse("1-5"))
    mapped = one(
        agree(judged, humans=path, options=said).rows, kind="judge-human", first="gpt-4o", level="item", metric="IF"
    )
    assert mapped.figures["mse"].value == pytest.approx(0, abs=1e-12)
    assert mapped.figures["qwk"].value == pytest.approx(1)
    assert mapped.figures["kappa"].value == pytest.approx(1)
    assert mapped.bins == "5 equal bins of 1 to 5"


def test_marks_beyond_the_scale_that_is_said_are_refused(judged: Path, corrected: Result, tmp_path: Path) -> None:
    (model, case), *_ = values(corrected, "gpt-4o", "IF")
    path = write(tmp_path / "h.csv", [("case", "model", "metric", "score"), (case, model, "if", 33)])
    with pytest.raises(RefBenchError, match=r"h.csv, line 2: human gives 33, and --scale says 1 to 5"):
        agree(judged, humans=path, options=AgreeOptions(draws=0, scale=RaterScales.parse("1-5")))
    wide = write(tmp_path / "w.csv", [("case", "model", "human", "other"), ("a", "m", 4, 7), ("b", "m", 5, 11)])
    with pytest.raises(RefBenchError, match=r"w.csv, line 3: other gives 11, and --scale says 1 to 10"):
        agree(wide, options=AgreeOptions(draws=0, scale=RaterScales.parse("1-5:1-10")))
    with pytest.raises(RefBenchError, match=r"w.csv, line 3: human gives 5, and --scale says 1 to 4"):
        agree(wide, options=AgreeOptions(draws=0, scale=RaterScales.parse("1-4")))


def test_scores_without_a_metric_are_about_the_summary_measure(judged: Path, corrected: Result, tmp_path: Path) -> None:
    judge = values(corrected, "gpt-4o", "IF")
    path = write(
        tmp_path / "h.csv", [("case", "model", "score"), *((case, model, v) for (model, case), v in judge.items())]
    )
    found = agree(judged, humans=path, options=FAST)
    assert "compared with avg" in " ".join(found.notes)
    assert {row.metric for row in found.rows if row.kind == "judge-human"} == {"avg"}


def test_people_who_only_have_means_are_compared_with_the_judges_means(
    judged: Path, corrected: Result, tmp_path: Path
) -> None:
    judge = values(corrected, "gpt-4o", "VC")
    means = {m: np.mean([v for (model, _), v in judge.items() if model == m]) for m in ("alpha", "beta", "gamma")}
    path = write(tmp_path / "h.csv", [("model", "metric", "human"), *((m, "VC", v) for m, v in means.items())])
    row = one(agree(judged, humans=path, options=FAST).rows, first="gpt-4o", kind="judge-human", level="system")
    assert row.figures["pearson"].value == pytest.approx(1)
    assert row.figures["pearson"].ci95 is None


def test_a_missing_mark_takes_its_item_out_of_that_pair_only() -> None:
    marks = [
        (str(i), "m", rater, float(i % 5 + (rater == "b" and i % 3 == 0)))
        for i in range(20)
        for rater in ("a", "b", "c")
        if not (rater == "c" and i < 6)
    ]
    rows = agreement(ratings(marks), AgreeOptions(levels=["item"], draws=0))
    assert {(row.first, row.second): row.n for row in rows} == {("a", "b"): 20, ("a", "c"): 14, ("b", "c"): 14}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case,model,score\n1,alpha,good\n", "line 2: score is 'good', not a number"),
        ("case,model,rater,score\n1,alpha,x,2\n1,alpha,x,3\n", "lines 2 and 3: two scores of x for 1, alpha"),
        ("case,model,score\n1,stranger,2\n", "none of its models is in the run; it has stranger"),
        ("case,model,metric,score\n1,alpha,XX,2\n", "none of its metrics is in the run; it has XX"),
        ("model,rater,score\nalpha,x,2\nalpha,x,3\n", "has no column case"),
        ("case,model\n1,alpha\n", "has no column of scores"),
        ("case,case,score\n1,1,2\n", "two columns are called 'case'"),
        ("case,score\n", "holds a header and no scores"),
        ("case,score\n1,2,3\n", "more cells than columns"),
        ("", "it has no header"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_in_one_sentence(judged: Path, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "h.csv"
    path.write_text(text)
    with pytest.raises(RefBenchError, match=r"h\.csv") as error:
        agree(judged, humans=path, options=AgreeOptions(draws=0))
    assert said in str(error.value)


def test_other_mistakes_are_said_in_one_sentence(judged: Path, tmp_path: Path, checkout: Path) -> None:
    rescore(
        "creval", replies=checkout / "answers-gpt-4o", judge="gpt-4o", data=checkout, out=tmp_path / "alone", draws=0
    )
    with pytest.raises(
        RefBenchError, match=r"one rater \(gpt-4o\) and agreement needs two: give people's scores by --humans"
    ):
        agree(tmp_path / "alone")
    with pytest.raises(RefBenchError, match="--judges claude: the judges here are gpt-4o, qwen3-vl"):
        agree(judged, options=AgreeOptions(judges=["claude"]))
    with pytest.raises(
        RefBenchError, match="--by colour: the cases have no such group; there are metric, category, dimension"
    ):
        agree(judged, options=AgreeOptions(by=["colour"]))
    with pytest.raises(RefBenchError, match="--bins 3,2"):
        agree(judged, options=AgreeOptions(bins="3,2"))
    with pytest.raises(RefBenchError, match="--repeats: nothing here was rated more than once"):
        agree(judged, options=AgreeOptions(repeats="repeat", draws=0))
    for text in ("1:5", "5-1", "1-5:1-10:3-4", "wide"):
        with pytest.raises(RefBenchError, match="--scale"):
            RaterScales.parse(text)
    with pytest.raises(RefBenchError, match="is not there"):
        agree(tmp_path / "nothing")


@pytest.mark.parametrize(("models", "why"), [(3, "fewer than 5 points"), (6, "below what an ICC can be")])
def test_an_icc_that_cannot_be_is_not_shown_and_says_why(models: int, why: str) -> None:
    """Two judges who see the models the other way round: of three models the estimate was -2.154."""
    rng = np.random.default_rng(1)
    marks = [
        (str(case), f"m{model}", judge, 5 + sign * model + 0.01 * rng.normal())
        for case in range(20)
        for model in range(models)
        for judge, sign in (("x", 1), ("y", -1))
    ]
    level = 1.0 * (models - 1)
    marks = [(c, m, j, v + level * (j == "y")) for c, m, j, v in marks]
    row = one(agreement(ratings(marks), AgreeOptions(levels=["system"], draws=50)), level="system")
    assert "icc" not in row.figures
    assert why in row.missing["icc"]
    assert row.flat()["icc"] is None


# --- self-preference ---------------------------------------------------------------------------------------------


def leaning(lean: float, noise: float = 1.0) -> Ratings:
    """Two models of two families; gpt-5 gives its own `lean` points more than gemini-3 and claude-4 think it is worth."""
    rng = np.random.default_rng(3)
    marks = []
    for case in range(80):
        for model, worth in (("gpt-image-1", 6.0), ("imagen-4", 5.0), ("flux-dev", 4.0)):
            truth = worth + rng.normal(0, 1)
            for judge in ("gpt-5", "gemini-3", "claude-4"):
                own = lean * (judge == "gpt-5" and model == "gpt-image-1")
                strict = -1.0 * (judge == "claude-4")
                marks.append((str(case), model, judge, truth + own + strict + noise * rng.normal()))
    return ratings(marks)


def test_the_verdict_says_what_a_judge_can_be_trusted_for_and_that_few_models_are_few(tmp_path: Path) -> None:
    """A judge that follows people closely in one measure, somewhat in another, and not in the third."""
    rng = np.random.default_rng(3)
    rows: list[list[object]] = [["case", "model", "metric", "rater", "score"]]
    for model in range(9):
        for case in range(40):
            for metric, noise in (("none", None), ("loose", 1.6), ("close", 0.2)):
                truth = model / 2 + rng.normal()
                own = rng.normal() if noise is None else truth + noise * rng.normal()
                rows += [
                    [f"c{case}", f"m{model}", metric, rater, mark] for rater, mark in (("human", truth), ("j", own))
                ]
    found = agree(write(tmp_path / "marks.csv", rows), options=AgreeOptions(draws=200))
    (said,) = found.verdicts
    assert said.startswith(
        "trust j for single pictures in close; for means over many pictures, not for single ones, in loose; "
    )
    assert "not for none, where agreement beyond chance is not shown; " in said
    assert "; for the order of 9 models (Kendall's tau in close: " in said
    few = [row for row in rows if row[1] in ("model", "m0", "m8")]
    (said,) = agree(write(tmp_path / "few.csv", few), options=AgreeOptions(draws=200)).verdicts
    assert "whether for the order of models is not known: 2 models are too few" in said
    both = [["judge" if one == "human" else one for one in row] for row in rows]
    said, more = agree(write(tmp_path / "both.csv", both), options=AgreeOptions(draws=200)).verdicts
    assert "for one another for single pictures in close" in said and "marks of people" in more


def test_self_preference_is_the_difference_in_differences() -> None:
    found = self_preference(leaning(1.5, noise=0.0), draws=200)
    row = one(found.rows, judge="gpt-5")
    assert (row.family, row.own, row.others) == ("openai", ("gpt-image-1",), ("flux-dev", "imagen-4"))
    assert row.judges == ("gemini-3", "claude-4")
    assert row.difference == pytest.approx(1.5)
    assert row.own_gap - row.their_gap == pytest.approx(1.5)
    assert any("not proof of bias" in limit for limit in found.limits)
    assert any("claude-4 (anthropic): no model of its family" in reason for reason in found.left_out)


def test_a_strict_judge_and_a_good_model_are_no_self_preference() -> None:
    row = one(self_preference(leaning(0.0), draws=400).rows, judge="gpt-5")
    assert row.own_gap > 1
    low, high = row.ci95
    assert low < 0 < high
    leans = one(self_preference(leaning(1.5), draws=400).rows, judge="gpt-5")
    assert leans.ci95[0] > 0.5


def test_families_can_be_said_and_judges_of_one_family_are_not_compared() -> None:
    marks = leaning(1.0, noise=0.0).marks
    renamed = Ratings(
        marks=tuple(m._replace(rater="gpt-4o" if m.rater == "gemini-3" else m.rater) for m in marks), one_scale=True
    )
    found = self_preference(renamed, {"flux-dev": "unknown"}, draws=100)
    assert one(found.rows, judge="gpt-5").judges == ("claude-4",)
    assert one(found.rows, judge="gpt-5").others == ("imagen-4",)
    assert any("the family of flux-dev is not known" in reason for reason in found.left_out)
    with pytest.raises(RefBenchError, match="--scale same"):
        self_preference(Ratings(marks=marks))


# --- repeats, failures, printing ---------------------------------------------------------------------------------


def test_repeats_of_a_run_give_a_standard_error_for_each_judge_and_model(
    judged: Path, corrected: Result, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(judged, tmp_path / "copy"))
    run = Run.open(copy)
    other = {(p.case, p.model, p.part): e for p, e in run.evidence() if p.judge == "qwen3-vl"}
    with run.writer() as writer:
        for purpose, evidence in list(run.evidence()):
            if purpose.judge == "gpt-4o":
                said = other[purpose.case, purpose.model, purpose.part].reply
                again = evidence.model_copy(update={"request": {**evidence.request, "repeat": 1}, "reply": said})
                writer.add(again, purpose.model_copy(update={"repeat": 1}))
    single = values(corrected, "qwen3-vl", "IF")
    found = agree(copy, options=AgreeOptions(repeats="repeat", draws=0, by=["category"]))
    row = one(found.steadiness, rater="gpt-4o", model="alpha", metric="IF", group="")
    assert (row.repeats, row.n_items) == (2, 27)
    second = np.mean([v for (model, _), v in single.items() if model == "alpha"])
    assert row.standard_error == pytest.approx(abs(row.mean - second))  # of two means a and b: |a - b| / 2
    assert not [r for r in found.steadiness if r.rater == "qwen3-vl"]


def drawn_twice(
    judged: Path, out: Path, refuses: Callable[[Purpose], bool], *, absent: Sequence[Output] = (), repeats: int = 1
) -> Path:
    """The run with a second picture of each case, of which a judge says what the other one says of the first."""
    run = Run.open(Path(shutil.copytree(judged, out)))
    known = {(p.case, p.model, p.part, p.judge): (p, e) for p, e in run.evidence()}
    gone = {(o.case, o.model, o.seed) for o in absent}
    other = {"gpt-4o": "qwen3-vl", "qwen3-vl": "gpt-4o"}
    with run.writer() as writer:
        for output in absent:
            writer.add_output(output)
        for (case, model, part, judge), (first, act) in known.items():
            for seed, repeat in [(s, r) for s in (0, 1) for r in range(repeats) if (s, r) != (0, 0)]:
                purpose = first.model_copy(update={"seed": seed, "repeat": repeat})
                if (case, model, seed) in gone:
                    continue
                said = known[case, model, part, other[judge] if seed != repeat else judge][1].reply
                state = {"reply": None, "failure": Failure(kind="refused")} if refuses(purpose) else {"reply": said}
                request = {**act.request, "seed": seed, "repeat": repeat}
                writer.add(act.model_copy(update={"request": request, **state}), purpose)
    return out


def second_in(cases: Iterable[str], *, judge: str = "gpt-4o", part: str = "IF") -> Callable[[Purpose], bool]:
    some = set(cases)
    return lambda p: (p.seed, p.judge, p.part) == (1, judge, part) and p.case in some


def test_a_judges_failures_are_counted_by_picture_and_are_no_models(
    judged: Path, corrected: Result, tmp_path: Path
) -> None:
    cases = [case.id for case in corrected.cases]
    absent = [Output(case=cases[0], model="beta", seed=1, failure=Failure(kind="refused"))]
    absent += [Output(case=cases[1], model="beta", seed=1, failure=Failure(kind="api_error"))]
    run = drawn_twice(judged, tmp_path / "run", second_in(cases[4:8]), absent=absent)
    found = agree(run, options=AgreeOptions(draws=0, failures=True))
    counts = {(row.judge, row.model): (row.questions, row.failed) for row in found.failures}
    everything = 27 * 2 * len(METRICS)
    asked_of_beta = everything - 2 * len(METRICS)
    for judge, lost in (("gpt-4o", 4), ("qwen3-vl", 0)):
        assert counts[judge, "alpha"] == counts[judge, "gamma"] == (everything, lost)
        assert counts[judge, "beta"] == (asked_of_beta, lost)
        assert counts[judge, "Total"] == (2 * everything + asked_of_beta, 3 * lost)
    assert {judge for judge, _ in counts} == {"gpt-4o", "qwen3-vl"}


def test_judges_are_compared_on_the_pictures_that_both_marked(judged: Path, corrected: Result, tmp_path: Path) -> None:
    cases = [case.id for case in corrected.cases]
    run = drawn_twice(judged, tmp_path / "run", second_in(cases[::2]))
    result = score_run(run, protocol="corrected", draws=0)
    sides: list[dict[tuple[str, str, int], float]] = [
        {
            (score.model, score.case, score.seed): 100 * score.value
            for score in result.scores
            if (score.judge, score.metric) == (judge, "IF") and score.value is not None
        }
        for judge in ("gpt-4o", "qwen3-vl")
    ]
    both = [key for key in sides[0] if key in sides[1]]
    rows = agreement(ratings_of(result), FAST)
    row = one(rows, level="item", metric="IF")
    assert (row.n, row.n_cases) == (len(both), 27)
    assert len(both) == 3 * (27 + 13)
    x, y = ([side[key] for key in both] for side in sides)
    assert row.figures["pearson"].value == pytest.approx(scipy_stats.pearsonr(x, y)[0])
    means = [
        [np.mean([side[key] for key in both if key[0] == model]) for model in ("alpha", "beta", "gamma")]
        for side in sides
    ]
    system = one(rows, level="system", metric="IF")
    assert system.figures["mse"].value == pytest.approx(np.mean(np.subtract(*means) ** 2))


def test_people_mark_a_case_and_judges_its_pictures(judged: Path, corrected: Result, tmp_path: Path) -> None:
    cases = [case.id for case in corrected.cases]
    run = drawn_twice(judged, tmp_path / "run", second_in(cases[::2]))
    rng = np.random.default_rng(3)
    rows = [(case, "alpha", "IF", "ann", rng.integers(1, 6)) for case in cases]
    people = write(tmp_path / "people.csv", [("case", "model", "metric", "rater", "score"), *rows])
    found = agree(run, humans=people, options=AgreeOptions(draws=0, levels=["item"]))
    assert one(found.rows, first="gpt-4o", kind="judge-human", metric="IF").n == 27
    alone = agree(run, options=AgreeOptions(draws=0, levels=["item"]))
    assert [row for row in found.rows if row.kind == "judge-judge"] == list(alone.rows)


def test_the_total_over_repeats_is_taken_of_each_picture_as_in_the_table(
    judged: Path, corrected: Result, tmp_path: Path
) -> None:
    cases = [case.id for case in corrected.cases]
    run = drawn_twice(judged, tmp_path / "run", second_in(cases[::2]), repeats=2)
    found = agree(run, options=AgreeOptions(repeats="repeat", draws=0))
    row = one(found.steadiness, rater="gpt-4o", model="alpha", metric="avg", group="")
    assert (row.repeats, row.n_items) == (2, 27 + 13)
    result = score_run(run, protocol="corrected", draws=0)
    totals: dict[str, list[float]] = {}
    scores = {(s.case, s.seed, s.metric): s.value for s in result.scores if (s.model, s.judge) == ("alpha", "gpt-4o")}
    for case in cases:
        for seed in (0, 1):
            parts = [scores[case, seed, metric] for metric in METRICS]
            if None not in parts:
                weights = {"IF": 40, "VC": 40, "VQ": 20}
                totals.setdefault(case, []).append(sum(weights[m] * v for m, v in zip(METRICS, parts, strict=True)))
    assert row.mean == pytest.approx(np.mean([np.mean(of_case) for of_case in totals.values()]))


def test_what_is_measured_once_has_no_standard_error_over_repeats(tmp_path: Path) -> None:
    made = make(Plan("multiref", luck=4, n_cases=6, models=2, seeds=2, judges=1, repeats=2), tmp_path)
    found = agree(made.run.path, options=AgreeOptions(repeats="repeat", draws=0))
    assert found.steadiness
    assert {row.rater for row in found.steadiness} == {"strict"}


def test_an_idea_bench_run_prints_its_judges_failures(tmp_path: Path) -> None:
    items = designs(2)
    write_checkout(tmp_path / "data", items)
    names = ["task_name", "task_id", "case_id", "question_id", "text_prompt", "stitched_image"]
    names += [f"{name}_{call}" for call in (1, 2, 3) for name in ("gemini_result", "score", "explanation")]
    rows = [
        [
            item.slug,
            item.uid,
            f"{item.number:04d}",
            q,
            "text",
            "x.jpg",
            *(["no idea" if q == 6 else '{"score": 1}', 1, ""] * 3),
        ]
        for item in items
        for q in range(1, 7)
    ]
    path = write(tmp_path / "r.csv", [names, *rows])
    rescore("ideabench", replies=path, data=tmp_path / "data", models=["flux"], out=tmp_path / "run", draws=0)
    found = agree(tmp_path / "run", options=FAST)
    assert [(row.model, row.questions, row.failed) for row in found.failures] == [("flux", 84, 14), ("Total", 84, 14)]
    out = Console(width=132, record=True, file=None, quiet=False)
    with out.capture() as shown:
        print_agreement(found, out=out)
    assert "16.67" in shown.get()


def test_the_terminal_shows_names_as_they_are_and_says_what_each_figure_is(judged: Path, tmp_path: Path) -> None:
    rows = [(i, "m", i % 5 + 1, (i + i // 3) % 5 + 1) for i in range(30)]
    path = write(tmp_path / "s.csv", [("case", "model", "[red]judge[/red]", "human one"), *rows])
    for width in (80, 132):
        out = Console(width=width)
        with out.capture() as shown:
            print_agreement(agree(path, options=AgreeOptions(draws=100, scale=RaterScales.parse("same"))), out=out)
        text = shown.get()
        assert "[red]judge[/red]" in " ".join(text.split())
        assert "whole marks 1 to 5" in text
        assert "ICC(2,1)" in text
        assert "Not shown at system level" in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width


def test_csv_and_json_have_every_row_and_no_nan(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = agree(judged, options=FAST)
    lines = list(csv.DictReader(agreement_csv(found).splitlines()))
    assert len(lines) == len(found.rows)
    assert float(lines[0]["pearson"]) == found.rows[0].figures["pearson"].value
    assert "nan" not in agreement_csv(found)
    app = App(default_command=agree_command)
    assert app([str(judged), "--json", "--draws", "50", "--self-preference"], result_action="return_value") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["preferences"]["limits"]
    assert said["forms"]["interval"].startswith("BCa bootstrap")


def test_the_same_seed_gives_the_same_intervals(judged: Path) -> None:
    first, again = (agree(judged, options=AgreeOptions(draws=80, levels=["item"])) for _ in range(2))
    other = agree(judged, options=AgreeOptions(draws=80, levels=["item"], seed=1))
    assert first == again
    assert first.rows != other.rows


def scaled(slope: float, lean: float, seed: int = 5) -> Ratings:
    """Six models of other families and a good one of its own; gpt-5 uses `slope` times the scale that the others do."""
    rng = np.random.default_rng(seed)
    names = [("gpt-image-1", 9.0), *((f"{name}", 2.0 + i) for i, name in enumerate(
        ("imagen-4", "flux-dev", "seedream4-0", "qwen-image-edit", "stable-diffusion-3", "ideogram-3")
    ))]  # fmt: skip
    marks = []
    for case in range(100):
        for model, worth in names:
            truth = worth + rng.normal(0, 1)
            for judge in ("gpt-5", "gemini-3", "claude-4"):
                mark = slope * (truth - 5) + 5 if judge == "gpt-5" else truth
                marks.append((str(case), model, judge, mark + lean * (judge == "gpt-5" and worth == 9) + rng.normal()))
    return ratings(marks)


def test_a_judge_that_uses_more_of_the_scale_does_not_favour_its_family() -> None:
    """A slope of 1.3 and no bias was reported as a preference of a point, in every sample."""
    row = one(self_preference(scaled(1.3, 0.0), draws=400).rows, judge="gpt-5")
    assert row.own_gap - row.their_gap > 1
    assert row.slope == pytest.approx(1.3, abs=0.1)
    assert row.difference == pytest.approx(0, abs=0.4)
    assert row.ci95 is not None
    assert row.ci95[0] < 0 < row.ci95[1]
    leans = one(self_preference(scaled(1.3, 1.5), draws=400).rows, judge="gpt-5")
    assert leans.difference == pytest.approx(1.5, abs=0.4)
    assert leans.ci95 is not None
    assert leans.ci95[0] > 0


def test_placebos_say_how_far_models_lie_off_the_line_without_a_family() -> None:
    fair, leans = (one(self_preference(scaled(1.3, lean), draws=100).rows, judge="gpt-5") for lean in (0.0, 1.5))
    assert set(leans.placebo) == set(leans.others)
    assert max(map(abs, leans.placebo.values())) < abs(leans.difference)
    assert leans.placebo_p == pytest.approx(1 / (1 + len(leans.others)))
    assert fair.placebo_p is not None
    assert fair.placebo_p > leans.placebo_p


def test_with_two_models_of_other_families_one_for_one_is_taken_and_said() -> None:
    row = one(self_preference(leaning(1.5, noise=0.0), draws=100).rows, judge="gpt-5")
    assert row.slope is None
    assert row.difference == pytest.approx(row.own_gap - row.their_gap)


def test_without_draws_self_preference_has_no_interval() -> None:
    found = self_preference(leaning(1.5, noise=0.0), draws=0)
    assert one(found.rows, judge="gpt-5").difference == pytest.approx(1.5)
    assert {row.ci95 for row in found.rows} == {None}


def test_more_parts_than_cases_is_a_mistake() -> None:
    with pytest.raises(RefBenchError, match="--partitions 81: there are 80 cases"):
        agreement(leaning(0.0), AgreeOptions(partitions=81))


def test_the_noise_ceiling_is_what_a_judge_without_noise_reaches() -> None:
    rng = np.random.default_rng(21)
    truth = rng.normal(0, 1, 400)
    people = {f"p{k}": truth + rng.normal(0, 1, 400) + k for k in range(3)}
    marks = [
        Mark(RatedItem(f"c{i}", "m", "quality"), rater, float(values[i]))
        for rater, values in {"judge": truth, **people}.items()
        for i in range(400)
    ]
    ratings = Ratings(marks=tuple(marks), humans=frozenset(people))
    rows = agreement(ratings, AgreeOptions(levels=["item"], draws=100))
    ceilings = [row.ceiling for row in rows if row.ceiling is not None]
    (ceiling,) = ceilings
    # Cronbach's alpha of the three, written out.
    cube = np.stack(list(people.values()))
    alpha = 3 / 2 * (1 - cube.var(axis=1, ddof=1).sum() / cube.sum(axis=0).var(ddof=1))
    assert ceiling.value == pytest.approx(alpha**0.5, rel=1e-9)
    assert ceiling.ci95 is not None
    reached = next(row for row in rows if row.kind == "judge-human").figures["pearson"].value
    assert reached == pytest.approx(ceiling.value, abs=0.03)
