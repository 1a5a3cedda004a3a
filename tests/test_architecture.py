"""The shape of the project: where replies are read, what the core needs, what the files may say."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

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


class Function(NamedTuple):
    file: str
    name: str
    lines: int
    parameters: int


class Module(NamedTuple):
    path: Path
    docstring: str | None
    loads: list[str]
    """What is imported when the module is."""
    functions: list[Function]


@cache
def modules() -> list[Module]:
    """What the claims below need of every file, which is parsed once for all of them."""
    return [_module(path) for path in SOURCES]


def _module(path: Path) -> Module:
    tree = ast.parse(path.read_text())
    loads, found = [], []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            loads += [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            parameters = sum(argument.arg not in ("self", "cls") for argument in arguments)
            file = str(path.relative_to(ROOT / "src/refbench"))
            found.append(Function(file, node.name, node.end_lineno - node.lineno + 1, parameters))
    return Module(path, ast.get_docstring(tree), loads, found)


def functions() -> list[Function]:
    return [function for module in modules() for function in module.functions]


def test_a_function_is_read_without_scrolling() -> None:
    lengths = {f"{one.file}:{one.name}": one.lines for one in functions()}
    assert len(lengths) > 1000
    assert {name: lines for name, lines in lengths.items() if lines > 80} == {}
    assert len({name: lines for name, lines in lengths.items() if lines > 60}) <= 5


def test_a_function_has_at_most_seven_parameters() -> None:
    """Commands, and what they are in Python, have an argument for each thing that users choose."""
    doors = ("evaluate", "benchmark", "rescore", "compare", "precision_report")
    for one in functions():
        assert one.parameters <= 7 or one.name.endswith("_command") or one.name in doors, one


def test_the_rooms_of_the_house_are_those_of_the_plan() -> None:
    """Each folder has its line in docs/architecture.md, and so has each module that lies beside them."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    house = ROOT / "src/refbench"
    rooms = [path.parent for path in house.glob("*/__init__.py")]
    loose = [path for path in house.glob("*.py") if not path.name.startswith("__")]
    assert [room.name for room in rooms if f"| `{room.name}/` |" not in page] == []
    assert [path.name for path in loose if f"`{path.name}`" not in page] == []
    assert len(loose) <= 8


def test_what_is_printed_goes_through_the_one_console_and_cells_through_the_one_guard() -> None:
    for path in SOURCES:
        text = path.read_text()
        if path.name != "console.py":
            assert not re.search(r"\bConsole\(|markup=True|from rich import print", text), path
        assert "csv_cell" in text or not re.search(r"csv\.(writer|DictWriter)\(", text), path


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
    assert [module.path for module in modules() if not module.docstring] == []


def test_heavy_libraries_are_imported_inside_functions() -> None:
    for module in modules():
        heavy = [name for name in module.loads if re.match(r"(scipy|torch|transformers|pyarrow)\b", name)]
        assert heavy == [], module.path


def test_every_data_file_is_inside_the_package() -> None:
    for name in ("published.csv", "item_scores.csv", "paper874_excluded.txt", "rubric/answer.txt", "rubric/system.txt"):
        assert (ROOT / "src/refbench/benchmarks/creval" / name).is_file()


def test_what_the_documentation_imports_is_there() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for module, names in re.findall(r"from (refbench[\w.]*) import ([\w, ]+)", page.read_text("utf-8")):
            for name in names.replace(" ", "").split(","):
                assert hasattr(importlib.import_module(module), name), f"{page.name}: {module} has no {name}"


def test_every_extra_that_users_are_told_to_install_is_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    files = [*(ROOT / "src/refbench").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    told = {name for file in files for found in re.findall(r"refbench\[([a-z,]+)\]", file.read_text("utf-8"))
            for name in found.split(",")}  # fmt: skip
    assert told and told <= extras.keys()
