"""A study in a folder, for a rater without network: index.html opens by double click, marks stay in the browser until
the rater downloads them as one file, which `refbench study take` reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole
from refbench.studies.design import Training
from refbench.studies.raters import Rater
from refbench.studies.room import room_of
from refbench.studies.server import about, as_script, client_files, shell
from refbench.studies.shown import Refusal, Shown
from refbench.studies.study import Study

_LOADED_AFTER = b'    <script defer src="client/packed.js"></script>\n'
_PACK = b'    <script defer src="client/pack.js"></script>\n'


def pack(study: Study, rater: Rater, out: Path) -> int:
    """Write the folder with all items of the rater; returns their number. The items are the rater's from now on, and
    what is in the folder names no model, path or hash.

    There is no training in it, since its answers would lie beside it; consent is asked for on the first page.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RefBenchError(f"--out {out} is there already: give a folder that is not")
    # The same folder, opened as a study in which nothing stands before the first item.
    opened = Study(
        study.path,
        study.design.model_copy(update={"consent": {}, "training": Training(items=0)}),
        study.items,
        study.clock,
    )
    room = room_of(study, rater.id)
    if study.counts(rater.id) and not room.free:
        raise RefBenchError(f"--rater {rater.id}: nothing is left for this rater to mark: {room}")
    items = opened.next_items(rater, 2 * len(study.items) + 1)
    if not items:
        raise RefBenchError(f"--rater {rater.id}: nothing is left for this rater to mark")
    try:
        for name, data in _files(study, rater, items):
            write_whole(out / name, data, flush=False)
        for name in dict.fromkeys(slot.name for item in items for slot in item.pictures):
            picture = opened.picture(rater, name)
            # One that cannot be opened is said to be so on the page, as online.
            if not isinstance(picture, Refusal):
                write_whole(out / "pictures" / f"{name}.jpg", picture, flush=False)
    except OSError as error:
        raise disk_error(error, out) from error
    return len(items)


def _files(study: Study, rater: Rater, items: list[Shown]) -> Iterator[tuple[str, bytes]]:
    yield "index.html", shell("index.html").replace(_LOADED_AFTER, _PACK + _LOADED_AFTER)
    for name, data in client_files():
        if not name.startswith("owner"):
            yield f"client/{name}", data
    told = {
        "pack": study.raters.opaque("pack", rater.id),
        "study": {**about(study), "training": 0},
        "items": [item.model_dump(mode="json") for item in items],
    }
    yield "client/pack.js", as_script("pack", told)
