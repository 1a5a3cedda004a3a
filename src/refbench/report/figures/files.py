"""A figure as an object and as a file: SVG as it is drawn, PDF and PNG made of it by Typst (docs/decisions/0010)."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from refbench.record import RefBenchError
from refbench.report.figures.chart import Chart
from refbench.report.figures.drawing import draw
from refbench.runs.disk import disk_error, write_whole
from refbench.text.console import csv_cell

SUFFIXES = (".svg", ".pdf", ".png", ".csv")
_PIXELS_PER_POINT = 2.5
"""Of a PNG: 760 points across are 1900 pixels."""


@dataclass(frozen=True)
class Figure:
    """A chart that is drawn when it is looked at. In a notebook it shows itself."""

    chart: Chart

    @cached_property
    def svg(self) -> str:
        return draw(self.chart)

    def _repr_svg_(self) -> str:
        return self.svg

    def numbers(self) -> Iterator[dict[str, Any]]:
        """A row for each number that is drawn, with its interval, and for each that is not there, with the reason."""
        return self.chart.numbers()

    def save(self, path: Path | str) -> Path:
        """Write it, in the format that the name ends in: .svg, .pdf, .png, or .csv for the numbers."""
        path = Path(path)
        content = self.content(path)
        try:
            write_whole(path, content)
        except OSError as error:
            raise disk_error(error, path) from error
        return path

    def content(self, path: Path) -> bytes:
        """What belongs into a file of this name."""
        suffix = check_suffix(path)
        if suffix == ".svg":
            return self.svg.encode()
        if suffix == ".csv":
            return _csv(list(self.numbers())).encode()
        return rendered(self.svg, suffix)


def check_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RefBenchError(f"--out {path}: name it {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    return suffix


def rendered(svg: str, suffix: str) -> bytes:
    """The SVG as PDF, with its words as text in fonts that come along, or as PNG."""
    try:
        import typst
    except ImportError:
        raise RefBenchError(
            f"a {suffix} file needs Typst: pip install 'refbench[figures]', or write an .svg, which needs nothing"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "figure.svg").write_text(svg, encoding="utf-8")
        page = '#set page(width: auto, height: auto, margin: 0pt)\n#image("figure.svg")\n'
        (place / "figure.typ").write_text(page, encoding="utf-8")
        try:
            if suffix == ".png":
                made = typst.compile(str(place / "figure.typ"), format="png", ppi=72 * _PIXELS_PER_POINT)
            else:
                # The same figure gives the same bytes, so no date is in it.
                made = typst.compile(str(place / "figure.typ"), format="pdf", timestamp=0)
        except (RuntimeError, ValueError) as error:
            raise RefBenchError(f"Typst cannot make a {suffix} file of this figure: {error}") from error
    return bytes(made)


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    titles = list(dict.fromkeys(title for row in rows for title in row))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    for row in rows:
        writer.writerow([csv_cell(row.get(title)) for title in titles])
    return text.getvalue()
