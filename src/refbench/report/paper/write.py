"""The files of a paper: main.tex reads all others, and compiles as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.record import RefBenchError
from refbench.report.grid.choice import Choice, choose, marks_of
from refbench.report.grid.sheet import Sheet, caption_of, sheet_bytes, sheet_rows
from refbench.report.latex.escape import WIDE, is_wide, tex
from refbench.report.latex.table import Openness
from refbench.report.paper.appendix import Source, appendix
from refbench.report.paper.citations import bibliography
from refbench.report.paper.overview import Published, overview
from refbench.report.site.boards import Board

MAIN = r"""% Reads what lies beside it; each of these files can be read into a paper by itself.
\documentclass[10pt]{article}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\title{Results}
\author{}
\date{}
\begin{document}
\maketitle
Table~\ref{tab:models} has the numbers; the appendix says what they rest on.
\input{models}
\input{cases}
\clearpage
\appendix
\input{appendix}
\bibliographystyle{plain}
\bibliography{references}
\end{document}
"""
_MOST_MODELS = 6
"""Models that stand beside each other on a figure of cases: the best by rank."""


@dataclass(frozen=True)
class PaperOptions:
    """What may be chosen about a paper's files."""

    published: Published = "run"
    openness: Openness | None = None
    cases: int = 4
    seed: int = 0
    """Of the lot that cases are drawn by."""
    data: Path | None = None
    size: int = 220


def paper_files(
    boards: Sequence[Board], released: Sequence[Source] = (), options: PaperOptions | None = None
) -> tuple[dict[str, bytes], list[str]]:
    """Every file by its name, and what could not be made, in words. `released` are results without run directories."""
    options = options or PaperOptions()
    sources: list[Source] = [*((board.result, board.runs) for board in boards), *released]
    if not sources:
        raise RefBenchError("name the runs that the paper is about")
    results = [result for result, _ in sources]
    figures, figure_text, left_out = _figures(boards, options)
    left_out += [f"{result.bench.title}: released item scores come without pictures" for result, _ in released]
    known = {"published": options.published, "openness": options.openness}
    files = {
        "main.tex": MAIN,
        "models.tex": overview(results, **known),  # type: ignore[arg-type]
        "cases.tex": figure_text,
        "appendix.tex": appendix(sources, **known),  # type: ignore[arg-type]
        "references.bib": bibliography([result.bench for result in results]),
    }
    return {**{name: text.encode() for name, text in files.items()}, **figures}, left_out


def _figures(boards: Sequence[Board], options: PaperOptions) -> tuple[dict[str, bytes], str, list[str]]:
    """A sheet of cases for each benchmark, drawn by lot with a seed that its caption states."""
    figures: dict[str, bytes] = {}
    left_out: list[str] = []
    lines = ["% needs \\usepackage{graphicx}"]
    for board in boards:
        if not any(output.pictures for outputs in board.outputs for output in outputs):
            left_out.append(f"{board.bench.title}: no pictures are on record")
            continue
        name = f"cases-{len(figures) + 1}.pdf"
        best = sorted(range(len(board.models)), key=lambda n: board.places[n])
        models = [board.models[n].name for n in best[:_MOST_MODELS]]
        marks = marks_of(board.result)
        chosen = choose(board.cases, marks, models, Choice("random", options.cases, seed=options.seed))
        rows = sheet_rows(board, marks, chosen, models, options.data)
        sheet = Sheet(size=options.size, columns=_MOST_MODELS)
        figures[name] = sheet_bytes(sheet.pages(board.bench.title, "", rows, paged=False), Path(name))
        more = f" The first {len(models)} of {len(best)} models by rank." if len(models) < len(best) else ""
        ids = f" Cases: {', '.join(case.id for case in chosen.cases)}."
        caption = f"{caption_of(board, marks, chosen, models)}{more}{ids}"
        lines += [
            *([WIDE] if is_wide(caption) else []),
            r"\begin{figure*}[!htp]",
            r"\centering",
            rf"\includegraphics[width=\linewidth,height=0.8\textheight,keepaspectratio]{{{name}}}",
            rf"\caption[RefBench: cases]{{{tex(caption)}}}",
            rf"\label{{fig:cases-{len(figures)}}}",
            r"\end{figure*}",
        ]
    return figures, "\n".join([*lines, ""]), left_out
