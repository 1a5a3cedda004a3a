"""MICo-Bench (MICo-150K, CVPR 2026): pictures composed of two to ten others, in four tasks.

W is the share of the sources that one finds again: people by their faces, everything else by a question for each. Two
further calls mark semantic consistency (SC) against a composite that people have checked, and perceptual quality (PQ),
each the root of two marks from 0 to 10. A case scores W x SC x PQ, at most 100; all numbers are means over cases.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refbench.benchmarks import kit
from refbench.benchmarks.kit import Derive, Material, Measured, Parts, Variant, asks, number_pair, yes_or_no
from refbench.benchmarks.kit.official import script_prompts
from refbench.benchmarks.kit.replies import found_by, unread
from refbench.benchmarks.kit.scaled import LOST
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.metrics.metric import Value, both, metric
from refbench.networks import Feature

TASKS = {"object_centric": 138, "human_centric": 168, "hoi": 291, "dere": 300}
EVAL, WEIGHTS = "MICo-Bench/eval_score.py", "MICo-Bench/compute_weights.py"
SCRIPTS = {"PQ_PROMPT": EVAL, "SC_PROMPT": EVAL, "VLM_PROMPT": WEIGHTS}
POSITIONS = range(10)
SOURCES = [f"source_{at + 1}" for at in POSITIONS]
FACES = [f"face_{at + 1}" for at in POSITIONS]


def load(root: Path) -> Iterator[AnyCase]:
    for task in TASKS:
        for row in kit.rows(root / f"mico_bench_{task}.jsonl"):
            name = f"{task}/{row['idx'] if 'idx' in row else row['ed_idx']}"
            humans = sorted(row.get("human_indices") or ())
            text = row.get("refined_prompt") or row["prompt"]
            pictures, targets = {"reference": row["input"]}, [row["reference"]]
            yield kit.case(name, text, pictures, groups={"task": task}, targets=targets, humans=humans)


# --- W: people by ArcFace, everything else by a question ------------------------------------------------------------


@metric(better="higher", range=(0, 1), of=both("arcface_buffalo_l"))
def face_kept(output: Feature, reference: Feature) -> Value:
    """How surely the largest face of a source is among the output's, in the five steps of MICo-Bench."""
    if not len(reference["vectors"]):
        return Failure(kind="no_detection", detail="no face was found in the source")
    source = np.asarray(reference["vectors"][0], dtype=np.float64)
    faces = [np.asarray(face, dtype=np.float64) for face in output["vectors"]]
    alike = [float(face @ source) / max(float(np.linalg.norm(face) * np.linalg.norm(source)), 1e-12) for face in faces]
    steps = ((0.45, 1.0), (0.30, 0.7), (0.15, 0.5), (0.05, 0.2))
    return next((credit for least, credit in steps if alike and max(alike) >= least), 0.0)


def faces(case: AnyCase) -> list[Measured]:
    pictures = case.request.pictures
    return [Measured(FACES[at], "face_kept", {"reference": pictures[at]}) for at in case.details["humans"]]


def source(at: int) -> kit.Call:
    @asks(SOURCES[at], yes_or_no(SOURCES[at]), released=kit.Sent(max_tokens=16))
    def ask(case: AnyCase, shown: Material) -> Parts:
        return [shown.inputs[at], shown.output, shown.text("VLM_PROMPT")]

    return ask


def not_applicable(case: AnyCase) -> dict[str, str]:
    there, humans = range(len(case.request.pictures)), case.details["humans"]
    away = {SOURCES[at]: "a person, or no such source" for at in POSITIONS if at not in there or at in humans}
    return away | {FACES[at]: "no person, or no such source" for at in POSITIONS if at not in humans}


def kept(marks: Any) -> float:
    """The mean over the sources."""
    found = [marks[name] for name in marks.applying((*SOURCES, *FACES))]
    return math.fsum(found) / len(found)


def kept_released(marks: Any) -> float:
    """As the release has it: no face in one source, and none of the faces counts; a call that fails leaves the case
    without a weight, which is then taken to be 1."""
    lost = any(marks.failed(name) == "no_detection" for name in FACES)
    # Faces come first: where nothing has measured them, a lost call makes no 1 of the case.
    found = [0.0 if lost else marks[name] for name in marks.applying(FACES)]
    if any(marks.failed(name) in LOST for name in SOURCES):
        return 1.0
    found += [marks[name] for name in marks.applying(SOURCES)]
    return math.fsum(found) / len(found)


# --- SC and PQ -------------------------------------------------------------------------------------------------------


@asks("SC", number_pair(("following", "resemblance"), 0, 10), combined="geometric_mean", released=kit.Sent())
def semantic_consistency(case: AnyCase, shown: Material) -> Parts:
    return [shown.text("SC_PROMPT", prompt=case.request.instruction), shown.targets[0], shown.output]


@asks("PQ", number_pair(("naturalness", "artifacts"), 0, 10), combined="geometric_mean", released=kit.Sent())
def perceptual_quality(case: AnyCase, shown: Material) -> Parts:
    return [shown.text("PQ_PROMPT"), shown.output]


def read_released(case: AnyCase, part: str, reply: str) -> Mapping[str, Any] | Failure:
    """The first pair in brackets, of any size; of a question whether the word yes, or no, is there alone."""
    if part in SOURCES:
        yes, no = (bool(found_by(rf"(?i)\b({word})\b", reply)) for word in ("yes", "no"))
        return {part: float(yes and not no)}
    for first, second in found_by(r"\[\s*([\d.]{1,40})\s*,\s*([\d.]{1,40})\s*\]", reply)[:1]:
        try:
            return {part: math.sqrt(float(first) * float(second))}
        except ValueError:
            return unread(f"[{first}, {second}] is no pair of numbers: the release stops there")
    return unread("no pair of numbers in brackets")


def total(weight: Callable[[Any], float]) -> Derive:
    return Derive(lambda marks: weight(marks) * marks["SC"] * marks["PQ"], (0, 100))


BENCHMARK = kit.benchmark(
    name="micobench",
    title="MICo-Bench",
    paper="arXiv 2512.07348",
    load=load,
    layout="mico_bench_*.jsonl of the code's MICo-Bench folder, beside the pictures, are not in it",
    judge=[*map(source, POSITIONS), semantic_consistency, perceptual_quality],
    measure=faces,
    measured=dict.fromkeys(FACES, (0, 1)),
    not_applicable=not_applicable,
    hidden=(*SOURCES, *FACES),
    derived={"W": Derive(kept, (0, 1)), "score": total(kept)},
    protocols={
        "paper": Variant(read=read_released, derived={"W": Derive(kept_released), "score": total(kept_released)})
    },
    abilities={"SC": "RC", "PQ": "VQ"},
    release=kit.Release(
        package=__package__,
        sources=(kit.Source("A113NW3I/MICo-Bench", code="A113N-W3I/MICo-150K"),),
        prompts=script_prompts(__package__, SCRIPTS),
        counts={"task": TASKS},
        landmark="mico_bench_dere.jsonl",
        output_names=lambda case: [f"mico_bench_{case.id}", case.id],
    ),
)
