"""Functions that users write: found by name, made once, and called with a request, with or without a number; and what
it means when they raise."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import sysconfig
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from refbench.failure import Failure, FailureKind, redact
from refbench.record import RefBenchError
from refbench.text.files import users_path

Call: TypeAlias = Callable[[Any, Any], Any]
"""From a request and a number (a seed, a repeat), or from lists of them."""
R = TypeVar("R")
T = TypeVar("T")

_WHOLE = 1 << 20  # bytes: larger files are weights, of which samples tell
_SAMPLE = 1 << 16
_LONGEST = 500  # characters of an error's message in a Failure
_HERE = threading.local()
_AS = {"int": int, "float": float, "str": str}


def load_object(what: str) -> Any:
    """The object that `package.module:name` or `./file.py:name` means."""
    place, _, name = what.rpartition(":")
    if not place or not name:
        raise RefBenchError(f"{what}: write it as python:package.module:factory or python:./file.py:factory")
    module = _file_module(Path(place)) if place.endswith(".py") else _module(place)
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        raise RefBenchError(f"{place} has no {name} ({error})") from error


def make_object(what: str, options: Mapping[str, str]) -> Any:
    """What the factory makes with the options, or the callable itself where a callable is named in place of one."""
    thing = load_object(what)
    if not callable(thing):
        raise RefBenchError(f"{what} is not a function: it is of type {type(thing).__name__}")
    signature = _signature(thing)
    try:
        arguments = _arguments(signature, options)
        if signature is not None:
            signature.bind(**arguments)
    except (TypeError, ValueError) as error:
        lacking = [f"{name}=" for name in _required(signature) if name not in options]
        if lacking and inspect.isclass(thing):
            raise RefBenchError(f"{what} needs {' and '.join(lacking)}: add ?{lacking[0]}...") from error
        if not options and _style(thing) is not None:
            return thing
        if lacking and _style(thing) is not None:
            given = ", ".join(f"{name}=" for name in options)
            raise RefBenchError(
                f"{what}{signature} is called with a request itself, so it takes no options: leave out {given}; a "
                f"factory with options of its own would need {' and '.join(lacking)} too"
            ) from error
        raise RefBenchError(
            f"{what}{signature or ''} cannot be called with {dict(options) or 'nothing'}: {error}"
        ) from error
    with told_as(f"{what} cannot be made"):
        return finished(thing(**arguments))


def how_to_call(thing: Any, what: str, method: str = "generate") -> tuple[Call, bool]:
    """How to call what was made, its `method` or itself, with (request, number) or (request); whether to await it."""
    for candidate in (getattr(thing, method, None), thing):
        style = _style(candidate) if callable(candidate) else None
        if style is not None:
            inner = getattr(candidate, "__call__", None)  # noqa: B004 - of objects with an async __call__
            return style, inspect.iscoroutinefunction(candidate) or inspect.iscoroutinefunction(inner)
    raise RefBenchError(f"{what} gives a {type(thing).__name__}, which cannot be called with (request, seed)")


def source_file(what: str, where: str) -> Path:
    """The file that a function's name means. Nothing is imported; `where` begins the error."""
    place, _, name = what.rpartition(":")
    if not place or not name:
        raise RefBenchError(f"{where}: write it as python:package.module:factory or python:./file.py:factory")
    if place.endswith(".py"):
        path = users_path(place, where)
        if not path.is_file():
            raise RefBenchError(f"{where}: there is no file {path}")
        return path
    folders: list[str] = [str(Path.cwd()), *(entry for entry in sys.path if isinstance(entry, str))]
    module: importlib.machinery.ModuleSpec | None = None
    parts = place.split(".")
    for number in range(1, len(parts) + 1):
        dotted = ".".join(parts[:number])
        module = importlib.machinery.PathFinder.find_spec(dotted, folders) or _by_hook(
            dotted, folders, first=number == 1
        )
        if module is None:
            raise RefBenchError(f"{where}: there is no module {dotted} here; is it installed?")
        folders = list(module.submodule_search_locations or [])
    if module is None or module.origin is None or not Path(module.origin).is_file():
        raise RefBenchError(f"{where}: {place} is no module of Python source")
    return Path(module.origin)


