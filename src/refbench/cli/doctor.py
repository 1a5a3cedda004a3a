"""`refbench doctor`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Json
from refbench.record import RefBenchError


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
    pictures: Annotated[
        int | None, Parameter(help="How many pictures to send, without --benchmark; 2 to a judge, 1 to a model")
    ] = None,
    json: Json = False,
) -> int:
    """Make real calls, few and small: is it there, is the key right, how many pictures does it take? Of a judge also:
    does it keep to a JSON schema, does a real request of the benchmark fit? Of a model: how many pictures come back,
    how large, in how many seconds, for how much? Exit code 2 when one of them cannot be used."""
    if not judge and not model:
        raise RefBenchError("give --judge SPEC or --model SPEC, for example --model openai:gpt-image-1")
    if pictures is not None and not 0 <= pictures <= 64:
        raise RefBenchError(f"--pictures {pictures}: give a number from 0 to 64")
    import orjson

    from refbench.engine.doctor import examine, examine_models, largest_request
    from refbench.engine.options import RunOptions
    from refbench.engine.setup import find_cases

    with tempfile.TemporaryDirectory(prefix="refbench-") as folder:
        largest = None
        to_judge, to_model, back = pictures if pictures is not None else 2, pictures if pictures is not None else 1, 1
        if benchmark is not None:
            bench, dataset = find_cases(RunOptions(benchmark=benchmark, data=data))
            requests = [case.request for case in dataset.cases]
            to_judge = max(len(request.pictures) + request.n_pictures for request in requests)
            to_model = max(len(request.pictures) for request in requests)
            back = max(request.n_pictures for request in requests)
            if judge:
                largest = largest_request(bench, dataset, Path(folder))
        judges = asyncio.run(examine(judge, to_judge, largest)) if judge else []
        models = asyncio.run(examine_models(model, n_pictures=to_model, n_back=back)) if model else []
    if json:
        reports = {
            "judges": [report.model_dump() for report in judges],
            "models": [report.model_dump() for report in models],
        }
        print(orjson.dumps(reports).decode())
    else:
        for name, report in [(r.judge, r) for r in judges] + [(r.model, r) for r in models]:
            print(f"{name}: {'can be used' if report.usable else 'cannot be used'}")
            for what, verdict in report.findings.items():
                print(f"  {what}: {verdict}")
    return 0 if all([r.usable for r in judges] + [r.usable for r in models]) else 2
