"""What tells one state of a user's function from another: its source, and the values that it carries."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import CodeType
from typing import Any

import numpy as np

from refbench.record import canonical_json

UNTOLD = "untold"
"""The key under which an identity names values of which two cannot be told apart."""

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, PurePath, enum.Enum, np.generic)


def identity_of(call: Any, version: str) -> dict[str, str]:
    """Name, and what its author says (`version`, or an attribute of that name), else source and state.

    State is a partial's arguments, cells of a closure, defaults, plain globals that the function reads, and what is in
    the `__dict__` of an object or of a bound method's object. Values that cannot be told apart, such as weights in
    memory, are named under UNTOLD.
    """
    function = call
    while isinstance(function, functools.partial):
        function = function.func
    thing = function if hasattr(function, "__qualname__") else type(function)
    named = {"what": f"{getattr(thing, '__module__', '')}:{thing.__qualname__}"}
    version = version or _version(call)
    if version:
        return {**named, "version": version}
    if function is not call and _version(function):
        named["version"] = _version(function)
    elif source := _source(function):
        named["source"] = source
    telling = _Telling()
    state = telling.state(call)
    if state:
        named["state"] = hashlib.sha256(canonical_json(state)).hexdigest()[:16]
    if telling.untold:
        named[UNTOLD] = ", ".join(sorted(telling.untold))
    return named


def _version(call: Any) -> str:
    version = getattr(call, "version", "")
    return str(version) if isinstance(version, str | int | float) and not isinstance(version, bool) else ""


def _source(function: Any) -> str:
    """A hash of the source, or of the code where there is no source, as of functions typed at a prompt."""
    try:
        text = inspect.getsource(function if inspect.isroutine(function) else type(function)).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        if code is None:
            return ""
        text = repr(_compiled(code)).encode()
    return hashlib.sha256(text).hexdigest()[:16]


def _compiled(code: CodeType) -> tuple[Any, ...]:
    constants = [_compiled(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, constants


class _Telling:
    """Says values as JSON, and keeps the names of those that cannot be said."""

    def __init__(self) -> None:
        self.untold: set[str] = set()
        self._inside: set[int] = set()

    def state(self, call: Any) -> dict[str, Any]:
        """Everything that a callable carries beside its source; parts that are empty are left out."""
        if isinstance(call, functools.partial):
            arguments = {
                "function": self.state(call.func),
                "args": [self.value(f"args[{n}]", value) for n, value in enumerate(call.args)],
                "keywords": self.named(call.keywords),
            }
            return {key: part for key, part in arguments.items() if part}
        if _version(call):
            return {}
        owner = getattr(call, "__self__", None)
        function = inspect.unwrap(getattr(call, "__func__", call))
        state = {
            "self": self.named(_attributes(owner)) if owner is not None and not inspect.ismodule(owner) else {},
            "cells": self.cells(function),
            "globals": self.named(_globals(function)),
            "defaults": [self.value("a default", value) for value in getattr(function, "__defaults__", None) or ()],
            "keyword defaults": self.named(getattr(function, "__kwdefaults__", None) or {}),
            "attributes": self.named({k: v for k, v in _attributes(function).items() if k != "__wrapped__"}),
        }
        return {key: part for key, part in state.items() if part}

    def cells(self, function: Callable[..., Any]) -> dict[str, Any]:
        """What a closure was given. Lists, sets and dictionaries are mostly logs, counters and caches, which change as
        it runs: they are not told."""
        cells = _cells(function)
        changing = {name for name, value in cells.items() if isinstance(value, list | set | dict)}
        self.untold |= changing
        return self.named({name: value for name, value in cells.items() if name not in changing})

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.value(name, value) for name, value in values.items()}

    def value(self, name: str, value: Any) -> Any:
        if isinstance(value, _IMMUTABLE):
            return repr(value)
        if id(value) in self._inside:  # a function that calls itself, a list that holds itself
            return "itself"
        self._inside.add(id(value))
        try:
            return self._composed(name, value)
        finally:
            self._inside.discard(id(value))

    def _composed(self, name: str, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [type(value).__name__, *(self.value(name, one) for one in value)]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(canonical_json(self.value(name, one)).decode() for one in value)]
        if isinstance(value, Mapping):
            return ["mapping", *([repr(key), self.value(str(key), one)] for key, one in value.items())]
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            return [type(value).__qualname__, self.named(fields)]
        if isinstance(value, type) or inspect.isroutine(value) or isinstance(value, functools.partial):
            inner = value.func if isinstance(value, functools.partial) else value
            state = {} if isinstance(value, type) or inspect.isbuiltin(value) else self.state(value)
            return [getattr(inner, "__qualname__", ""), _version(value) or _source(inner), state]
        text = repr(value)
        if not inspect.ismodule(value):
            self.untold.add(name)  # a repr need not show everything, and one with an address shows nothing
        return type(value).__qualname__ if _ADDRESS.search(text) or inspect.ismodule(value) else text


def _attributes(thing: Any) -> dict[str, Any]:
    if isinstance(thing, type):
        return {}
    slots = [name for kind in type(thing).__mro__ for name in _slots(kind) if hasattr(thing, name)]
    return {**{name: getattr(thing, name) for name in slots}, **getattr(thing, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _cells(function: Callable[..., Any]) -> dict[str, Any]:
    code, closure = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    values: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), closure or (), strict=False):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return values


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """Plain values of the module that the function names; logs and counters, which change as it runs, are others."""
    code = getattr(function, "__code__", None)
    there = getattr(function, "__globals__", {})
    names = [] if code is None else [name for name in code.co_names if name in there and not name.startswith("__")]
    return {name: there[name] for name in names if isinstance(there[name], _IMMUTABLE)}
