"""A RISE-style benchmark: edits that need reasoning, judged against an answer that the model never sees.

    DIR/items.json    [{"index": "t1", "category": "temporal", "instruction": "...", "answer": "...",
                        "image": "images/t1.png", "consistency_free": false}, ...]
    DIR/images/...    the source pictures

Three marks from 1 to 5, weighted 4:3:3. Where the right edit changes the whole picture, consistency does not
apply: it is not asked, it lowers what is expected, and the other two make the total.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refbench.benchmarks.kit.benchmark import Material
from refbench.benchmarks.kit.constructor import Total, judge_request, simple_benchmark
from refbench.case import AnyCase, Case, Picture, Request
from refbench.chat import ChatRequest
from refbench.judges import Contract, Criterion, Scale

ASK = {
    "reasoning": """The edit asked for: {instruction}
The right result: {answer}
How well does the second picture show that result? 1: not at all. 5: exactly.""",
    "consistency": """The edit asked for: {instruction}
How much of what it does not touch is as it was in the first picture? 1: nothing. 5: all.""",
    "plausibility": "How real and clean is the second picture, whatever it shows? 1: broken. 5: flawless.",
}
CONTRACTS = {axis: Contract("json_object", (Criterion(axis, Scale(1, 5, whole=True)),)) for axis in ASK}


def load(root: Path) -> Iterator[AnyCase]:
    for item in json.loads((root / "items.json").read_text(encoding="utf-8")):
        request = Request(instruction=item["instruction"], pictures=(Picture(name=item["image"], role="source"),))
        details = {"answer": item["answer"], "consistency_free": item["consistency_free"]}
        groups = {"category": item["category"]}
        yield Case(id=item["index"], request=request, groups=groups, cluster=item["index"], details=details)


def ask(case: AnyCase, material: Material) -> dict[str, ChatRequest]:
    words = {"instruction": case.request.instruction, "answer": case.details["answer"]}
    shown = [("Before:", material.inputs[0]), ("After:", material.outputs[0])]
    return {axis: judge_request(text.format(**words), shown, CONTRACTS[axis]) for axis, text in ASK.items()}


def read(case: AnyCase, part: str, reply: str) -> Mapping[str, Any]:
    return CONTRACTS[part].read(reply)


def not_applicable(case: AnyCase) -> dict[str, str]:
    return {"consistency": "the whole picture should change"} if case.details["consistency_free"] else {}


MEASURES = {axis: {axis: (1, 5)} for axis in ASK}
TOTAL = Total("weighted_mean", weights={"reasoning": 4, "consistency": 3, "plausibility": 3})
BENCHMARK = simple_benchmark(
    name="rise", load=load, ask=ask, read=read, measures=MEASURES, total=TOTAL, not_applicable=not_applicable
)
