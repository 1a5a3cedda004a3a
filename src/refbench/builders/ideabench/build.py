"""The build: tasks read, dealt over tasks and categories, briefed, questioned, checked, rephrased and shipped."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from refbench.builders import BuildReport
from refbench.builders.ideabench.dataset import PLACE, REPHRASED, Regime, ship
from refbench.builders.ideabench.item import Item, Sought
from refbench.builders.ideabench.making import STAGES, Makers
from refbench.builders.ideabench.sources import sought_tasks
from refbench.builders.kit import DroppedItems, Review
from refbench.builders.kit.draws import draw
from refbench.builders.kit.flow import Worked, together, work
from refbench.builders.kit.folder import claim
from refbench.builders.kit.replies import repeats
from refbench.builders.kit.settings import Calls, Settings, check_wishes, opened, role
from refbench.failure import Failure
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
    rephrase: Regime = "needed",
    test_share: float | None = None,
    concurrency: int = 16,
    timeout: float = 180.0,
    retry: Sequence[str] = (),
    show: Callable[[str], None] | None = None,
) -> BuildReport:
    """An IDEA-Bench of the tasks in `source`, in `out`. The same call again resumes; the same replies give the same
    files. `checker` reads the questions again (the writer itself by default, "none" for no check). `size` cases are
    wanted, by default all; `rephrase` says for which of them prompts for text-to-image models are written."""
    calls = Calls(concurrency, timeout, budget, retry)
    check_wishes(size, test_share, "cases")
    wrote = Spec.parse(writer, "--writer")
    specs = {"writer": wrote, "checker": role(checker, "--checker", wrote)}
    decisions, dropped = Review.read(review), DroppedItems(STAGES)
    claim(out, source, "ideabench", (PLACE, REPHRASED))
    tasks, pictures = await asyncio.to_thread(
        sought_tasks, source, out / ".build/pictures", dropped, test_share=test_share, seed=seed
    )
    if not tasks:
        first = next(iter(dropped))
        raise RefBenchError(f"{source} holds no task that can be used; {first.id}: {first.detail}")
    wanted = min(size, len(tasks)) if size else len(tasks)
    settings = Settings(source, specs, wanted, seed, test_share, pictures)
    async with opened(out / ".build", specs, calls) as desk:
        makers = Makers(desk.interviews, desk.vlms["writer"], desk.vlms.get("checker"), decisions, dropped)
        most = calls.at_a_time
        worked = await work(
            dealt(tasks, seed),
            wanted,
            makers.make,
            most=most,
            admit=lambda item, others: _admit(item, others, dropped),
            show=show or (lambda line: None),
        )
        prompts = await _rephrased(makers, worked, rephrase, most)
        return ship(out, settings, worked, makers, prompts, rephrase, asked=desk.interviews.asked, cost=desk.paid())


def dealt(tasks: Sequence[Sought], seed: int) -> list[Sought]:
    """One case of every task before the second of any, in drawn order: a build that ends early covers what it can."""
    by_task: dict[str, list[Sought]] = defaultdict(list)
    for task in sorted(tasks, key=lambda one: draw(seed, "order", one.id)):
        by_task[task.slug].append(task)
    rank = {task.id: place for members in by_task.values() for place, task in enumerate(members)}
    return sorted(tasks, key=lambda one: (rank[one.id], draw(seed, "order", one.id)))


def _admit(item: Item, others: Sequence[Item], dropped: DroppedItems) -> bool:
    """Two cases with nearly the same text and the same pictures are one."""
    shown = [picture.sha256 for picture in item.sought.pictures]
    alike = [one for one in others if [picture.sha256 for picture in one.sought.pictures] == shown]
    other = repeats(item.instruction, [one.instruction for one in alike])
    if other:
        dropped.add("instruction", "case", item.id, "duplicate", f"nearly the same as: {other[:200]}")
    return not other


async def _rephrased(makers: Makers, worked: Worked[Item], regime: Regime, most: int) -> dict[str, tuple[str, ...]]:
    """Prompts for models that take text alone, of the cases that stand; the dataset is whole without them."""
    if regime == "none" or worked.stopped == "unreachable":
        return {}
    items = [one for one in worked.items if regime == "always" or one.sought.category != "T2I"]
    told = await together([makers.rephrase(item) for item in items], most)
    worked.count(told)
    return {item.id: said for item, said in zip(items, told, strict=True) if not isinstance(said, Failure)}
