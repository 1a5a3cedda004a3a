"""TensorBoard: scalars, texts and pictures in one event file for each logging, which its name tells apart."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.pictures import facts_of
from refbench.report.trackers.kinds import Receipt, client, other_numbers, saying
from refbench.report.trackers.logged import Logged, LoggedTable
from refbench.runs.disk import disk_error, write_whole
from refbench.specs import Options
from refbench.text.console import as_markdown

_DEFAULT = "tensorboard"
_MARK = ".refbench-"
"""What the end of an event file's name begins with: the step, and the numbers that it holds."""
_MOST_ROWS = 200
"""Of a table, which is text here; all of the scores are scalars too."""


def log(logged: Logged, what: str, options: Options, again: bool) -> Receipt:
    writers = client("tensorboard.summary.writer.event_file_writer", "tensorboard")
    root = Path(what or _DEFAULT)
    folder, known = _folder(root, logged)
    if known and not again:
        return Receipt(place=str(folder), known=True)
    end = f"{_MARK}{0 if logged.step is None else logged.step}-{logged.id}"
    if again:
        if not logged.series:
            folder = folder.with_name(f"{folder.name}-{secrets.token_hex(3)}")
    elif logged.series and any(folder.glob(f"*{_MARK}{logged.step}-*")):
        raise other_numbers(logged)
    with scratch_folder() as scratch:  # a file that is half written would be taken for one that is there
        with saying("TensorBoard"):
            writer = writers.EventFileWriter(str(scratch), filename_suffix=end)
            try:
                for event in _events(logged):
                    writer.add_event(event)
            finally:
                writer.close()
        (written,) = scratch.iterdir()
        try:
            write_whole(folder / written.name, written.read_bytes())
        except OSError as error:
            raise disk_error(error, folder) from error
    return Receipt(place=str(folder))


def _folder(root: Path, logged: Logged) -> tuple[Path, bool]:
    """Where it goes, and whether it is there. A run that has grown since gets a folder of its own: TensorBoard draws
    all files of a folder as one run."""
    first = root / logged.file_name
    places = [first] if logged.series else [first, root / f"{logged.file_name}-{logged.id[:8]}"]
    for place in places:
        if any(place.glob(f"*{_MARK}*-{logged.id}")):
            return place, True
    free = next((place for place in places if not any(place.glob("*.tfevents.*"))), places[-1])
    return (first if logged.series else free), False


def _events(logged: Logged) -> Iterator[Any]:
    protos = client("tensorboard.compat.proto.event_pb2", "tensorboard")
    summaries = client("tensorboard.compat.proto.summary_pb2", "tensorboard")
    now, step = time.time(), logged.step or 0

    def event(**value: Any) -> Any:
        summary = summaries.Summary(value=[summaries.Summary.Value(**value)])
        return protos.Event(wall_time=now, step=step, summary=summary)

    for key, number in logged.numbers.items():
        yield event(tag=key, simple_value=float(number))
    for picture in logged.pictures:
        facts = facts_of(picture.jpeg)
        if isinstance(facts, Failure):
            continue
        image = summaries.Summary.Image(
            height=facts.height, width=facts.width, colorspace=3, encoded_image_string=picture.jpeg
        )
        yield event(tag=picture.key, image=image)
    for tag, text in _texts(logged):
        yield event(tag=tag, metadata=_text_metadata(summaries), tensor=_text_tensor(text))


def _texts(logged: Logged) -> Iterator[tuple[str, str]]:
    yield "summary", logged.summary
    yield (
        "config",
        "\n".join(f"- **{as_markdown(key)}**: {as_markdown(str(value))}" for key, value in logged.config.items()),
    )
    for name, table in logged.tables.items():
        yield f"tables/{name}", _markdown(table)
    for picture in logged.pictures:
        yield f"{picture.key}/words", "\n\n".join(map(as_markdown, picture.caption.splitlines()))


def _markdown(table: LoggedTable) -> str:
    lines = [table.columns, ("---",) * len(table.columns), *table.rows[:_MOST_ROWS]]
    left = len(table.rows) - _MOST_ROWS
    cells = ("| " + " | ".join("" if c is None else as_markdown(str(c)) for c in line) + " |" for line in lines)
    return "\n".join(cells) + (f"\n\nand {left} more rows" if left > 0 else "")


def _text_metadata(summaries: Any) -> Any:
    data = summaries.SummaryMetadata.PluginData(plugin_name="text")
    return summaries.SummaryMetadata(plugin_data=data, data_class=summaries.DATA_CLASS_TENSOR)


def _text_tensor(text: str) -> Any:
    tensors = client("tensorboard.compat.proto.tensor_pb2", "tensorboard")
    shapes = client("tensorboard.compat.proto.tensor_shape_pb2", "tensorboard")
    types = client("tensorboard.compat.proto.types_pb2", "tensorboard")
    shape = shapes.TensorShapeProto(dim=[shapes.TensorShapeProto.Dim(size=1)])
    return tensors.TensorProto(dtype=types.DT_STRING, tensor_shape=shape, string_val=[text.encode()])
