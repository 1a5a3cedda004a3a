"""FolderModel: outputs that somebody else has made, found by the official layout, by id, by pattern or by a list."""

from __future__ import annotations

import csv
import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import orjson

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of, model_options

EXTENSIONS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif")
_PLACE = re.compile(r"\{(\w+)\}")
_SEEDS_LOOKED_AT = 10
"""Where a folder has nothing of the first seed: which others may explain it."""


class FolderModel:
    """The pictures of one model. `find` gives the files for a case, or says that there is none."""

    def __init__(self, spec: Spec, cases: Iterable[AnyCase], names: Callable[[AnyCase], list[str]]) -> None:
        self.name = spec.name
        self.family = model_options(spec)["family"] or family_of(spec.name)
        what = Path(spec.what)
        if _PLACE.search(spec.what):
            self._find = _by_pattern(spec.what)
        elif what.suffix in (".csv", ".json", ".jsonl") and what.is_file():
            self._find = _by_list(what)
        elif what.is_dir():
            self._find = _by_layout(what, names)
        else:
            raise RefBenchError(
                f"--model {spec.name}: {what} is no directory, no list (.csv, .json, .jsonl) and no pattern with {{id}}"
            )
        known = list(cases)
        self._check(spec, known)
        self.one_seed = self._one_seed(spec.what, known)

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The output's files in order (one, unless the case asks for more), or `missing_output`."""
        numbers = range(1, case.request.n_pictures + 1)
        files = tuple(path for number in numbers if (path := self._find(case, seed, number)) is not None)
        if not files:
            return Failure(kind="missing_output", detail=f"{self.name} has no picture for {case.id}")
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
        near = _nearest(Path(spec.what), expected)
        hint = f"the nearest names there are {', '.join(near)}" if near else "there are no pictures in it"
        raise RefBenchError(f"--model {spec.name}: no output found for any case, for example {expected}; {hint}")


Finder = Callable[[AnyCase, int, int], Path | None]
"""From a case, a seed and the number of the picture, from 1."""


def _by_layout(root: Path, names: Callable[[AnyCase], list[str]]) -> Finder:
    """Every file below the root, by its path without extension; the first of the allowed extensions wins."""
    by_stem: dict[str, Path] = {}
    for folder, _, files in os.walk(root):
        for name in sorted(files, key=lambda n: _rank(Path(n).suffix)):
            path = Path(folder) / name
            if path.suffix.lower() in EXTENSIONS:
                by_stem.setdefault(path.relative_to(root).with_name(path.stem).as_posix(), path)

    def find(case: AnyCase, seed: int, number: int) -> Path | None:
        plain = [case.id, case.id.replace("/", "_")]
        for stem in [*names(case), *plain]:
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
            return filled if filled.is_file() else None
        for extension in EXTENSIONS:
            path = filled.with_name(filled.name + extension)
            if path.is_file():
                return path
        return None

    return find


def _by_list(path: Path) -> Finder:
    """A list with the columns id (or case) and path, seed and n (the number of the picture) where there are several;
    or one JSON object from id to path. Paths are relative to the list."""
    rows: list[Mapping[str, str]]
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".json":
            text = "\n".join(orjson.dumps({"id": key, "path": p}).decode() for key, p in orjson.loads(text).items())
        rows = (
            list(csv.DictReader(text.splitlines()))
            if path.suffix == ".csv"
            else [orjson.loads(t) for t in text.splitlines()]
        )
        listed = {
            (str(r.get("id") or r["case"]), int(r.get("seed") or 0), int(r.get("n") or 1)): str(r["path"]) for r in rows
        }
    except (AttributeError, KeyError, ValueError, TypeError) as error:
        raise RefBenchError(f"{path} is no list of outputs: it needs the columns id and path ({error})") from error

    def find(case: AnyCase, seed: int, number: int) -> Path | None:
        named = listed.get((case.id, seed, number))
        places = () if named is None else (path.parent / named, Path(named))  # official lists are from where one stood
        return next((place for place in places if place.is_file()), None)

    return find


def _rank(suffix: str) -> int:
    return EXTENSIONS.index(suffix.lower()) if suffix.lower() in EXTENSIONS else len(EXTENSIONS)


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
