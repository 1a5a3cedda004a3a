"""What a paper is given of several runs: that it compiles, says where every number comes from, and claims no more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from refbench.benchmarks import benchmark, names
from refbench.cli.paper import paper_command
from refbench.record import RefBenchError
from refbench.report.latex.table import Openness
from refbench.report.paper.citations import bibliography, citation
from refbench.report.paper.overview import groups_of, overview, printed_rows
from refbench.tables.result import Result
from refbench.tables.scoring import released_result, rescore
from support.brief_runs import evaluated
from support.multibanana import every_task, reply, write_dataset, write_replies

CHINESE = "即梦图像 4.0"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of cases of one's own with pictures: one model without two of them, one that has hardly any."""
    root = tmp_path_factory.mktemp("judged")
    models = {"red": (0.9, 0.8, 0), "a_b-50.5": (0.5, 0.6, 2), "late": (0.99, 0.99, 7)}
    return evaluated(root, models, cases=8)


@pytest.fixture(scope="module")
def banana(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MultiBanana run by two judges, whose number is their mean, under both protocols."""
    root = tmp_path_factory.mktemp("banana")
    sets = every_task(1)[:4]
    write_dataset(root / "data", sets)
    for model, first in (("mine", 8), (CHINESE, 5)):
        for judge, less in (("gpt", 0), ("gemini", 1)):
            marks = [first - less, 6, 5, 4, 8]
            write_replies(root / "replies" / model, {one.id: reply(marks) for one in sets}, judge)
            replies = root / "replies" / model
            rescore(
                "multibanana",
                data=root / "data",
                replies=replies,
                models=[model],
                judge=judge,
                out=root / "run",
                draws=0,
            )
    return root / "run"


@pytest.fixture(scope="module")
def released() -> Result:
    return released_result("creval", subset="paper874")


def row_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(("{}" + name, rf"{{}}\textit{{{name}")))


def test_every_shipped_benchmark_can_be_cited_by_the_paper_that_it_names() -> None:
    for name in names():
        bench = benchmark(name)
        entry = citation(bench)
        assert entry.startswith("@")
        assert bench.paper.removeprefix("arXiv ") in entry
        assert re.search(r"author = \{\w+", entry), name
        assert entry.count("{") == entry.count("}"), name
    twice = bibliography([benchmark("creval"), benchmark("creval")])
    assert twice.count("@") == 2


def test_own_and_printed_rows_are_told_apart_and_a_number_has_the_column_of_its_protocol(released: Result) -> None:
    text = overview([released])
    ours, theirs = row_of(text, "seedream4-0"), row_of(text, "Seedream 4.0")
    value = released.value(model="seedream4-0", metric="avg", level="overall")
    assert rf"\textbf{{{value:.2f}}}" in ours
    assert r"\textit{83.43}" in theirs and r"\textbf" not in theirs
    assert "not measured here, not ranked" in text
    (group,) = groups_of(released, Openness())
    (place,) = {place for row in printed_rows([group], "all") for place in row.numbers}
    assert group.columns[place[1]].protocol == "paper"


def test_both_protocols_stand_beside_each_other_and_the_judges_mean_stands_for_the_judges(banana: Path) -> None:
    from refbench.tables.scoring import score_run

    result = score_run(banana)
    (group,) = groups_of(result, Openness())
    assert [column.protocol for column in group.columns] == ["corrected", "paper"]
    text = overview([result], published="all")
    assert "mean of both" in text
    for column in group.columns:
        value = result.value(model="mine", metric="total", level="overall", protocol=column.protocol, judge=group.judge)
        assert f"{value:.{group.digits(0)}f}" in row_of(text, "mine")


def test_a_number_about_too_few_cases_stands_in_brackets_and_is_not_best(judged: Path) -> None:
    from refbench.tables.scoring import score_run

    text = overview([score_run(judged)])
    late = row_of(text, "late")
    assert re.search(r"\(\d\.\d+\)", late) and "1/8" in late and "textbf" not in late
    assert "too few of its cases to be ranked" in text


def test_the_appendix_has_settings_seeds_dates_judges_and_fingerprints(judged: Path, tmp_path: Path) -> None:
    assert paper_command(str(judged), out=tmp_path, data=judged.parent, json=True) == 0
    text = (tmp_path / "appendix.tex").read_text("utf-8")
    for words in ("fingerprint", "1 seed", "Judge", "five", "bootstrap draws", "Recorded", "digest"):
        assert words.lower() in text.lower()
    assert re.search(r"\\item\[Recorded\] \d{4}-\d\d-\d\d", text)
    assert str(judged.parent) not in text, "folders of a machine say nothing to a reader"


def test_the_lot_is_recorded_and_the_same_lot_is_drawn_again(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        paper_command(str(judged), out=tmp_path / name, cases=3, seed=5, data=judged.parent, json=True)
        said = json.loads(capsys.readouterr().out)
    assert said["left_out"] == []
    first, second = ((tmp_path / name / "cases-1.pdf").read_bytes() for name in ("one", "two"))
    assert first == second
    caption = (tmp_path / "one/cases.tex").read_text("utf-8")
    assert "3 cases drawn at random (seed 5)" in caption
    assert len(re.findall(r"case0\d", caption.split("Cases: ")[1])) == 3


def test_what_cannot_be_drawn_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper_command("creval", out=tmp_path)
    assert "no figure of cases: CREval: released item scores come without pictures" in capsys.readouterr().out
    with pytest.raises(RefBenchError, match="name the runs"):
        paper_command(out=tmp_path)


@pytest.mark.slow
def test_the_paper_compiles_with_every_citation_and_reference_found(judged: Path, banana: Path, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None or shutil.which("bibtex") is None:
        pytest.skip("pdflatex and bibtex are not installed")
    paper_command(str(judged), str(banana), "creval", out=tmp_path, data=judged.parent, published="all")
    for program in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        how = [] if program == "bibtex" else ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
        done = subprocess.run([program, *how, "main"], cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in done.stdout
    assert "multiply defined" not in done.stdout
    wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert max(wide, default=0.0) < 3
    if shutil.which("pdftotext") is not None:
        text = subprocess.run(
            ["pdftotext", "-layout", "main.pdf", "-"], cwd=tmp_path, capture_output=True, text=True
        ).stdout
        assert "[1]" in text and "?" not in text.split("References")[1].replace("Designing?", "")
