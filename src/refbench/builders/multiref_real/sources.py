"""A source of requests as requests: a table with texts and pictures before and after, or a folder for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from refbench.builders.kit import DroppedItems
from refbench.builders.kit.replies import repeats, words
from refbench.builders.kit.sources import Plain, pictures_in, plain_pictures, rows, several, sides
from refbench.builders.multiref_real.item import INPUTS, MOST_OUTPUTS, Sought
from refbench.record import RefBenchError, clean_text

REQUEST = "request.txt"
_SPELLINGS = {
    "id": ("id", "row_id"),
    "request": ("request", "text", "instruction", "title"),
    "inputs": ("inputs", "before", "input_images", "images"),
    "outputs": ("outputs", "after", "output_images", "output"),
}
_LONGEST = 1000
"""Words of a request."""


@dataclass(frozen=True)
class _Row:
    where: str
    id: int | None
    request: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    wrong: str = ""


def sought_requests(
    source: Path, copies: Path, dropped: DroppedItems, *, test_share: float | None, seed: int
) -> tuple[list[Sought], Path]:
    """The requests that can be worked on, in the order of the source, and the folder of its pictures."""
    found, root = rows(source, (REQUEST,))
    read = [_folder_row(where, row["folder"], root) if "folder" in row else _row(where, row) for where, row in found]
    if not read:
        raise RefBenchError(
            f"{source} holds no request: give a line for each, with the columns request, inputs, outputs"
        )
    known = plain_pictures(root, sorted({name for row in read for name in (*row.inputs, *row.outputs)}), copies)
    requests: list[Sought] = []
    earlier: dict[frozenset[str], list[Sought]] = defaultdict(list)
    for number, row in zip(_numbers(read), read, strict=True):
        made = _sought(number, row, known, dropped)
        if isinstance(made, Sought):
            made = _repeated(made, earlier[_hashes(made)]) or made
        if isinstance(made, Sought):
            earlier[_hashes(made)].append(made)
            requests.append(made)
        else:
            reason, detail = made
            picture = next((p.name for name in row.inputs if isinstance(p := known[name], Plain)), "")
            dropped.add("source", "request", str(number), reason, f"{row.where}: {detail}", picture=picture)
    looks = {one.name: [picture.looks for picture in (*one.inputs, *one.outputs)] for one in requests}
    split = sides(looks, test_share, seed)
    return [replace(one, split=split[one.name]) for one in requests], root


def _numbers(read: Sequence[_Row]) -> list[int]:
    """The ids of the source where every row has a number of its own, else their places."""
    own = [row.id for row in read if row.id is not None]
    return own if len(set(own)) == len(read) else list(range(1, len(read) + 1))


def _sought(
    number: int, row: _Row, known: Mapping[str, Plain | str], dropped: DroppedItems
) -> Sought | tuple[str, str]:
    """The request, or the reason and detail of why it cannot be used. Single outputs that cannot are left out."""
    if row.wrong:
        return "unreadable", row.wrong
    count = len(words(row.request))
    if not 1 <= count <= _LONGEST:
        return "no request", f"the request has {count} words, not 1 to {_LONGEST}"
    if not INPUTS[0] <= len(row.inputs) <= INPUTS[1]:
        return "number of inputs", f"{len(row.inputs)} pictures before, not {INPUTS[0]} to {INPUTS[1]}"
    inputs = [known[name] for name in row.inputs]
    if unusable := [picture for picture in inputs if isinstance(picture, str)]:
        return "unusable picture", unusable[0]
    before = tuple(picture for picture in inputs if isinstance(picture, Plain))
    hashes = {picture.sha256 for picture in before}
    if len(hashes) < len(before):
        return "same input twice", "two of its pictures before are the same file: one of them is not needed"
    after: list[Plain] = []
    for name in dict.fromkeys(row.outputs):
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
    return Sought(number, row.where, row.request, before, tuple(after))


def _repeated(one: Sought, with_its_pictures: Sequence[Sought]) -> tuple[str, str] | None:
    """The same pictures with nearly the same words are one request."""
    for other in with_its_pictures:
        if repeats(one.request, [other.request]):
            return "duplicate", f"the same as request {other.id}"
    return None


def _hashes(one: Sought) -> frozenset[str]:
    return frozenset(picture.sha256 for picture in one.inputs)


def _row(where: str, row: Mapping[str, Any]) -> _Row:
    cells = {
        name: next((row[s] for s in spellings if row.get(s) not in (None, "")), None)
        for name, spellings in _SPELLINGS.items()
    }
    text = cells["request"]
    return _Row(
        where=where.rpartition("/")[2],
        id=_id(cells["id"]),
        request=clean_text(text).strip() if isinstance(text, str) else "",
        inputs=tuple(several(cells["inputs"])),
        outputs=tuple(several(cells["outputs"])),
    )


def _folder_row(where: str, folder: Path, root: Path) -> _Row:
    """request.txt, and pictures by their names: input_1, input_2, ... and output, output_2, ..."""
    try:
        request = (folder / REQUEST).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return _Row(where, _id(folder.name), "", (), (), wrong=f"{REQUEST} cannot be read ({error})")
    names = pictures_in(folder, root)
    kinds = {kind: [n for n in names if PurePosixPath(n).stem.casefold().startswith(kind)] for kind in ("in", "out")}
    if stray := [n for n in names if n not in kinds["in"] and n not in kinds["out"]]:
        wrong = f"{PurePosixPath(stray[0]).name} is neither input_N nor output_N"
        return _Row(where, _id(folder.name), request.strip(), (), (), wrong=wrong)
    row = _row(where, {"request": request, "inputs": kinds["in"], "outputs": kinds["out"]})
    return replace(row, where=where, id=_id(folder.name))


def _id(value: Any) -> int | None:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal() or len(text) > 9:
        return None
    return int(text)
