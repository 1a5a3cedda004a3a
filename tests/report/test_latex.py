"""Tables for a paper: what is marked and what never is, and that any name compiles and reads as it was."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import refbench
from refbench import Failure, Score
from refbench.benchmarks import Benchmark, benchmark
from refbench.benchmarks.multibanana.cases import CRITERIA
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.report.latex.escape import is_wide, tex
from refbench.report.latex.table import Openness, family_openness, paper_table
from refbench.report.latex.write import to_latex
from refbench.tables.result import Result
from refbench.tables.scoring import released_result, result_of
from support.latex import compiled
from support.multibanana import every_task, write_dataset

METRICS = ("IF", "VC", "VQ")
Marks = Mapping[str, Sequence[float | None]]
"""By model: the same mark on every case for IF, VC, VQ; None is a failure on the first case and 0.5 on the others."""


@pytest.fixture(scope="module")
def released() -> Result:
    bench = benchmark("creval")
    assert bench.reporting.released is not None
    cases, scores = bench.reporting.released()
    return result_of(bench, cases, scores, draws=40)


def made(marks: Marks, *, bench: Benchmark | None = None, judge: str = "j", protocol: str = "corrected") -> Result:
    """A CREval table of a few cases, whose values are known without computing."""
    bench = bench or benchmark("creval")
    assert bench.reporting.released is not None
    cases: list[AnyCase] = list(bench.reporting.released()[0][:6])
    scores = []
    for model, of_model in marks.items():
        for n, case in enumerate(cases):
            for metric, mark in zip(METRICS, of_model, strict=True):
                failed = mark is None and n == 0
                scores.append(
                    Score(
                        case=case.id, model=model, judge=judge, metric=metric, protocol=protocol,
                        value=None if failed else 0.5 if mark is None else mark,
                        failure=Failure(kind="unparsable") if failed else None,
                    )
                )  # fmt: skip
    return result_of(bench, cases, scores, draws=0)


def marked(result: Result, column: int) -> dict[str, str]:
    table = paper_table(result, openness=Openness())
    return {entry.name: entry.cells[column].mark for entry in table.entries if not entry.printed}


def test_the_best_is_bold_and_the_second_underlined_in_every_column(released: Result) -> None:
    text = to_latex(released, published="none")
    for metric in (*METRICS, "avg"):
        ranked = sorted(released.rows(level="overall", metric=metric), key=lambda row: -(row.value or 0))
        first, second, third = (f"{row.value:.2f}" for row in ranked[:3])
        assert rf"\textbf{{{first}}}" in text
        assert rf"\underline{{{second}}}" in text
        assert rf"\underline{{{third}}}" not in text
        assert rf"\textbf{{{third}}}" not in text


def test_numbers_that_are_printed_alike_are_marked_alike() -> None:
    result = made({"a": (0.9, 0.1, 0.5), "b": (0.9000001, 0.2, 0.5), "c": (0.3, 0.2, 0.5)})
    assert marked(result, 0) == {"a": "best", "b": "best", "c": ""}
    assert marked(result, 1) == {"a": "", "b": "best", "c": "best"}, "no second behind two firsts"
    assert marked(result, 2) == {"a": "", "b": "", "c": ""}, "all alike: none is best"


def test_where_less_is_better_the_lowest_is_best_and_the_column_says_so() -> None:
    bench = benchmark("creval")
    bench = replace(bench, scoring=replace(bench.scoring, lower=frozenset({"VQ"})))
    result = made({"a": (0.1, 0.1, 0.5), "b": (0.2, 0.2, 0.3), "c": (0.3, 0.3, 0.4)}, bench=bench)
    assert marked(result, 2) == {"b": "best", "c": "second", "a": ""}
    text = to_latex(result)
    assert r"VQ $\downarrow$" in text
    assert r"IF $\downarrow$" not in text


def test_a_number_about_fewer_parts_is_not_ranked_with_the_others() -> None:
    bench = benchmark("creval")
    assert bench.reporting.released is not None
    cases = [c for c in bench.reporting.released()[0] if c.groups["category"] == "Stylization"][::12]
    dimensions = {case.groups["dimension"] for case in cases}
    assert len(dimensions) > 1, "the case list must span several parts of the macro average"
    gone = sorted(dimensions)[0]
    scores = [
        Score(
            case=case.id, model=model, judge="j", metric=metric, protocol="corrected",
            value=None if model == "partial" and case.groups["dimension"] == gone else mark,
            failure=Failure(kind="refused") if model == "partial" and case.groups["dimension"] == gone else None,
        )
        for model, mark in (("partial", 0.9), ("low", 0.2), ("high", 0.4))
        for case in cases
        for metric in METRICS
    ]  # fmt: skip
    result = result_of(bench, cases, scores, draws=0)
    table = paper_table(result, by="category", openness=Openness())
    marks = {entry.name: entry.cells[0].mark for entry in table.entries}
    assert marks == {"partial": "", "high": "best", "low": "second"}


def test_judges_are_ranked_apart() -> None:
    one, two = made({"a": (0.9, 0.9, 0.9), "b": (0.8, 0.8, 0.8)}, judge="j1"), made({"a": (0.1, 0.1, 0.1), "b": (0.2, 0.2, 0.2)}, judge="j2")  # fmt: skip
    both = result_of(one.bench, one.cases, [*one.scores, *two.scores], draws=0)
    table = paper_table(both, openness=Openness())
    best = {(entry.name, entry.judge) for entry in table.entries if entry.cells[0].mark == "best"}
    assert best == {("a", "j1"), ("b", "j2")}
    assert " & judge & " in to_latex(both)


def test_published_rows_are_marked_and_never_ranked(released: Result) -> None:
    text = to_latex(released)
    printed = [line for line in text.splitlines() if "dagger" in line and " & " in line]
    assert len(printed) == 8
    for line in printed:
        assert r"\textbf" not in line
        assert r"\underline" not in line
    assert r"Seedream 4.0}$^{\dagger}$ & \textit{89.12}" in text, "Table S1 of the paper"
    assert "As printed in Table S1 of arXiv 2603.26174, judged by GPT-4o: not measured here" in text
    everyone = to_latex(released, published="all")
    assert "Gemini 2.5 Flash Image" in everyone
    assert "Gemini 2.5 Flash Image" not in text, "only numbers of that model were released, and it is not in the run"
    assert "dagger" not in to_latex(released, published="none")


def test_another_judge_and_another_protocol_are_said_beside_published_rows() -> None:
    result = made({"Bagel": (0.9, 0.9, 0.9), "mine": (0.8, 0.8, 0.8)}, judge="my-judge")
    text = to_latex(result, published="all")
    heading = "Published, with judge GPT-4o, protocol paper and subset paper874: not the same measurement"
    assert heading in text
    assert "and not the same measurement as ours where the heading says so" in text


def test_open_and_closed_models_are_apart_and_the_unknown_are_not_guessed() -> None:
    result = made({"Bagel": (0.9, 0.9, 0.9), "gpt-image-1": (0.8, 0.8, 0.8), "mine": (0.7, 0.7, 0.7)})
    blocks = {
        b.name: [e.name for e in b.entries] for b in paper_table(result, published="none", openness=Openness()).blocks
    }
    assert blocks == {"open": ["Bagel"], "closed": ["gpt-image-1"], "models": ["mine"]}
    text = to_latex(result, published="none")
    assert "% open: Bagel by bagel" in text
    assert "neither known to be open nor closed (say --open NAME or --closed NAME): mine" in text
    said = Openness(open=("mine",), closed=("Bagel",))
    blocks = {b.name: [e.name for e in b.entries] for b in paper_table(result, published="none", openness=said).blocks}
    assert blocks == {"open": ["mine"], "closed": ["Bagel", "gpt-image-1"]}
    with pytest.raises(RefBenchError, match="--open nobody"):
        paper_table(result, openness=Openness(open=("nobody",)))
    with pytest.raises(RefBenchError, match="one of them"):
        Openness(open=("x",), closed=("x",))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("FLUX.1 Kontext [pro]", "closed"),
        ("FLUX.1 Kontext [dev]", "open"),
        ("FLUX", None),
        ("acetone", None),
        ("ACE++", "open"),
        ("seedream4-0", "closed"),
        ("FLUX-1 + GPT-4o", None),
        ("DALL-E 3 + GPT-4o", "closed"),
        ("sd35-large", None),
        ("Stable Diffusion 3", "open"),
    ],
)
def test_families_are_known_by_whole_names(name: str, kind: str | None) -> None:
    assert family_openness(name)[0] == kind


def test_coverage_is_shown_where_it_is_not_complete() -> None:
    whole = to_latex(made({"a": (0.1, 0.1, 0.1), "b": (0.2, 0.2, 0.2)}))
    assert "scored" not in whole
    text = to_latex(made({"a": (None, 0.1, 0.1), "b": (0.2, 0.2, 0.2)}))
    assert "5/6" in text
    assert "6/6" in text
    assert "failures are in no mean" in text


def test_a_count_is_of_the_protocol_whose_number_it_stands_beside() -> None:
    """Five of six cases have a value under `corrected`, all of them under `paper`: in one panel and in two."""
    lost, whole = made({"a": (None, 0.1, 0.1)}), made({"a": (0.5, 0.1, 0.1)}, protocol="paper")
    both = result_of(lost.bench, lost.cases, [*lost.scores, *whole.scores], draws=0)
    narrow = to_latex(both, published="none", interval="none")
    (line,) = [line for line in narrow.splitlines() if line.startswith("{}a")]
    assert r"scored \\ (corrected)" in narrow
    assert line.endswith(r"{\tiny (6/6)} & 5/6 \\"), line
    long = [
        score.model_copy(update={"model": "a name that takes the room of nearly all of the columns"})
        for score in both.scores
    ]
    wide = to_latex(result_of(lost.bench, lost.cases, long, draws=40), published="none", interval="range")
    (last,) = [panel for panel in wide.split(r"\begin{tabular}") if "avg (paper)" in panel.split(r"\midrule")[0]]
    assert "IF" not in last.split(r"\midrule")[0] and "{avg}" not in last
    assert r"scored \\ (paper)" in last
    assert "6/6" in last and "5/6" not in last.split(r"\bottomrule")[0]


def test_the_footnote_gives_every_models_failures_and_names_the_interval_truly(released: Result) -> None:
    text = to_latex(made({"a": (None, 0.1, 0.1), "b": (0.2, 0.2, 0.2)}))
    assert "a: 1 of 6 cases failed (1 unparsable): whatever it had scored, avg would be between" in text
    assert "Korn and Graubard's, from 40 bootstrap draws over clusters of cases" in to_latex(released)
    assert "BCa" not in to_latex(released)


def test_the_footnote_says_what_the_table_rests_on(released: Result) -> None:
    text = to_latex(released)
    assert f"fingerprint {released.table.fingerprint}" in text
    assert refbench.__version__ in text
    assert "904 cases" in text
    assert "Judge gpt-4o" in text
    assert "Protocol paper (reader 1" in text


def test_intervals_are_their_ends_or_half_their_width(released: Result) -> None:
    row = next(r for r in released.rows(level="overall", metric="avg") if r.model == "seedream4-0")
    assert row.ci95 is not None
    low, high = row.ci95
    assert f"[{low:.2f}, {high:.2f}]" in to_latex(released, interval="range", published="none")
    assert rf"$\pm$\,{(high - low) / 2:.2f}" in to_latex(released, interval="half", published="none")
    assert "scriptsize" not in to_latex(released, interval="none", published="none")


def test_a_level_gives_a_column_for_each_slice(released: Result) -> None:
    table = paper_table(released, by="category", openness=Openness())
    categories = dict.fromkeys(case.groups["category"] for case in released.cases)
    assert {column.title for column in table.columns} == {*categories, "overall"}
    with pytest.raises(RefBenchError, match="--by colour: this table has the levels overall, category, dimension"):
        to_latex(released, by="colour")


def test_the_number_of_all_cases_is_in_the_first_of_several_panels(released: Result) -> None:
    """A reader of the first panel sees what models are ranked by; a table of one panel ends in it."""
    heads = re.findall(r"\\toprule\n(.*?) \\\\\n\\midrule", to_latex(released, by="dimension", published="none"))
    assert len(heads) > 1
    assert ["overall" in head for head in heads] == [True] + [False] * (len(heads) - 1)
    assert heads[0].split(" & ")[1].find("overall") > 0
    (single,) = re.findall(r"\\toprule\n(.*?) \\\\\n\\midrule", to_latex(released, interval="none", published="none"))
    assert "avg" in single.split(" & ")[-1]


EVIL = (
    r"a_b&c%d#e$f{g}h~i^j\k",
    "[star]*",
    "*first",
    "tab\tand\nline",
    "--dash---,,<<>>?`!`",
    "émile ő ñ ß Ø",
    "\\input{/etc/passwd}",
    "\\end{tabular}",
)


def names_table(names: Sequence[str]) -> Result:
    return made({name: (0.1 + 0.05 * n, 0.2, 0.3) for n, name in enumerate(names)})


def test_evil_names_compile_and_read_as_they_were(tmp_path: Path) -> None:
    text = to_latex(names_table(EVIL))
    # Plain TeX fonts draw an underscore as a rule, and have accents where others have tilde and caret.
    shown = unicodedata.normalize("NFC", compiled(tmp_path, text)).translate(str.maketrans("˜ˆ", "~^"))
    for word in (
        r"a b&c%d#e$f{g}h~i^j\k",
        "[star]*",
        "*first",
        "tab and line",
        "\\end{tabular}",
        "émile ő ñ ß Ø",
        "--dash---",
        "\\input{/etc/passwd}",
    ):
        assert word in shown, f"{word!r} is not in the PDF"


def test_names_in_other_scripts_compile_everywhere_and_are_whole_where_fonts_are(tmp_path: Path) -> None:
    text = to_latex(names_table(["文心一格", "模型_v2", "модель", "normal"]))
    assert "xelatex and lualatex" in text
    assert "文心一格" in text, "nothing is lost in the source"
    shown = compiled(tmp_path, text)
    assert "U+6587 U+5FC3 U+4E00 U+683C" in shown, "pdflatex names the letters that it does not have"
    assert "?" not in shown
    assert "xelatex" not in to_latex(names_table(["normal", "other"]))


def test_a_title_in_another_script_does_not_break_a_list_of_tables(tmp_path: Path) -> None:
    bench = replace(benchmark("creval"), title="评测")
    text = to_latex(made({"a": (0.1, 0.2, 0.3), "b": (0.2, 0.3, 0.4)}, bench=bench))
    for _ in range(2):  # the second time the list of tables is there
        assert "U+8BC4" in compiled(tmp_path, f"\\listoftables\n{text}")


def test_marks_of_direction_do_not_reach_the_source() -> None:
    text = to_latex(names_table(["abc\u202edef", "x"]))
    assert "\u202e" not in text
    assert "U+202E" in text


def test_released_figures_compile_in_every_shape(released: Result, tmp_path: Path) -> None:
    tables = [
        to_latex(released),
        to_latex(released, by="dimension", published="all"),
        to_latex(released, by="category", interval="range", wide=True),
    ]
    shown = compiled(tmp_path, "\n".join(tables))
    row = next(r for r in released.rows(level="overall", metric="avg") if r.model == "gpt-image-1")
    assert re.search(rf"gpt-image-1\s+\S+\s+\S+\s+\S+\s+{row.value:.2f}", shown)


def test_a_benchmark_of_many_slices_and_no_published_overall_compiles(tmp_path: Path) -> None:
    bench = benchmark("multibanana")
    cases = list(refbench.load("multibanana", write_dataset(tmp_path / "data", every_task(1))).cases)
    scores = [
        Score(
            case=case.id, model=model, judge="gpt", metric=criterion, protocol=protocol, value=float(1 + (n + k) % 10)
        )
        for protocol in ("corrected", "paper")
        for k, model in enumerate(("Nano Banana", "my_model"))
        for n, case in enumerate(cases)
        for criterion in CRITERIA
    ]
    result = result_of(bench, cases, scores, draws=0)
    (tmp_path / "tex").mkdir()
    shown = compiled(tmp_path / "tex", "\n".join(to_latex(result, by=by) for by in ("overall", "group", "task")))
    assert "my model" in shown
    assert "(paper)" in shown
    assert "DreamOmni2" in shown, "the paper has numbers by group"


@pytest.mark.parametrize("text", ["plain", "a_b", "é", "x" * 40])
def test_what_pdflatex_has_letters_for_needs_no_other(text: str) -> None:
    assert not is_wide(text)
    assert "refbenchwide" not in tex(text)


def test_every_measure_has_a_column_on_every_slice_and_the_papers_numbers_stand_in_theirs(tmp_path: Path) -> None:
    """As CREval's Tables 2 and S1 are. On the paper's own cases our IF and VQ are the printed ones, to the last digit
    but the two cells of a model whose pictures were released anew."""
    result = released_result("creval", subset="paper874", draws=40)
    table = paper_table(result, by="dimension", openness=Openness(), measures="all")
    assert len(table.columns) == 10 * len((*METRICS, "avg"))
    assert [column.group for column in table.columns[:4]] == ["Derivative Character"] * 4
    ours = {entry.name: entry for entry in table.entries if not entry.printed}
    theirs = {entry.name: entry for entry in table.entries if entry.printed}
    for model, label in (("seedream4-0", "Seedream 4.0"), ("gpt-image-1", "GPT-Image-1"), ("OmniGen2", "OmniGen2")):
        for c, column in enumerate(table.columns):
            if column.metric in ("IF", "VQ"):
                value = theirs[label].cells[c].value
                assert value is not None
                assert abs((ours[model].cells[c].value or 0) - value) < 0.0101, column
    text = to_latex(result, by="category", measures="all", wide=True)
    assert r"\multicolumn{5}{c}{Customization}" in text
    shown = compiled(tmp_path, text)
    assert "Contextualization" in shown and "83.43" in shown


def test_measures_of_no_level_are_a_mistake(released: Result) -> None:
    with pytest.raises(RefBenchError, match="add --by category"):
        to_latex(released, measures="all")
