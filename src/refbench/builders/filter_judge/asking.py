"""A judge asked about the references of a set, exactly as screening asks; every reply is kept, and none is paid
for twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from refbench.builders.filter_judge.dataset import FilterSet, Sample
from refbench.builders.filter_judge.gate import FILE, Gate, asked_of, fitted, gate_of, trained_of, write_gate
from refbench.builders.filter_judge.marks import axes_of
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.screening import axis_name, marks_of
from refbench.calls.prices import Budget
from refbench.calls.transport import Transport
from refbench.chat.vlm import VLM, make_vlm
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.specs import Spec

_AT_ONCE = 256
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Asking:
    """How judges are asked."""

    budget: str | None = None
    concurrency: int = 32
    timeout: float = 180.0

    def __post_init__(self) -> None:
        Budget.parse(self.budget)
        if self.concurrency < 1 or not self.timeout > 0:
            raise RefBenchError("--concurrency and --timeout: give numbers above 0")


@dataclass(frozen=True)
class Judged:
    """What a judge said of references, and why it said nothing of others."""

    name: str
    said: dict[str, dict[str, float]]
    """By sample and axis."""
    failed: dict[str, Failure]
    gate: Gate | None = None

    @property
    def stopped(self) -> bool:
        return any(failure.kind == "budget" for failure in self.failed.values())

    @property
    def failed_share(self) -> float:
        return len(self.failed) / max(1, len(self.failed) + len(self.said))


async def ask(
    root: Path, samples: Sequence[Sample], judges: Sequence[str], work: Path, asking: Asking, tell: Tell
) -> list[tuple[Judged, VLM]]:
    """What each judge says of the samples; a judge is a spec, or a folder with a `judge.toml`."""
    async with AsyncExitStack() as stack:
        transport = await stack.enter_async_context(Transport(concurrency=asking.concurrency, timeout=asking.timeout))
        vlms: list[tuple[VLM, Gate | None]] = []
        for judge in judges:
            found = gate_of(judge)
            spec = judge if found is None else found[1].judge
            vlm = make_vlm(Spec.parse(spec, "--judge"), transport)
            if found is not None:
                found[1].check(vlm, str(found[0] / FILE))
            vlms.append((vlm, None if found is None else found[1]))
        names = [vlm.name for vlm, _ in vlms]
        if twice := [name for name in names if names.count(name) > 1]:
            raise RefBenchError(f"two judges are called {twice[0]}: write one as NAME=...")
        interviews = await stack.enter_async_context(Interviews(work, transport, budget=asking.budget))
        for vlm, _ in vlms:
            stack.push_async_callback(vlm.close)
        return [(await _of_one(root, samples, vlm, gate, interviews, tell), vlm) for vlm, gate in vlms]


async def _of_one(
    root: Path, samples: Sequence[Sample], vlm: VLM, gate: Gate | None, interviews: Interviews, tell: Tell
) -> Judged:
    judged = Judged(vlm.name, {}, {}, gate)
    for start in range(0, len(samples), _AT_ONCE):
        some = samples[start : start + _AT_ONCE]
        told = await asyncio.gather(*(_marks(root, sample, vlm, interviews) for sample in some))
        for sample, marks in zip(some, told, strict=True):
            if isinstance(marks, Failure):
                judged.failed[sample.id] = marks
            else:
                judged.said[sample.id] = marks
        tell(f"{vlm.name}: {min(start + _AT_ONCE, len(samples))} of {len(samples)}")
    return judged


async def _marks(root: Path, sample: Sample, vlm: VLM, interviews: Interviews) -> dict[str, float] | Failure:
    given = sample.caption if sample.reference is None else root / sample.reference
    told = await marks_of(interviews, vlm, sample.id, sample.type, root / sample.original, given)
    if isinstance(told, Failure):
        return told
    return {axis: float(told[axis_name(sample.type, axis)]) for axis in axes_of(sample.type)}


def check_trained(judge: str, held: FilterSet) -> bool:
    """Whether a judge was trained on this set; one of another set is refused, which may hold this one's pictures."""
    trained = trained_of(judge)
    if trained is not None and trained.set_sha256 != held.sha256:
        raise RefBenchError(f"{judge} was trained on another set than {held.root}, which may hold pictures of this one")
    return trained is not None


async def calibrate(root: Path, judge: str, out: Path, asking: Asking, tell: Tell) -> tuple[Gate, Judged]:
    """Ask a judge about all that neither the test part holds nor it was trained on, and write its gate."""
    held = FilterSet(root)
    held.check_prompts()
    if gate_of(judge) is not None:
        raise RefBenchError(f"--judge {judge} is calibrated already: give the judge itself, as openai:MODEL")
    parts = ("calibration",) if check_trained(judge, held) else ("train", "calibration")
    samples = [sample for sample in held.samples if sample.part in parts and not sample.made]
    ((judged, vlm),) = await ask(root, samples, [judge], out / "replies", asking, tell)
    if not judged.said:
        why = next(iter(judged.failed.values()))
        raise RefBenchError(f"{judge} gave no mark of any reference ({why.kind}: {why.detail})")
    cuts, maps = fitted(samples, judged.said)
    kept = {"judge": judge, "prompts": held.about["prompts"], "set_sha256": held.sha256}
    gate = Gate(**kept, **asked_of(vlm), cuts=cuts, maps=maps)
    if not judged.stopped:  # what the budget left out is asked first: cuts of a part would pass for those of all
        write_gate(out, gate)
    return gate, judged
