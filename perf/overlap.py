"""Making and judging overlap: a model of 300 ms and a judge of 200 ms, 8 in flight each, 400 cases, in one run.

    python perf/overlap.py

Prints the wall time against the slower stage alone (target: within 25 %).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from refbench.engine import evaluate
from support.judge_server import JudgeServer

CASES, IN_FLIGHT, MODEL_S, JUDGE_S = 400, 8, 0.3, 0.2
BENCH = """
import json
from refbench.benchmarks.kit import Call, benchmark
from refbench.case import Case, Request

def load(root):
    for n in range({cases}):
        yield Case(id=f"c{{n}}", request=Request(instruction=f"Paint {{n}}."), cluster=f"c{{n}}", details={{}})

def ask(case, material):
    return ["", material.output, "Give a mark from 1 to 5 as JSON."]

def read(case, reply):
    return {{"quality": json.loads(reply)["quality"]}}

BENCHMARK = benchmark(name="speed", load=load, judge=[Call("quality", {{"quality": (1, 5)}}, ask, read)])
"""
MODEL = """
import asyncio
import sys
sys.path.insert(0, {support!r})
from support.painters import paint

def make():
    async def generate(commission, seed):
        await asyncio.sleep({seconds})
        return paint(commission.instruction)
    return generate
"""


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        JudgeServer(reply=lambda text: json.dumps({"quality": 4}), latency=JUDGE_S, keep_bodies=False) as server,
    ):
        work = Path(place)
        (work / "speed.py").write_text(BENCH.format(cases=CASES))
        support = str(Path(__file__).resolve().parents[1] / "tests")
        (work / "painter.py").write_text(MODEL.format(support=support, seconds=MODEL_S))
        asked = {
            "judges": [f"j=openai:j?base_url={server.url}/v1"],
            "data": work,
            "out": work / "run",
            "concurrency": IN_FLIGHT,
            "making": IN_FLIGHT,
        }
        start = time.perf_counter()
        result = evaluate(
            str(work / "speed.py"), models=[f"m=python:{work / 'painter.py'}:make?workers={IN_FLIGHT}"], **asked
        ).result
        wall = time.perf_counter() - start
    slower = CASES * max(MODEL_S, JUDGE_S) / IN_FLIGHT
    failed = [score.failure for score in result.scores if score.value is None]
    assert not failed, f"{len(failed)} of {CASES} failed: {failed[0]}"
    print(
        f"{CASES} cases made and judged in {wall:.1f} s; the slower stage alone takes {slower:.1f} s: {wall / slower - 1:+.0%} (target at most +25 %)"
    )


if __name__ == "__main__":
    main()
