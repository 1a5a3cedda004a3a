"""The split into a test side and another: what hangs together is on one side, and whole clusters are drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from refbench.builders.kit.draws import draw


def clusters(groups: Mapping[str, Iterable[Hashable]]) -> list[list[str]]:
    """Items that share one of their groups, and whatever these lead to, together."""
    head = {item: item for item in groups}

    def top(item: str) -> str:
        while head[item] != item:
            head[item] = head[head[item]]
            item = head[item]
        return item

    first: dict[Hashable, str] = {}
    for item, shared in groups.items():
        for group in shared:
            head[top(item)] = top(first.setdefault(group, item))
    members: dict[str, list[str]] = {}
    for item in groups:
        members.setdefault(top(item), []).append(item)
    return list(members.values())


def drawn_for_test(
    hanging: Iterable[Sequence[str]], share: float, seed: int, weight: Callable[[Sequence[str]], int] = len
) -> set[str]:
    """The items on the test side: whole clusters, in an order drawn by the seed, while they fit the share of all."""
    # A cluster is drawn by its smallest name: the order of the items does not matter.
    drawn = sorted(hanging, key=lambda members: draw(seed, "split", min(members)))
    room = round(share * sum(map(weight, drawn)))
    tested: set[str] = set()
    for members in drawn:
        if 0 < weight(members) <= room:
            room -= weight(members)
            tested.update(members)
    return tested
