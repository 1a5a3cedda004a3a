"""`refbench view`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import ProtocolName, Refusals
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.report.site.boards import ReadOptions


def view_command(
    *runs: Annotated[Path, Parameter(help="Run directories; runs of the same cases stand side by side")],
    out: Annotated[
        Path | None, Parameter(help="Write the pages into this folder, to keep and to send; without it they are served")
    ] = None,
    data: Annotated[
        Path | None, Parameter(help="Directory of the cases' pictures; where the run found them by default")
    ] = None,
    port: Annotated[int, Parameter(help="Port to serve on; a free one by default")] = 0,
    protocol: ProtocolName = "both",
    refusals: Refusals = "conditional",
    pictures: Annotated[
        Literal["shown", "thumbs", "full"],
        Parameter(
            help="With --out: each picture once at the size pages show it, as a thumbnail, or the files as they are"
        ),
    ] = "shown",
    url: Annotated[
        str, Parameter(help="With --out: where the folder will lie on the web, for previews of links to it")
    ] = "",
    brief: Annotated[
        bool, Parameter(help="One A4 page to print instead (brief.html, or --out): which model for what, how sure")
    ] = False,
) -> int:
    """Look at runs in a browser: leaderboard, pictures side by side, judges' words, comparisons, failures.

    Without --out a server on this machine shows them live; it answers only to the address it prints. With --out the
    same pages are written as files that open without a server.
    """
    if not runs:
        raise RefBenchError("give at least one run directory, for example refbench view runs/x")
    if not 0 <= port <= 65535:
        raise RefBenchError(f"--port {port} is no port: give a number up to 65535, or none for a free one")
    if port and (brief or out is not None):
        raise RefBenchError(f"--port {port}: only live pages are served; leave out {'--brief' if brief else '--out'}")
    if pictures != "shown" and (brief or out is None):
        raise RefBenchError(f"--pictures {pictures} is about pages written with --out")
    if url and (brief or out is None or not url.startswith(("https://", "http://"))):
        raise RefBenchError(f"--url {url}: give the whole address, https://..., of pages written with --out")
    options: ReadOptions = {"protocol": protocol, "refusals": refusals}
    if out is None and not brief:
        return _serve(runs, data, port, options)
    from refbench.report.brief.page import write_brief
    from refbench.report.site.pages import write_site
    from refbench.text.console import console

    with console(stderr=True).status("scoring the runs") as status:
        if brief or out is None:
            done = write_brief(runs, out, data=data, report=status.update, **options)
            told = "1 A4 page" if done.boards == 1 else f"{done.boards} A4 pages, one for each set of cases"
            told += " to print"
        else:
            done = write_site(runs, out, data=data, pictures=pictures, url=url, report=status.update, **options)
            told = f"{counted(done.cases, 'case')}, {counted(done.pictures, 'picture')}, {done.bytes / 1e6:.1f} MB"
    print(f"{told}. Open {done.path.resolve()}")
    _name_missing(done.absent, done.broken)
    return 0


def _name_missing(absent: Sequence[str], broken: Mapping[str, str]) -> None:
    """Say which pictures stay empty, and why."""
    if absent:
        first = f"(first: {absent[0]})"
        print(f"{len(absent)} pictures of the cases are not at hand {first}: give --data", file=sys.stderr)
    for name, why in list(broken.items())[:5]:
        print(f"{name} cannot be shown: {why}", file=sys.stderr)
    if len(broken) > 5:
        print(f"and {len(broken) - 5} more", file=sys.stderr)


def _serve(runs: tuple[Path, ...], data: Path | None, port: int, options: ReadOptions) -> int:
    import asyncio

    from refbench.report.site.server import LiveSite, Server
    from refbench.text.console import console

    with console(stderr=True).status("scoring the runs"):
        site = LiveSite(runs, data=data, **options)

    async def serve() -> None:
        server = Server(site, port)
        await server.start()
        print(f"Open {server.url}", flush=True)
        print("On another machine, first: " + tunnel(server.port), flush=True)
        print("Notes about cases are saved in the run. Stop with Ctrl-C.", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        print()
    finally:
        site.close()
    return 0


def tunnel(port: int) -> str:
    """What to type where the browser is, when the run lies elsewhere."""
    import socket

    return f"ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}"
