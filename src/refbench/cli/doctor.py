"""`refbench doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Json
from refbench.machine import scratch_folder
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.engine.doctor import Largest, ModelReport, Report


def doctor_command(
    *,
    judge: Annotated[
        list[str] | None, Parameter(help="[NAME=]openai:MODEL and the like; may be given several times")
    ] = None,
    model: Annotated[
        list[str] | None, Parameter(help="[NAME=]KIND:WHAT of an image model; one real request is made and may cost")
    ] = None,
    benchmark: Annotated[
        str | None, Parameter(help="Try as many pictures as this benchmark's largest case needs")
    ] = None,
    data: Data = None,
    rubric: Annotated[
        str | None, Parameter(help="With --benchmark CASES of your own and a judge: what the judge is asked")
    ] = None,
    pictures: Annotated[
        int | None, Parameter(help="How many pictures to send, without --benchmark; 2 to a judge, 1 to a model")
    ] = None,
    tour: Annotated[
        list[str] | None,
        Parameter(help="Judges, one or more: try everything that a run may need of them", consume_multiple=True),
    ] = None,
    budget: Annotated[
        str | None,
        Parameter(help="Of the tour: most that it may spend, as 40calls or 0.10usd; by default 30 calls a judge"),
    ] = None,
    prompts: Annotated[
        str | None, Parameter(help="Of the tour, with --benchmark: official:CHECKOUT, a request in the authors' words")
    ] = None,
    out: Annotated[
        Path, Parameter(help="Of the tour: folder of its report and of its calls; the same command goes on")
    ] = Path("tour"),
    json: Json = False,
) -> int:
    """Make real calls, few and small: is it there, is the key right, how many pictures does it take? Of a judge also:
    does it keep to a JSON schema, does a real request of the benchmark fit? Of a model: how many pictures come back,
    how large, in how many seconds, for how much? Exit code 2 when one of them cannot be used.

    --tour SPEC ... tries everything that a run may need of judges within a budget, and ends in a report without keys
    (report.md and report.json in --out) that can be sent to others. Exit code 2 when one of them cannot be reached, 3
    when the budget ended it."""
    if tour:
        if judge or model:
            raise RefBenchError("--tour names its judges itself: leave --judge and --model out")
        return _tour(tour, out, (budget, prompts, benchmark, data), json=json)
    if budget is not None or prompts is not None:
        raise RefBenchError("--budget and --prompts are of a --tour: name its judges")
    if not judge and not model:
        raise RefBenchError("give --judge SPEC or --model SPEC, for example --model openai:gpt-image-2")
    if pictures is not None and not 0 <= pictures <= 64:
        raise RefBenchError(f"--pictures {pictures}: give a number from 0 to 64")
    return _examined(judge or [], model or [], (benchmark, data, rubric), pictures, json=json)


def _examined(
    judge: list[str],
    model: list[str],
    given: tuple[str | None, Path | None, str | None],
    pictures: int | None,
    *,
    json: bool,
) -> int:
    import orjson

    from refbench.engine.doctor import examine, examine_models, largest_request
    from refbench.engine.options import RunOptions
    from refbench.engine.setup import find_cases

    benchmark, data, rubric = given
    with scratch_folder() as folder:
        largest = None
        to_judge, to_model, back = pictures if pictures is not None else 2, pictures if pictures is not None else 1, 1
        if benchmark is not None:
            options = RunOptions(benchmark=benchmark, data=data, rubric=rubric)
            bench, dataset = find_cases(options, () if judge else None)
            requests = [case.request for case in dataset.cases]
            to_judge = max(len(request.pictures) + request.n_pictures for request in requests)
            to_model = max(len(request.pictures) for request in requests)
            back = max(request.n_pictures for request in requests)
            if judge:
                largest = largest_request(bench, dataset, folder)
        judges = asyncio.run(examine(judge, to_judge, largest)) if judge else []
        models = asyncio.run(examine_models(model, n_pictures=to_model, n_back=back)) if model else []
    if json:
        reports = {
            "judges": [report.model_dump() for report in judges],
            "models": [report.model_dump() for report in models],
        }
        print(orjson.dumps(reports).decode())
    else:
        _print([(r.judge, r) for r in judges] + [(r.model, r) for r in models])
    return 0 if all([r.usable for r in judges] + [r.usable for r in models]) else 2


def _print(reports: Sequence[tuple[str, Report | ModelReport]]) -> None:
    for name, report in reports:
        print(f"{name}: {'can be used' if report.usable else 'cannot be used'}")
        for what, verdict in report.findings.items():
            print(f"  {what}: {verdict}")


def _tour(
    specs: list[str], out: Path, given: tuple[str | None, str | None, str | None, Path | None], *, json: bool
) -> int:
    import sys

    from refbench.engine.tour.tour import TourRequest, tour
    from refbench.text.console import printable

    budget, prompts, benchmark, data = given
    if (prompts is None) != (benchmark is None):
        raise RefBenchError("--prompts official:CHECKOUT needs the --benchmark that is asked about, and its --data")

    def official(folder: Path) -> Largest | str:
        if prompts is None or benchmark is None:
            return "no checkout is given (--prompts official:CHECKOUT)"
        return _official(folder, prompts, benchmark, data)

    request = TourRequest(specs, out, budget, official=official)
    made = asyncio.run(tour(request, lambda line: print(printable(line, line=True), file=sys.stderr)))
    if json:
        print(made.model_dump_json())
    else:
        for one in made.judges:
            print(printable(f"{one.judge} ({one.kind}:{one.model}, {one.at}), {one.calls} calls", line=True))
            for step in one.steps:
                print(printable(f"  {step.name}: {step.state}{f' ({step.said})' if step.said else ''}", line=True))
        print(f"Report: {out / 'report.md'} and {out / 'report.json'}; no key is in them")
    if made.stopped == "interrupt":
        return 130
    return 3 if made.stopped == "budget" else 0 if all(one.reachable for one in made.judges) else 2


def _official(folder: Path, prompts: str, benchmark: str, data: Path | None) -> Largest | str:
    """The largest request of a benchmark in official words; why there is none, where it cannot be made."""
    from refbench.engine.doctor import largest_request
    from refbench.engine.options import RunOptions
    from refbench.engine.setup import find_cases

    bench, dataset = find_cases(RunOptions(benchmark=benchmark, data=data))
    found = largest_request(bench, dataset, folder, {"prompts": prompts})
    return found if found is not None else "the benchmark's largest request cannot be made: its pictures are not there"
