"""The data card: what a dataset is, how it came about, and what was left out, with pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from refbench.failure import Failure
from refbench.pictures import decode, encode, resize
from refbench.runs.disk import disk_error, write_whole
from refbench.version import __version__
from refbench.workshop.dropped import Dropped, DroppedItems

_SHOWN = 6
"""Pictures shown for each reason that something was dropped."""
_THUMB = 160
_NAME = re.compile("[0-9a-f]{16}")


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


def write_card(card: Card, dropped: DroppedItems, out: Path, pictures: Path) -> None:
    """Write README.md into `out`, and the pictures that it shows into `out`/card; `pictures` is where sources lie."""
    lines = [f"# {escaped(card.title)}", "", escaped(card.about), "", "| what | how many |", "|---|---:|"]
    lines += [f"| {escaped(name)} | {number:,} |" for name, number in card.counts.items()]
    if card.missing:
        lines += ["", "## Not covered", ""]
        lines += [f"- **{escaped(name)}**: {escaped(reason)}" for name, reason in card.missing.items()]
    lines += ["", "## How it was made", "", f"By RefBench {__version__}.", "", "| setting | value |", "|---|---|"]
    lines += [f"| {escaped(name)} | {escaped(value)} |" for name, value in card.settings.items()]
    if card.provenance:
        lines += ["", "## Where the pictures come from", "", *(f"- {escaped(line)}" for line in card.provenance)]
    lines += ["", "## What was left out", ""]
    lines += _left_out(dropped, out, pictures) or ["Nothing."]
    _clear_others(out / "card", {one.key[:16] for one in dropped})
    if card.notes:
        lines += ["", "## Notes", "", *(f"- {escaped(note)}" for note in card.notes)]
    try:
        write_whole(out / "README.md", ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise disk_error(error, out) from error


def _left_out(dropped: DroppedItems, out: Path, pictures: Path) -> list[str]:
    lines: list[str] = []
    for stage, reasons in dropped.counts().items():
        lines += [f"### {escaped(stage)}", ""]
        for reason, number in reasons.items():
            mine = [one for one in dropped if (one.stage, one.reason) == (stage, reason)]
            lines += [f"**{escaped(reason)}**: {number:,}", ""]
            lines += [f"- {escaped(one.id)}: {escaped(one.detail)}" for one in mine[:_SHOWN] if one.detail]
            shown = [name for one in mine[:_SHOWN] if (name := _thumb(one, out, pictures))]
            lines += ["", " ".join(f"![{escaped(reason)}]({name})" for name in shown), ""] if shown else [""]
    return lines


def _thumb(one: Dropped, out: Path, pictures: Path) -> str:
    """A small copy beside the card; empty where the picture cannot be opened, which may be why it was dropped."""
    if not one.picture:
        return ""
    try:
        # A picture that the build made itself lies in its own folder, not in the source.
        path = next((root / one.picture for root in (pictures, out) if (root / one.picture).is_file()), None)
        pixels = decode(path.read_bytes()) if path else Failure(kind="unreadable_picture")
        if isinstance(pixels, Failure):
            return ""
        height, width = pixels.shape[:2]
        scale = min(1.0, _THUMB / max(height, width))
        small = resize(pixels, (max(1, round(width * scale)), max(1, round(height * scale))))
        name = f"card/{one.key[:16]}.png"
        write_whole(out / name, encode(small))
    except OSError:
        return ""
    return name


def _clear_others(folder: Path, shown: set[str]) -> None:
    """Remove the small pictures of an earlier build's card; what people put there has other names."""
    for path in folder.glob("*.png"):
        if _NAME.fullmatch(path.stem) and path.stem not in shown:
            path.unlink(missing_ok=True)


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    plain = " ".join(text.split())
    for character in "\\`*_{}[]<>#|!":
        plain = plain.replace(character, f"\\{character}")
    return plain
