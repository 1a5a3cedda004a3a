"""`refbench new`."""

from __future__ import annotations

import keyword
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def new_command(
    what: Annotated[Literal["benchmark"], Parameter(help="What to write")],
    name: Annotated[str, Parameter(help="Its name, a Python name in small letters")],
    *,
    out: Annotated[Path, Parameter(help="Directory to write to")] = Path(),
) -> int:
    """Write NAME.py and test_NAME.py: a benchmark that loads, asks, reads and tables, with a test that passes."""
    from refbench.benchmarks.registry import names
    from refbench.record import RefBenchError

    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise RefBenchError(f"{name!r} is no name for a {what}: use small letters, digits and _")
    if name in names():
        raise RefBenchError(f"there is a benchmark {name} already: choose another name")
    files = {out / f"{name}.py": "benchmark", out / f"test_{name}.py": "test"}
    for path in files:
        if path.exists():
            raise RefBenchError(f"{path} is there already: choose another name or another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, template in files.items():
            text = resources.files("refbench.cli").joinpath(f"templates/{template}.txt").read_text("utf-8")
            path.write_text(text.format(name=name), encoding="utf-8")
    except OSError as error:
        raise RefBenchError(f"{out} cannot be written to: {error.strerror}") from error
    written, test = files
    print(f"Wrote {written} and {test}. Next: pytest {test}")
    return 0
