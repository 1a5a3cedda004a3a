"""The build: requests read, outputs chosen, instructions rewritten, entries accepted and sorted, and shipped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from refbench.builders import BuildReport
from refbench.builders.folder import claim, split_names
from refbench.builders.multiref_real.layout import PLACE
from refbench.builders.multiref_real.making import Makers
from refbench.builders.multiref_real.shipping import Settings, ship
from refbench.builders.multiref_real.sources import sought_requests
from refbench.builders.rounds import at_a_time, paid, work
from refbench.calls import Transport
from refbench.chat.build import make_vlm
from refbench.chat.spec import Spec
from refbench.engine.interviews import Interviews
from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.refblend.draws import shuffled
from refbench.workshop import DroppedItems, Review


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
    if size is not None and size < 1:
        raise RefBenchError(f"--size {size}: give how many entries you want, at least 1")
    if strange := [kind for kind in retry if kind not in KINDS]:
        raise RefBenchError(f"--retry {strange[0]}: there are {', '.join(KINDS)}")
    splits = split_names(test_share)
    specs = {"writer": Spec.parse(writer, "--writer")}
    if checker != "none":
        specs["checker"] = Spec.parse(checker or writer, "--checker")
    decisions, dropped = Review.read(review), DroppedItems()
    claim(out, source, "multiref-real", (PLACE,))
    requests, pictures = await asyncio.to_thread(
        sought_requests, source, out / ".build/pictures", dropped, test_share=test_share, seed=seed
    )
    if not requests:
        first = next(iter(dropped))
        raise RefBenchError(f"{source} holds no request that can be used; {first.detail}")
    wanted = min(size, len(requests)) if size else len(requests)
    async with (
        Transport(concurrency=concurrency, timeout=timeout) as transport,
        Interviews(out / ".build", transport, budget=budget, retry=retry) as interviews,
    ):
        vlms = {role: make_vlm(spec, transport) for role, spec in specs.items()}
        makers = Makers(interviews, vlms["writer"], vlms.get("checker"), decisions, dropped)
        order = shuffled(requests, seed, "order")
        most = at_a_time(concurrency, budget)
        worked = await work(order, wanted, makers.make, most=most, show=show or (lambda line: None))
        return ship(
            out,
            Settings(specs, seed, source, test_share, pictures),
            worked,
            list(makers.offered.values()),
            dropped,
            decisions,
            splits,
            wanted=wanted,
            asked=interviews.asked,
            cost=paid(interviews, vlms),
        )
