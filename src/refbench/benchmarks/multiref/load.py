"""Files to cases: both splits of MultiRef-Bench, from any of the released layouts; nothing is repaired.

The request has the pictures that the model is shown, in the order in which the prompt names them; captions are
part of the prompt. What the pictures are measured against is in the details.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from refbench.benchmarks.dataset import Dataset
from refbench.benchmarks.multiref.details import (
    SPLITS,
    MultiRefCase,
    MultiRefDetails,
    Reference,
    Split,
    Type,
)
from refbench.benchmarks.multiref.entries import Entry, Oddity, read_entry, type_of_token
from refbench.case import Picture, Request
from refbench.record import RefBenchError, clean_text

_COMBINED = ("combined*.json",)
_SPLIT_FILES = ("benchmark*.json", "final_*prompts*.json")
"""Names of the released files; of several for the same split the last by name is the newest (v2, v3)."""


@dataclass(frozen=True)
class Release:
    """The cases of a checkout and what is odd about its files and entries."""

    cases: tuple[MultiRefCase, ...]
    oddities: tuple[Oddity, ...]


def load(root: Path, subset: str | None = None) -> Dataset:
    """Both splits, or the one that `subset` names."""
    if subset is not None and subset not in SPLITS:
        raise RefBenchError(f"--subset {subset}: MultiRef-Bench has the subsets {', '.join(SPLITS)}")
    release = read_release(root)
    cases = tuple(case for case in release.cases if subset in (None, case.groups["split"]))
    if not cases:
        what = f"of the split {subset} " if subset else ""
        raise RefBenchError(f"{root} holds no case {what}that can be read: copy the JSON files and pictures again")
    outside = frozenset(case.id for case in release.cases) - {case.id for case in cases}
    return Dataset(benchmark="multiref", root=root, picture_root=root, cases=cases, subset=subset, outside=outside)


def is_checkout(root: Path) -> bool:
    return bool(_files(root))


def read_release(root: Path) -> Release:
    """Every entry that can be understood, file by file, and the oddities of those that cannot."""
    files = _files(root)
    if not files:
        raise RefBenchError(f"{root} holds none of {', '.join((*_COMBINED, *_SPLIT_FILES))}: give --data the folder")
    oddities: list[Oddity] = []
    chosen: dict[Split, tuple[Path, list[Entry]]] = {}
    for path in files:
        by_split: dict[Split, list[Entry]] = {}
        name = path.relative_to(root).as_posix()
        for number, item in enumerate(_items(path)):
            entry = read_entry(item, number)
            if isinstance(entry, str):
                oddities.append(("unread_entry", f"{name}[{number}]", entry))
            else:
                by_split.setdefault(entry.split, []).append(entry)
        for split, entries in by_split.items():
            if split in chosen:
                oddities.append(("other_file", name, f"{chosen[split][0].name} has the {split} split already"))
            else:
                chosen[split] = path, entries
    cases: list[MultiRefCase] = []
    for split in SPLITS:
        if split not in chosen:
            oddities.append(("missing_split", split, "no file has entries of it"))
            continue
        path, entries = chosen[split]
        if len(entries) != SPLITS[split]:
            oddities.append(("other_count", split, f"{len(entries)} entries, {SPLITS[split]:,} in the paper"))
        found, odd = _cases(root, path.parent, entries)
        cases += found
        oddities += odd
    return Release(tuple(cases), tuple(oddities))


def _files(root: Path) -> list[Path]:
    """A combined file if there is one, else those of the splits, here or one folder below; newest first."""
    for patterns in (_COMBINED, _SPLIT_FILES):
        found = {path for pattern in patterns for place in ("", "*/") for path in root.glob(place + pattern)}
        if found:
            return sorted(found, key=lambda path: path.name, reverse=True)
    return []


def _items(path: Path) -> list[Any]:
    try:
        said = orjson.loads(path.read_bytes())
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise RefBenchError(f"{path} is not valid JSON ({error}): copy the file again") from error
    if isinstance(said, dict) and said and all(isinstance(part, list) for part in said.values()):
        return [item for part in said.values() for item in part]  # {"real_world": [...], "synthetic": [...]}
    if not isinstance(said, list) or not said:
        raise RefBenchError(f"{path} is no list of entries: copy the file again")
    return said


def _cases(root: Path, folder: Path, entries: Sequence[Entry]) -> tuple[list[MultiRefCase], list[Oddity]]:
    names = Counter(_name(entry) for entry in entries)
    cases: dict[str, MultiRefCase] = {}
    oddities: list[Oddity] = []
    for entry in entries:
        name = _name(entry)
        if names[name] > 1 and entry.split == "synthetic":
            name = f"{name}+{'+'.join(sorted(entry.types))}"  # one picture may have been blended several times
        case_id = f"{entry.split}/{clean_text(name)}"
        if case_id in cases:
            oddities.append(("duplicate_id", case_id, f"entry {entry.number} is left out, the first stays"))
            continue
        places = _Places(root, folder)
        cases[case_id] = _case(case_id, entry, places)
        oddities += [(kind, case_id, detail) for kind, detail in (*places.oddities, *_entry_oddities(entry))]
    return list(cases.values()), oddities


def _name(entry: Entry) -> str:
    """Its id in the file, else the name of its original picture, which is the name people give their outputs."""
    if entry.id is not None:
        return entry.id
    return PurePosixPath(entry.target.replace("\\", "/")).stem if entry.target else f"entry_{entry.number:04d}"


def _entry_oddities(entry: Entry) -> list[tuple[str, str]]:
    found = [("unknown_type", name) for name in entry.unknown_types]
    found += [
        ("several_instances", f"{kind}_path is a list of {len(entry.paths[kind])}") for kind in sorted(entry.listed)
    ]
    if len(entry.boxes) > 1:
        found.append(("several_instances", f"bbox_value has {len(entry.boxes)} boxes, the first counts"))
    return found


class _Places:
    """Paths of one entry as pictures inside the dataset: they are relative to the JSON file, or to the checkout."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.oddities: list[tuple[str, str]] = []

    def picture(self, written: str | None, role: str) -> Picture | None:
        if written is None:
            return None
        path = clean_text(written).replace("\\", "/").removeprefix("./")
        if path.startswith("/") or ".." in path.split("/") or not path:
            self.oddities.append(("outside_path", written[:200]))
            return None
        prefix = self.folder.relative_to(self.root).as_posix()
        inside = path if prefix == "." else f"{prefix}/{path}"
        return Picture(name=inside if self.exists(inside) or not self.exists(path) else path, role=role)

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def other(self, official: Picture | None, shown: Picture | None) -> Picture | None:
        """The official picture where it is another than the one shown; a path that leads nowhere to a file of the
        same name is only another spelling."""
        if official is None or shown is None or official.name == shown.name:
            return None
        same_file = PurePosixPath(official.name).name == PurePosixPath(shown.name).name
        return None if same_file and not self.exists(official.name) else official


