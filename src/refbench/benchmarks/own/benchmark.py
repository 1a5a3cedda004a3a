"""A benchmark made of a rubric: the user's cases, judged and tabled like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from refbench.benchmarks.benchmark import Benchmark, Material, Question
from refbench.benchmarks.dataset import Dataset
from refbench.benchmarks.own.details import OwnCase
from refbench.benchmarks.own.load import load_cases
from refbench.benchmarks.own.replies import measures_in
from refbench.benchmarks.own.requests import LABELS, check_questions, requests
from refbench.benchmarks.simple import Total, simple_benchmark
from refbench.chat import ChatRequest
from refbench.failure import Failure
from refbench.judges import Text, parse_rubric
from refbench.record import RefBenchError


def own_benchmark(rubric_text: str, rubric_name: str) -> Benchmark:
    """The benchmark `own` under a rubric; `rubric_name` is how errors call it (a path or a shipped name)."""
    rubric = parse_rubric(rubric_text, rubric_name)
    by_name = {part.name: part for part in rubric.parts}
    weights = {measure: weight for part in rubric.parts for measure, weight in part.headline().items()}

    def load(path: Path) -> Dataset:
        dataset = load_cases(path)
        check_questions(rubric, dataset.cases)
        return dataset

    def ask(case: OwnCase, material: Material) -> Mapping[str, ChatRequest]:
        return requests(rubric, case, material)

    def read(case: OwnCase, part: str, reply: str) -> Mapping[str, float | Failure]:
        if part not in by_name:
            raise RefBenchError(f"{rubric_name} has no part {part!r}: the replies were given under another rubric")
        return measures_in(rubric, case, by_name[part], reply)

    def questions(case: OwnCase) -> list[Question]:
        """Each criterion in the rubric's words, and the case's own questions, which are right when answered yes."""
        found = []
        for part in rubric.parts:
            found += [
                Question(criterion.name, criterion.description or criterion.label, weight=weight)
                for criterion, weight in zip(part.criteria, part.weights, strict=True)
                if not isinstance(criterion.kind, Text)
            ]
            found += [Question(part.questions, text, "Yes") for text in case.details.questions if part.questions]
        return found

    made = simple_benchmark(
        name="own",
        title=rubric.title,
        load=load,
        ask=ask,
        read=read,
        measures={part.name: part.measures() for part in rubric.parts},
        total=Total(rule=rubric.total, over=tuple(weights), weights=weights, range=rubric.range),
        case_type=OwnCase,
        layout="it holds no cases",
        recorded={"rubric": rubric.name, "wording": rubric.sha256, "labels": LABELS},
    )
    return replace(made, questions=questions, code=rubric.sha256[:16])
