"""The build: requests read, outputs chosen, instructions rewritten, entries accepted and sorted, and shipped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from refbench.builders import BuildReport
from refbench.builders.kit import DroppedItems, Review
from refbench.builders.kit.draws import shuffled
from refbench.builders.kit.flow import work
from refbench.builders.kit.folder import claim
from refbench.builders.kit.settings import Calls, Settings, check_wishes, opened, role
from refbench.builders.multiref_real.dataset import PLACE, ship
from refbench.builders.multiref_real.making import STAGES, Makers
from refbench.builders.multiref_real.sources import sought_requests
from refbench.record import RefBenchError
from refbench.specs import Spec


async def build(
    source: Path,
    out: Path,
    *,
    writer: str,
    checker: str | None = None,
    size: int | None = None,
    seed: int = 0,
    budget: str | None = None,
    review: Path | None = None,
    test_share: float | None = None,
    concurrency: int = 16,
    timeout: float = 180.0,
    retry: Sequence[str] = (),
    show: Callable[[str], None] | None = None,
) -> BuildReport:
    """A real-world MultiRef of the requests in `source`, in `out`. The same call again resumes; the same replies give
    the same files. `checker` chooses among outputs and accepts entries (the writer itself by default; "none" accepts
    all). `size` entries are wanted, by default all."""
    calls = Calls(concurrency, timeout, budget, retry)
    check_wishes(size, test_share, "entries")
    wrote = Spec.parse(writer, "--writer")
    specs = {"writer": wrote, "checker": role(checker, "--checker", wrote)}
    decisions, dropped = Review.read(review), DroppedItems(STAGES)
    claim(out, source, "multiref-real", (PLACE,))
    requests, pictures = await asyncio.to_thread(
        sought_requests, source, out / ".build/pictures", dropped, test_share=test_share, seed=seed
    )
    if not requests:
        first = next(iter(dropped))
        raise RefBenchError(f"{source} holds no request that can be used; {first.detail}")
    wanted = min(size, len(requests)) if size else len(requests)
    settings = Settings(source, specs, wanted, seed, test_share, pictures)
    async with opened(out / ".build", specs, calls) as desk:
        makers = Makers(desk.interviews, desk.vlms["writer"], desk.vlms.get("checker"), decisions, dropped)
        order = shuffled(requests, seed, "order")
        worked = await work(order, wanted, makers.make, most=calls.at_a_time, show=show or (lambda line: None))
        return ship(out, settings, worked, makers, asked=desk.interviews.asked, cost=desk.paid())
