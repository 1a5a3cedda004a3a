"""A user's callable: found by name, made once, called with requests, and whatever it raises told as a Failure."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from refbench.failure import Failure, redact
from refbench.models.model import Commission, Painted
from refbench.models.returned import painted
from refbench.record import RefBenchError

Call: TypeAlias = Callable[[Any, Any], Any]
"""From a request and a seed, or from lists of them."""

_LONGEST = 500  # characters of an error's message in a Failure
_HERE = threading.local()
_AS = {"int": int, "float": float, "str": str}


def found(what: str) -> Any:
    """The object that `package.module:name` or `./file.py:name` means."""
    place, _, name = what.rpartition(":")
    if not place or not name:
        raise RefBenchError(f"{what}: write it as python:package.module:factory or python:./file.py:factory")
    module = _file_module(Path(place)) if place.endswith(".py") else _module(place)
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        raise RefBenchError(f"{place} has no {name} ({error})") from error


def made(what: str, options: Mapping[str, str]) -> Any:
    """What the factory makes with the options, or the callable itself where a callable is named in place of one."""
    thing = found(what)
    if not callable(thing):
        raise RefBenchError(f"{what} is a {type(thing).__name__} and cannot be called")
    signature = _signature(thing)
    try:
        arguments = _arguments(signature, options)
        if signature is not None:
            signature.bind(**arguments)
    except (TypeError, ValueError) as error:
        if not options and _style(thing) is not None:
            return thing
        raise RefBenchError(
            f"{what}{signature or ''} cannot be called with {dict(options) or 'nothing'}: {error}"
        ) from error
    try:
        return awaited(thing(**arguments))
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RefBenchError(f"{what} cannot be made: {said(error)}") from error


def called(thing: Any, what: str) -> tuple[Call, bool]:
    """How to call what was made, its `generate` or itself, with (request, seed) or (request); whether to await it."""
    for candidate in (getattr(thing, "generate", None), thing):
        style = _style(candidate) if callable(candidate) else None
        if style is not None:
            inner = getattr(candidate, "__call__", None)  # noqa: B004 - of objects with an async __call__
            return style, inspect.iscoroutinefunction(candidate) or inspect.iscoroutinefunction(inner)
    raise RefBenchError(f"{what} gives a {type(thing).__name__}, which cannot be called with (request, seed)")


def paint(call: Call, rows: Sequence[tuple[Commission, int]], *, batch: bool) -> list[Painted]:
    """One answer for each row; a batch that raises is halved until those that raise stand alone."""
    if not batch:
        return [_one(call, *row) for row in rows]
    start = time.perf_counter()
    try:
        values = awaited(call([row[0] for row in rows], [row[1] for row in rows]))
        if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
            raise TypeError(f"a {type(values).__name__} came back for {len(rows)} requests, not a list")
        if len(values) != len(rows):
            raise ValueError(f"{len(values)} results came back for {len(rows)} requests")
        seconds = (time.perf_counter() - start) / len(rows)
        return [painted(v, row[0].n_pictures, seconds=seconds) for v, row in zip(values, rows, strict=True)]
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - a library's sys.exit and a panic in Rust are no Exception
        failure = failed(error)
    # Out of the except clause, whose error would keep the batch's tensors alive: halves may have to fit in memory.
    if len(rows) == 1:
        return [Painted(failure=failure, seconds=time.perf_counter() - start)]
    half = len(rows) // 2
    return paint(call, rows[:half], batch=True) + paint(call, rows[half:], batch=True)


def failed(error: BaseException) -> Failure:
    """What an error in the user's function means; one after which no GPU call succeeds is raised again."""
    if "CUDA error" in str(error) or "HIP error" in str(error):
        raise error
    # Whether the exception or the kernel comes first is chance, so both are one kind.
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return Failure(kind="worker_died" if full else "missing_output", detail=f"the function raised {said(error)}")


def said(error: BaseException) -> str:
    """Type and message of an error in one line, without what looks like a key."""
    message = redact(" ".join(str(error).split()))
    return f"{type(error).__name__}: {message}"[:_LONGEST] if message else type(error).__name__


def awaited(value: Any) -> Any:
    """The value itself, or what comes of it, in this thread's own event loop: clients stay bound to the one loop."""
    if not inspect.isawaitable(value):
        return value
    if getattr(_HERE, "loop", None) is None:
        _HERE.loop = asyncio.new_event_loop()
    return _HERE.loop.run_until_complete(_waited(value))


def end_loop() -> None:
    """Close this thread's event loop, if it has one."""
    loop, _HERE.loop = getattr(_HERE, "loop", None), None
    if loop is not None:
        loop.close()


async def _waited(value: Awaitable[Any]) -> Any:
    return await value


def _one(call: Call, commission: Commission, seed: int) -> Painted:
    start = time.perf_counter()
    try:
        value = awaited(call(commission, seed))
        return painted(value, commission.n_pictures, seconds=time.perf_counter() - start)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001
        return Painted(failure=failed(error), seconds=time.perf_counter() - start)


def _style(thing: Any) -> Call | None:
    """The ways in which people write such functions; None for anything else."""
    signature = _signature(thing)
    if signature is None:
        return thing  # type: ignore[no-any-return]
    ways: list[tuple[Call, tuple[Any, ...], dict[str, Any]]] = [
        (lambda request, seed: thing(request, seed), (0, 0), {}),
        (lambda request, seed: thing(request, seed=seed), (0,), {"seed": 0}),
        (lambda request, seed: thing(request), (0,), {}),
    ]
    for way, args, named in ways:
        try:
            signature.bind(*args, **named)
        except TypeError:
            continue
        return way
    return None


def _signature(thing: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(thing)
    except (TypeError, ValueError):  # written in C
        return None


def _arguments(signature: inspect.Signature | None, options: Mapping[str, str]) -> dict[str, Any]:
    """The options as the factory's parameters, as numbers where it says so."""
    arguments: dict[str, Any] = dict(options)
    for key, text in options.items():
        parameter = signature.parameters.get(key) if signature is not None else None
        annotation = parameter.annotation if parameter is not None else str
        name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if name == "bool":
            if text.lower() not in ("yes", "no", "true", "false", "1", "0"):
                raise ValueError(f"{key}={text} must be yes or no")
            arguments[key] = text.lower() in ("yes", "true", "1")
        else:
            arguments[key] = _AS.get(name, str)(text)
    return arguments


def _module(place: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` has it
        sys.path.insert(0, here)
    try:
        return importlib.import_module(place)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RefBenchError(f"{place} cannot be imported: {said(error)}") from error


def _file_module(path: Path) -> Any:
    path = path.expanduser().absolute()
    if str(path.parent) not in sys.path:  # as `python file.py` has it
        sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem not in sys.modules else f"refbench_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RefBenchError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look there
    try:
        spec.loader.exec_module(module)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RefBenchError(f"{path} cannot be imported: {said(error)}") from error
    return module
