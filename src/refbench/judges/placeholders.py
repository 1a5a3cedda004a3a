"""Placeholders in texts: filled in one pass, so that braces in what is filled in stay what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{(\w+)\}")


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its known placeholders replaced; other braces stay."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), template)


def placeholders(template: str) -> set[str]:
    return set(_PLACE.findall(template))
