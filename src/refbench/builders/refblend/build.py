"""The stages before planning: pictures, references and captions, each telling what it leaves out and how far it is."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.review import Review, write_review
from refbench.builders.refblend.blending import Blending, Material
from refbench.builders.refblend.captions import named_objects, written_captions
from refbench.builders.refblend.extraction import VERSION
from refbench.builders.refblend.formats import need_parquet, parquet_is_here
from refbench.builders.refblend.instructions import load_templates, usable_caption
from refbench.builders.refblend.output import statistics, write_about, write_dataset
from refbench.builders.refblend.plan import Offer, Plan, plan
from refbench.builders.refblend.references import Extractors, References, extractors_here, load_thresholds
from refbench.builders.refblend.rewriting import load_personas
from refbench.builders.refblend.rules import Rules, allowed_sets, share_of
from refbench.builders.refblend.samples import SampleFile, write_samples
from refbench.builders.refblend.settings import FORMATS, Settings, owned_directory
from refbench.builders.refblend.sources import SourcePicture, Sources, gather
from refbench.builders.refblend.split import sides
from refbench.calls import Transport
from refbench.chat.build import make_vlm
from refbench.chat.vlm import VLM
from refbench.engine.workers.engines import make_executor, need_engine
from refbench.extractors.bbox import NETWORK as OBJECTS_NETWORK
from refbench.failure import Failure
from refbench.networks import why_not
from refbench.record import RefBenchError
from refbench.specs import Spec

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


# The build: pictures in, a dataset out, stage by stage. The same settings give the same bytes, whatever was killed on
# the way, and no stage does again what is on record.


@dataclass(frozen=True)
class Built:
    """What came of a build."""

    statistics: Mapping[str, Any]
    failed_share: float
    """Of the given pictures, each content once, those that could not be used or asked about."""
    stopped: str = ""
    """`budget` where money ended it before all was asked."""


async def build(settings: Settings, tell: Tell = lambda line: None) -> Built:
    """Build the dataset; `tell` gets a line now and then. RefBenchError for what only the user can mend."""
    need_engine(settings.engine, settings.address)
    formats = _formats(settings, tell)
    thresholds = load_thresholds(settings.thresholds)
    templates = load_templates(settings.rules.restricted(settings.types), settings.templates)
    personas = load_personas(settings.personas) if settings.rewriter is not None else ()
    async with AsyncExitStack() as stack:
        stack.enter_context(owned_directory(settings.out))
        review = Review.read(_review_file(settings))
        transport = await stack.enter_async_context(
            Transport(concurrency=settings.concurrency, timeout=settings.timeout)
        )
        vlms = _vlms(settings, transport)
        interviews = None
        if vlms:
            interviews = await stack.enter_async_context(
                Interviews(settings.work / "replies", transport, budget=settings.budget)
            )
        dropped = DroppedItems()
        sources = usable_pictures(settings, dropped, tell)
        how = captions_from(settings, sources, tell)
        extractors = extractors_here(
            settings.types, dodge=settings.dodge, each_pose=settings.several.get("pose", 1) > 1
        )
        ungrouped = without_groups(settings, sources)
        for kind, reason in (*extractors.missing.items(), *ungrouped.items()):
            tell(f"{kind} is not offered: {reason}")
        references = References(
            settings.work,
            extractors,
            settings.types,
            seed=settings.seed,
            objects=how == "objects",
            device=settings.device,
        )
        stack.callback(references.close)
        failed = await make_references(settings, sources, references, dropped, tell)
        captions = await make_captions(
            sources, how, references, interviews, vlms.get("captions"), dropped, failed, tell
        )
        whole = Material.of(sources.pictures, None, captions, references, thresholds, settings.types)
        useful = _useful(settings.rules, [whole.offer(picture, dropped) for picture in sources.pictures])
        side = sides(sources.pictures, settings.test_share, settings.seed, useful)
        material = Material.of(sources.pictures, side, captions, references, thresholds, settings.types)
        planned = _planned(settings, material, dropped)
        for quota in planned.shortfalls:
            tell(f"fewer than wanted: {quota}")
        blending = Blending(
            material,
            settings.rules,
            templates,
            settings.seed,
            dropped,
            settings.work,
            review,
            interviews,
            vlms.get("judge"),
            vlms.get("rewriter"),
            personas,
        )
        count = Counter("samples", len(planned), tell)
        await write_samples(settings.work / "samples.jsonl", blending.samples(planned, count))
        failed |= blending.failed
        samples = SampleFile(settings.work / "samples.jsonl")
        entries = write_dataset(settings, formats, samples, material.pictures)
        broken = {one.name for one in sources.skipped if one.kind != "duplicate"}
        found = statistics(
            entries,
            sources,
            planned.quotas,
            dropped,
            len(broken) + len(failed),
            _about(settings, formats, how, extractors, ungrouped, vlms),
        )
        write_about(settings, sources, found, dropped)
        _write_review(settings, blending.reviewed)
        for stranger in review.strangers():
            tell(f"the review decides about {stranger}, which this build did not make")
        tell(f"written: {len(samples)} samples in {settings.out}")
        share = (len(broken) + len(failed)) / (len(sources.pictures) + len(broken))
        short = any(failure.kind == "budget" for failure in failed.values())
        return Built(found, share, "budget" if short else "")


def _formats(settings: Settings, tell: Tell) -> tuple[str, ...]:
    if settings.formats is None:
        if parquet_is_here():
            return FORMATS
        tell("no Parquet is written: pip install 'refbench[parquet]'")
        return tuple(name for name in FORMATS if name != "parquet")
    if "parquet" in settings.formats:
        need_parquet()
    return settings.formats


def _vlms(settings: Settings, transport: Transport) -> dict[str, VLM]:
    """The VLMs that are asked, by what for; a spec that cannot be is told before anything is computed."""
    specs = {"captions": settings.captions, "judge": settings.judge, "rewriter": settings.rewriter}
    return {
        what: make_vlm(Spec.parse(spec, f"--{what}"), transport)
        for what, spec in specs.items()
        if spec is not None and not (what == "captions" and spec in ("source", "objects"))
    }


def _useful(rules: Rules, offers: Sequence[Offer]) -> set[str]:
    """Files of the pictures that could be a target, if all others were on their side of the split."""
    sets = allowed_sets(rules)
    return {offer.picture for offer in offers if any(offer.counts.keys() >= set(types) for types in sets)}


def _planned(settings: Settings, material: Material, dropped: DroppedItems) -> Plan:
    offers = [material.offer(picture, dropped) for picture in material.pictures.values()]
    offered = {kind for offer in offers for kind, count in offer.counts.items() if count}
    rules = settings.rules.restricted(types=offered)
    n = len(offers) if settings.samples is None else settings.samples
    wanted = {kind: most for kind, most in settings.several.items() if kind in offered}
    made, shares = None, share_of(rules, allowed_sets(rules))
    if shares and (n == "all" or any(shares.values())):
        made = plan(offers, rules, n=None if n == "all" else n, several=wanted, seed=settings.seed)
    if made is None or not len(made):
        dropped.write(settings.out / "dropped.jsonl")
        names = ", ".join(sorted(offered)) or "nothing"
        raise RefBenchError(
            f"no sample can be made: the pictures offer {names}, of which {settings.rules.name} allows no set; give "
            "captions (--captions), groups (--layout subjects or styles, or a table), or other rules"
        )
    return made


def _about(
    settings: Settings,
    formats: Sequence[str],
    how: str,
    extractors: Extractors,
    ungrouped: Mapping[str, str],
    vlms: Mapping[str, VLM],
) -> dict[str, Any]:
    """How the dataset was made, as far as its content depends on it: not where, nor by which engine."""
    return {
        "seed": settings.seed,
        "rules": settings.rules.name,
        "types": list(settings.types),
        "samples": settings.samples,
        "several": dict(settings.several),
        "limit": settings.limit,
        "layout": settings.layout_name,
        "captions": vlms["captions"].name if how == "vlm" else how,
        "judge": vlms["judge"].name if "judge" in vlms else None,
        "rewriter": vlms["rewriter"].name if "rewriter" in vlms else None,
        "test_share": settings.test_share,
        "formats": list(formats),
        "extraction": VERSION,
        "extractors": dict(extractors.by_type),
        "networks": extractors.networks(*(["objects"] if how == "objects" else [])),
        "not_offered": {**extractors.absent, **ungrouped},
    }


def _review_file(settings: Settings) -> Path | None:
    beside = settings.out / "review.jsonl"
    return settings.review or (beside if beside.is_file() else None)


def _write_review(settings: Settings, rows: Sequence[Mapping[str, Any]]) -> None:
    """The lines for people beside the dataset; a file in which somebody has decided something stays as it is."""
    path = settings.out / "review.jsonl"
    if path.is_file() and not Review.read(path).strangers():
        path.unlink()
    write_review(path, sorted(rows, key=lambda row: str(row["id"])))
