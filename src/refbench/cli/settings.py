"""Settings of judging, as the commands that judge take them: `--set KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from refbench.record import RefBenchError

Setting = Annotated[
    list[str] | None, Parameter(name="--set", help="KEY=VALUE for the benchmark's judging, for example questions=one")
]


def judging_settings(texts: Sequence[str] | None) -> dict[str, str]:
    """The settings that were given."""
    settings = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise RefBenchError(f"--set {text}: write it as KEY=VALUE")
        settings[key] = value
    return settings
