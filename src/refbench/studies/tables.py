"""The table that a study makes of a run: a benchmark's own table, of people's marks alone."""

from __future__ import annotations

from pathlib import Path

from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.studies.evidence import acts_of
from refbench.studies.reading import Reading
from refbench.studies.study import Study
from refbench.tables.result import Result
from refbench.tables.scorer import RunFacts, score_evidence
from refbench.tables.scoring import Origin, benchmark_of, result_of
from refbench.tables.table import DRAWS

CORRECTED = "corrected"


def people_result(study: Study, reading: Reading, *, draws: int = DRAWS) -> Result:
    """The run's table by people alone, over the cases of the study: means, intervals over cases, coverage. A benchmark
    whose cases have questions for people is tabled over all of those, whatever its judge can score."""
    if study.design.source.kind != "run":
        raise RefBenchError(f"{study.path}: only a study of a run's outputs has the run's table")
    run = Run.open(Path(study.design.source.path))
    bench = benchmark_of(run)
    wanted = {item.case for item in study.items.values() if item.use == "item"}
    cases = [case for case in run.cases(bench.data.case_type) if case.id in wanted]
    asked = [getattr(case.details, "for_people", lambda: None)() for case in cases]
    cases = [
        case if details is None else case.model_copy(update={"details": details})
        for case, details in zip(cases, asked, strict=True)
    ]
    acts, told = acts_of(study, reading, run)
    if reading.nobody_left:
        raise RefBenchError(f"{study.path}: every rater is left out by a rule: see refbench study export")
    if not acts:
        raise RefBenchError(f"{study.path}: no mark is about a measure of {bench.title}: see refbench study export")
    outputs = [output for output in run.outputs() if output.case in wanted]
    facts = RunFacts(outputs=outputs, settings=run.info.settings, live=True)
    protocol = CORRECTED if CORRECTED in bench.scoring.protocols else next(iter(bench.scoring.protocols))
    scores = score_evidence(bench, cases, acts.items(), [protocol], facts)
    origin = Origin(run.info.subset, settings=run.info.settings, notes=[f"by people alone: {told}"])
    return result_of(bench, cases, scores, origin, draws=draws)
