"""Pools: the other pictures of the same subject or style, as candidates by number, without a list for every picture."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping


class Pools:
    """Built from picture to group; a picture is no candidate for itself. The order of the input does not matter."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self._group = dict(groups)
        found: dict[str, list[str]] = defaultdict(list)
        for picture in sorted(self._group):
            found[self._group[picture]].append(picture)
        self._members = dict(found)

    def count(self, picture: str) -> int:
        """How many candidates the picture has; 0 for one without a group."""
        return len(self._members[self._group[picture]]) - 1 if picture in self._group else 0

    def candidate(self, picture: str, number: int) -> str:
        """The candidate with this number, from 0."""
        members = self._members[self._group[picture]]
        if not 0 <= number < len(members) - 1:
            raise IndexError(f"{picture} has {len(members) - 1} candidates, there is no number {number}")
        return members[number + (number >= bisect_left(members, picture))]
