"""`refbench verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Json

_SHOWN = 20


def verify_command(
    folder: Annotated[Path, Parameter(help="A folder that refbench publish wrote, or a download of one")],
    *,
    json: Json = False,
) -> int:
    """Compute every number of a published run again from its evidence, without running any of its code.

    0: all the same. 1: something differs. 4: it cannot be verified, being read by code of its own.
    """
    from refbench.record import counted
    from refbench.report.publish.verify import verify
    from refbench.text.console import printable

    found = verify(folder)
    if json:
        print(found.model_dump_json(indent=2))
        return found.exit_code
    for one in found.differences[:_SHOWN]:
        said = f": published {one.published}, recomputed {one.recomputed}" if one.published or one.recomputed else ""
        print(printable(f"{one.where}{said}", line=True))
    if len(found.differences) > _SHOWN:
        print(f"and {len(found.differences) - _SHOWN} more (--json has all)")
    for note in found.notes:
        print(printable(note, line=True))
    if found.why:
        print(printable(f"{folder} is not verifiable: {found.why}", line=True))
    elif found.differences:
        print(f"{folder} does not hold: {counted(len(found.differences), 'difference')}")
    else:
        what = f"{counted(found.cells, 'cell')} and {counted(found.scores, 'score')}"
        print(f"{folder} holds: {what} computed again from the evidence, all the same")
    return found.exit_code
