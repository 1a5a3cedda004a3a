"""FolderModel: outputs that somebody else has made, found by the official layout, by id, by pattern or by a list."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of, model_options
from refbench.text.files import csv_table, file_text, is_file, json_file, json_lines

EXTENSIONS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
_PLACE = re.compile(r"\{(\w+)\}")
_JOINT = re.compile(r"[-_. ]")
_SEED = re.compile(r"_s\d+$")
_SEEDS_LOOKED_AT = 10
"""Where a folder has nothing of the first seed: which others may explain it."""


class FolderModel:
    """The pictures of one model. `find` gives the files for a case, or says that there is none."""

    def __init__(
        self,
        spec: Spec,
        cases: Iterable[AnyCase],
        names: Callable[[AnyCase], list[str]],
        listed: Callable[[Path, Sequence[AnyCase]], Mapping[str, str] | None] | None = None,
        extensions: Sequence[str] = (),
    ) -> None:
        self.name = spec.name
        self.family = model_options(spec)["family"] or family_of(spec.name)
        what, known = Path(spec.what), list(cases)
        self._listed: Listed | None = None
        self._near: Callable[[AnyCase], str] = lambda case: ""
        if _PLACE.search(spec.what):
            self._find = _by_pattern(spec.what)
        elif what.suffix in (".csv", ".json", ".jsonl") and is_file(what):
            official = listed(what, known) if listed and what.suffix == ".json" else None
            self._listed = _read_list(what) if official is None else {(c, 0, 1): official[c] for c in official}
            self._find = _by_list(what, self._listed)
        elif what.is_dir():
            stems = _stems(what, extensions)
            self._find = _by_layout(stems, names)
            self._near = _near_names(stems, names, known)
        else:
            raise RefBenchError(
                f"--model {spec.name}: {what} is no directory, no list (.csv, .json, .jsonl) and no pattern with {{id}}"
            )
        self._check(spec, known)
        self.one_seed = self._one_seed(spec.what, known)

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The output's files in order (one, unless the case asks for more), or `missing_output`."""
        numbers = range(1, case.request.n_pictures + 1)
        files = tuple(path for number in numbers if (path := self._find(case, seed, number)) is not None)
        if not files:
            named = (self._listed or {}).get((case.id, seed, 1))
            near = self._near(case)
            why = f": {named} is not there" if named is not None else f"; is it {near}?" if near else ""
            of_seed = f", seed {seed}" if seed else ""
            return Failure(kind="missing_output", detail=f"{self.name} has no picture for {case.id}{of_seed}{why}")
        return files

    def _one_seed(self, what: str, cases: list[AnyCase]) -> str:
        if _PLACE.search(what):
            return (
                "" if "{seed}" in what else f"the pattern {what} has no {{seed}}: leave --seeds out or write {{seed}}"
            )
        if any(self._find(case, 1, 1) is not None for case in cases):
            return ""
        names = "a column seed" if Path(what).is_file() else f"names such as {cases[0].id}_s1.png"
        return f"{what} has no picture of a second seed: leave --seeds out or give it {names}"

    def _check(self, spec: Spec, cases: list[AnyCase]) -> None:
        """A folder in which nothing fits is a mistake in the command, not a model that failed everywhere."""
        if any(self._find(case, 0, 1) is not None for case in cases):
            return
        expected = _expected(spec.what, cases[0])
        for seed in range(1, _SEEDS_LOOKED_AT):
            found = next((path for case in cases if (path := self._find(case, seed, 1)) is not None), None)
            if found is not None:
                raise RefBenchError(
                    f"--model {spec.name}: no output of seed 0 found for any case, for example {expected}; "
                    f"{found.name} is of seed {seed}, and --seeds N takes the seeds 0 to N-1: number them from 0"
                )
        what = Path(spec.what)
        if self._listed is not None:
            why = _why_nothing(what, self._listed, cases)
            raise RefBenchError(f"--model {spec.name}: no output found for any case: {why}")
        near = _nearest(what, expected)
        hint = f"the nearest names there are {', '.join(near)}" if near else "there are no pictures in it"
        if lists := sorted(what.glob("*.json")) if what.is_dir() else []:
            hint += f"; or give the list in it, folder:{lists[0]}"
        raise RefBenchError(f"--model {spec.name}: no output found for any case, for example {expected}; {hint}")


