"""Making a study: from a run, a review or a dataset to a folder with its design and items."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.analysis.audit.marks import CLEAN
from refbench.builders.audit.variants import Variants, read_variants
from refbench.record import RefBenchError, counted
from refbench.runs import Run
from refbench.studies import design as designs
from refbench.studies.criteria import criteria_named, criteria_of_run, words
from refbench.studies.design import Criterion, Preregistration, Screen, Source, StudyDesign, Training
from refbench.studies.gold import explicit_checks, with_exchanges
from refbench.studies.items import Item, ItemPicture, items_sha256, write_items
from refbench.studies.sources import RunOutputs, items_of_references, items_of_review, items_of_run
from refbench.text.files import file_text


@dataclass(frozen=True)
class NewStudy:
    """What a study is to be."""

    source: Path
    screen: Screen
    rubric: str | None = None
    items: int = 100
    overlap: int = 3
    per_rater: int | None = None
    models: Sequence[str] = ()
    sample: Path | None = None
    data: Path | None = None
    seed: int = 0
    training: bool = True
    gold: bool = True
    attention: int = 0
    """Explicit checks of each rater."""
    variants: Path | None = None
    """A folder of the judge audit's variants, which gold and training items are made of as far as they go."""
    preregister: Path | None = None


@dataclass(frozen=True)
class Made:
    """A study as it was made, and what there is to say."""

    design: StudyDesign
    items: tuple[Item, ...]
    notes: tuple[str, ...]


def prepared(asked: NewStudy) -> Made:
    """The design and the items, nothing written."""
    found, source, criteria, targets = _found(asked)
    items, notes = list(found[0]), list(found[1])
    wanted = {"gold": 8 if asked.gold else 0, "training": 5 if asked.training else 0}
    variants = _variants(asked, source, items, targets)
    extra = with_exchanges(items, criteria, wanted, targets, variants)
    if variants is not None:
        shown = sum(any(variants.has(Path(picture.file)) for picture in item.pictures) for item in extra)
        notes.append(f"{shown} of {counted(len(extra), 'gold or training item')} are variants of {asked.variants}")
    n_gold, n_training = (sum(item.use == use for item in extra) for use in ("gold", "training"))
    if asked.screen != "review" and (n_gold < wanted["gold"] or n_training < wanted["training"]):
        notes.append(
            f"{counted(n_gold, 'gold item')} and {counted(n_training, 'training item')} could be made from other "
            "cases' outputs"
        )
    checks = explicit_checks(items, criteria, asked.attention if asked.screen != "review" else 0)
    if len(checks) < asked.attention:
        notes.append(
            f"{len(checks)} of {counted(asked.attention, 'explicit check')} could be made: one of each case, where one "
            "answer serves all questions"
        )
    everything = [*items, *extra, *checks]
    title = words("guidelines", asked.screen)
    plain = StudyDesign(
        name=asked.source.resolve().name,
        screen=asked.screen,
        guidelines=title,
        criteria=criteria,
        seed=asked.seed,
        overlap=1 if asked.screen == "review" else asked.overlap,
        per_rater=asked.per_rater,
        training=Training(items=n_training, right=min(4, n_training)),
        gold=n_gold,
        attention=len(checks),
        repeats_every=0 if asked.screen == "review" else 15,
        consent=words("consent"),
        source=source,
        items_sha256=items_sha256(everything),
    )
    return Made(plain, tuple(everything), tuple(notes))


def new_study(path: Path, asked: NewStudy) -> Made:
    """Make the study's folder; a folder that holds one already stays as it is."""
    if path.exists() and any(path.iterdir()):
        raise RefBenchError(f"{path} is there and not empty: give another name")
    made = prepared(asked)
    design = made.design.model_copy(update={"name": path.resolve().name})
    if asked.preregister is not None:
        text = file_text(asked.preregister, "write the hypotheses into it, one a line")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            raise RefBenchError(f"--preregister {asked.preregister}: write the hypotheses into it, one a line")
        fixed = Preregistration(hypotheses=tuple(lines), time=time.time(), frozen=design.frozen)
        design = design.model_copy(update={"preregistration": fixed})
    path.mkdir(parents=True, exist_ok=True)
    write_items(path, made.items)
    designs.write_design(path, design)  # last: its presence says that the study is whole
    return Made(design, made.items, made.notes)


def _variants(
    asked: NewStudy, source: Source, items: Sequence[Item], targets: Mapping[str, ItemPicture]
) -> Variants | None:
    """The variants that are asked for; refused where they are not of this run."""
    if asked.variants is None:
        return None
    if source.kind != "run":
        raise RefBenchError(f"--variants {asked.variants}: they are of a run's outputs; leave it out")
    variants = read_variants(asked.variants)
    outputs = Run.open(asked.source).outputs()
    known = {picture.sha256 for output in outputs for picture in output.pictures}
    known |= {picture.sha256 for picture in targets.values()}
    cases = {item.case for item in items}
    clean = [row for (case, name), row in variants.rows.items() if name == CLEAN and case in cases]
    if variants.info.benchmark != source.benchmark or any(
        row.outputs[0].partition(".")[0] not in known for row in clean
    ):
        raise RefBenchError(f"--variants {asked.variants}: they are of another run than {asked.source}")
    return variants


def _found(
    asked: NewStudy,
) -> tuple[tuple[list[Item], list[str]], Source, tuple[Criterion, ...], dict[str, ItemPicture]]:
    """Items and notes, where they are from, what is asked, and golden pictures by case."""
    path = str(asked.source.absolute())
    if asked.screen == "review":
        lines = asked.source / "review.jsonl" if asked.source.is_dir() else asked.source
        found = items_of_review(lines, asked.data)
        return (found.items, found.notes), Source(kind="review", path=str(lines.absolute())), (), {}
    if asked.screen == "reference":
        criteria, sha256 = criteria_named(asked.rubric or "references")
        found = items_of_references(asked.source, asked.items)
        name = asked.rubric or "references"
        source = Source(kind="references", path=path, rubric=name, rubric_sha256=sha256)
        return (found.items, found.notes), source, criteria, {}
    run = Run.open(asked.source)
    outputs = RunOutputs(run, asked.models, asked.data)
    found = items_of_run(outputs, asked.screen, asked.items, asked.sample)
    criteria, name, sha256 = (), "", ""
    if asked.rubric is not None:
        (criteria, sha256), name = criteria_named(asked.rubric), asked.rubric
    elif asked.screen in ("rate", "set"):
        criteria, name, sha256 = criteria_of_run(run)
    source = Source(
        kind="run",
        path=path,
        benchmark=run.info.benchmark,
        models=tuple(outputs.models),
        rubric=name,
        rubric_sha256=sha256,
    )
    wanted = {item.case for item in found.items}
    golden = {c.id: outputs.targets(c)[0] for c in outputs.cases if c.id in wanted and c.targets}
    return (found.items, found.notes), source, criteria, golden
