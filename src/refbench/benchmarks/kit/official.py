"""The release's prompts, where they are variables of one of its scripts that go by the names of our text files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from refbench.benchmarks.kit.scripts import Script
from refbench.benchmarks.kit.wording import Prompts
from refbench.judges.prompts import placeholders


def script_prompts(package: str, scripts: str | Mapping[str, str]) -> Prompts:
    """Prompts whose official words are the variables of a script, filled in by `str.format` where they hold a place; of
    several scripts, by the name of each text."""
    own = Prompts(package).own
    place = dict.fromkeys(own, scripts) if isinstance(scripts, str) else scripts

    def read(checkout: Path) -> dict[str, str]:
        return {name: variable_of(checkout, script, name, own[name]) for name, script in place.items()}

    return Prompts(package, read, " and ".join(dict.fromkeys(place.values())))


def variable_of(checkout: Path, script: str, name: str, own: str) -> str:
    """The text of a script's variable, with the braces that `str.format` leaves where ours is filled in too."""
    return _formatted(Script(checkout, script).constant(name), own)


def _formatted(text: str, own: str) -> str:
    """What `str.format` makes of doubled braces; a text without a place is sent as it stands in the script."""
    return text.replace("{{", "{").replace("}}", "}") if placeholders(own) else text
