"""`refbench doctor`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Json


def doctor_command(
    *,
    judge: Annotated[list[str], Parameter(help="[NAME=]openai:MODEL and the like; may be given several times")],
    benchmark: Annotated[
        str | None, Parameter(help="Try as many pictures as this benchmark's largest case needs")
    ] = None,
    data: Data = None,
    pictures: Annotated[int, Parameter(help="How many pictures to send, without --benchmark")] = 2,
    json: Json = False,
) -> int:
    """Make real calls, few and small: is the judge there, is the key right, how many pictures does it take, does
    it keep to a JSON schema, does a real request of the benchmark fit? Exit code 2 when a judge cannot be used."""
    import orjson

    from refbench.engine.doctor import examine, largest_request
    from refbench.engine.setup import find_cases

    with tempfile.TemporaryDirectory(prefix="refbench-") as folder:
        largest = None
        if benchmark is not None:
            bench, dataset = find_cases(benchmark, data=data)
            largest = largest_request(bench, dataset, Path(folder))
            requests = [case.request for case in dataset.cases]
            pictures = max(len(request.pictures) + request.n_pictures for request in requests)
        reports = asyncio.run(examine(judge, pictures, largest))
    if json:
        print(orjson.dumps([report.model_dump() for report in reports]).decode())
    else:
        for report in reports:
            print(f"{report.judge}: {'can be used' if report.usable else 'cannot be used'}")
            for name, verdict in report.findings.items():
                print(f"  {name}: {verdict}")
    return 0 if all(report.usable for report in reports) else 2