def _by_hook(dotted: str, where: list[str] | None, *, first: bool) -> importlib.machinery.ModuleSpec | None:
    """Modules that only an import hook finds, as those of editable installs."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        module = find(dotted, None if first else where) if find is not None else None
        if module is not None:
            return module  # type: ignore[no-any-return]
    return None


def digest(path: Path) -> str:
    """A hash of a file's content; of a large one its size and three samples."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size <= _WHOLE:
            return hashlib.sha256(file.read()).hexdigest()[:16]
        content = hashlib.sha256(str(size).encode())
        for at in (0, size // 2, size - _SAMPLE):
            file.seek(at)
            content.update(file.read(_SAMPLE))
        return content.hexdigest()[:16]


def error_text(error: BaseException) -> str:
    """Type and message of an error in one line, without what looks like a key."""
    message = redact(" ".join(str(error).split()))
    return f"{type(error).__name__}: {message}"[:_LONGEST] if message else type(error).__name__


_MOST_LINES = 3


def own_lines(error: BaseException) -> str:
    """Where in the user's own files an error came from, innermost first; "" where it was in none of them."""
    import traceback

    ours = str(Path(__file__).parents[1])
    theirs = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((ours, "<", *theirs))
    ]
    return redact(", from ".join(reversed(frames[-_MOST_LINES:])))[:_LONGEST]


def raised(error: BaseException) -> str:
    """What an error in a user's code says, and where in their files it came from."""
    lines = own_lines(error)
    return f"{error_text(error)} ({lines})" if lines else error_text(error)


@contextlib.contextmanager
def told_as(what: str) -> Iterator[None]:
    """Whatever is raised inside becomes the RefBenchError that says so; one that is raised there stays as it is."""
    try:
        yield
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RefBenchError(f"{what}: {error_text(error)}") from error


def failure_of(error: BaseException, kind: FailureKind, what: str = "") -> Failure:
    """What an error means, in words that begin with `what`. One after which every call on the GPU fails in this process
    is raised again: innocent rows would be blamed one by one."""
    if "CUDA error" in str(error) or "HIP error" in str(error):
        raise error
    # Whether the exception or the kernel comes first is chance, so both are one kind, and another run may succeed.
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's, on a GPU
    return Failure(kind="worker_died" if full else kind, detail=what + raised(error))


def in_halves(
    rows: Sequence[R], together: Callable[[Sequence[R]], list[T]], failed: Callable[[BaseException], T]
) -> list[T]:
    """One result for each row, in order; rows that raise together are halved until those that raise stand alone.

    RefBenchError is the user's to mend and is raised, and so is whatever `failed` raises.
    """
    try:
        return together(rows)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - a library's sys.exit and a panic in Rust are no Exception
        failure = failed(error)
    # Out of the except clause, whose error would keep the rows' arrays alive: halves may have to fit in memory.
    if len(rows) == 1:
        return [failure]
    half = len(rows) // 2
    return in_halves(rows[:half], together, failed) + in_halves(rows[half:], together, failed)


def finished(value: Any) -> Any:
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


def _required(signature: inspect.Signature | None) -> list[str]:
    """The parameters that have to be given by name or by place."""
    parameters = signature.parameters.values() if signature is not None else ()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


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
    with told_as(f"{place} cannot be imported"):
        return importlib.import_module(place)


def _file_module(path: Path) -> Any:
    path = users_path(str(path), str(path)).absolute()
    if str(path.parent) not in sys.path:  # as `python file.py` has it
        sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem not in sys.modules else f"refbench_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RefBenchError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look there
    with told_as(f"{path} cannot be imported"):
        # Not the loader's: it may take bytecode of an older file that has the same size and second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module
