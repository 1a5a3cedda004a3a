"""The groups of the printed tables and their leaf tasks, as data, and which of them a task of the release is in."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from refbench.benchmarks.ideabench.details import CATEGORIES, Category
from refbench.record import Record


class Group(Record):
    """One column of the tables of a category. `words` are what the names of its tasks have, any one of them."""

    category: Category
    name: str
    column: str
    words: tuple[str, ...]
    leaves: tuple[str, ...]


@cache
def groups() -> tuple[Group, ...]:
    """All 58, by category, in the order of the project page."""
    text = resources.files("refbench.benchmarks.ideabench").joinpath("groups.csv").read_text("utf-8")
    return tuple(
        Group(
            category=row["category"],
            name=row["group"],
            column=row["column"],
            words=tuple(row["words"].split("|")),
            leaves=tuple(row["leaves"].split(";")),
        )
        for row in csv.DictReader(text.splitlines())
    )


def group_of(category: Category, slug: str, task_name: str) -> Group | None:
    """The group of a task: of its own category where one fits, else of another, which is a conflict to report.

    The release names tasks by group and leaf (`image_blur_motion_blur`), with slips (`image_blur_filed_blur`), so
    the words of the group decide, not a list of names.
    """
    texts = [_plain(slug), _plain(task_name)]
    order = [category, *(other for other in CATEGORIES if other != category)]
    fitting = [
        group
        for name in order
        for group in groups()
        if group.category == name and any(word in text for text in texts for word in group.words)
    ]
    return fitting[0] if fitting else None


def leaf_of(group: Group | None, slug: str) -> str:
    """The leaf that the name speaks of, the longest where several would fit; empty where none does."""
    if group is None:
        return ""
    if len(group.leaves) == 1:
        return group.leaves[0]
    text = f" {_plain(slug)}"
    fitting = [leaf for leaf in group.leaves if f" {_plain(leaf)}" in text]
    return max(fitting, key=len, default="")


def _plain(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())
