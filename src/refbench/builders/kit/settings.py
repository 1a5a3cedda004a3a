"""What a build is asked for: checked before anything is spent, told in its card, and the VLMs that work on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.builders.kit.folder import split_names
from refbench.builders.kit.recorded_chat import Interviews
from refbench.calls import Transport
from refbench.calls.transport import check_options
from refbench.chat import ChatRequest
from refbench.chat.build import make_vlm
from refbench.chat.vlm import VLM
from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of


@dataclass(frozen=True)
class Settings:
    """What makes a dataset what it is, as its card tells it."""

    source: Path
    specs: Mapping[str, Spec | None]
    """The VLM of each role; None where nobody has it."""
    wanted: int
    seed: int
    test_share: float | None
    pictures: Path
    """What the names of pictures are relative to."""

    @property
    def splits(self) -> tuple[str, ...]:
        return split_names(self.test_share)

    @property
    def writer(self) -> str:
        spec = self.specs["writer"]
        assert spec is not None
        return f"{spec.kind}:{spec.what}"

    def told(self, prompts: str) -> dict[str, str]:
        """For the card; addresses and keys of endpoints are nobody's business."""
        found = {role: f"{spec.kind}:{spec.what}" if spec else "none" for role, spec in self.specs.items()}
        found |= {"size": str(self.wanted), "seed": str(self.seed), "prompts": prompts}
        return found if self.test_share is None else {**found, "test share": f"{self.test_share:g}"}

    def kinship(self, alike: str) -> list[str]:
        """What is to be said where writer and checker are one model (`alike`, with its name for {model}), or kin."""
        writer, checker = self.specs["writer"], self.specs["checker"]
        if writer is None or checker is None:
            return []
        if writer.what == checker.what:
            return [alike.format(model=writer.what)]
        family = family_of(writer.what)
        same = family == family_of(checker.what) != "unknown"
        return [f"writer and checker are of one family ({family})."] if same else []


def role(text: str | None, option: str, default: Spec | None = None) -> Spec | None:
    """The VLM of a role: the one that is named, none where "none" is, else the default."""
    if text == "none":
        return None
    return Spec.parse(text, option) if text else default


def check_wishes(size: int | None, test_share: float | None, things: str) -> None:
    """What is wrong with them is said before anything is written."""
    if size is not None and size < 1:
        raise RefBenchError(f"--size {size}: give how many {things} you want, at least 1")
    split_names(test_share)


@dataclass(frozen=True)
class Calls:
    """How VLMs are called: so many at a time, so long, for so much, and which final failures again."""

    concurrency: int
    timeout: float
    budget: str | None
    retry: Sequence[str]

    def __post_init__(self) -> None:
        check_options(self.concurrency, self.timeout)
        if strange := [kind for kind in self.retry if kind not in KINDS]:
            raise RefBenchError(f"--retry {strange[0]}: there are {', '.join(KINDS)}")

    @property
    def at_a_time(self) -> int:
        """Items in the making at once. Under a budget few: where it ends the work, whole items are there."""
        return self.concurrency if self.budget is None else max(1, self.concurrency // 4)


@dataclass(frozen=True)
class Desk:
    """Who is asked, and where every reply is kept."""

    transport: Transport
    interviews: Interviews
    vlms: Mapping[str, VLM]

    def paid(self) -> float | None:
        """All that the build has cost; None where the price of one of its VLMs is not known."""
        known = all(vlm.worst_cost(ChatRequest(parts=()), {}) is not None for vlm in self.vlms.values())
        return self.interviews.budget.spent if known else None


@contextlib.asynccontextmanager
async def opened(folder: Path, specs: Mapping[str, Spec | None], calls: Calls) -> AsyncIterator[Desk]:
    """The desk of a build. A VLM that has several roles is there once: local weights fill a device."""
    async with (
        Transport(concurrency=calls.concurrency, timeout=calls.timeout) as transport,
        Interviews(folder, transport, budget=calls.budget, retry=calls.retry) as interviews,
    ):
        by_spec = {spec.key: make_vlm(spec, transport) for spec in specs.values() if spec is not None}
        try:
            yield Desk(transport, interviews, {r: by_spec[spec.key] for r, spec in specs.items() if spec is not None})
        finally:
            for vlm in by_spec.values():
                await vlm.close()