Finder = Callable[[AnyCase, int, int], Path | None]
"""From a case, a seed and the number of the picture, from 1."""


def _stems(root: Path, extensions: Sequence[str]) -> dict[str, Path]:
    """Every file below the root, by its path without extension; of several the first in the order of the benchmark's
    extensions, as they are written, then of ours."""

    def rank(name: str) -> tuple[int, int]:
        suffix = Path(name).suffix
        theirs = extensions.index(suffix) if suffix in extensions else len(extensions)
        return theirs, EXTENSIONS.index(suffix.lower()) if suffix.lower() in EXTENSIONS else len(EXTENSIONS)

    by_stem: dict[str, Path] = {}
    for folder, _, files in os.walk(root):
        for name in sorted(files, key=rank):
            path = Path(folder) / name
            if path.suffix.lower() in EXTENSIONS:
                by_stem.setdefault(path.relative_to(root).with_name(path.stem).as_posix(), path)
    return by_stem


def _names_of(case: AnyCase, names: Callable[[AnyCase], list[str]]) -> list[str]:
    return [*names(case), case.id, case.id.replace("/", "_")]


def _near_names(
    stems: Mapping[str, Path], names: Callable[[AnyCase], list[str]], cases: Sequence[AnyCase]
) -> Callable[[AnyCase], str]:
    """The file of no case whose name is one of a case with something before or behind it, as `003_gen.png`; "" where
    there is none. Looked up once, when the first picture is missing."""

    @cache
    def by_piece() -> dict[str, str]:
        taken = {name for case in cases for name in _names_of(case, names)}
        found: dict[str, str] = {}
        for stem in stems.keys() - taken:
            folder, _, name = stem.rpartition("/")
            if _SEED.sub("", stem) in taken:  # another seed's
                continue
            for end in _JOINT.finditer(name):
                for piece in (name[: end.start()], name[end.end() :]):
                    found[f"{folder}/{piece}" if folder else piece] = stems[stem].name
        return found

    return lambda case: next((by_piece()[name] for name in _names_of(case, names) if name in by_piece()), "")


def _by_layout(by_stem: Mapping[str, Path], names: Callable[[AnyCase], list[str]]) -> Finder:
    def find(case: AnyCase, seed: int, number: int) -> Path | None:
        for stem in _names_of(case, names):
            # A name without a seed is the first one's alone: one picture is not two.
            for way in (f"{stem}_s{seed}", f"seed_{seed}/{stem}", *((stem,) if seed == 0 else ())):
                for one in _numbered(way, number, case.request.n_pictures):
                    if one in by_stem:
                        return by_stem[one]
        return None

    return find


def _numbered(stem: str, number: int, of: int) -> tuple[str, ...]:
    """The names that one of several pictures may have; a single one has the plain name."""
    if of == 1:
        return (stem, f"{stem}/{number:04d}")
    ways = (f"{stem}/{number:04d}", f"{stem}/{number}", f"{stem}_{number:04d}", f"{stem}_{number}")
    return (*ways, stem) if number == 1 else ways