def _case(case_id: str, entry: Entry, places: _Places) -> MultiRefCase:
    target = places.picture(entry.target, "target")
    if entry.split == "synthetic":
        references = _references(entry, places)
        shown = sorted(((r.token, r.picture) for r in references), key=lambda pair: _place(entry.prompt, pair[0]))
        combination = "+".join(sorted(entry.types))
        groups = {"split": entry.split, "combination": combination, "n_refs": str(len(references))}
        stratum = combination
    else:
        references = ()
        shown = [(token, places.picture(path, "reference")) for token, path in entry.mapping.items()]
        groups = {"split": entry.split, "category": entry.category, "n_refs": str(len(shown))}
        stratum = entry.category
    there = [(token, picture) for token, picture in shown if picture is not None]
    source = target if entry.split == "synthetic" and target else (there[0][1] if there else None)
    return MultiRefCase(
        id=case_id,
        request=Request(instruction=entry.prompt, pictures=tuple(picture for _, picture in there)),
        groups=groups,
        cluster=f"{entry.split}/{source.name}" if source else case_id,
        stratum=f"{entry.split}/{stratum}",
        targets=(target,) if target else (),
        details=MultiRefDetails(
            split=entry.split,
            entry=entry.number,
            references=references,
            tokens=tuple(token for token, _ in there),
            structured=entry.prompt,
            enhanced=entry.enhanced,
        ),
    )


def _place(prompt: str, token: str) -> int:
    at = prompt.find(f"<{token}>")
    return at if at >= 0 else len(prompt)


def _references(entry: Entry, places: _Places) -> tuple[Reference, ...]:
    """Every reference of the entry. A type may come several times, by tokens of its own (`subject_1`, `subject_2`)."""
    tokens: dict[Type, list[str]] = {}
    for token in entry.mapping:
        kind = type_of_token(token)
        if kind is not None:
            tokens.setdefault(kind, []).append(token)
    found: list[Reference] = []
    for kind in entry.types:
        if kind == "caption":
            found.append(Reference(type=kind, caption=entry.caption))
            continue
        named = entry.paths.get(kind, ())
        instances: Mapping[str, str] = {token: entry.mapping[token] for token in tokens.get(kind, [])}
        if not instances:  # an entry without the mapping: the first is what the released code takes
            instances = {f"{kind}_image": named[0]} if named else {}
        if not instances:
            found.append(Reference(type=kind))
        for token, path in instances.items():
            shown = places.picture(path, kind)
            # Only where one was drawn from a list can the released code have taken another one.
            official = places.picture(named[0], kind) if named and len(instances) == 1 else None
            box = entry.boxes[0] if kind == "bbox" and entry.boxes and len(instances) == 1 else None
            found.append(
                Reference(
                    type=kind,
                    token=token,
                    picture=shown,
                    official=places.other(official, shown),
                    box=box,
                    extractor=entry.extractors.get(kind, ""),
                )
            )
    return tuple(found)
