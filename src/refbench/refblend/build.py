"""The build: pictures in, a dataset out, stage by stage. The same settings give the same bytes, whatever was killed on
the way, and no stage does again what is on record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.calls import Transport
from refbench.chat.build import make_vlm
from refbench.chat.spec import Spec
from refbench.chat.vlm import VLM
from refbench.engine.engines import need_engine
from refbench.engine.interviews import Interviews
from refbench.record import RefBenchError
from refbench.refblend.blending import Blending, Material
from refbench.refblend.extraction import VERSION
from refbench.refblend.instructions import load_templates
from refbench.refblend.output import write_about, write_dataset
from refbench.refblend.parquet import need_parquet, parquet_is_here
from refbench.refblend.personas import load_personas
from refbench.refblend.plan import Offer, Plan, plan
from refbench.refblend.references import Extractors, References, extractors_here
from refbench.refblend.rules import Rules, allowed_sets, share_of
from refbench.refblend.sample_file import SampleFile, write_samples
from refbench.refblend.settings import FORMATS, Settings, owned_directory
from refbench.refblend.split import sides
from refbench.refblend.stages import (
    Counter,
    Tell,
    captions_from,
    make_captions,
    make_references,
    usable_pictures,
    without_groups,
)
from refbench.refblend.statistics import statistics
from refbench.refblend.thresholds import load_thresholds
from refbench.workshop import DroppedItems, Review
from refbench.workshop.review import write_review


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
