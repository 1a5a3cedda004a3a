"""An audit as a run: each variant is a model whose outputs are there, and whose cases a judge may be shown otherwise.
The engine asks, records, resumes, splits and counts as for any run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refbench.analysis.audit.card import SETTING
from refbench.analysis.audit.marks import CLEAN
from refbench.benchmarks import Dataset
from refbench.benchmarks.kit.definition import PROTOCOL, Asked, Judging, Material
from refbench.builders.audit.anchor import judges_of
from refbench.builders.audit.catalogue import CLEAN_CALLS
from refbench.builders.audit.make import MakeOptions, make_variants, picture_root
from refbench.builders.audit.read import FOLDER, LEFT_OUT, audit_run, variants_of_run
from refbench.builders.audit.variants import VariantRow, Variants, are_there, read_variants
from refbench.builders.audit.wording import reworded
from refbench.case import AnyCase
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.chat.vlm import VLM
from refbench.engine.anchor import data_of, settings_of
from refbench.engine.evaluation import Evaluation, evaluate_async
from refbench.engine.options import RunOptions
from refbench.engine.plan import Plan, make_plan
from refbench.engine.setup import Subject, judge_specs
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import Spec
from refbench.tables.scoring import benchmark_of


class VariantModel:
    """One variant of all cases, as a model whose outputs are there."""

    family = ""
    one_seed = "an audit has one output of each case and variant"

    def __init__(self, name: str, variants: Variants) -> None:
        self.name, self._variants = name, variants

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The variant's pictures of a case. Where it has none, less is expected of the judge, and nothing failed."""
        row = self._variants.rows.get((case.id, self.name))
        if row is None or row.state != "made":
            reason = "another variant stands for it" if row is None else row.reason
            return Failure(kind="unsupported", detail=LEFT_OUT + reason)
        return tuple(self._variants.path(picture) for picture in row.outputs)


@dataclass(frozen=True)
class AuditRequest:
    """What is audited: a run whose good outputs are changed, by which judges, where it is kept, and how."""

    run: Path
    """Or, with `again`, an older audit, whose clean items are asked about again."""
    out: Path
    judges: Any = ()
    make: MakeOptions = field(default_factory=MakeOptions)
    variants: Path | None = None
    """A folder of variants that is there already; else they are made in the audit's own."""
    again: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of a run: budget, batch, shard, settings, ..."""


async def audit(request: AuditRequest, *, show: bool = False) -> Evaluation:
    """Make the variants, and ask the judges about them; what is on record is not asked again."""
    options, subject = prepared(request, show=show)
    same_as = Run.open(request.run) if request.again else None
    return await evaluate_async(options, show=show, same_as=same_as, subject=subject)


async def audit_plan(request: AuditRequest) -> Plan:
    """What an audit will cost: every request is laid out, so that its calls are those that will be made."""
    options, subject = prepared(request)
    return await make_plan(options, precise=False, subject=subject)


def prepared(request: AuditRequest, *, show: bool = False) -> tuple[RunOptions, Subject]:
    """The options of an audit's run, and what it is about."""
    run = Run.open(request.run)
    judges = judge_specs(request.judges)
    if not judges:
        raise RefBenchError("give at least one --judge: an audit is of judges")
    variants = _old_variants(request, judges) if request.again else _variants(run, request, show=show)
    _not_its_own_anchor(variants, judges)
    given = dict(request.options)
    options = RunOptions.of(
        {
            **given,
            "benchmark": run.info.benchmark,
            "models": (),
            "judges": judges,
            "out": request.out,
            "subset": run.info.subset,
            "metrics": ("none",),
            "settings": {**settings_of(run), **given.get("settings", {})},
        }
    )
    policy = PicturePolicy.parse(options.settings.get("max_side"), options.settings.get("quality"))
    names = [CLEAN] if request.again else variants.names
    return options, _subject(run, (variants, names), request.make.data, policy)


def _old_variants(request: AuditRequest, judges: Sequence[Spec | VLM]) -> Variants:
    """Those of the older audit; judges that it does not have are refused before anything is paid for."""
    run = audit_run(request.run)
    known = judges_of(run)
    for judge in judges:
        if judge.name not in known:
            raise RefBenchError(
                f"--judge {judge.name}: {run.path} is an audit of {', '.join(known) or 'nobody'}: ask one of these "
                "again, by the same name"
            )
    return variants_of_run(run, request.variants)


