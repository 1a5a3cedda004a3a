"""MultiRef-Bench's cases: its splits, reference types and categories, and both splits from any of the released layouts.

Nothing is repaired. The request has the pictures that the model is shown, in the order in which the prompt names them;
captions are part of the prompt. What the pictures are measured against is in the details.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, get_args

from refbench.benchmarks.kit.anomalies import Oddity, Release
from refbench.benchmarks.kit.definition import Dataset, check_subset, group_counts, ordered_counts
from refbench.benchmarks.kit.rows import toml_data
from refbench.case import Case, Picture, Request
from refbench.record import Record, RefBenchError, clean_text
from refbench.text.files import is_file, json_file

Split = Literal["synthetic", "real-world"]
SPLITS: Mapping[Split, int] = {"synthetic": 990, "real-world": 1000}
"""With the number of cases that the paper has."""
SUBSETS: Mapping[str, Split] = {"synthetic": "synthetic", "synthetic-900": "synthetic", "real-world": "real-world"}
"""With the split that each is of."""
_USED = 900
"""Of the 990 entries of benchmark990v3.json the card of that release says that the first 900 are used."""
_REAL_ROWS = 1000
"""In the combined release the rows of the real-world split have a smaller `row_id`."""

Type = Literal["bbox", "semantic_map", "mask", "depth", "canny", "sketch", "caption", "pose", "subject", "style"]
TYPES: tuple[Type, ...] = get_args(Type)
"""In the order of the columns of the paper's Table 6."""

ERRORS: frozenset[Type] = frozenset({"depth", "canny", "sketch"})
"""Measured by a mean squared error: lower is better, and 1 - x goes into every average."""

MAPS: frozenset[Type] = frozenset({"bbox", "semantic_map", "mask", "depth", "canny", "sketch", "pose"})
"""Extracted from the original picture, so that their pixels mean something; the others are photographs or text."""

_NAMES = toml_data(__package__, "names.toml")
WORDS: Mapping[Type, str] = _NAMES["types"]

Category = Literal[
    "element_replacement", "element_addition", "style_appearance", "spatial_environment", "attribute_transfer"
]
CATEGORIES: Mapping[Category, tuple[int, str, int]] = {
    name: (number, title, count) for name, (number, title, count, _) in _NAMES["categories"].items()
}
"""The real-world taxonomy: number in the files, name in the tables, cases in the paper."""
UNKNOWN = "unknown"

AXES = ("IQ", "IF", "SF")
"""Image quality, instruction following, source fidelity: a judge's marks from 1 to 5."""
LOWEST, HIGHEST = 1.0, 5.0

Box: TypeAlias = tuple[float, float, float, float]


class Reference(Record):
    """One reference of a synthetic case: what the model is shown of it, and what it can be compared with."""

    type: Type
    token: str = ""
    """What the instruction calls the picture, without the angle brackets; empty for a caption."""
    picture: Picture | None = None
    """None for a caption, and where the entry names no file that could be used."""
    official: Picture | None = None
    """The picture that the released code compares with, where the model was shown another one."""
    box: Box | None = None
    """In pixels of the picture, where the entry has the numbers."""
    caption: str | None = None
    extractor: str = ""
    """What drew it, where the entry says so: another extractor than the paper's is measured by itself."""

    @property
    def usable(self) -> bool:
        return self.picture is not None or bool(self.caption)


class MultiRefDetails(Record):
    """What a case is made of, beyond what the model sees."""

    split: Split
    entry: int
    """Its place in the file, from 0."""
    references: tuple[Reference, ...] = ()
    tokens: tuple[str, ...] = ()
    """What the instruction calls each picture of the request."""
    structured: str = ""
    enhanced: tuple[str, ...] = ()

    def of_type(self, name: str) -> tuple[Reference, ...]:
        """The references of a type; more than one where several subjects or people were given."""
        return tuple(reference for reference in self.references if reference.type == name)

    @property
    def types(self) -> tuple[Type, ...]:
        there = {reference.type for reference in self.references}
        return tuple(name for name in TYPES if name in there)


MultiRefCase: TypeAlias = Case[MultiRefDetails]


# --- entries of the released files, whatever their spelling ---------------------------------------------------------
# Several releases exist (combined1990.json, benchmark990v2.json and v3, final_1000_prompts_taxonomy.json) and the form
# of an entry is documented for none of them in full. What cannot be understood is told, not guessed.