def _by_pattern(pattern: str) -> Finder:
    known = ("id", "seed", "number", "n")

    def find(case: AnyCase, seed: int, number: int) -> Path | None:
        values = {**case.groups, "id": case.id, "number": case.id.rsplit("/", 1)[-1], "seed": str(seed)}
        values["n"] = f"{number:04d}"
        if (number > 1 and "{n}" not in pattern) or (seed > 0 and "{seed}" not in pattern):
            return None
        for name in _PLACE.findall(pattern):
            if name not in values:
                raise RefBenchError(
                    f"the pattern {pattern} has {{{name}}}: there are {', '.join([*known, *case.groups])}"
                )
        filled = Path(_PLACE.sub(lambda match: values[match[1]], pattern))
        if filled.suffix.lower() in EXTENSIONS:
            return filled if is_file(filled) else None
        for extension in EXTENSIONS:
            path = filled.with_name(filled.name + extension)
            if is_file(path):
                return path
        return None

    return find


Listed = Mapping[tuple[str, int, int], str]
"""By id, seed and number of the picture the path as a list has it."""


def _by_list(path: Path, listed: Listed) -> Finder:
    def find(case: AnyCase, seed: int, number: int) -> Path | None:
        named = listed.get((case.id, seed, number))
        return None if named is None else next((place for place in _named(path, named) if is_file(place)), None)

    return find


def _read_list(path: Path) -> Listed:
    """A list with the columns id (or case) and path, seed and n (the number of the picture) where there are several;
    or one JSON object from id to path."""
    rows: list[Mapping[str, Any]]
    try:
        if path.suffix == ".json":
            rows = [{"id": key, "path": file} for key, file in json_file(path).items()]
        elif path.suffix == ".csv":
            rows = [row for _, row in csv_table(file_text(path), str(path))[1]]
        else:
            rows = [row for _, row in json_lines(path)]
        return {
            (str(r.get("id") or r["case"]), int(r.get("seed") or 0), int(r.get("n") or 1)): str(r["path"]) for r in rows
        }
    except (AttributeError, KeyError, ValueError, TypeError) as error:
        raise RefBenchError(f"{path} is no list of outputs: it needs the columns id and path ({error})") from error


def _named(path: Path, named: str) -> list[Path]:
    """Where a picture that a list names may be: from the list's folder; from the folder that the list's own path
    begins in as the name does, since official lists (`results/METHOD/images/1.jpg` in `results/METHOD/gen_info.json`)
    count from a checkout's root; or from where one stands. Each as it is written, then with the slashes of Windows
    turned, which lists that were made there have."""
    places: list[Path] = []
    for name in dict.fromkeys((named, named.replace("\\", "/"))):
        first = Path(name).parts[:1]
        roots = [folder.parent for folder in path.absolute().parents if (folder.name,) == first]
        places += [path.parent / name, *(root / name for root in roots), Path(name)]
    return places


def _why_nothing(path: Path, listed: Listed, cases: list[AnyCase]) -> str:
    """Why a list gives no picture: other ids than the cases', or paths at which nothing is."""
    known = {case.id for case in cases}
    mine = next(((id_, named) for (id_, _, _), named in listed.items() if id_ in known), None)
    if not listed:
        return f"{path} lists nothing"
    if mine is None:
        return f"{path} lists {next(iter(listed))[0]} and the like, the cases are {cases[0].id} and the like"
    places = _named(path, mine[1].replace("\\", "/"))
    looked = " or ".join(dict.fromkeys(str(place) for place in places))
    return f"{path} names {mine[1]} for {mine[0]}, and there is no {looked}"


def _expected(what: str, case: AnyCase) -> str:
    if not _PLACE.search(what):
        return f"{case.id}.png"
    values = {**case.groups, "id": case.id, "number": case.id.rsplit("/", 1)[-1], "seed": "0"}
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), what)


def _nearest(what: Path, expected: str) -> list[str]:
    folder = what
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    names: list[str] = []
    for place, _, files in os.walk(folder):
        names += [
            (Path(place) / name).relative_to(folder).as_posix()
            for name in files
            if Path(name).suffix.lower() in EXTENSIONS
        ]
        if len(names) > 5000:
            break
    close = difflib.get_close_matches(Path(expected).name, names, n=3, cutoff=0.0)
    return close or sorted(names)[:3]
