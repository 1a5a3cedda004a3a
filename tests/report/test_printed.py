"""Every number that is printed, in whatever form, is the one of the table; read back from the text itself."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from refbench import Failure, Score
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.multibanana.cases import MultiBananaCase, MultiBananaDetails
from refbench.benchmarks.multiref.cases import MultiRefCase, MultiRefDetails, Reference
from refbench.case import Request
from refbench.report import print_result, to_csv, to_json, to_markdown
from refbench.report.grid.choice import marks_of
from refbench.report.latex.write import to_latex
from refbench.tables.result import Result
from refbench.tables.scoring import result_of
from support.campaigns import slow
from support.printed import differences, read_csv, read_head, read_json, read_latex, read_markdown, read_terminal

MODELS = ("Bagel", "OmniGen2", "seedream4-0")


def made(*, models: int = 3, judges: int = 1, seeds: int = 1, lost: bool = False, nothing: bool = False) -> Result:
    """Released scores of a few cases under as many names, judges and seeds; with `lost`, failures of every sort."""
    cases, scores = released_scores("paper874")
    cases = cases[::12]
    wanted = {case.id for case in cases}
    by_model = {name: [s for s in scores if s.model == name and s.case in wanted] for name in MODELS}
    found: list[Score] = []
    for m in range(models):
        for j in range(judges):
            for seed in range(seeds):
                for n, score in enumerate(by_model[MODELS[m % 3]]):
                    state: dict[str, object] = {"value": (score.value or 0) * (1 - 0.01 * m) / (1 + j) / (1 + seed / 9)}
                    if nothing or (lost and (n + m + seed) % 11 == 0):
                        kind = "refused" if n % 2 else "unparsable"
                        state = {"value": None, "failure": Failure(kind=kind, by_model=bool(n % 2))}
                    elif lost and m == 1 and n % 13 == 0:
                        state = {"value": None, "not_asked": True}
                    name = f"{score.model} v{m}, a model with a name" if m % 5 == 4 else f"{score.model}_{m}"
                    plain = {"case": score.case, "metric": score.metric, "protocol": "corrected", "seed": seed}
                    found.append(Score(**plain, model=name, judge=f"judge {j}", **state))  # type: ignore[arg-type]
    return result_of(benchmark("creval"), cases, found, draws=0 if models > 5 else 60)


SHAPES = {
    "one model": {"models": 1},
    "forty models": {"models": 40},
    "two judges": {"judges": 2},
    "two seeds with losses": {"seeds": 2, "lost": True},
    "three judges and seeds with losses": {"judges": 3, "seeds": 3, "lost": True},
    "nothing scored": {"nothing": True},
}


@pytest.fixture(
    scope="module",
    params=[slow(shape) if name == "forty models" else shape for name, shape in SHAPES.items()],
    ids=SHAPES,
)
def result(request: pytest.FixtureRequest) -> Result:
    return made(**request.param)


@pytest.mark.parametrize("width", [40, 80, 132])
@pytest.mark.parametrize("by", ["overall", "dimension"])
def test_the_terminal_has_the_numbers_of_the_table_at_any_width(result: Result, width: int, by: str) -> None:
    out = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_result(result, by=by, out=out)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    rows = read_json(to_json(result))
    printed = read_terminal(text, by)
    assert list(differences(printed, rows)) == []
    levels = ("overall", *([by] if by != "overall" else []))
    shown = {key for key in rows if key[4].partition("=")[0] in levels and rows[key]["value"] is not None}
    assert shown <= set(printed)
    assert read_head(text).digest == result.table.digest


def test_markdown_csv_and_latex_have_the_numbers_of_the_table(result: Result) -> None:
    rows = read_json(to_json(result))
    markdown = read_markdown(to_markdown(result))
    assert list(differences(markdown, rows)) == []
    assert {key for key in rows if key[4] == "overall" and rows[key]["value"] is not None} <= set(markdown)
    whole = read_csv(to_csv(result))
    assert set(whole) == set(rows)
    for key, row in whole.items():
        assert row["value"] == ("" if rows[key]["value"] is None else str(rows[key]["value"]))
        counts = ("n_cases", "n_seeds", "n_expected", "n_scored", "n_not_asked", "n_not_applicable", "n_imputed")
        assert [int(row[count]) for count in counts] == [rows[key][count] for count in counts]
    for interval in ("range", "half", "none"):
        for by in ("overall", "dimension"):
            latex = read_latex(to_latex(result, by=by, interval=interval, published="none"), by)  # type: ignore[arg-type]
            assert list(differences(latex, rows)) == []
            level = {
                key for key in rows if key[4].partition("=")[0] in ("overall", by) and rows[key]["value"] is not None
            }
            main = result.summary("corrected")
            assert {key for key in level if (by == "overall" and key[4] == by) or key[3] == main} <= set(latex)


@pytest.mark.parametrize("width", [60, 132])
def test_many_measures_have_a_row_each_and_slices_that_share_a_name_are_told_apart(width: int) -> None:
    bench = benchmark("multiref")
    cases = [
        MultiRefCase(
            id=f"{split}/{n}",
            request=Request(instruction=""),
            groups={"split": split, "n_refs": str(2 + n % 2), **groups},
            cluster=f"{split}/{n}",
            details=MultiRefDetails(split=split, entry=n, references=references),
        )
        for split, groups, references in (
            ("synthetic", {"combination": "many"}, tuple(Reference(type=kind) for kind in KINDS)),
            ("real-world", {"category": "element_addition"}, ()),
        )
        for n in range(6)
    ]
    names = [metric for of_part in bench.asking.parts.values() for metric in of_part]
    scores = [
        Score(case=case.id, model=model, judge="j", metric=name, protocol=protocol, **_state(case, name, n + 7 * k))
        for k, model in enumerate(("a", "b"))
        for protocol in ("corrected", "paper")
        for n, case in enumerate(cases)
        for name in names
    ]
    result = result_of(bench, cases, scores, draws=40)
    out = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_result(result, by="n_refs", out=out)
    printed = read_terminal(out.file.getvalue(), "n_refs")  # type: ignore[attr-defined]
    rows = read_json(to_json(result))
    assert list(differences(printed, rows)) == []
    assert {key[4] for key in printed} == {
        "overall", *(f"n_refs={split}, {n}" for split in ("synthetic", "real-world") for n in (2, 3))
    }  # fmt: skip
    wanted = {key for key in rows if key[4] == "overall" and key[2] == "corrected" and rows[key]["value"] is not None}
    assert len({key[3] for key in wanted}) > 8
    assert wanted <= set(printed)


KINDS = ("bbox", "mask", "depth", "canny", "pose", "subject", "style")


def _state(case: MultiRefCase, name: str, n: int) -> dict[str, object]:
    if name in ("IQ", "IF", "SF"):
        return {"value": float(1 + n % 5)}
    if name in KINDS and case.details.split == "synthetic":
        return {"value": 0.1 + 0.01 * n} if n % 4 else {"failure": Failure(kind="undefined")}
    return {"not_applicable": "not there"}


def test_a_sheet_says_what_was_not_asked_yet() -> None:
    why = set(marks_of(made(lost=True)).why_not.values())
    assert "not asked yet" in why
    assert not [said for said in why if "None" in said]


def test_the_direction_of_a_measure_is_said() -> None:
    one = made(models=2)
    turned = replace(one, bench=replace(one.bench, scoring=replace(one.bench.scoring, lower=frozenset({"avg", "VC"}))))
    assert "- Lower is better: avg, VC." in to_markdown(turned)
    assert "Lower is better" not in to_markdown(one)


def test_several_seeds_are_said_beside_the_count() -> None:
    printed = read_markdown(to_markdown(made(seeds=2)))
    assert printed["Bagel_0", "judge 0", "corrected", "avg", "overall"].n == "146/146 (73 cases x 2 seeds)"


@pytest.mark.parametrize("width", [80, 100, 130, 160, 250])
def test_every_word_of_a_table_is_whole_and_long_measures_have_labels_with_a_legend(width: int) -> None:
    bench = benchmark("multibanana")
    details = MultiBananaDetails(task_dir="add", number="1")
    groups = {"group": "2_reference", "task": "add", "n_refs": "2", "source": "real"}
    case = MultiBananaCase(id="a", request=Request(instruction=""), cluster="a", details=details, groups=groups)
    names = [metric for of_part in bench.asking.parts.values() for metric in of_part]
    models = ("a-model-with-quite-a-long-name-of-its-own-2509-instruct", "b")
    scores = [
        Score(case="a", model=model, judge="j", metric=name, protocol=protocol, value=5.0 + place)
        for place, model in enumerate(models)
        for protocol in ("corrected", "paper")
        for name in names
    ]
    result = result_of(bench, [case], scores, draws=20)
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_result(result, out=out)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("model ")) :]
    assert max(map(len, lines)) <= width
    words = set(" ".join(table).replace("=", " ").split())
    assert {*models, *names} <= words
    assert ("IA = instruction_alignment" in table) == ("IA" in words) == (width < 250)


def test_the_best_value_is_bold_and_of_measures_of_which_less_is_better_the_least() -> None:
    one = made(models=3)
    scoring = replace(one.bench.scoring, lower=frozenset({"VC"}))
    lower = replace(one, bench=replace(one.bench, scoring=scoring))
    out = Console(file=io.StringIO(), width=132, force_terminal=True, color_system="standard")
    print_result(lower, out=out)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    rows = lower.rows(level="overall", protocol="corrected")
    for measure, best in (("avg", max), ("IF", max), ("VC", min)):
        values = {row.model: row.value for row in rows if row.metric == measure}
        line = next(line for line in text.splitlines() if best(values, key=lambda m: values[m] or 0) in line)
        assert f"\x1b[1m{best(values.values()):.2f}\x1b[0m" in line
    assert "Bold: the best value of each measure." in text


def test_remarks_about_intervals_are_printed_for_all_lines_at_once() -> None:
    cases, scores = released_scores("paper874")
    few = [case for case in cases if case.id in {case.id for case in cases[:6]}]
    mine = [s for s in scores if s.model in MODELS and s.case in {case.id for case in few}]
    result = result_of(benchmark("creval"), few, mine, draws=40)
    out = Console(file=io.StringIO(), width=132)
    print_result(result, out=out)
    assert "95 % interval of every line: small n: 6 clusters" in out.file.getvalue()  # type: ignore[attr-defined]
