"""Judge replies kept as text files (`synthetic/<name>.txt`, `real-world/<row_id>.txt`) as evidence.

MultiRef-Bench released neither its judge's prompt nor replies, so the layout is ours: one file for each case id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.definition import ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model, place_in, reply_in
from refbench.benchmarks.multiref.table import OVERALL_PART
from refbench.evidence import Evidence, Purpose
from refbench.record import RefBenchError, clean_text

_SUFFIX = ".txt"


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """The replies about one model by one judge. The files name neither: the model is `models`' only name, else the
    folder's; the judge has to be given."""
    model = only_model(models, folder.resolve().name, "a folder of MultiRef-Bench replies is")
    if judge is None:
        raise RefBenchError("--judge is needed: the reply files of MultiRef-Bench do not say whose they are")
    if not folder.is_dir():
        raise RefBenchError(f"{folder} is not there: give --replies a folder with synthetic/ and real-world/ inside")
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
