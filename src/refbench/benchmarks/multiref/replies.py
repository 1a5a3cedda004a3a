"""The judge's replies: text files as evidence, and their readers.

No prompt, reader or replies of this judge were released, so both protocols ask in our words and read by the contract,
and the layout of the files is ours: one for each case id (`synthetic/<name>.txt`, `real-world/<row_id>.txt`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.kit.definition import Dataset, ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model, place_in, reply_in
from refbench.benchmarks.multiref.cases import AXES, HIGHEST, LOWEST, WORDS, Type
from refbench.benchmarks.multiref.evaluations import import_values
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text
from refbench.record import RefBenchError, clean_text

OVERALL_PART, REFERENCES_PART = "overall", "references"
"""The two calls about an output."""

DIALECT = "json_object"
_MARK = Scale(LOWEST, HIGHEST, whole=True)
_REASON = Criterion("reason", Text(), "two or three sentences, written before you decide", optional=True)

LABELS: Mapping[str, str] = {
    "image_quality": "IQ",
    "instruction_following": "IF",
    "source_fidelity": "SF",
}
"""What the judge calls each axis."""
assert tuple(LABELS.values()) == AXES

OVERALL = Contract(DIALECT, (_REASON, *(Criterion(label, _MARK) for label in LABELS)))


def references_contract(types: Sequence[Type]) -> Contract:
    """One mark for the references of each type."""
    criteria = (Criterion(_label(kind), _MARK) for kind in types)
    return Contract(DIALECT, (_REASON, *criteria))


def read_overall(reply: str) -> dict[str, float | Failure]:
    """The marks on the three axes, each in a state of its own."""
    marks = OVERALL.marks(reply)
    return {axis: marks[label] for label, axis in LABELS.items()}


def read_references(reply: str, types: Sequence[Type]) -> dict[str, float | Failure]:
    """The marks for the types that were asked about."""
    marks = references_contract(types).marks(reply)
    return {judged(kind): marks[_label(kind)] for kind in types}


def asked_types(request: Mapping[str, Any], there: Sequence[Type]) -> list[Type]:
    """Which of the case's types a recorded request asked about; all of them where the request is not on record."""
    schema = request.get("json_schema") or {}
    named = schema.get("properties")
    return [kind for kind in JUDGEABLE if kind in there and (named is None or _label(kind) in named)]


def _label(kind: Type) -> str:
    return WORDS[kind].replace(" ", "_")


# --- replies given elsewhere ---------------------------------------------------------------------------------


_SUFFIX = ".txt"


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """The replies about one model by one judge. The files name neither: the model is `models`' only name, else the
    folder's; the judge has to be given. A JSON file is the result of the released evaluation, and has no judge."""
    if folder.is_file():
        return import_values(dataset, folder, models)
    model = only_model(models, folder.resolve().name, "a folder of MultiRef-Bench replies is")
    if judge is None:
        raise RefBenchError("--judge is needed: the reply files of MultiRef-Bench do not say whose they are")
    if not folder.is_dir():
        raise RefBenchError(
            f"{folder} is not there: give --replies a folder with synthetic/ and real-world/ inside, "
            "or the result of the released evaluation"
        )
    files = {
        clean_text(path.relative_to(folder).as_posix().removesuffix(_SUFFIX)): path
        for path in sorted(folder.rglob(f"*{_SUFFIX}"))
    }
    known = {case.id for case in dataset.cases}
    matched = {case: path for case, path in files.items() if case in known}
    if not matched:
        raise RefBenchError(
            f"none of the {len(files)} text files in {folder} is named by a case, as synthetic/<name>.txt"
        )

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for case, path in matched.items():
            purpose = Purpose(case=case, model=model, judge=judge, part=OVERALL_PART)
            yield imported_reply("multiref", purpose, reply_in(path), place_in(folder, path))

    unknown = tuple(f"{case}{_SUFFIX}" for case in files if case not in known and case not in dataset.outside)
    outside = tuple(f"{case}{_SUFFIX}" for case in files if case in dataset.outside)
    return ImportedReplies(judge=judge, models=(model,), replies=replies, unknown=unknown, outside=outside)
