"""Specs of wrapped models: `kind(MODEL; option=value; ...)` in one line, or a table in TOML; and how they are built.

A tree has `Spec`s as leaves. Kinds that wrap nothing are not known here: whoever builds brings the maker of leaves.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from refbench.chat.vlm import VLM
from refbench.models.agents import METHODS, Agent
from refbench.models.model import ImageModel
from refbench.models.wrappers.inputs import Ablate, Suffix
from refbench.models.wrappers.overflow import POLICIES, Overflow
from refbench.models.wrappers.rephrase import Rephrase
from refbench.models.wrappers.turns import Turns
from refbench.record import Record, RefBenchError
from refbench.specs import Spec


@dataclass(frozen=True)
class _Kind:
    options: tuple[str, ...] = ()
    vlm: str = ""
    """The name under which the kind takes a VLM."""


WRAPPERS: Mapping[str, _Kind] = {
    "overflow": _Kind(("policy",)),
    "rephrase": _Kind(("when",), vlm="vlm"),
    "turns": _Kind(),
    "ablate": _Kind(("drop", "which", "role", "shuffle", "seed", "text")),
    "suffix": _Kind(("text",)),
    **{name: _Kind(("steps",), vlm="planner") for name in METHODS},
}
_KEYS = {"model", *(key for kind in WRAPPERS.values() for key in (kind.vlm, *kind.options))}
_NESTED = re.compile(r"\s*(?:([^=:(\s]+)=)?([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_OPENED = re.compile(r"\s*(?:[^=:(\s]+=)?[A-Za-z_]\w*\s*\(")
_KEYED = re.compile(r"([a-z_]+)\s*=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")


class Nested(Record):
    """A wrapper: its own spec (name, kind, options), the model inside, and the VLM where it needs one."""

    spec: Spec
    model: Spec | Nested
    vlm: Spec | None = None


Tree: TypeAlias = Spec | Nested


def name_of(tree: Tree) -> str:
    return tree.name if isinstance(tree, Spec) else tree.spec.name


def parse_model(text: str, option: str = "--model") -> Tree:
    """A spec in one line, wrapped or plain. `truncate(M)` is short for `overflow(M; policy=truncate)`."""
    match = _NESTED.fullmatch(text)
    if match is None:
        if _OPENED.match(text):  # a plain spec has a colon before any bracket
            raise RefBenchError(f"{option} {text}: a bracket is not closed")
        return Spec.parse(text.strip(), option)
    name, kind, arguments = match[1] or "", match[2], match[3]
    given: dict[str, str] = {}
    for argument in _arguments(arguments, f"{option} {text}"):
        key, value = _keyed(argument)
        if key in given:
            raise RefBenchError(f"{option} {text}: {key} is given twice")
        given[key] = value
    return _nested(name, kind, given, f"{option} {text}")


def parse_model_table(table: Mapping[str, Any], name: str = "", where: str = "") -> Tree:
    """A table such as TOML's `[models.A] kind = "ipr", planner = "openai:gpt-5", model = ...`.

    `model` is a spec in one line or a table of its own. A kind that wraps nothing has `what` and its options.
    """
    where = where or f"[models.{name}]"
    if not isinstance(table, Mapping) or not isinstance(table.get("kind"), str):
        raise RefBenchError(f'{where}: a model is a table with kind = "...", or a spec in one line')
    kind = table["kind"]
    rest = {key: value for key, value in table.items() if key not in ("kind", "name")}
    name = str(table.get("name", name))
    if kind in WRAPPERS or kind in POLICIES or "model" in rest:
        return _nested(name, kind, rest, where)
    if not isinstance(rest.get("what"), str):
        raise RefBenchError(f'{where}: {kind} needs what = "...": a model, a folder, an address')
    options = {key: _text(value, f"{where} {key}") for key, value in rest.items() if key != "what"}
    spec = Spec.parse(f"{kind}:{rest['what'].split('?')[0]}", where)
    return spec.model_copy(update={"what": rest["what"], "options": options, "name": _named(name, where) or spec.name})


def build_model(
    tree: Tree, make_leaf: Callable[[Spec], ImageModel], make_vlm: Callable[[Spec], VLM], folder: Path
) -> ImageModel:
    """The model that a tree describes; what wrappers put on disk on the way goes below `folder` and is removed."""
    if isinstance(tree, Spec):
        return make_leaf(tree)
    model = build_model(tree.model, make_leaf, make_vlm, folder)
    spec = tree.spec
    if spec.kind == "overflow":
        return Overflow(spec, model, folder)
    if spec.kind == "turns":
        return Turns(spec, model, folder)
    if spec.kind == "ablate":
        return Ablate(spec, model)
    if spec.kind == "suffix":
        return Suffix(spec, model)
    assert tree.vlm is not None
    vlm = make_vlm(tree.vlm)
    return Rephrase(spec, vlm, model, folder) if spec.kind == "rephrase" else Agent(spec, vlm, model, folder)


def leaf_of(tree: Tree) -> Spec:
    """The model at the bottom."""
    return tree if isinstance(tree, Spec) else leaf_of(tree.model)


def _nested(name: str, kind: str, given: Mapping[str, Any], where: str) -> Nested:
    options = dict(given)
    prefix = kind
    if kind in POLICIES:
        kind, options = "overflow", {"policy": kind, **options}
    elif kind == "overflow":
        prefix = str(options.get("policy", kind))
    if kind not in WRAPPERS:
        near = difflib.get_close_matches(kind, [*WRAPPERS, *POLICIES], n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join([*WRAPPERS, *POLICIES])}"
        raise RefBenchError(f"{where}: no wrapper is called {kind!r}: {hint}")
    wrapper = WRAPPERS[kind]
    if "model" not in options:
        raise RefBenchError(f"{where}: {kind} wraps a model: write {kind}(MODEL; ...) or model = ...")
    model = _tree(options.pop("model"), where)
    vlm: Spec | None = None
    if wrapper.vlm:
        if wrapper.vlm not in options:
            raise RefBenchError(f"{where}: {kind} asks a VLM: give {wrapper.vlm}=, for example openai:gpt-4o")
        found = _tree(options.pop(wrapper.vlm), where)
        if isinstance(found, Nested):
            raise RefBenchError(f"{where}: {wrapper.vlm} is a VLM and cannot be wrapped")
        vlm = found
    for key in options:
        if key not in wrapper.options:
            known = ", ".join(["model", *([wrapper.vlm] if wrapper.vlm else []), *wrapper.options])
            raise RefBenchError(f"{where}: {kind} has no {key}=, it has {known}")
    written = {key: _text(value, f"{where} {key}") for key, value in options.items()}
    leaf = leaf_of(model)
    spec = Spec(
        name=_named(name, where) or f"{prefix}+{name_of(model)}",
        kind=kind,
        what=f"{leaf.kind}:{leaf.what}",
        options=written,
    )
    return Nested(spec=spec, model=model, vlm=vlm)


def _tree(value: Any, where: str) -> Tree:
    return parse_model_table(value, where=where) if isinstance(value, Mapping) else parse_model(str(value), where)


def _named(name: str, where: str) -> str:
    if name and not _NAME.fullmatch(name):
        raise RefBenchError(f"{where}: the name {name!r} may have letters, digits, dot, dash, plus and underscore only")
    return name


def _text(value: Any, where: str) -> str:
    """A value as options have it: TOML's true is yes, numbers are written out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str | int | float):
        raise RefBenchError(f"{where}: {value!r} is no text and no number")
    return str(value)


def _arguments(text: str, where: str) -> list[str]:
    """What stands between semicolons, those inside brackets and double quotes not counted."""
    found, start, depth, quoted, escaped = [], 0, 0, False, False
    for at, sign in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = sign == "\\", sign != '"'
        elif sign == '"':
            quoted = True
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            if depth < 0:
                break
        elif sign == ";" and depth == 0:
            found.append(text[start:at])
            start = at + 1
    if depth or quoted:
        raise RefBenchError(f"{where}: a {'quotation mark' if quoted else 'bracket'} is not closed")
    return [argument.strip() for argument in [*found, text[start:]] if argument.strip()]


def _keyed(argument: str) -> tuple[str, str]:
    """`option=value`, else the model, which may have a name of its own: `nano=gemini:...`."""
    keyed = _KEYED.fullmatch(argument)
    if keyed is None or (keyed[1] not in _KEYS and ":" in keyed[2]):
        return "model", _plain(argument)
    return keyed[1], _plain(keyed[2].strip())


def _plain(value: str) -> str:
    """A value in double quotes is taken as it stands between them."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value, strict=False))
        except ValueError:
            return value[1:-1]
    return value
