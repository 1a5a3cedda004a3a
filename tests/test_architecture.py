"""The shape of the project: where replies are read, what the core needs, what the files may say."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src/refbench").rglob("*.py"))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_only_declared_readers_read_replies() -> None:
    """Parsers need json or re. A benchmark's reader is its `replies.py` or a contract of the kit; its loader is `cases.py`
    or the kit's rows: a benchmark in one file needs neither module, and can move in-tree as it is."""
    in_one_file = sorted((ROOT / "examples").glob("*.py"))
    for path in [*sorted((ROOT / "src/refbench/benchmarks").rglob("*.py")), *in_one_file]:
        if path.name not in ("replies.py", "cases.py"):
            assert not {"json", "re"} & imports(path), path


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT / 'src/refbench')}:{node.name}", node


def test_a_function_is_read_without_scrolling() -> None:
    lengths = {name: node.end_lineno - node.lineno + 1 for name, node in functions() if node.end_lineno}
    assert {name: lines for name, lines in lengths.items() if lines > 80} == {}
    assert len({name: lines for name, lines in lengths.items() if lines > 60}) <= 5


def test_a_function_has_at_most_seven_parameters() -> None:
    """Commands, and what they are in Python, have an argument for each thing that users choose."""
    doors = ("evaluate", "benchmark", "rescore", "compare", "precision_report")
    for name, node in functions():
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        chosen = [argument for argument in arguments if argument.arg not in ("self", "cls")]
        assert len(chosen) <= 7 or name.endswith("_command") or node.name in doors, name


def test_the_rooms_of_the_house_are_those_of_the_plan() -> None:
    """Each folder has its line in docs/architecture.md, and so has each module that lies beside them."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    house = ROOT / "src/refbench"
    rooms = [path.parent for path in house.glob("*/__init__.py")]
    loose = [path for path in house.glob("*.py") if not path.name.startswith("__")]
    assert [room.name for room in rooms if f"| `{room.name}/` |" not in page] == []
    assert [path.name for path in loose if f"`{path.name}`" not in page] == []
    assert len(loose) <= 8


def test_the_core_is_small() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) <= 12
    assert not any("torch" in name for name in project["dependencies"])


def test_lower_bounds_are_the_ones_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = dict(line.split("==") for line in (ROOT / "constraints/lowest.txt").read_text().split() if "==" in line)
    for requirement in project["dependencies"]:
        name, bound = requirement.split(">=")
        assert lowest[name].startswith(bound), f"{requirement} is tested with {lowest[name]}"


def test_a_module_says_what_lives_in_it() -> None:
    assert [path for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_heavy_libraries_are_imported_inside_functions() -> None:
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not any(re.match(r"(scipy|torch|transformers|pyarrow)\b", name) for name in names), path


def test_every_data_file_is_inside_the_package() -> None:
    for name in ("published.csv", "item_scores.csv", "paper874_excluded.txt", "rubric/answer.txt", "rubric/system.txt"):
        assert (ROOT / "src/refbench/benchmarks/creval" / name).is_file()


def test_what_the_documentation_imports_is_there() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for module, names in re.findall(r"from (refbench[\w.]*) import ([\w, ]+)", page.read_text("utf-8")):
            for name in names.replace(" ", "").split(","):
                assert hasattr(importlib.import_module(module), name), f"{page.name}: {module} has no {name}"
