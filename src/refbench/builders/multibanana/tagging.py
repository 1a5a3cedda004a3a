"""Difficulty tags of a set, from what its references show: the paper's four axes, and text in one language."""

from __future__ import annotations

from collections.abc import Sequence

from refbench.builders.multibanana.looks import Look


def tags_of(looks: Sequence[Look]) -> tuple[str, ...]:
    """The labels of types.json.

    domain: at least two renderings among the references; scale: close-up and not; rare: an unusual thing among them;
    ling: words in two languages; font: words in one.
    """
    renderings = {look.rendering for look in looks} - {"other"}
    languages = {language for look in looks for language in look.languages}
    found = {
        "domain": len(renderings) > 1,
        "scale": len({look.close_up for look in looks}) > 1,
        "rare": any(look.rare for look in looks),
        "ling": len(languages) > 1,
        "font": len(languages) == 1,
    }
    return tuple(label for label, holds in found.items() if holds)
