"""`refbench extract`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json, not_negative
from refbench.record import RefBenchError
from refbench.specs import nearest
from refbench.text.console import printable

if TYPE_CHECKING:
    from refbench.extractors import Extractor
    from refbench.failure import Failure


def extract_command(
    name: Annotated[str, Parameter(help="What to extract, see refbench list extractors")],
    pictures: Annotated[list[Path], Parameter(help="Pictures to extract it from")],
    *,
    out: Annotated[Path, Parameter(help="Directory to write to: STEM.png for each picture, STEM.txt for captions")],
    seed: Annotated[int, Parameter(help="Fixes the colours of skeletons", validator=not_negative)] = 0,
    device: Annotated[str, Parameter(help="Where networks run: cpu, cuda, cuda:1")] = "cpu",
    vlm: Annotated[str | None, Parameter(help="Who writes captions, for example openai:gpt-4o-mini")] = None,
    subject: Annotated[str | None, Parameter(help="Captions: what to describe; `yes` for the main subject")] = None,
    json: Json = False,
) -> int:
    """Make references from pictures: edges, sketches, masks, boxes, poses, captions.

    Reports what cannot be extracted (no person, no object) and writes no file for it; the exit code is then 1.
    """
    from refbench.extractors import EXTRACTORS

    if name not in EXTRACTORS:
        raise RefBenchError(f"no extractor is called {name!r}: {nearest(name, EXTRACTORS)}")
    extractor = EXTRACTORS[name]
    targets = _targets(pictures, out, ".png" if extractor.run else ".txt")
    out.mkdir(parents=True, exist_ok=True)
    rows = _draw(extractor, targets, seed, device) if extractor.run else _write_captions(targets, vlm, subject)
    if json:
        print(orjson.dumps(rows).decode())
    else:
        for row in rows:
            if "failure" in row:
                print(printable(f"refbench: {row['picture']}: {row['failure']}", line=True), file=sys.stderr)
        print(f"{name}: {sum('failure' not in row for row in rows)} of {len(rows)} pictures, in {out}")
    return 1 if any("failure" in row for row in rows) else 0


def _targets(pictures: Sequence[Path], out: Path, ending: str) -> dict[Path, Path]:
    """The file to write for each picture; checked before anything is computed."""
    targets: dict[Path, Path] = {}
    if out.exists() and not out.is_dir():
        raise RefBenchError(f"--out {out} is a file: name a directory")
    for picture in pictures:
        if not picture.is_file():
            raise RefBenchError(f"{picture} is not there: give a picture")
        target = out / f"{picture.stem}{ending}"
        if target in targets.values():
            raise RefBenchError(f"two pictures would be written to {target}: rename one or run them apart")
        if target.exists() and any(target.samefile(one) for one in pictures):
            raise RefBenchError(f"{target} is one of the pictures and would be overwritten: name another --out")
        targets[picture] = target
    return targets


def _draw(extractor: Extractor, targets: dict[Path, Path], seed: int, device: str) -> list[dict[str, Any]]:
    from refbench.failure import Failure
    from refbench.networks import why_not
    from refbench.pictures import read_pixels

    for network in extractor.networks:
        reason = why_not(network)
        if reason is not None:
            raise RefBenchError(reason)
    assert extractor.run is not None
    rows = []
    for picture, target in targets.items():
        pixels = read_pixels(picture)
        made = pixels if isinstance(pixels, Failure) else extractor.run(pixels, seed, device)
        if isinstance(made, Failure):
            rows.append(_failed(picture, made))
            continue
        target.write_bytes(made.png())
        box = {} if made.box is None else {"box": [round(v, 2) for v in made.box]}
        rows.append({"picture": str(picture), "file": str(target), **box})
    return rows


def _write_captions(targets: dict[Path, Path], vlm: str | None, subject: str | None) -> list[dict[str, Any]]:
    import asyncio

    from refbench.calls.transport import Transport
    from refbench.chat.vlm import make_vlm
    from refbench.extractors.caption import caption
    from refbench.failure import Failure
    from refbench.specs import Spec

    if vlm is None:
        raise RefBenchError("captions are written by a VLM: add --vlm, for example --vlm openai:gpt-4o-mini")
    spec = Spec.parse(vlm, "--vlm")
    focus: str | bool = subject == "yes" or (subject or False)

    async def write_all() -> list[str | Failure]:
        async with Transport() as transport:
            asked = make_vlm(spec, transport)
            return await asyncio.gather(*(caption(asked, picture, subject=focus) for picture in targets))

    rows = []
    for (picture, target), text in zip(targets.items(), asyncio.run(write_all()), strict=True):
        if isinstance(text, Failure):
            rows.append(_failed(picture, text))
            continue
        target.write_text(text + "\n", "utf-8")
        rows.append({"picture": str(picture), "file": str(target), "caption": text})
    return rows


def _failed(picture: Path, failure: Failure) -> dict[str, Any]:
    return {"picture": str(picture), "failure": str(failure)}
