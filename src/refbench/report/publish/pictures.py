"""The pictures of a run in Parquet, as the Hub shows them, and one line for each that says why it is there or not."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.calls.keys import Secrets
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.output import Output
from refbench.pictures import facts_of, picture_bytes
from refbench.record import Record, RefBenchError
from refbench.report.publish.licences import Licence, Licences
from refbench.runs import Run
from refbench.runs.disk import write_whole

_FILE_BYTES = 256 << 20
"""Pictures in one file, about: the Hub shows the first of a dataset without loading more."""
_GROUP_BYTES = 32 << 20
"""Pictures that are held in memory together."""


class PictureLine(Record):
    """One picture: what it is, whose, and whether it is published."""

    kind: str
    """`input`, `target` or `output`."""
    name: str
    """Of an input, as cases have it; of an output, MODEL/CASE with seed and number."""
    role: str
    case: str
    model: str = ""
    seed: int = 0
    sha256: str = ""
    licence: str
    author: str = ""
    source: str = ""
    left_out: str = ""
    """Why it is not published; "" where it is."""


@dataclass(frozen=True)
class Found:
    """A picture and, where it is to be published, its bytes' place."""

    line: PictureLine
    path: Path | None


@dataclass(frozen=True)
class Sources:
    """Where pictures lie and under which licences they are."""

    run: Run
    root: Path | None
    inputs: Licences
    outputs: Licence


def found_pictures(sources: Sources, cases: Sequence[AnyCase]) -> Iterator[Found]:
    """Every picture of the cases once, then every output; what may not or cannot be published has the reason."""
    known = sources.run.inputs()
    seen: set[str] = set()
    for case in cases:
        both = [("input", p) for p in case.request.pictures] + [("target", p) for p in case.targets]
        for kind, picture in both:
            if picture.name in seen:
                continue
            seen.add(picture.name)
            licence = sources.inputs.of(picture.name)
            path = sources.root / picture.name if sources.root is not None else None
            line = PictureLine(
                kind=kind,
                name=picture.name,
                role=picture.role,
                case=case.id,
                sha256=known.get(picture.name, picture.sha256 or ""),
                **licence.model_dump(),
            )
            yield _judged(line, path, sources.inputs.why_not(licence))
    for output in sources.run.outputs():
        if output.step is None:
            yield from _outputs(output, sources)


def _outputs(output: Output, sources: Sources) -> Iterator[Found]:
    why = sources.inputs.why_not(sources.outputs)
    for number, picture in enumerate(output.pictures, 1):
        seed = f" seed {output.seed}" if output.seed else ""
        several = f" {number}" if len(output.pictures) > 1 else ""
        line = PictureLine(
            kind="output",
            name=f"{output.model}/{output.case}{seed}{several}",
            role="output",
            case=output.case,
            model=output.model,
            seed=output.seed,
            sha256=picture.sha256,
            **sources.outputs.model_dump(),
        )
        yield _judged(line, sources.run.blobs.path(picture.sha256, picture.format), why)


def _judged(line: PictureLine, path: Path | None, why: str) -> Found:
    if not why and (path is None or not path.is_file()):
        why = "it is not at hand"
    return Found(line.model_copy(update={"left_out": why}), None if why else path)


def write_pictures(found: Sequence[Found], folder: Path, secrets: Secrets) -> list[PictureLine]:
    """Write those that may be published; gives a line for each, and none is published that is not what was used."""
    lines: list[PictureLine] = []
    writer = _Writer(folder / "pictures")
    try:
        for one in found:
            line = one.line
            if one.path is not None:
                data = picture_bytes(one.path)
                line = _checked(line, data, secrets)
                if not line.left_out and not isinstance(data, Failure):
                    writer.add(line, data)
            lines.append(line)
    finally:
        writer.close()
    text = b"".join(line.model_dump_json().encode() + b"\n" for line in lines)
    write_whole(folder / "pictures.jsonl", text)
    return lines


def _checked(line: PictureLine, data: bytes | Failure, secrets: Secrets) -> PictureLine:
    facts = data if isinstance(data, Failure) else facts_of(data)
    if isinstance(facts, Failure) or isinstance(data, Failure):
        return line.model_copy(update={"left_out": "it cannot be read as a picture"})
    if not line.sha256:  # the folder is named by the run, which may be a stranger's
        return line.model_copy(update={"left_out": "the run has no record of what it was"})
    if facts.sha256 != line.sha256:
        return line.model_copy(update={"left_out": "it is not the picture that was used"})
    if secrets.within(data):
        return line.model_copy(update={"left_out": "it holds a secret of this machine's environment"})
    return line


class _Writer:
    """Parquet files of about one size, with the picture in the form that `datasets` takes for one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[dict[str, Any]] = []
        self._held = self._in_file = self._files = 0
        self._file: Any = None

    def add(self, line: PictureLine, data: bytes) -> None:
        fields = line.model_dump(exclude={"left_out"})
        self._rows.append({**fields, "image": {"bytes": data, "path": f"{line.sha256}"}})
        self._held += len(data)
        if self._held >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if not self._rows:
            return
        arrow, parquet = _arrow()
        table = arrow.Table.from_pylist(self._rows, schema=_schema(arrow))
        if self._file is None or self._in_file >= _FILE_BYTES:
            if self._file is not None:
                self._file.close()
            self._files += 1
            self._folder.mkdir(exist_ok=True)
            self._file = parquet.ParquetWriter(self._folder / f"{self._files:05d}.parquet", table.schema)
            self._in_file = 0
        self._file.write_table(table)
        self._in_file += self._held
        self._rows, self._held = [], 0


def _arrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RefBenchError("publishing pictures needs an extra: pip install 'refbench[hub]'") from error


TEXTS = ("kind", "name", "role", "case", "model", "sha256", "licence", "author", "source")
"""Columns of text beside the picture and its seed."""


def _schema(arrow: Any) -> Any:
    """The columns, with what the Hub's library reads of their types."""
    image = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    columns = [(name, arrow.string()) for name in TEXTS]
    schema = arrow.schema([*columns, ("seed", arrow.int64()), ("image", image)])
    kinds: Mapping[str, Any] = {
        **{name: {"dtype": "string", "_type": "Value"} for name in TEXTS},
        "seed": {"dtype": "int64", "_type": "Value"},
        "image": {"_type": "Image"},
    }
    return schema.with_metadata({"huggingface": json.dumps({"info": {"features": kinds}})})
