"""The least that a benchmark is: edits of one picture, judged in one call with two marks.

Its data, and how it is run:

    DIR/cases.jsonl     {"id": "a1", "instruction": "...", "source": "pictures/a1.png", "task": "recolour"}
    DIR/pictures/...    the source pictures

    refbench run examples/edits.py --data DIR --model A=folder:out/A --judge openai:gpt-4o --out runs/edits
"""

from collections.abc import Iterator
from pathlib import Path

from refbench.benchmarks import kit
from refbench.case import AnyCase

ASK = """The second picture should be the first one after this edit: {instruction}
Give two marks from 0 to 10. Done: how much of the edit was done. Kept: how much of all else was left as it was."""


def load(root: Path) -> Iterator[AnyCase]:
    for row in kit.rows(root / "cases.jsonl"):
        yield kit.case(row["id"], row["instruction"], {"source": row["source"]}, groups={"task": row["task"]})


@kit.asks("edit", reads=kit.score_object(("done", "kept"), 0, 10))
def edit(case: AnyCase, shown: kit.Material) -> kit.Parts:
    return [ASK.format(instruction=case.request.instruction), shown.inputs[0], shown.output]


BENCHMARK = kit.benchmark(name="edits", load=load, judge=[edit], total="geometric_mean", macro=("task",))