def path_keys(kind: str) -> tuple[str, ...]:
    """What the pictures of a type are called under `conditions`, best first."""
    return f"{kind}_path", f"{kind}_paths", f"single_{kind}_path"


_FIELDS: Mapping[str, Sequence[str]] = {
    **_NAMES["fields"],
    **{name: path_keys(name) for name in TYPES if name != "caption"},
}
"""Spellings of each field, best first."""
_ALIASES: Mapping[str, Type] = {**{name: name for name in TYPES}, **_NAMES["aliases"]}
CAPTION_MARK = "caption:"
"""What a structured prompt has before its caption, which is always last."""


@dataclass(frozen=True)
class Entry:
    """One entry as it was understood. Paths are as written in the file."""

    split: Split
    number: int
    id: str | None
    prompt: str
    mapping: Mapping[str, str]
    """Token of the prompt to the picture that the model is shown, in the order of the file."""
    target: str | None
    category: str = ""
    enhanced: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    paths: Mapping[Type, tuple[str, ...]] = field(default_factory=dict)
    """Type to the pictures that `conditions` names, the first of which the released code takes."""
    listed: frozenset[Type] = frozenset()
    """Types whose path is a list where the released code wants a text."""
    boxes: tuple[Box, ...] = ()
    caption: str | None = None
    unknown_types: tuple[str, ...] = ()
    extractors: Mapping[str, str] = field(default_factory=dict)
    """What drew the references of a type; datasets made by RefBlend say so."""


