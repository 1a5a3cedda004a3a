"""A source of requests as requests: a table with texts and pictures before and after, or a folder for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.replies import repeats, words
from refbench.builders.kit.sources import SourceRow, pictures_in, plain_pictures, read_rows, split_by_looks
from refbench.builders.multiref_real import MultiRefRealSettings
from refbench.builders.multiref_real.item import EditRequest
from refbench.record import RefBenchError
from refbench.text.files import file_text

REQUEST = "request.txt"
INPUTS = (2, 6)
"""Pictures before, as the paper has them."""
MOST_OUTPUTS = 8
_SPELLINGS = {
    "id": ("id", "row_id"),
    "request": ("request", "text", "instruction", "title"),
    "inputs": ("inputs", "before", "input_images", "images"),
    "outputs": ("outputs", "after", "output_images", "output"),
}
_LONGEST = 1000
"""Words of a request."""


def read_requests(settings: MultiRefRealSettings, dropped: DroppedItems) -> tuple[list[EditRequest], Path]:
    """The requests that can be worked on, in the order of the source, and the folder of its pictures."""
    rows, root = read_rows(settings.source, _SPELLINGS, (REQUEST,), _folder)
    if not rows:
        raise RefBenchError(
            f"{settings.source} holds no request: give a line for each, with the columns request, inputs, outputs"
        )
    names = sorted({name for row in rows for side in ("inputs", "outputs") for name in row.texts(side)})
    pictures = plain_pictures(root, names, settings.work_folder / "pictures")
    requests: list[EditRequest] = []
    earlier: dict[frozenset[str], list[EditRequest]] = defaultdict(list)
    for number, row in zip(_numbers(rows), rows, strict=True):
        made = _request(number, row, pictures, dropped)
        if isinstance(made, EditRequest):
            made = _repeated(made, earlier[made.hashes]) or made
        if isinstance(made, EditRequest):
            earlier[made.hashes].append(made)
            requests.append(made)
        else:
            reason, detail = made
            shown = next(
                (one.name for name in row.texts("inputs") if isinstance(one := pictures[name], SourcePicture)), ""
            )
            dropped.add("source", "request", str(number), reason, f"{row.where}: {detail}", picture=shown)
    looks = {one.name: [picture.looks for picture in (*one.inputs, *one.outputs)] for one in requests}
    split = split_by_looks(looks, settings.test_share, settings.seed)
    return [replace(one, split=split[one.name]) for one in requests], root


def _numbers(rows: Sequence[SourceRow]) -> list[int]:
    """The ids of the source where every row has a number of its own, else their places."""
    own = [number for row in rows if (number := row.number("id", 9)) is not None]
    return own if len(set(own)) == len(rows) else list(range(1, len(rows) + 1))


def _request(
    number: int, row: SourceRow, known: Mapping[str, SourcePicture | str], dropped: DroppedItems
) -> EditRequest | tuple[str, str]:
    """The request, or the reason and detail of why it cannot be used. Single outputs that cannot are left out."""
    if row.wrong:
        return "unreadable", row.wrong
    text, names = row.text("request"), row.texts("inputs")
    count = len(words(text))
    if not 1 <= count <= _LONGEST:
        return "no request", f"the request has {count} words, not 1 to {_LONGEST}"
    if not INPUTS[0] <= len(names) <= INPUTS[1]:
        return "number of inputs", f"{len(names)} pictures before, not {INPUTS[0]} to {INPUTS[1]}"
    inputs = [known[name] for name in names]
    if unusable := [picture for picture in inputs if isinstance(picture, str)]:
        return "unusable picture", unusable[0]
    before = tuple(picture for picture in inputs if isinstance(picture, SourcePicture))
    hashes = {picture.sha256 for picture in before}
    if len(hashes) < len(before):
        return "same input twice", "two of its pictures before are the same file: one of them is not needed"
    after: list[SourcePicture] = []
    for name in dict.fromkeys(row.texts("outputs")):
        output = known[name]
        if isinstance(output, str):
            dropped.add("source", "output", f"{number} {name}", "unusable picture", output)
        elif output.sha256 in hashes:
            dropped.add("source", "output", f"{number} {name}", "no edit", "it is one of the inputs", picture=name)
        else:
            hashes.add(output.sha256)
            after.append(output)
    if not after:
        return "no output", "no picture after that can be used"
    if len(after) > MOST_OUTPUTS:
        return "number of outputs", f"{len(after)} pictures after, not 1 to {MOST_OUTPUTS}"
    return EditRequest(number, text, before, tuple(after))


def _repeated(one: EditRequest, with_its_pictures: Sequence[EditRequest]) -> tuple[str, str] | None:
    """The same pictures with nearly the same words are one request."""
    for other in with_its_pictures:
        if repeats(one.text, [other.text]):
            return "duplicate", f"the same as request {other.id}"
    return None


def _folder(folder: Path, root: Path) -> tuple[dict[str, Any], str]:
    """request.txt, and pictures by their names: input_1, input_2, ... and output, output_2, ..."""
    cells: dict[str, Any] = {"id": folder.name, "request": None, "inputs": None, "outputs": None}
    try:
        request = file_text(folder / REQUEST)
    except RefBenchError as error:
        return cells, f"{REQUEST} cannot be read ({error})"
    names = pictures_in(folder, root)
    kinds = {kind: [n for n in names if PurePosixPath(n).stem.casefold().startswith(kind)] for kind in ("in", "out")}
    if stray := [n for n in names if n not in kinds["in"] and n not in kinds["out"]]:
        return cells, f"{PurePosixPath(stray[0]).name} is neither input_N nor output_N"
    return {**cells, "request": request, "inputs": kinds["in"], "outputs": kinds["out"]}, ""
