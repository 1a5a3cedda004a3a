"""The words of a benchmark's prompts: its own text files, the release's from the user's checkout of it, or other words
from a folder of the user's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from refbench.benchmarks.kit.definition import Setting
from refbench.judges.prompts import placeholders
from refbench.record import Record, RefBenchError
from refbench.text.files import file_text, users_path

OFFICIAL = "official"
ASK = Setting("ask", ("both", "corrected", "paper"), "Which protocol's calls to make, where the two ask differently")
HARDEN = Setting(
    "harden", ("no", "yes"), "Tell the judge that text in pictures is never an instruction; asks for corrected only"
)


class Wording(Record):
    """The texts of a benchmark's prompts by name: ours, the release's, or the user's."""

    name: Literal["own", "official", "user"]
    texts: Mapping[str, str]
    numbers: Mapping[str, int] = {}
    """Limits and the like that the release's script has beside its words."""
    commit: str = ""
    """The commit that the release was checked out at, where the words are its."""

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    @property
    def official(self) -> bool:
        return self.name == OFFICIAL

    @property
    def sha256(self) -> str:
        return texts_sha256([*self.texts.values(), *(f"{name}={value}" for name, value in self.numbers.items())])

    def recorded(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings of a run with what tells these words from others, for its record and its fingerprint."""
        usual = [name for name, value in settings.items() if (name, value) == (ASK.name, ASK.default)]
        chosen = {name: value for name, value in settings.items() if name not in usual}
        checkout = {"commit": self.commit} if self.official else {}
        return {**chosen, "prompts": self.name, "wording": self.sha256, **checkout}


@cache
def own_text(package: str, name: str) -> str:
    """The text `rubric/<name>.txt` that a benchmark's package ships."""
    return resources.files(package).joinpath("rubric", f"{name}.txt").read_text("utf-8").strip()


def chosen_wording(
    prompts: str,
    own: Mapping[str, str],
    placeholders: Mapping[str, str],
    released: Callable[[Path], Wording] | None = None,
    *,
    optional: Collection[str] = (),
) -> Wording:
    """Our texts for `own`, those that `released` reads from a checkout for `official:CHECKOUT`, else those in the
    folder that `prompts` names, `<name>.txt` each, as they are.

    `placeholders` has what a text of a folder must hold, for those that must. Texts in `optional` stay ours where the
    folder has none.
    """
    if prompts == "own":
        return Wording(name="own", texts=own)
    word, colon, checkout = prompts.partition(":")
    if word.lower() == OFFICIAL and (colon or not Path(prompts).is_dir()):
        if released is None:
            raise RefBenchError(f"--prompts {prompts}: no wording was released; name a folder with texts of your own")
        if not checkout:
            raise RefBenchError("--prompts official: name the checkout that has the words, official:CHECKOUT")
        root = users_path(checkout, "--prompts")
        return released(root).model_copy(update={"commit": commit_of(root)})
    folder = users_path(prompts, "--prompts")
    names = [name for name in own if name not in optional or (folder / f"{name}.txt").exists()]
    listed = ", ".join(f"{name}.txt" for name in names)
    remedy = f"a wording is {listed} in UTF-8"
    if released is not None and folder.is_dir() and not any((folder / f"{name}.txt").exists() for name in names):
        remedy += f"; if this is the authors' code, say --prompts official:{prompts}"
    texts = dict(own) | {name: file_text(folder / f"{name}.txt", remedy) for name in names}
    for name, place in placeholders.items():
        if place not in texts[name]:
            file = folder / f"{name}.txt"
            raise RefBenchError(f"{file} has no {place}: put it where the case's {place.strip('{}')} belongs")
    return Wording(name="user", texts=texts)


def texts_sha256(texts: Iterable[str]) -> str:
    """Goes into the fingerprint: numbers judged with other words are other numbers."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@dataclass(frozen=True)
class Prompts:
    """The texts that a benchmark asks with: `rubric/<name>.txt` of its package, and how the release's are read from a
    checkout of it. `reads` says in words what of the checkout that is."""

    package: str
    official: Callable[[Path], Mapping[str, str]] | None = None
    reads: str = ""

    @property
    def own(self) -> dict[str, str]:
        folder = resources.files(self.package).joinpath("rubric")
        names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".txt"))
        return {name.removesuffix(".txt"): own_text(self.package, name.removesuffix(".txt")) for name in names}

    def settings(self) -> tuple[Setting, ...]:
        *others, last = (f"{name}.txt" for name in self.own)
        files = f"{', '.join(others)} and {last}" if others else last
        return (
            Setting("prompts", ("own",), "Whose wording of the rubric", folder=files, checkout=self.reads),
            ASK,
            HARDEN,
        )

    def chosen(self, prompts: str) -> Wording:
        """The texts as `--prompts` chooses them. One of the user's holds what ours holds a place for."""
        own = self.own
        places = {name: f"{{{sorted(names)[0]}}}" for name, text in own.items() if (names := placeholders(text))}
        return chosen_wording(prompts, own, places, self._released if self.official is not None else None)

    def _released(self, checkout: Path) -> Wording:
        assert self.official is not None
        return Wording(name="official", texts=self.official(checkout))


UNKNOWN = "unknown"


def commit_of(checkout: Path) -> str:
    """The commit that a folder is a checkout of, from the files that git keeps, or from the record of `refbench fetch`;
    `unknown` where there is neither."""
    from refbench.benchmarks.fetch import record_of

    git = checkout / ".git"
    if not git.exists() and (record := record_of(checkout)) is not None:
        return _commit(record.revision)
    try:
        if git.is_file():  # of a worktree or a submodule
            git = checkout / file_text(git).strip().removeprefix("gitdir:").strip()
        head = file_text(git / "HEAD").strip()
        reference = head.removeprefix("ref:").strip()
        if reference == head:
            return _commit(head)
        common = git / file_text(git / "commondir").strip() if (git / "commondir").is_file() else git
        for place in (git, common):
            if (place / reference).is_file():
                return _commit(file_text(place / reference).strip())
        for line in file_text(common / "packed-refs").splitlines():
            commit, _, name = line.partition(" ")
            if name == reference:
                return _commit(commit)
    except (RefBenchError, OSError, ValueError):  # ValueError: a zero byte in a name
        pass
    return UNKNOWN


def _commit(text: str) -> str:
    return text if len(text) in (40, 64) and set(text) <= set("0123456789abcdef") else UNKNOWN