def read_entry(item: Any, number: int, *, combined: bool = False) -> Entry | str:
    """The entry, or what is wrong with it; in a combined file `row_id` tells the splits apart where tokens do not."""
    if not isinstance(item, Mapping):
        return f"it is no object but {type(item).__name__}"
    inside = item.get("instructions")
    told: Mapping[str, Any] = inside if isinstance(inside, Mapping) else item
    raw_mapping = _first(told, "mapping") or _first(item, "mapping") or {}
    if not isinstance(raw_mapping, Mapping):
        return f"its image_path_mapping is no object but {type(raw_mapping).__name__}"
    mapping = {str(key).strip("<>"): path for key, value in raw_mapping.items() for path in _texts(value)[:1]}
    prompt = _first(told, "prompt") or _first(item, "prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "it has no prompt"
    pictured = [key for key in mapping if picture_number(key) is not None]
    row = item.get("row_id")
    below = not combined or not isinstance(row, int) or row < _REAL_ROWS
    if pictured and below and not isinstance(told.get("conditions"), list):
        return _real_world(item, number, prompt, mapping)
    return _synthetic(item, told, number, prompt, mapping)


def _real_world(item: Mapping[str, Any], number: int, prompt: str, mapping: Mapping[str, str]) -> Entry:
    inputs = {key: path for key, path in mapping.items() if picture_number(key) is not None}
    others = {key: path for key, path in mapping.items() if key not in inputs}
    golden = _texts(_first(item, "golden")) or _texts(_first(others, "golden"))
    return Entry(
        split="real-world",
        number=number,
        id=_id(item),
        prompt=prompt.strip(),
        mapping=dict(sorted(inputs.items(), key=lambda pair: picture_number(pair[0]) or 0)),
        target=golden[0] if golden else None,
        category=_category(_first(item, "category")),
    )


def _synthetic(
    item: Mapping[str, Any], told: Mapping[str, Any], number: int, prompt: str, mapping: Mapping[str, str]
) -> Entry | str:
    given = item.get("conditions")
    # One stage of the data engine has the paths at the top level, the others under `conditions`.
    conditions: Mapping[str, Any] = given if isinstance(given, Mapping) else item
    named = told.get("conditions")
    if not isinstance(named, list):  # the combined release may have the tokens alone
        shown = {key: _shown_type(key, path) for key, path in mapping.items()}
        if strange := [key for key, kind in shown.items() if kind is None]:
            return f"its picture <{strange[0]}> is of no known type: {mapping[strange[0]][:200]}"
        named = list(shown.values())
        if CAPTION_MARK in prompt:
            named.append("caption")
    if not named:
        return "it names no references: neither instructions.conditions nor tokens of a known type"
    read = [(str(name), type_of(str(name))) for name in named]
    types = tuple(dict.fromkeys(kind for _, kind in read if kind is not None))
    paths: dict[Type, tuple[str, ...]] = {
        kind: tuple(_texts(_first(conditions, kind))) for kind in types if kind != "caption"
    }
    original = _texts(_first(item, "original"))
    drawn_by = item.get("extractors")
    said: Mapping[Any, Any] = drawn_by if isinstance(drawn_by, Mapping) else {}
    return Entry(
        split="synthetic",
        number=number,
        id=_id(item),
        prompt=prompt.strip(),
        enhanced=tuple(text.strip() for text in _texts(_first(told, "enhanced")) if text.strip()),
        types=types,
        mapping=mapping,
        paths=paths,
        listed=frozenset(k for k in types if k in ("mask", "pose") and isinstance(_first(conditions, k), list)),
        boxes=tuple(_boxes(conditions.get("bbox_value"))),
        caption=_caption(conditions, prompt) if "caption" in types else None,
        target=original[0] if original else None,
        unknown_types=tuple(name for name, kind in read if kind is None),
        extractors={str(kind): name for kind, name in said.items() if isinstance(name, str)},
    )


def picture_number(token: str) -> int | None:
    """7 for `image7`, the form of the real-world tokens."""
    digits = token.removeprefix("image")
    return int(digits) if digits != token and digits.isascii() and digits.isdecimal() and len(digits) < 4 else None


def type_of(name: str) -> Type | None:
    return _ALIASES.get(name.strip().casefold().replace(" ", "_").replace("-", "_"))


def type_of_token(token: str) -> Type | None:
    """The type of `<style_image>`, `<subject_1>`, `<pose_2>` and the like."""
    stem = token.removesuffix("_image")
    head, _, last = stem.rpartition("_")
    return type_of(head if last.isdecimal() else stem)


def _shown_type(token: str, path: str) -> Type | None:
    """The type of a picture that a synthetic prompt names: by its token, else by its folder (`images/depth/x.jpg`)."""
    folder = PurePosixPath(path.replace("\\", "/")).parent.name
    return type_of_token(token) or (type_of(folder) if picture_number(token) is not None else None)


def spoken_caption(prompt: str) -> str | None:
    """The caption at the end of a structured prompt, without the full stop that the template puts behind it."""
    _, mark, caption = prompt.rpartition(CAPTION_MARK)
    return (caption.strip().removesuffix(".").strip() or None) if mark else None


def _caption(conditions: Mapping[str, Any], prompt: str) -> str | None:
    said = conditions.get("caption")
    return said.strip() if isinstance(said, str) and said.strip() else spoken_caption(prompt)


def _category(said: Any) -> str:
    """A number from 1 to 5, its text, a name of the taxonomy, or an object with one of these."""
    if isinstance(said, Mapping):
        return _category(said.get("category"))
    for name, (number, _, _) in CATEGORIES.items():
        if not isinstance(said, bool) and (said == number or str(said).strip() in (str(number), name)):
            return name
    letters = "".join(c for c in str(said).casefold() if c.isalpha())
    starts = _NAMES["categories"].items()
    return next((name for name, (*_, start) in starts if letters.startswith(start)), UNKNOWN)


def _boxes(said: Any) -> Iterator[Box]:
    """`[[x1, y1, x2, y2], ...]` or one box alone; anything else is no box."""
    rows: Sequence[Any] = said if isinstance(said, list) else []
    if rows and all(isinstance(value, int | float) for value in rows):
        rows = [rows]
    for row in rows:
        if isinstance(row, list) and len(row) == 4 and all(isinstance(value, int | float) for value in row):
            x1, y1, x2, y2 = map(float, row)
            if x2 > x1 and y2 > y1:
                yield x1, y1, x2, y2


def _id(item: Mapping[str, Any]) -> str | None:
    said = _first(item, "id")
    return str(said).strip() or None if isinstance(said, int | str) and not isinstance(said, bool) else None


def _first(item: Mapping[str, Any], field: str) -> Any:
    """What an entry has under the best of the spellings of a field."""
    return next((item[name] for name in _FIELDS[field] if item.get(name) is not None), None)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text.strip()]


# --- files to cases -------------------------------------------------------------------------------------------------

_COMBINED = ("combined*.json",)
_TAXONOMY = "final_*prompts*.json"
_SPLIT_FILES = ("benchmark*.json", _TAXONOMY)
"""Names of the released files; of several for the same split the last by name is the newest (v2, v3)."""


def load(root: Path, subset: str | None = None) -> Dataset:
    """Both splits, or the one that `subset` names, or a part of it."""
    check_subset("MultiRef-Bench", subset, SUBSETS)
    release = read_release(root)
    cases = tuple(case for case in release.cases if subset is None or SUBSETS[subset] == case.groups["split"])
    cases = cases[:_USED] if subset == "synthetic-900" else cases
    if not cases:
        what = f"of the split {subset} " if subset else ""
        raise RefBenchError(f"{root} holds no case {what}that can be read: copy the JSON files and pictures again")
    outside = frozenset(case.id for case in release.cases) - {case.id for case in cases}
    return Dataset(benchmark="multiref", root=root, picture_root=root, cases=cases, subset=subset, outside=outside)