def _variants(run: Run, request: AuditRequest, *, show: bool) -> Variants:
    folder = request.variants or request.out / FOLDER
    if request.variants is not None and not are_there(folder):
        raise RefBenchError(f"--variants {folder}: it holds none: make them with refbench audit make, or leave it out")
    if request.variants is None:
        return make_variants(run, folder, request.make, show=show)
    found = read_variants(folder)
    if found.info.benchmark != run.info.benchmark:
        raise RefBenchError(f"--variants {folder}: they are of {found.info.benchmark}, the run of {run.info.benchmark}")
    return found


def _not_its_own_anchor(variants: Variants, judges: Sequence[Spec | VLM]) -> None:
    """Refuses to audit the judge that chose the outputs: what it marked best falls when it is merely asked again."""
    info = variants.info
    for judge in judges:
        model = judge.what if isinstance(judge, Spec) else ""
        asked = info.anchor_asked.get("model")
        if judge.name == info.anchor or (asked is not None and model == asked):
            raise RefBenchError(
                f"--judge {judge.name}: it chose the outputs that this audit is made of; give --anchor another judge "
                "of the run, truth, or --people marks.csv"
            )


def _subject(run: Run, asked: tuple[Variants, Sequence[str]], data: Path | None, policy: PicturePolicy) -> Subject:
    """What the audit is about: the variants, and which of them are asked about."""
    variants, names = asked
    bench = benchmark_of(run)
    kept = {name: run.kept(name).decode("utf-8", "surrogateescape") for name in run.info.kept}
    by_id = {case.id: case for case in run.cases(bench.data.case_type)}
    if strangers := [name for name in variants.info.cases if name not in by_id]:
        raise RefBenchError(
            f"{variants.root}: {run.path} has no case {strangers[0]}: give the run that they were made of"
        )
    root = picture_root(run, data) or variants.root
    cases = tuple(by_id[name] for name in variants.info.cases)
    dataset = Dataset(bench.name, data or data_of(run) or root, root, cases, run.info.subset)
    return Subject(
        replace(bench, source=kept),
        dataset,
        [VariantModel(name, variants) for name in names],
        lambda judging: changed_judging(judging, variants, policy),
        {FOLDER: str(variants.root.absolute())},
    )


# --- what a judge is shown ----------------------------------------------------------------------------------------


def changed_judging(judging: Judging, variants: Variants, policy: PicturePolicy) -> Judging:
    """How the benchmark asks, about variants: with their pictures in the place of the request's, in their order and
    with their words. The clean output is asked about several times, and what only `paper` would ask is not asked."""

    def compose(case: AnyCase, material: Material, store: Callable[[bytes, str], Path]) -> Material:
        row = variants.rows[case.id, material.model]
        other = {place: _sent(variants.path(picture), policy, store) for place, picture in row.inputs.items()}
        inputs = tuple(other.get(place, picture) for place, picture in enumerate(material.inputs))
        shown = replace(material, inputs=tuple(inputs[place] for place in row.order) or inputs)
        return shown if judging.compose is None else judging.compose(_told(row, case), shown, store)

    def ask(case: AnyCase, material: Material) -> list[Asked]:
        row = variants.rows[case.id, material.model]
        asked = [one for one in judging.ask(_told(row, case), material) if one.protocol in ("", PROTOCOL)]
        if not row.text:
            return asked
        outputs = [picture.sha256 for picture in material.outputs]
        return [replace(one, request=reworded(one.request, row.text, outputs)) for one in asked]

    info = variants.info
    return replace(
        judging,
        ask=ask,
        compose=compose,
        recorded={**judging.recorded, SETTING: info.manifest[:16]},
        repeats={CLEAN: CLEAN_CALLS[info.preset]},
    )


def _told(row: VariantRow, case: AnyCase) -> AnyCase:
    """The case as the variant has it: pictures in its order, the instruction in its words."""
    if not row.order and row.instruction is None:
        return case
    request = case.request
    pictures = tuple(request.pictures[place] for place in row.order) or request.pictures
    told = request.model_copy(
        update={"pictures": pictures, "instruction": row.instruction or request.instruction},
    )
    return case.model_copy(update={"request": told})


def _sent(path: Path, policy: PicturePolicy, store: Callable[[bytes, str], Path]) -> SentPicture:
    sent = prepare(path, policy, store)
    if isinstance(sent, Failure):
        raise RefBenchError(f"{path} is damaged ({sent.detail}): make the variants again")
    return sent
