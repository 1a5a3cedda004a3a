"""`refbench publish`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refbench.cli.options import Refusals
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.report.publish.publish import Published


def publish_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    to: Annotated[str, Parameter(help="A folder to write, or hub:USER/NAME")],
    licences: Annotated[
        Path | None, Parameter(help=".csv or .jsonl with picture (a name or pattern), licence, author, source")
    ] = None,
    outputs_licence: Annotated[str, Parameter(help="Under which licence the models' pictures are published")] = "",
    allow: Annotated[
        list[str] | None,
        Parameter(help="Also publish pictures under this licence; unknown for those without one. May be given again"),
    ] = None,
    data: Annotated[Path | None, Parameter(help="Where the cases' pictures lie, if not where the run noted")] = None,
    refusals: Refusals = "conditional",
    private: Annotated[bool, Parameter(help="Make the repository a private one", negative=())] = False,
    dry_run: Annotated[
        bool, Parameter(help="Say what would be published; nothing is written or sent", negative=())
    ] = False,
) -> int:
    """Publish a run: card, Croissant, evidence, scores, pictures whose licence allows it. Others read it with compare
    and check it with verify."""
    from refbench.machine import scratch_folder
    from refbench.report.publish.hub import repository_of, upload
    from refbench.report.publish.publish import Publishing, publish_folder, write_published

    wanted = Publishing(
        licences=licences,
        outputs_licence=outputs_licence,
        allow=tuple(allow or ()),
        data=data,
        refusals=refusals,
    )
    repository = repository_of(to)
    if private and repository is None:
        raise RefBenchError("--private is about hub:USER/NAME: a folder is as private as where it lies")
    if repository is None and not dry_run:
        _say(publish_folder(run, Path(to), wanted), f"{run} is published in {to}")
        return 0
    with scratch_folder() as scratch:
        folder = scratch / (repository or to).rstrip("/").rpartition("/")[2]
        made = write_published(run, folder, wanted)
        if dry_run or repository is None:
            _say(made, f"{run} would be published in {to}; nothing was written or sent")
            return 0
        place = upload(folder, repository, private=private)
    _say(made, f"{run} is published: {place}")
    return 0


def _say(made: Published, first: str) -> None:
    from refbench.report.publish.publish import said_of_pictures
    from refbench.text.console import printable

    size = sum(made.files.values())
    print(printable(f"{first} (fingerprint {made.fingerprint})", line=True))
    print(f"{len(made.files)} files, {size / 1e6:,.1f} MB: {', '.join(made.files)}")
    for line in [*said_of_pictures(made), *made.notes]:
        print(printable(line, line=True))
