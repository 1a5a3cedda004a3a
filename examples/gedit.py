"""A GEdit-style benchmark: single edits, judged in two calls, in our own words.

    DIR/instructions.jsonl    {"key": "a1", "instruction": "...", "task_type": "color", "instruction_language": "en"}
    DIR/input/<key>.png       the source pictures

Semantic consistency (SC) sees source and output, perceptual quality (PQ) the output alone. Each is the lower of
two marks from 0 to 10; a case scores the square root of their product, and cases are averaged.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from refbench.benchmarks.kit.benchmark import Material
from refbench.benchmarks.kit.constructor import judge_request, simple_benchmark
from refbench.case import AnyCase, Case, Picture, Request
from refbench.chat import ChatRequest
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, combine

SC = Contract("json_object", (Criterion("edit_success", Scale(0, 10)), Criterion("preservation", Scale(0, 10))))
PQ = Contract("json_object", (Criterion("naturalness", Scale(0, 10)), Criterion("no_artifacts", Scale(0, 10))))
ASK_SC = """The second picture should be the first one after this edit: {instruction}
Give two marks from 0 to 10. edit_success: how much of the edit was done. preservation: how much of everything else
was left as it was."""
ASK_PQ = """Judge only how well this picture is made. Give two marks from 0 to 10. naturalness: light, shadows and
proportions are right. no_artifacts: nothing is distorted, smeared or broken."""


def load(root: Path) -> Iterator[AnyCase]:
    for line in (root / "instructions.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        source = Picture(name=f"input/{item['key']}.png", role="source")
        groups = {"task": item["task_type"], "language": item["instruction_language"]}
        request = Request(instruction=item["instruction"], pictures=(source,))
        yield Case(id=item["key"], request=request, groups=groups, cluster=item["key"], details={})


def ask(case: AnyCase, material: Material) -> dict[str, ChatRequest]:
    (source,), (output,) = material.inputs, material.outputs
    semantic = ASK_SC.format(instruction=case.request.instruction)
    return {
        "SC": judge_request(semantic, [("Before:", source), ("After:", output)], SC),
        "PQ": judge_request(ASK_PQ, [("Picture:", output)], PQ),
    }


def read(case: AnyCase, part: str, reply: str) -> dict[str, float | Failure]:
    marks = {"SC": SC, "PQ": PQ}[part].read(reply)
    return {part: combine("minimum", list(marks.values()))}


MEASURES = {"SC": {"SC": (0, 10)}, "PQ": {"PQ": (0, 10)}}
BENCHMARK = simple_benchmark(name="gedit", load=load, ask=ask, read=read, measures=MEASURES, total="geometric_mean")
