"""Captions: from the source, from a VLM (at most twenty words about the main subject), or the names of objects seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.instructions import usable_caption
from refbench.builders.refblend.sources import LabelledPicture
from refbench.builders.refblend.types import joined
from refbench.chat import ChatText
from refbench.chat.vlm import VLM
from refbench.extractors.caption import caption_request, read_caption
from refbench.failure import Failure

_AT_ONCE = 256
"""Pictures whose captions are under way; the transport has its own limit of calls."""
_MOST_KINDS = 5
_NUMBERS = ("no", "a", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_PEOPLE = {"person": "people", "sheep": "sheep", "skis": "skis", "scissors": "pairs of scissors"}
_MANY = 9


async def written_captions(
    interviews: Interviews, vlm: VLM, pictures: Sequence[LabelledPicture], progress: Callable[[int], None]
) -> AsyncIterator[tuple[LabelledPicture, str | Failure]]:
    """What a VLM says of each picture, in their order; a caption that is too long is asked for once more."""
    text = next(part.text for part in caption_request("", subject=True).parts if isinstance(part, ChatText))
    for start in range(0, len(pictures), _AT_ONCE):
        batch = pictures[start : start + _AT_ONCE]
        captions = await asyncio.gather(
            *(
                interviews.ask(vlm, picture.id, "caption", [text, Path(picture.path)], _read, max_tokens=300)
                for picture in batch
            )
        )
        progress(start + len(batch))
        for picture, caption in zip(batch, captions, strict=True):
            yield picture, caption


def _read(reply: str) -> str | Failure:
    caption = read_caption(reply)
    return caption if isinstance(caption, Failure) else usable_caption(caption)


def named_objects(labels: Sequence[str]) -> str | Failure:
    """The objects as a caption, surest kind first: "a dog and two people". It says what, and nothing of how."""
    kinds = list(Counter(labels).items())[:_MOST_KINDS]
    if not kinds:
        return Failure(kind="no_detection", detail="no object was seen for certain")
    return joined([_counted(name, count) for name, count in kinds])


def _counted(name: str, count: int) -> str:
    if count == 1:
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}" if name not in ("skis", "scissors") else name
    plural = _PEOPLE.get(name) or _plural(name)
    return f"{_NUMBERS[count] if count <= _MANY else 'many'} {plural}"


def _plural(name: str) -> str:
    if name.endswith("knife"):
        return f"{name[:-2]}ves"
    if name.endswith(("s", "ch", "sh", "x")):
        return f"{name}es"
    return f"{name}s"
