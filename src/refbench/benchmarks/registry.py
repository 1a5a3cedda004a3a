"""The benchmarks there are, found by name, in installed packages or in a file; loaded when asked for."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import os
import sys
import traceback
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from refbench.benchmarks.kit.definition import Benchmark
from refbench.record import RefBenchError

SHIPPED = ("creval", "multibanana", "ideabench", "icebench", "multiref")

ENTRY_POINTS = "refbench.benchmarks"
"""The group under which an installed package names its benchmarks."""


def names() -> tuple[str, ...]:
    """Those that are shipped, then those that installed packages add."""
    return (*SHIPPED, *(name for name in sorted(_entry_points()) if name not in SHIPPED))


def benchmark(name: Path | str) -> Benchmark:
    """The benchmark of that name, or the one that a Python file defines (`./mybench.py`)."""
    name = str(name)
    if name in SHIPPED:
        found: Benchmark = importlib.import_module(f"refbench.benchmarks.{name}.benchmark").BENCHMARK
        return found
    if name.endswith(".py") or "/" in name:
        return from_file(Path(name))
    added = _entry_points()
    if name in added:
        return _from_entry_point(added[name])
    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names())}"
    raise RefBenchError(f"no benchmark is called {name!r}: {hint}")


def from_file(path: Path) -> Benchmark:
    """Run a Python file and take its BENCHMARK. An unchanged file is run once."""
    try:
        return _run_file(path.resolve(), path.read_bytes())
    except FileNotFoundError:
        raise RefBenchError(f"{path} is not there: give a Python file that defines BENCHMARK") from None
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(maxsize=32)
def _run_file(path: Path, source: bytes) -> Benchmark:
    # A name that no other module has: two files may both be called mybench.py.
    unique = f"refbench_file_{hashlib.sha256(str(path).encode() + source).hexdigest()[:16]}"
    if path.suffix != ".py":
        raise RefBenchError(f"{path} is no Python file: give one that defines BENCHMARK")
    module = ModuleType(unique)
    module.__file__ = str(path)
    sys.modules[unique] = module  # annotations are looked up there
    try:
        # Not the loader's: it may take bytecode of an older file that has the same size and second.
        exec(compile(source, str(path), "exec"), module.__dict__)
    except OSError:
        del sys.modules[unique]
        raise
    except Exception as error:
        del sys.modules[unique]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        said = error if isinstance(error, RefBenchError) else f"it raised {type(error).__name__}: {error}"
        raise RefBenchError(f"{path}{where}: {said}") from error
    _FILES.add(str(path))
    found = _checked(getattr(module, "BENCHMARK", None), str(path))
    text = source.decode("utf-8", "surrogateescape")
    return replace(found, code=_digest(source), source={**found.source, "benchmark.py": text})


_FILES: set[str] = set()
"""The files that benchmarks which are not shipped were taken from."""


def fault_of_benchmark(error: BaseException) -> str | None:
    """What a function of a benchmark that is not shipped raised, and where; None for a fault that is not its own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _FILES]
    if not frames:
        return None
    file, line, name = frames[-1].filename, frames[-1].lineno, frames[-1].name
    inside = f", in {name}" if name != "<module>" else ""
    return f"{file}, line {line}{inside}: it raised {type(error).__name__}: {error}"


def _digest(*sources: bytes) -> str:
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:16]


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _from_entry_point(point: EntryPoint) -> Benchmark:
    where = f"the benchmark {point.name} of the package {point.dist.name if point.dist else point.module}"
    try:
        found = point.load()
    except Exception as error:
        raise RefBenchError(f"{where} cannot be loaded: it raised {type(error).__name__}: {error}") from error
    bench = _checked(getattr(found, "BENCHMARK", found), where)
    _FILES.add(str(getattr(sys.modules[point.module], "__file__", None) or point.module))
    return replace(bench, code=f"{_distribution(point)} {_module_code(point.module)}".strip())


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else ""


def _module_code(name: str) -> str:
    """A hash of a module's source, with the modules beside it where it is in a package: editable installs keep their
    version while their code changes."""
    module = sys.modules[name]
    file = Path(getattr(module, "__file__", None) or "")
    files = sorted(file.parent.glob("*.py")) if getattr(module, "__package__", "") else [file]
    return _digest(*(path.read_bytes() for path in files if path.is_file()))


def _checked(found: object, where: str) -> Benchmark:
    if not isinstance(found, Benchmark):
        what = "it defines no BENCHMARK" if found is None else f"its BENCHMARK is of type {type(found).__name__}"
        raise RefBenchError(f"{where}: {what}; make one with refbench.benchmarks.kit.benchmark")
    return found


def resolve_data(bench: Benchmark, data: Path | None) -> Path:
    """The directory of the official data: `--data`, else `$REFBENCH_DATA/<benchmark>`."""
    if data is None:
        base = os.environ.get("REFBENCH_DATA")
        if not base:
            raise RefBenchError(
                f"where is {bench.title}? give --data DIR, or set REFBENCH_DATA to the folder of all data"
            )
        data = Path(base) / bench.name
    if not data.exists():
        raise RefBenchError(f"{data} is not there: give --data the directory of a {bench.title} checkout")
    if not data.is_dir():
        raise RefBenchError(f"{data} is a file: give --data the directory of a {bench.title} checkout")
    if not bench.data.is_checkout(data):
        for parent in (data.parent, *(child for child in sorted(data.iterdir()) if child.is_dir())):
            if bench.data.is_checkout(parent):
                raise RefBenchError(
                    f"{data} is not the root of a {bench.title} checkout: did you mean --data {parent}?"
                )
        for other in SHIPPED:
            landmark = benchmark(other).data.landmark
            if other != bench.name and landmark and (data / landmark).exists():
                raise RefBenchError(
                    f"{data} looks like {other}, not {bench.name}: give --data a {bench.title} checkout"
                )
        raise RefBenchError(f"{data} is no {bench.title} checkout: {bench.data.layout}")
    return data
