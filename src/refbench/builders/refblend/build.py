"""The build: pictures in, a dataset out, stage by stage. The same settings give the same bytes, whatever was killed on
the way, and no stage does again what is on record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from refbench.builders.filter_judge.gate import Gate, gate_of, trained_of
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.review import Review, offer_review
from refbench.builders.refblend.blending import Blending, BlendMaterial, offers, pools_of
from refbench.builders.refblend.captions import named_objects, written_captions
from refbench.builders.refblend.extraction import VERSION
from refbench.builders.refblend.formats import need_parquet, parquet_is_here
from refbench.builders.refblend.instructions import load_templates, usable_caption
from refbench.builders.refblend.output import statistics, write_about, write_dataset
from refbench.builders.refblend.plan import Offer, PlannedSample, SamplePlan, plan
from refbench.builders.refblend.references import References, extractors_here, load_thresholds
from refbench.builders.refblend.rewriting import load_personas
from refbench.builders.refblend.rules import allowed_sets, share_of
from refbench.builders.refblend.samples import SampleFile, write_samples
from refbench.builders.refblend.screening import LOWEST, marks_about, too_low
from refbench.builders.refblend.settings import FORMATS, Settings
from refbench.builders.refblend.sources import LabelledPicture, Sources, gather
from refbench.builders.refblend.split import sides
from refbench.builders.refblend.types import TYPES, Type, name_of
from refbench.builders.refblend.writing import owned_directory
from refbench.calls.transport import Transport
from refbench.chat.vlm import VLM, make_vlm
from refbench.engine.workers.engines import make_executor, need_engine
from refbench.extractors.bbox import NETWORK as OBJECTS_NETWORK
from refbench.failure import Failure
from refbench.networks import why_not
from refbench.record import RefBenchError
from refbench.specs import Spec

Tell: TypeAlias = Callable[[str], None]
"""Gets a line about a build now and then."""


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
    work = _Build(settings, tell)
    async with AsyncExitStack() as stack:
        stack.enter_context(owned_directory(settings.out))
        await work.open(stack)
        work.find_pictures()
        await work.make_references(stack)
        await work.make_captions()
        planned = work.make_plan()
        samples = await work.make_samples(planned)
        return work.write(planned, samples)


def _pictures_in(sample: PlannedSample) -> int:
    """References of a sample that are pictures; a caption is text."""
    chosen = zip(sample.types, sample.instances, strict=True)
    return sum(len(instances) for kind, instances in chosen if kind != "caption")


class _Build:
    """A build under way: what it was asked for, whom it may ask, and what has been left out so far."""

    sources: Sources
    references: References
    material: BlendMaterial
    blending: Blending

    def __init__(self, settings: Settings, tell: Tell) -> None:
        need_engine(settings.engine, settings.address)
        self.settings, self.tell = settings, tell
        self.formats = self._formats()
        self.thresholds = load_thresholds(settings.thresholds)
        self.templates = load_templates(settings.rule_book.restricted(settings.reference_types), settings.templates)
        self.personas = load_personas(settings.personas) if settings.rewriter is not None else ()
        self.dropped = DroppedItems()
        self.failed: dict[str, Failure] = {}
        """Pictures that could not be used or asked about, by hash."""
        self.captions: dict[str, str] = {}
        """By the hash of the picture."""
        self.interviews: Interviews | None = None
        self.vlms: Mapping[str, VLM] = {}
        self.gate: Gate | None = None

    def _formats(self) -> tuple[str, ...]:
        wanted = self.settings.wanted_formats
        if wanted is None:
            if parquet_is_here():
                return FORMATS
            self.tell("no Parquet is written: pip install 'refbench[parquet]'")
            return tuple(name for name in FORMATS if name != "parquet")
        if "parquet" in wanted:
            need_parquet()
        return wanted

    async def open(self, stack: AsyncExitStack) -> None:
        """Read the review, and open what VLMs are asked through; a spec that cannot be is told before any work."""
        settings, beside = self.settings, self.settings.out / "review.jsonl"
        self.review = Review.read(settings.review or (beside if beside.is_file() else None))
        transport = await stack.enter_async_context(
            Transport(concurrency=settings.concurrency, timeout=settings.timeout)
        )
        calibrated = None if settings.judge is None else gate_of(settings.judge)
        judge = settings.judge if calibrated is None else calibrated[1].judge
        specs = {"captions": settings.captions, "judge": judge, "rewriter": settings.rewriter}
        self.vlms = {
            role: make_vlm(Spec.parse(spec, f"--{role}"), transport)
            for role, spec in specs.items()
            if spec is not None and not (role == "captions" and spec in ("source", "objects"))
        }
        if calibrated is not None:
            self.gate = calibrated[1]
            self.gate.check(self.vlms["judge"], str(calibrated[0] / "judge.toml"))
        elif judge is not None:
            trained_of(judge)
        if self.vlms:
            self.interviews = await stack.enter_async_context(
                Interviews(settings.work / "replies", transport, budget=settings.budget)
            )

    def find_pictures(self) -> None:
        """The pictures of the source; what is skipped goes on record."""
        settings, dropped = self.settings, self.dropped
        self.sources = sources = gather(
            settings.pictures, settings.source_layout, settings.work, limit=settings.limit, avoid=settings.out
        )
        for skipped in sources.skipped:
            dropped.add("sources", "picture", skipped.name, skipped.kind, skipped.reason)
        for where, what in sources.wrong:
            dropped.add("sources", "label", where, "cannot be read", what)
        kinds = Counter(skipped.kind for skipped in sources.skipped)
        words = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        self.tell(f"sources: {len(sources.pictures)} pictures" + (f"; skipped {words}" if words else ""))
        if sources.wrong:
            self.tell(f"sources: {len(sources.wrong)} labels cannot be read, the first: {': '.join(sources.wrong[0])}")
        if not sources.pictures:
            dropped.write(settings.out / "dropped.jsonl")
            first = f" ({sources.skipped[0].name}: {sources.skipped[0].reason})" if sources.skipped else ""
            raise RefBenchError(f"{settings.pictures} holds no picture that can be used{first}")

    async def make_references(self, stack: AsyncExitStack) -> None:
        """Make the references that are missing, on the chosen engine."""
        settings, pictures = self.settings, self.sources.pictures
        self.caption_source = self._caption_source()
        self.extractors = extractors_here(
            settings.reference_types, settings.variants, each_pose=settings.most_of_type.get("pose", 1) > 1
        )
        self.ungrouped: dict[Type, str] = {
            kind: f"the source does not say which pictures share a {kind} (--layout {kind}s, or a column of a table)"
            for kind in ("subject", "style")
            if kind in settings.reference_types and not any(getattr(picture, kind) for picture in pictures)
        }
        self.given = {kind for picture in pictures for kind, _ in picture.given}
        for kind, reason in (*self.extractors.missing.items(), *self.ungrouped.items()):
            if kind not in self.given:
                self.tell(f"{kind} is not offered: {reason}")
        self.references = References(
            settings.work,
            self.extractors,
            settings.reference_types,
            seed=settings.seed,
            objects=self.caption_source == "objects",
            device=settings.device,
        )
        stack.callback(self.references.close)
        missing = self.references.missing(pictures)
        if not missing:
            return
        shared, visible = settings.work.resolve(), [self.sources.root.resolve()]
        executor = make_executor(settings.engine, settings.address, shared, visible)
        try:
            self.failed |= await self.references.make(pictures, executor, self._progress("references", missing))
        finally:
            executor.close()
        for picture in pictures:
            if (failure := self.failed.get(picture.sha256)) is not None:
                self.dropped.add("references", "picture", picture.name, failure.kind, failure.detail, picture.name)

    def _caption_source(self) -> str:
        """`source`, `objects`, `vlm`, or "" where captions are not among the types."""
        wanted = self.settings.captions
        if "caption" not in self.settings.reference_types:
            return ""
        if wanted is None:
            if any(picture.caption for picture in self.sources.pictures) or why_not(OBJECTS_NETWORK) is not None:
                return "source"
            self.tell(f"the source has no captions: they name the objects that {OBJECTS_NETWORK} sees; see --captions")
            return "objects"
        if wanted == "objects" and (reason := why_not(OBJECTS_NETWORK)) is not None:
            raise RefBenchError(f"--captions objects: {reason}")
        return wanted if wanted in ("source", "objects") else "vlm"

    async def make_captions(self) -> None:
        """A picture without a caption has not failed, unless a VLM was asked for it and gave none."""
        pictures = self.sources.pictures
        if self.caption_source == "vlm":
            assert self.interviews is not None
            count = self._progress("captions", len(pictures))
            async for picture, caption in written_captions(self.interviews, self.vlms["captions"], pictures, count):
                self._keep_caption(picture, caption)
                if isinstance(caption, Failure):
                    self.failed[picture.sha256] = caption
        elif self.caption_source == "objects":
            for picture in pictures:
                labels = self.references.objects(picture)
                self._keep_caption(picture, labels if isinstance(labels, Failure) else named_objects(labels))
        elif self.caption_source == "source":
            for picture in pictures:
                low = too_low(marks_about("caption", picture.marks))
                if low:
                    self.dropped.add("judge", "caption", picture.name, f"Caption Alignment below {LOWEST}", low)
                elif picture.caption is not None:
                    self._keep_caption(picture, usable_caption(picture.caption))

    def _keep_caption(self, picture: LabelledPicture, caption: str | Failure) -> None:
        if isinstance(caption, Failure):
            self.dropped.add("captions", "caption", picture.name, caption.kind, caption.detail, picture.name)
        else:
            self.captions[picture.sha256] = caption

    def make_plan(self) -> SamplePlan:
        """Split the pictures that can be targets, and plan samples of what each then offers."""
        settings, pictures = self.settings, self.sources.pictures
        counts = {picture.file: self._offered_by(picture) for picture in pictures}
        sets = allowed_sets(settings.rule_book)
        anywhere = offers(counts, pools_of(pictures, {}, settings.reference_types))
        useful = {offer.picture for offer in anywhere if any(offer.counts.keys() >= set(types) for types in sets)}
        side = sides(pictures, settings.test_share, settings.seed, useful)
        self.material = BlendMaterial(
            {picture.file: picture for picture in pictures},
            side,
            self.captions,
            self.references,
            self.thresholds,
            pools_of(pictures, side, settings.reference_types),
        )
        planned = self._planned(offers(counts, self.material.pools))
        for quota in planned.shortfalls:
            self.tell(f"fewer than wanted: {quota}")
        if not any(_pictures_in(sample) > 1 for sample in planned):
            self.tell(self._one_picture_said({kind for offer in anywhere for kind, n in offer.counts.items() if n}))
        return planned

    def _one_picture_said(self, offered: Collection[Type]) -> str:
        """That no sample has two references that are pictures, and how such are had."""
        rules, settings = self.settings.rule_book, self.settings
        wide = [types for types in allowed_sets(rules) if len({*types} - {"caption"}) > 1]
        absent: dict[Type, str] = {**self.extractors.missing, **self.ungrouped}
        ways = []
        if there := [name_of(types) for types in wide if {*types} <= {*offered}]:
            ways.append(f"--samples all or other rules for {', '.join(there[:3])}")
        for kind in () if there else TYPES:
            if kind not in offered and any({*types} <= {*offered, kind} for types in wide):
                out = "left out by --types" if kind not in settings.reference_types else "no picture gave one"
                ways.append(f"{kind} ({absent.get(kind, out)})")
        how = f"such need {' or '.join(ways)}" if ways else f"{rules.name} allows none beside what is here (--rules)"
        return f"no sample has two references that are pictures: {how}"

    def _offered_by(self, picture: LabelledPicture) -> dict[Type, int]:
        """How many references the picture has of its own, by type; those that cannot be given go on record."""
        candidates = self.references.candidates(picture, self.thresholds, self.dropped)
        counts = {kind: len(of_type) for kind, of_type in candidates.items()}
        return {**counts, "caption": 1} if picture.sha256 in self.captions else counts

    def _planned(self, offered: Sequence[Offer]) -> SamplePlan:
        settings = self.settings
        kinds = {kind for offer in offered for kind, count in offer.counts.items() if count}
        rules = settings.rule_book.restricted(types=kinds)
        n = len(offered) if settings.samples is None else settings.samples
        several = {kind: most for kind, most in settings.most_of_type.items() if kind in kinds}
        made, shares = None, share_of(rules, allowed_sets(rules))
        if shares and (n == "all" or any(shares.values())):
            made = plan(offered, rules, n=n if isinstance(n, int) else None, several=several, seed=settings.seed)
        if made is None or not len(made):
            self.dropped.write(settings.out / "dropped.jsonl")
            names = ", ".join(sorted(kinds)) or "nothing"
            raise RefBenchError(
                f"no sample can be made: the pictures offer {names}, of which {rules.name} allows no set; give "
                "captions (--captions), groups (--layout subjects or styles, or a table), or other rules"
            )
        return made

    async def make_samples(self, planned: SamplePlan) -> SampleFile:
        """Put every planned sample into words, have it judged and rewritten, and keep it in a file."""
        self.blending = Blending(
            self.settings,
            self.material,
            self.templates,
            self.personas,
            self.review,
            self.dropped,
            self.interviews,
            self.vlms,
            self.gate,
        )
        path = self.settings.work / "samples.jsonl"
        await write_samples(path, self.blending.samples(planned, self._progress("samples", len(planned))))
        self.failed |= self.blending.failed
        return SampleFile(path)

    def write(self, planned: SamplePlan, samples: SampleFile) -> Built:
        """Write the dataset and all that is said about it."""
        settings, sources = self.settings, self.sources
        write_dataset(settings, self.formats, samples, self.material.pictures)
        broken = {skipped.name for skipped in sources.skipped if skipped.kind != "duplicate"}
        failed = len(broken) + len(self.failed)
        numbers = statistics(samples, sources, planned.quotas, self.dropped, failed, self._about())
        write_about(settings, sources, numbers, self.dropped)
        offer_review(settings.out / "review.jsonl", sorted(self.blending.reviewed, key=lambda row: str(row["id"])))
        for stranger in self.review.strangers():
            self.tell(f"the review decides about {stranger}, which this build did not make")
        self.tell(f"written: {len(samples)} samples in {settings.out}")
        short = any(failure.kind == "budget" for failure in self.failed.values())
        return Built(numbers, failed / (len(sources.pictures) + len(broken)), "budget" if short else "")

    def _about(self) -> dict[str, Any]:
        """How the dataset was made, as far as its content depends on it: not where, nor by which engine."""
        settings, names = self.settings, {role: vlm.name for role, vlm in self.vlms.items()}
        objects = ["objects"] if self.caption_source == "objects" else []
        not_offered: dict[str, str] = {
            **self.extractors.absent,
            **{str(kind): why for kind, why in self.ungrouped.items()},
        }
        return {
            "seed": settings.seed,
            "rules": settings.rule_book.name,
            "types": list(settings.reference_types),
            "samples": settings.samples,
            "several": dict(settings.most_of_type),
            "limit": settings.limit,
            "layout": settings.layout_name,
            "captions": names["captions"] if self.caption_source == "vlm" else self.caption_source,
            "judge": names.get("judge"),
            **({} if self.gate is None else {"calibration": self.gate.id}),
            "rewriter": names.get("rewriter"),
            "test_share": settings.test_share,
            "formats": list(self.formats),
            "extraction": VERSION,
            "extractors": dict(self.extractors.by_type),
            "networks": self.extractors.networks(*objects),
            "not_offered": {k: why for k, why in not_offered.items() if k not in self.given},
        }

    def _progress(self, stage: str, whole: int) -> Callable[[int], None]:
        """Tells how far a stage is, at each tenth."""
        told = 0

        def count(done: int) -> None:
            nonlocal told
            tenth = done * 10 // max(whole, 1)
            if tenth > told or done == whole:
                told = tenth
                self.tell(f"{stage}: {done} of {whole}")

        return count
