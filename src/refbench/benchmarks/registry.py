"""The benchmarks there are, found by name, in installed packages or in a file; loaded when asked for."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import os
import sys
import traceback
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from refbench.benchmarks import trust
from refbench.benchmarks.kit.definition import Benchmark
from refbench.record import RefBenchError
from refbench.specs import entry_points
from refbench.text.files import ARCHIVES

SHIPPED = (
    "creval",
    "multibanana",
    "ideabench",
    "icebench",
    "multiref",
    "gedit",
    "imgedit",
    "omnicontext",
    "dreambenchplus",
    "risebench",
    "krisbench",
    "micobench",
    "editrewardbench",
)

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


_ENDINGS = "ends in .jsonl, .csv or .parquet for cases, in .py for a benchmark"


def from_file(path: Path) -> Benchmark:
    """Run a Python file that the user has named and take its BENCHMARK. An unchanged file is run once."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # reading it might wait for ever
            raise RefBenchError(f"{path} is a pipe or a device: save what it gives under a name that {_ENDINGS}")
        source = path.read_bytes()
        found = _run_file(path.resolve(), source)
        trust.remember(source)
        return found
    except FileNotFoundError:
        raise RefBenchError(f"{path} is not there: give a Python file that defines BENCHMARK") from None
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error


def from_run(path: Path, source: bytes, code: str) -> Benchmark:
    """The same of the file that a run keeps: only if this user has run that very file before, or says so. It is run as
    if from the user's own folder: what lies beside it in the run may be anybody's."""
    if not trust.may_run(source):
        raise RefBenchError(
            f"{path} is Python that came with the run, and reading the run would execute it: you have not run this "
            "file before. Read it, then give --trust-run once, or --benchmark FILE with a file of yours; refbench "
            "export --what evidence, outputs or cases does without"
        )
    if code not in ("", _digest(source)):
        raise RefBenchError(f"{path} imports files from beside it, which {_NOT_KEPT}")
    return _run_file(trust.own_copy(source), source, kept=path)


_NOT_KEPT = "a run does not keep: name the file (--benchmark FILE)"


@lru_cache(maxsize=32)
def _run_file(path: Path, source: bytes, kept: Path | None = None) -> Benchmark:
    """Run a file as if from `path`; `kept` is the run's copy of it, which messages name."""
    named, loaded = kept or path, set(sys.modules)
    # A name that no other module has: two files may both be called mybench.py.
    unique = f"refbench_file_{hashlib.sha256(str(path).encode() + source).hexdigest()[:16]}"
    if path.suffix != ".py":
        raise RefBenchError(f"{named} is no Python file: give one that defines BENCHMARK, or a name that {_ENDINGS}")
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
        if kept and isinstance(error, ModuleNotFoundError):
            said = f"it imports {error.name}, which is not installed here; what lies beside a file {_NOT_KEPT}"
        raise RefBenchError(f"{named}{where}: {said}") from error
    _FILES[str(path)] = str(named)
    found = _checked(getattr(module, "BENCHMARK", None), str(named))
    if found.name in (*SHIPPED, "own"):
        raise RefBenchError(f"{named}: its name={found.name!r} is that of a benchmark of RefBench: give it another")
    text = source.decode("utf-8", "surrogateescape")
    beside = _beside(path, source, set(sys.modules) - loaded)
    return replace(
        found,
        code=_digest(source, *beside.values()),
        source={**found.source, "benchmark.py": text},
        beside=tuple(str(file.relative_to(path.parent)) for file in beside),
    )


def _beside(path: Path, source: bytes, loaded: set[str]) -> dict[Path, bytes]:
    """The modules that a file imports, now or later, from its own folder, and those that they import from there: code
    of the benchmark as well."""
    beside: dict[Path, bytes] = {}
    waiting = [*loaded, *_imports(source)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name.partition(".")[0] in {"refbench", *sys.stdlib_module_names}:
            continue
        seen.add(name)
        file = _file_of(name)
        if file is None or file == path or not file.is_relative_to(path.parent) or "site-packages" in file.parts:
            continue
        beside[file] = file.read_bytes()
        package = name if file.stem == "__init__" else name.rpartition(".")[0]
        waiting += _imports(beside[file], package)
    return dict(sorted(beside.items()))


def _file_of(name: str) -> Path | None:
    try:
        found = getattr(sys.modules[name], "__spec__", None) if name in sys.modules else find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(found.origin).resolve() if found is not None and found.has_location and found.origin else None


def _imports(source: bytes, package: str = "") -> list[str]:
    """The modules that code names in its imports, inside functions too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{one.name}" for one in node.names)]
    return [name for name in names if name]


_FILES: dict[str, str] = {}
"""The files that benchmarks which are not shipped were taken from, and how messages name them."""


def fault_of_benchmark(error: BaseException) -> str | None:
    """What a function of a benchmark that is not shipped raised, and where; None for a fault that is not its own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _FILES]
    if not frames:
        return None
    file, line, name = _FILES[frames[-1].filename], frames[-1].lineno, frames[-1].name
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
    file = str(getattr(sys.modules[point.module], "__file__", None) or point.module)
    _FILES[file] = file
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
                f"{_published(bench)}"
            )
        data = Path(base).expanduser() / bench.name
    if not data.exists():
        raise RefBenchError(
            f"{data} is not there: give --data the directory of {_a_checkout(bench)}{_published(bench)}"
        )
    if data.suffix in ARCHIVES and data.is_file():
        raise RefBenchError(f"{data} is an archive: unpack it, and give --data the directory that it was unpacked into")
    if not data.is_dir():
        raise RefBenchError(f"{data} is a file: give --data the directory of {_a_checkout(bench)}")
    if not bench.data.is_checkout(data):
        for parent in (data.parent, *(child for child in sorted(data.iterdir()) if child.is_dir())):
            if bench.data.is_checkout(parent):
                raise RefBenchError(f"{data} is not the root of {_a_checkout(bench)}: did you mean --data {parent}?")
        for other in SHIPPED:
            landmark = benchmark(other).data.landmark
            if other != bench.name and landmark and (data / landmark).exists():
                raise RefBenchError(f"{data} looks like {other}, not {bench.name}: give --data {_a_checkout(bench)}")
        packed = next((child.name for child in sorted(data.iterdir()) if child.suffix in ARCHIVES), None)
        hint = f"; if the data is in {packed}, unpack it there" if packed else ""
        raise RefBenchError(f"{data} is no {bench.title} checkout: {bench.data.layout}{hint or _published(bench)}")
    return data


def _a_checkout(bench: Benchmark) -> str:
    return f"{'an' if bench.title[:1] in 'AEIOU' else 'a'} {bench.title} checkout"


def _published(bench: Benchmark) -> str:
    """How the data are had, for who has none."""
    if not bench.data.sources:
        return ""
    return f"; refbench fetch {bench.name} brings it from {bench.data.sources[0].page}"
