"""The words of a benchmark's prompts: its own text files, or other words from a folder of the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from refbench.record import Record, RefBenchError


class Wording(Record):
    """The texts of a benchmark's prompts by name: ours, the release's, or the user's."""

    name: Literal["own", "official", "user"]
    texts: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    @property
    def sha256(self) -> str:
        return texts_sha256(self.texts.values())


@cache
def own_text(package: str, name: str) -> str:
    """The text `rubric/<name>.txt` that a benchmark's package ships."""
    return resources.files(package).joinpath("rubric", f"{name}.txt").read_text("utf-8").strip()


def chosen_wording(prompts: str, package: str, names: Sequence[str], placeholders: Mapping[str, str]) -> Wording:
    """The package's own texts for `own`, else those in the folder that `prompts` names, `<name>.txt` each.

    `placeholders` has what a text must hold, for those that must.
    """
    if prompts == "own":
        return Wording(name="own", texts={name: own_text(package, name) for name in names})
    files = {name: Path(prompts) / f"{name}.txt" for name in names}
    texts = {}
    for name, path in files.items():
        try:
            texts[name] = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            listed = ", ".join(file.name for file in files.values())
            raise RefBenchError(f"{path} cannot be read: a wording is {listed} in UTF-8") from error
    for name, place in placeholders.items():
        if place not in texts[name]:
            raise RefBenchError(f"{files[name]} has no {place}: put it where the case's {place.strip('{}')} belongs")
    return Wording(name="user", texts=texts)


def texts_sha256(texts: Iterable[str]) -> str:
    """Goes into the fingerprint: numbers judged with other words are other numbers."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
