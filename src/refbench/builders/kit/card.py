"""The data card: what a dataset is, some of it, how it came about, and what was left out, with pictures."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refbench import __version__
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.folder import write_file
from refbench.failure import Failure
from refbench.pictures import encode, read_pixels, resize
from refbench.runs.disk import write_whole
from refbench.text.console import as_markdown

_SHOWN = 6
"""Pictures shown for each reason that something was dropped."""
_THUMB = 160
_NAME = re.compile("[0-9a-f]{16}")
_BLANKS = re.compile("\n{3,}")


@dataclass(frozen=True)
class Sample:
    """An item of the dataset to show: its name, the text that a model gets, and its pictures."""

    name: str
    text: str
    pictures: Sequence[Path]


@dataclass(frozen=True)
class Card:
    """The sections of a card. Everything in it is text; what comes from files or models is escaped."""

    title: str
    about: str
    counts: Mapping[str, int]
    settings: Mapping[str, str]
    provenance: Sequence[str] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """What the dataset was meant to cover and does not, with the reason."""
    notes: Sequence[str] = ()
    samples: Sequence[Sample] = ()
    using: Sequence[str] = ()
    """Commands that read the dataset, to be run beside the card."""


def write_card(card: Card, dropped: DroppedItems, out: Path, pictures: Path) -> None:
    """Write README.md into `out`, and the pictures that it shows into `out`/card; `pictures` is where sources lie."""
    thumbs = _Thumbs(out)
    lines = [f"# {as_markdown(card.title)}", "", as_markdown(card.about), ""]
    if card.using:
        lines += ["In this folder:", "", *(f"    {' '.join(command.split())}" for command in card.using), ""]
    if card.samples:
        lines += ["", "## Some of it", ""]
    for sample in card.samples:
        shown = [thumbs.of(path, sample.name) for path in sample.pictures]
        lines += [f"**{as_markdown(sample.name)}**: {as_markdown(sample.text)}", "", " ".join(filter(None, shown)), ""]
    lines += ["", "## How much of what", "", "| what | how many |", "|---|---:|"]
    lines += [f"| {as_markdown(name)} | {number:,} |" for name, number in card.counts.items()]
    if card.missing:
        lines += ["", "## Not covered", ""]
        lines += [f"- **{as_markdown(name)}**: {as_markdown(reason)}" for name, reason in card.missing.items()]
    lines += ["", "## How it was made", "", f"By RefBench {__version__}.", "", "| setting | value |", "|---|---|"]
    lines += [f"| {as_markdown(name)} | {as_markdown(value)} |" for name, value in card.settings.items()]
    if card.provenance:
        lines += ["", "## Where the pictures come from", "", *(f"- {as_markdown(line)}" for line in card.provenance)]
    lines += ["", "## What was left out", ""]
    lines += _left_out(dropped, thumbs, (pictures, out)) or ["Nothing."]
    thumbs.clear_others()
    if card.notes:
        lines += ["", "## Notes", "", *(f"- {_sentence(note)}" for note in card.notes)]
    write_file(out / "README.md", (_BLANKS.sub("\n\n", "\n".join(lines)) + "\n").encode())


def _left_out(dropped: DroppedItems, thumbs: _Thumbs, roots: Sequence[Path]) -> list[str]:
    lines: list[str] = []
    for stage, reasons in dropped.counts().items():
        lines += [f"### {as_markdown(stage)}", ""]
        for reason, number in reasons.items():
            mine = [one for one in dropped if (one.stage, one.reason) == (stage, reason)][:_SHOWN]
            lines += [f"**{as_markdown(reason)}**: {number:,}", ""]
            lines += [f"- {as_markdown(one.id)}: {as_markdown(one.detail)}" for one in mine if one.detail]
            # A picture that the build made itself lies in its own folder, not in the source.
            shown = [thumbs.of(_first(roots, one.picture), f"{reason}: {one.id}") for one in mine if one.picture]
            lines += ["", " ".join(filter(None, shown)), ""]
    return lines


def _first(roots: Sequence[Path], name: str) -> Path:
    return next((root / name for root in roots if (root / name).is_file()), roots[0] / name)


class _Thumbs:
    """Small copies of pictures beside the card, named by what they show, so that one is there once."""

    def __init__(self, out: Path) -> None:
        self.folder = out / "card"
        self.written: set[str] = set()

    def of(self, path: Path, says: str) -> str:
        """The picture in Markdown; empty where it cannot be opened, which may be why it was dropped."""
        try:
            pixels = read_pixels(path)
            if isinstance(pixels, Failure):
                return ""
            height, width = pixels.shape[:2]
            scale = min(1.0, _THUMB / max(height, width))
            data = encode(resize(pixels, (max(1, round(width * scale)), max(1, round(height * scale)))))
            stem = hashlib.sha256(data).hexdigest()[:16]
            if stem not in self.written:
                write_whole(self.folder / f"{stem}.png", data)
        except (OSError, ValueError):  # ValueError: a name that no file can have
            return ""
        self.written.add(stem)
        return f"![{as_markdown(says)}](card/{stem}.png)"

    def clear_others(self) -> None:
        """Remove the small pictures of an earlier build's card; what people put there has other names."""
        for path in self.folder.glob("*.png"):
            if _NAME.fullmatch(path.stem) and path.stem not in self.written:
                path.unlink(missing_ok=True)


def _sentence(text: str) -> str:
    return as_markdown(text[:1].upper() + text[1:])
