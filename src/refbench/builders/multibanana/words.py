"""The words that VLMs are given: text files beside the code."""

from __future__ import annotations

from functools import cache
from importlib import resources

from refbench.record import content_key

NAMES = ("screen", "look", "write", "check")


@cache
def prompt(name: str) -> str:
    return resources.files("refbench.builders.multibanana").joinpath(f"prompts/{name}.txt").read_text("utf-8").strip()


def prompts_key() -> str:
    """Of the words as they are shipped: other words make another dataset."""
    data = resources.files("refbench.builders.multibanana").joinpath("data/tasks.toml").read_text("utf-8")
    return content_key([*map(prompt, NAMES), data])[:16]
