"""The stages before planning: pictures, references and captions, each telling what it leaves out and how far it is."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable
from typing import TypeAlias

from refbench.chat.vlm import VLM
from refbench.engine.engines import make_executor
from refbench.engine.interviews import Interviews
from refbench.extractors.bbox import NETWORK as OBJECTS_NETWORK
from refbench.failure import Failure
from refbench.networks import why_not
from refbench.record import RefBenchError
from refbench.refblend.captions import named_objects, written_captions
from refbench.refblend.instructions import usable_caption
from refbench.refblend.references import References
from refbench.refblend.settings import Settings
from refbench.refblend.sources import SourcePicture, Sources, gather
from refbench.workshop import DroppedItems

Tell: TypeAlias = Callable[[str], None]
"""Gets a line about a build now and then."""


def usable_pictures(settings: Settings, dropped: DroppedItems, tell: Tell) -> Sources:
    """The pictures of the source; what is skipped goes on record."""
    sources = gather(settings.pictures, settings.layout, settings.work, limit=settings.limit, avoid=settings.out)
    for one in sources.skipped:
        dropped.add("sources", "picture", one.name, one.kind, one.reason)
    for where, what in sources.wrong:
        dropped.add("sources", "label", where, "cannot be read", what)
    kinds = Count(one.kind for one in sources.skipped)
    words = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    tell(f"sources: {len(sources.pictures)} pictures" + (f"; skipped {words}" if words else ""))
    if sources.wrong:
        tell(f"sources: {len(sources.wrong)} labels cannot be read, the first: {': '.join(sources.wrong[0])}")
    if not sources.pictures:
        dropped.write(settings.out / "dropped.jsonl")
        first = f" ({sources.skipped[0].name}: {sources.skipped[0].reason})" if sources.skipped else ""
        raise RefBenchError(f"{settings.pictures} holds no picture that can be used{first}")
    return sources


def without_groups(settings: Settings, sources: Sources) -> dict[str, str]:
    """Why there are no subjects or styles, where they were asked for and the source does not tell any apart."""
    return {
        kind: f"the source does not say which pictures share a {kind} (--layout {kind}s, or a column of a table)"
        for kind in ("subject", "style")
        if kind in settings.types and not any(getattr(picture, kind) for picture in sources.pictures)
    }


def captions_from(settings: Settings, sources: Sources, tell: Tell) -> str:
    """`source`, `objects`, `vlm` or `` where captions are not among the types."""
    if "caption" not in settings.types:
        return ""
    if settings.captions is None:
        if any(picture.caption for picture in sources.pictures) or why_not(OBJECTS_NETWORK) is not None:
            return "source"
        tell(f"the source has no captions: they name the objects that {OBJECTS_NETWORK} sees; see --captions")
        return "objects"
    if settings.captions == "objects" and (reason := why_not(OBJECTS_NETWORK)) is not None:
        raise RefBenchError(f"--captions objects: {reason}")
    return settings.captions if settings.captions in ("source", "objects") else "vlm"


async def make_references(
    settings: Settings, sources: Sources, references: References, dropped: DroppedItems, tell: Tell
) -> dict[str, Failure]:
    """Make the references that are missing, on the chosen engine. Returns the pictures that failed, by hash."""
    missing = references.missing(sources.pictures)
    if not missing:
        return {}
    executor = make_executor(settings.engine, settings.address, settings.work.resolve(), [sources.root.resolve()])
    count = Counter("references", missing, tell)
    try:
        failed = await references.make(sources.pictures, executor, count)
    finally:
        executor.close()
    for picture in sources.pictures:
        if picture.sha256 in failed:
            failure = failed[picture.sha256]
            dropped.add("references", "picture", picture.name, failure.kind, failure.detail, picture.name)
    return failed


async def make_captions(
    sources: Sources,
    how: str,
    references: References,
    interviews: Interviews | None,
    vlm: VLM | None,
    dropped: DroppedItems,
    failed: dict[str, Failure],
    tell: Tell,
) -> dict[str, str]:
    """Captions by hash. A picture without one is no failure, unless somebody was asked for it and gave none."""
    found: dict[str, str] = {}

    def settle(picture: SourcePicture, said: str | Failure) -> None:
        if isinstance(said, Failure):
            dropped.add("captions", "caption", picture.name, said.kind, said.detail, picture.name)
        else:
            found[picture.sha256] = said

    if how == "vlm" and interviews is not None and vlm is not None:
        count = Counter("captions", len(sources.pictures), tell)
        async for picture, said in written_captions(interviews, vlm, sources.pictures, count):
            settle(picture, said)
            if isinstance(said, Failure):
                failed[picture.sha256] = said
    elif how == "objects":
        for picture in sources.pictures:
            labels = references.objects(picture)
            settle(picture, labels if isinstance(labels, Failure) else named_objects(labels))
    elif how == "source":
        for picture in sources.pictures:
            if picture.caption is not None:
                settle(picture, usable_caption(picture.caption))
    return found


class Counter:
    """Tells how far a stage is, at each tenth."""

    def __init__(self, stage: str, whole: int, tell: Tell) -> None:
        self._stage, self._whole, self._tell, self._said = stage, whole, tell, 0

    def __call__(self, done: int) -> None:
        tenth = done * 10 // max(self._whole, 1)
        if tenth > self._said or done == self._whole:
            self._said = tenth
            self._tell(f"{self._stage}: {done} of {self._whole}")
