"""Edits that need reasoning, judged against an answer that the model never sees.

    DIR/items.json    [{"index": "t1", "category": "temporal", "instruction": "...", "answer": "...",
                        "image": "images/t1.png", "consistency_free": false}, ...]
    DIR/images/...    the source pictures

Three marks from 1 to 5, weighted 4:3:3. Where the right edit changes the whole picture, consistency does not
apply: it is not asked, it lowers what is expected, and the other two make the total.
"""

from collections.abc import Iterator
from pathlib import Path

from refbench.benchmarks.kit import Call, Material, Parts, Total, asks, benchmark, case, rows
from refbench.case import AnyCase
from refbench.judges import Contract, Criterion, Scale

ASK = {
    "reasoning": """The edit asked for: {instruction}
The right result: {answer}
How well does the second picture show that result? 1: not at all. 5: exactly.""",
    "consistency": """The edit asked for: {instruction}
How much of what it does not touch is as it was in the first picture? 1: nothing. 5: all.""",
    "plausibility": "How real and clean is the second picture, whatever it shows? 1: broken. 5: flawless.",
}


def load(root: Path) -> Iterator[AnyCase]:
    for row in rows(root / "items.json"):
        groups, secret = {"category": row["category"]}, {name: row[name] for name in ("answer", "consistency_free")}
        yield case(row["index"], row["instruction"], {"source": row["image"]}, groups=groups, **secret)


def call(axis: str) -> Call:
    @asks(axis, reads=Contract("json_object", (Criterion(axis, Scale(1, 5, whole=True)),)))
    def ask(case: AnyCase, shown: Material) -> Parts:
        words = {"instruction": case.request.instruction, "answer": case.details["answer"]}
        return ["Before:", shown.inputs[0], "After:", shown.output, ASK[axis].format(**words)]

    return ask


def not_applicable(case: AnyCase) -> dict[str, str]:
    return {"consistency": "the whole picture should change"} if case.details["consistency_free"] else {}


TOTAL = Total("weighted_mean", weights={"reasoning": 4, "consistency": 3, "plausibility": 3})
BENCHMARK = benchmark(
    name="rise", load=load, judge=[call(axis) for axis in ASK], total=TOTAL, not_applicable=not_applicable
)
