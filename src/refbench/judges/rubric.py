"""Rubrics: what a judge is told, as a Markdown file with TOML between two `+++` lines on top."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from refbench.judges.contract import Contract, Which
from refbench.judges.criteria import Criterion, YesNo
from refbench.judges.front_matter import read_front_matter, read_parts, texts_of
from refbench.judges.placeholders import filled
from refbench.judges.rubric_part import Range, RubricPart
from refbench.judges.totals import Rule
from refbench.record import RefBenchError


@dataclass(frozen=True)
class Rubric:
    """A rubric, read and checked. `total` combines the headline measures of all parts, brought to `range`."""

    name: str
    title: str
    dialect: str
    parts: tuple[RubricPart, ...]
    total: Rule
    range: Range
    max_tokens: int
    which: Which
    sha256: str
    """Of the whole file: numbers judged with other words are other numbers."""

    @property
    def needs_questions(self) -> bool:
        return any(part.questions for part in self.parts)

    def contract(self, part: RubricPart, questions: Sequence[str] = ()) -> Contract:
        """The contract of one call; for a part with questions, that of the case's own."""
        if not part.questions:
            return Contract(self.dialect, part.criteria, self.which)
        asked = tuple(Criterion(f"Q{n}", YesNo(), question) for n, question in enumerate(questions, 1))
        return Contract(self.dialect, asked, self.which)

    def prompt(self, part: RubricPart, instruction: str, questions: Sequence[str] = ()) -> str:
        """What the judge is told for one case, placeholders filled."""
        contract = self.contract(part, questions)
        values = {
            "instruction": instruction,
            "criteria": contract.criteria_text(),
            "questions": "\n".join(f"Q{n}: {question}" for n, question in enumerate(questions, 1)),
            "format": contract.format_text(),
        }
        return filled(part.text, values)


def load_rubric(path_or_name: str | Path) -> Rubric:
    """The rubric in a file, or the shipped one of that name."""
    return parse_rubric(*rubric_source(path_or_name))


def rubric_source(path_or_name: str | Path) -> tuple[str, str]:
    """Text of the rubric and how errors name it: the file, or the name of a shipped one."""
    given = str(path_or_name)
    path = Path(path_or_name)
    if given in shipped_rubrics():
        return resources.files("refbench.judges").joinpath(f"rubrics/{given}.md").read_text("utf-8"), given
    if not path.is_file():
        near = difflib.get_close_matches(given, shipped_rubrics(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"give a file, or one of {', '.join(shipped_rubrics())}"
        raise RefBenchError(f"--rubric {given}: there is no such file or rubric; {hint}")
    try:
        return path.read_text(encoding="utf-8"), given
    except (OSError, UnicodeDecodeError) as error:
        raise RefBenchError(f"--rubric {given} cannot be read as UTF-8 text: {error}") from error


def shipped_rubrics() -> tuple[str, ...]:
    folder = resources.files("refbench.judges").joinpath("rubrics")
    return tuple(sorted(file.name.removesuffix(".md") for file in folder.iterdir() if file.name.endswith(".md")))


def parse_rubric(text: str, name: str) -> Rubric:
    """Read and check a rubric; `name` is how errors call it."""
    front, body = read_front_matter(text, name)
    parts = read_parts(front, texts_of(front, body, name), name)
    return Rubric(
        name=front.name,
        title=front.title or front.name,
        dialect=front.dialect,
        parts=parts,
        total=front.total,
        range=front.range or _common_range(parts, name),
        max_tokens=front.max_tokens,
        which=front.which,
        sha256=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
    )


def _common_range(parts: Sequence[RubricPart], name: str) -> Range:
    ranges = {part.measures()[measure] for part in parts for measure in part.headline()}
    if len(ranges) != 1:
        raise RefBenchError(f"{name}: its criteria have different ranges: add range = [low, high] for the total")
    return ranges.pop()
