"""Rule books in TOML: the presets that are shipped, and a user's own, which may extend one of them.

A wrong file is told by its name and the key; nothing in it is skipped or guessed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

from refbench.benchmarks.multiref.cases import type_of_token
from refbench.builders.refblend.rules import Cell, Group, Need, Rules, TypeRule, verdict
from refbench.builders.refblend.types import TYPES, Type, TypeSet, name_of, read_set, read_type, set_of
from refbench.record import RefBenchError
from refbench.text.files import csv_table, file_text, is_file, toml_file

DEFAULT = "table7"
_FOLDER = Path(__file__).with_name("data") / "rules"
_KEYS = ("extends", "about", "sizes", "use", "types", "matrix", "needs", "sources", "allow", "deny", "proportions")
_NEEDS = "_"
_CELLS: Mapping[str, Cell] = {"v": "possible", "x": "impossible", "-": "undefined"}


def presets() -> tuple[str, ...]:
    """The names of the rule books that are shipped."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_rules(preset_or_file: str | Path = DEFAULT) -> Rules:
    """The rules of a preset, by its name, or of a TOML file or the release's condition-conpa.csv, by its path."""
    if isinstance(preset_or_file, str) and preset_or_file in presets():
        return _load(_FOLDER / f"{preset_or_file}.toml", ())
    path = Path(preset_or_file)
    if not is_file(path):
        near = difflib.get_close_matches(str(preset_or_file), presets(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"presets are {', '.join(presets())}"
        raise RefBenchError(f"{preset_or_file} is neither a preset nor a file of rules (.toml, .csv): {hint}")
    return _load(path, ())


def chosen_rules(preset: str | None, rules: Path | None, sizes: str | None = None) -> Rules:
    """The rules that the options --preset, --rules and --sizes mean."""
    if preset is not None and rules is not None:
        raise RefBenchError(f"--preset and --rules exclude each other: write extends = {preset!r} into {rules}")
    if preset is not None and preset not in presets():
        raise RefBenchError(f"--preset {preset}: presets are {', '.join(presets())}")
    if rules is not None and not is_file(rules):
        raise RefBenchError(f"--rules {rules} is not there: give a TOML file, or the release's condition-conpa.csv")
    book = load_rules(rules or preset or DEFAULT)
    if sizes is None:
        return book
    words = [word.strip() for word in sizes.split(",")]
    if not all(word.isascii() and word.isdecimal() and 2 <= int(word) <= len(TYPES) for word in words):
        raise RefBenchError(
            f"--sizes {sizes}: give numbers from 2 to {len(TYPES)} with commas between, for example 2,3"
        )
    return book.restricted(sizes=map(int, words))


def _load(path: Path, above: tuple[Path, ...]) -> Rules:
    if path.resolve() in above:
        raise RefBenchError(f"{path}: extends: the files extend each other in a circle")
    content = _released_matrix(path) if path.suffix.lower() == ".csv" else toml_file(path)
    for key in content:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            raise RefBenchError(f"{path}: {key}: no such key, {f'did you mean {near[0]}?' if near else 'remove it'}")
    base = _base(path, content.get("extends"), (*above, path.resolve()))
    file = _File(path, content)
    types = file.types(base.types)
    needs, sources = file.needs(), file.sources()
    allow, deny = file.sets("allow"), file.sets("deny")
    both = sorted(set(allow) & set(deny))
    if both:
        raise RefBenchError(f"{path}: allow, deny: {name_of(both[0])} is on both lists: remove it from one")
    rules = Rules(
        name=path.stem,
        about=file.text("about", base.about),
        sizes=file.sizes(base.sizes),
        use=set_of(read_type(word, f"{path}: use") for word in file.words(content.get("use", base.use), "use")),
        types=types,
        matrix=file.matrix() if "matrix" in content or not base.matrix else base.matrix,
        needs={kind: need for kind, need in {**base.needs, **needs}.items() if need.of},
        sources={name: what for name, what in {**base.sources, **sources}.items() if what},
        allow=_listed(base.allow, allow, deny),
        deny=_listed(base.deny, deny, allow),
        proportions=base.proportions,
    )
    for kind in TYPES:
        if rules.matrix[kind][kind] == "possible" and not types[kind].numbered:
            raise RefBenchError(f"{path}: matrix.{kind}: several {kind} references need types.{kind}.numbered")
    return rules if "proportions" not in content else rules.model_copy(update={"proportions": file.proportions(rules)})


def _released_matrix(path: Path) -> dict[str, Any]:
    """The release's condition-conpa.csv as a file of rules: its `_`, a row that needs a column, is a possible pair and
    one of the things that the row needs, at least one of which must be there."""
    columns, lines = csv_table(file_text(path), str(path), verbatim=True)
    matrix, needs = {"columns": " ".join(columns[1:])}, {}
    for number, row in lines:
        cells = [(row[column] or "").strip() for column in columns]
        if None in row or not all(cells):
            raise RefBenchError(f"{path}, line {number}: a type and a sign for each of the ten types are wanted")
        matrix[cells[0]] = " ".join("v" if sign == _NEEDS else sign for sign in cells[1:])
        needed = [column for column, sign in zip(columns[1:], cells[1:], strict=True) if sign == _NEEDS]
        if needed:
            needs[cells[0]] = {"any": needed}
    return {"extends": "matrix", "about": "the released matrix", "matrix": matrix, "needs": needs}


def _base(path: Path, extends: Any, above: tuple[Path, ...]) -> Rules:
    if extends is None:
        return Rules(name="", types={}, matrix={})
    if not isinstance(extends, str):
        raise RefBenchError(f"{path}: extends: give the name of a preset or a file")
    if extends in presets():
        return _load(_FOLDER / f"{extends}.toml", above)
    if not is_file(path.parent / extends):
        raise RefBenchError(f"{path}: extends: {extends!r} is neither a file nor a preset ({', '.join(presets())})")
    return _load(path.parent / extends, above)


def _listed(inherited: Sequence[TypeSet], own: Sequence[TypeSet], against: Sequence[TypeSet]) -> tuple[TypeSet, ...]:
    """An inherited list with what the file adds; what it puts on the other list leaves this one."""
    return tuple(sorted({*own, *(one for one in inherited if one not in against)}))


class _File:
    """The parts of one file as they are meant; whatever is wrong is an error with file and key."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path, self.content = path, content

    def wrong(self, key: str, what: str) -> RefBenchError:
        return RefBenchError(f"{self.path}: {key}: {what}")

    def table(self, key: str) -> Mapping[str, Any]:
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "give a table")
        return value

    def words(self, value: Any, key: str) -> list[str]:
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise self.wrong(key, "give a list of texts")
        return list(value)

    def text(self, key: str, default: str) -> str:
        value = self.content.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "give a text")
        return value

    def sizes(self, default: tuple[int, ...]) -> tuple[int, ...]:
        found = self.content.get("sizes", list(default))
        right = isinstance(found, list) and found and all(type(n) is int and 2 <= n <= len(TYPES) for n in found)
        if not right:
            raise self.wrong("sizes", f"give a list of numbers from 2 to {len(TYPES)}")
        return tuple(sorted(set(found)))

    def types(self, inherited: Mapping[Type, TypeRule]) -> dict[Type, TypeRule]:
        by_type = dict(inherited)
        for word, own in self.table("types").items():
            kind = read_type(word, f"{self.path}: types")
            key = f"types.{word}"
            if not isinstance(own, dict) or not all(isinstance(value, str) for value in own.values()):
                raise self.wrong(key, "give a table of texts")
            merged = {**(by_type[kind].model_dump() if kind in by_type else {}), **own}
            unknown = sorted(set(merged) - set(TypeRule.model_fields))
            missing = [name for name in ("group", "path_key") if not merged.get(name)]
            if unknown or missing:
                raise self.wrong(f"{key}.{[*unknown, *missing][0]}", "no such key" if unknown else "is missing")
            if merged["group"] not in get_args(Group):
                raise self.wrong(f"{key}.group", f"give one of {', '.join(get_args(Group))}")
            by_type[kind] = TypeRule(**merged)
            self._check_placeholders(kind, by_type[kind])
        for kind in TYPES:
            if kind not in by_type:
                raise self.wrong(f"types.{kind}", "is missing: add it, or extend a preset")
        return by_type

    def _check_placeholders(self, kind: Type, rule: TypeRule) -> None:
        """MultiRef-Bench tells the type of a reference by its placeholder: another name would be lost on reading."""
        if (kind == "caption") != (rule.placeholder == ""):
            raise self.wrong(f"types.{kind}.placeholder", "every type but the caption has one")
        named = {"placeholder": rule.placeholder, "numbered": rule.numbered.replace("{n}", "1")}
        for field, token in named.items():
            if token and (type_of_token(token) != kind or set(token) & set("<>{} ")):
                raise self.wrong(
                    f"types.{kind}.{field}", f"{token!r} does not read as a {kind} (as {kind}_image would)"
                )
        if rule.numbered and "{n}" not in rule.numbered:
            raise self.wrong(f"types.{kind}.numbered", "has no {n} for the number")

    def matrix(self) -> dict[Type, dict[Type, Cell]]:
        table = dict(self.table("matrix"))
        for word, row in table.items():
            if not isinstance(row, str):
                raise self.wrong(f"matrix.{word}", "give a text with one sign for each column")
        where = f"{self.path}: matrix.columns"
        columns = [read_type(word, where) for word in str(table.pop("columns", "")).split()]
        if sorted(columns) != sorted(TYPES):
            raise RefBenchError(f"{where}: name each of the ten types once: {' '.join(TYPES)}")
        cells: dict[Type, dict[Type, Cell]] = {}
        for word, row in table.items():
            kind, signs = read_type(word, f"{self.path}: matrix"), row.split()
            if len(signs) != len(columns) or not set(signs) <= set(_CELLS):
                raise self.wrong(f"matrix.{word}", f"give {len(columns)} signs: v possible, x impossible, - undefined")
            cells[kind] = {column: _CELLS[sign] for column, sign in zip(columns, signs, strict=True)}
        missing = [kind for kind in TYPES if kind not in cells]
        if missing:
            raise self.wrong(f"matrix.{missing[0]}", "the row is missing")
        for kind, other in combinations(TYPES, 2):
            if cells[kind][other] != cells[other][kind]:
                both = f"{cells[kind][other]} here and {cells[other][kind]} in the row {other}"
                raise self.wrong(f"matrix.{kind}", f"the pair with {other} is {both}: make them equal")
        return cells

    def needs(self) -> dict[Type, Need]:
        by_type = {}
        for word, need in self.table("needs").items():
            kind, key = read_type(word, f"{self.path}: needs"), f"needs.{word}"
            if not isinstance(need, dict) or len(need) != 1 or not set(need) <= {"any", "all"}:
                raise self.wrong(key, 'give { any = ["caption", ...] } or { all = [...] }; { any = [] } needs nothing')
            ((mode, words),) = need.items()
            of = set_of(read_type(each, f"{self.path}: {key}") for each in self.words(words, key))
            if kind in of:
                raise self.wrong(key, "a type cannot need itself")
            by_type[kind] = Need(mode=mode, of=of)
        return by_type

    def sources(self) -> dict[str, TypeSet]:
        return {
            name: set_of(
                read_type(word, f"{self.path}: sources.{name}") for word in self.words(offers, f"sources.{name}")
            )
            for name, offers in self.table("sources").items()
        }

    def sets(self, key: str) -> list[TypeSet]:
        rows = self.content.get(key, [])
        if not isinstance(rows, list):
            raise self.wrong(key, 'give a list of sets, for example [["caption", "style"]]')
        return [self._set(self.words(row, key), key) for row in rows]

    def _set(self, words: Iterable[str], key: str) -> TypeSet:
        types = [read_type(word, f"{self.path}: {key}") for word in words]
        if len(set(types)) < max(len(types), 2):
            raise self.wrong(key, f"{'+'.join(types) or 'an empty list'} is no set of two or more different types")
        return set_of(types)

    def proportions(self, rules: Rules) -> dict[TypeSet, float]:
        shares: dict[TypeSet, float] = {}
        for name, share in self.table("proportions").items():
            key = f'proportions."{name}"'
            types = self._set(read_set(name, f"{self.path}: {key}"), key)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < math.inf:
                raise self.wrong(key, "give a number, 0 or more")
            if types in shares:
                raise self.wrong(key, "the set is named twice")
            if not verdict(rules, types).allowed:
                raise self.wrong(key, "the rules forbid this set: allow it, or remove its proportion")
            shares[types] = float(share)
        if shares and not sum(shares.values()) > 0:
            raise self.wrong("proportions", "all are 0: give at least one set a share")
        return shares