def read_release(root: Path) -> Release:
    """Every entry that can be understood, file by file, and the oddities of those that cannot."""
    files = released_files(root)
    if not files:
        raise RefBenchError(f"{root} holds none of {', '.join((*_COMBINED, *_SPLIT_FILES))}: give --data the folder")
    oddities: list[Oddity] = []
    chosen: dict[Split, tuple[Path, list[Entry]]] = {}
    for path in files:
        by_split: dict[Split, list[Entry]] = {}
        name = path.relative_to(root).as_posix()
        for number, item in enumerate(_items(path)):
            entry = read_entry(item, number, combined=path.match(_COMBINED[0]))
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
        if split == "real-world":
            entries = _categorised(root, path, entries, oddities)
        found, odd = _cases(root, path.parent, entries)
        cases += found
        oddities += odd
    return Release(root, tuple(cases), tuple(oddities))


def released_files(root: Path) -> list[Path]:
    """A combined file if there is one, else those of the splits, here or one folder below; newest first."""
    for patterns in (_COMBINED, _SPLIT_FILES):
        found = {path for pattern in patterns for place in ("", "*/") for path in root.glob(place + pattern)}
        if found:
            return sorted(found, key=lambda path: path.name, reverse=True)
    return []


def _items(path: Path) -> list[Any]:
    said = json_file(path)
    if isinstance(said, dict) and said and all(isinstance(part, list) for part in said.values()):
        return [item for part in said.values() for item in part]  # {"real_world": [...], "synthetic": [...]}
    if not isinstance(said, list) or not said:
        raise RefBenchError(f"{path} is no list of entries: copy the file again")
    return said


def _categorised(root: Path, path: Path, entries: list[Entry], oddities: list[Oddity]) -> list[Entry]:
    """The entries with their categories. The combined release has none: they are taken from the older release's file,
    wherever below the checkout it was put, by the prompt, and where several have the same by the row as well."""
    if all(entry.category != UNKNOWN for entry in entries):
        return entries
    files = [file for place in ("", "*/", "*/*/") for file in sorted(root.glob(place + _TAXONOMY)) if file != path]
    if not files:
        oddities.append(("missing_taxonomy", "real-world", f"{path.name} names none, and there is no {_TAXONOMY}"))
    by_row: dict[tuple[str | None, str], str] = {}
    by_prompt: dict[str, set[str]] = {}
    for file in files:
        for number, item in enumerate(_items(file)):
            told = read_entry(item, number)
            if isinstance(told, Entry) and told.category not in ("", UNKNOWN):
                prompt = " ".join(told.prompt.split())
                by_row.setdefault((told.id, prompt), told.category)
                by_prompt.setdefault(prompt, set()).add(told.category)

    def category(entry: Entry) -> str:
        prompt = " ".join(entry.prompt.split())
        said = by_prompt.get(prompt, set())
        return next(iter(said)) if len(said) == 1 else by_row.get((entry.id, prompt), UNKNOWN)

    return [replace(e, category=category(e)) if e.category == UNKNOWN else e for e in entries]


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
        if path.startswith("/") or ".." in path.split("/") or not path or "\0" in path:
            self.oddities.append(("outside_path", written[:200]))
            return None
        prefix = self.folder.relative_to(self.root).as_posix()
        inside = path if prefix == "." else f"{prefix}/{path}"
        return Picture(name=inside if self.exists(inside) or not self.exists(path) else path, role=role)

    def exists(self, name: str) -> bool:
        return is_file(self.root / name)

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
    for token, path in entry.mapping.items():
        kind = _shown_type(token, path)
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


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many cases there are, by split, category, combination, number of references and reference type."""
    order = {"split": None, "category": [*CATEGORIES, "unknown"], "combination": None, "n_refs": None}
    counts = group_counts(dataset.cases, order)
    types = (kind for case in dataset.cases for kind in case.details.types)
    return {"cases_by": {**counts, "type": ordered_counts(types, TYPES)}}


def output_names(case: MultiRefCase) -> list[str]:
    """The release fixes no layout for outputs: the case's id, or its name alone."""
    return [case.id, case.id.partition("/")[2]]
