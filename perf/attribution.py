"""How well references that are missing are found: by networks, and by planted judges.

    python perf/attribution.py PICTURES [--cases 48] [--redrawn] [--out DIR]

Makes cases of three references from a folder of photographs: what stands out in each is cut out (u2netp) and pasted
beside two others onto a blurred picture, which is the golden output. With --redrawn what is pasted is mirrored, turned
by 12 degrees, of another hue and a little blurred: nearer to what a model draws than the same pixels, and still no
drawing. Then a core audit of the golden outputs is made, whose damages 3 (a reference exchanged) and 4 (a subject cut
out) say what is missing, and it is attributed by the networks. Seeds are in the script.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from refbench.analysis.attribution.planted import planted
from refbench.analysis.attribution.read import attributions
from refbench.analysis.audit.card import percent
from refbench.benchmarks.own.cases import OwnDetails
from refbench.builders.attribution.ask import AttributionRequest, attribute
from refbench.builders.audit.make import MakeOptions
from refbench.builders.audit.run import AuditRequest, audit
from refbench.case import Case
from refbench.engine import evaluate
from refbench.failure import Failure
from refbench.networks import load_network
from refbench.pictures import Pixels, decode, encode, resize
from refbench.runs import Run
from support.five_criteria import FIVE

SEED = 20261120
_SIDE = 512
_CANVAS = (768, 512)
_PLACES = (140, 384, 628)
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")


class Thing(NamedTuple):
    """A photograph and what stands out in it."""

    picture: Pixels
    cut: Pixels
    mask: NDArray[np.bool_]


def things(folder: Path) -> list[Thing]:
    """Those of the photographs in which one thing stands out."""
    network, found = load_network("u2netp"), []
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in _EXTENSIONS):
        pixels = decode(path.read_bytes())
        if isinstance(pixels, Failure):
            continue
        scale = _SIDE / max(pixels.shape[:2])
        small = resize(pixels, (round(pixels.shape[1] * scale), round(pixels.shape[0] * scale)), "box")
        seen = network([np.ascontiguousarray(small)])[0]
        if isinstance(seen, Failure):
            continue
        mask = np.asarray(seen["mask"] > 0, np.uint8)
        _, labels, stats, _ = cv2.connectedComponentsWithStats(mask)
        sizes = stats[1:, cv2.CC_STAT_AREA]
        if not len(sizes) or not 0.03 < sizes.max() / mask.size < 0.5 or sizes.max() < 0.8 * sizes.sum():
            continue
        x, y, wide, high, _ = stats[1 + int(sizes.argmax())]
        there = labels[y : y + high, x : x + wide] == 1 + int(sizes.argmax())
        found.append(Thing(small, small[y : y + high, x : x + wide], there))
    return found


def redrawn(thing: Thing) -> Thing:
    """Mirrored, turned, of another hue, and a little blurred."""
    cut, mask = thing.cut[:, ::-1], thing.mask[:, ::-1].astype(np.uint8)
    high, wide = cut.shape[:2]
    turn = cv2.getRotationMatrix2D((wide / 2, high / 2), 12, 0.9)
    hsv = cv2.cvtColor(np.ascontiguousarray(cut), cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0].astype(int) + 10) % 180
    other = cv2.GaussianBlur(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), (0, 0), 1.2)
    kept = cv2.warpAffine(np.ascontiguousarray(mask), turn, (wide, high)) > 0
    return Thing(thing.picture, np.asarray(cv2.warpAffine(other, turn, (wide, high)), np.uint8), kept)


def pasted(canvas: Pixels, thing: Thing, middle: int, height: int) -> None:
    scale = min(height / thing.cut.shape[0], 230 / thing.cut.shape[1])
    size = max(8, round(thing.cut.shape[1] * scale)), max(8, round(thing.cut.shape[0] * scale))
    cut = resize(np.ascontiguousarray(thing.cut), size, "box")
    mask = cv2.resize(thing.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    left, top = max(0, middle - size[0] // 2), canvas.shape[0] - 40 - size[1]
    view = canvas[top : top + size[1], left : left + size[0]]
    view[mask] = cut[mask]


def made(folder: Path, root: Path, cases: int, *, other: bool) -> Path:
    """A run of made cases with their golden outputs."""
    rng, known = np.random.default_rng(SEED), things(folder)
    print(f"{len(known)} photographs in which one thing stands out", flush=True)
    (root / "A").mkdir(parents=True)
    lines = []
    for number in range(cases):
        *chosen, behind = (known[n] for n in rng.choice(len(known), 4, replace=False))
        canvas = cv2.GaussianBlur(resize(behind.picture, _CANVAS, "box"), (0, 0), 8)
        for place, thing in enumerate(chosen):
            (root / f"{number}_{place}.png").write_bytes(encode(np.ascontiguousarray(thing.picture)))
            pasted(canvas, redrawn(thing) if other else thing, _PLACES[place], int(rng.integers(200, 300)))
        for name in (f"{number}_gold.png", f"A/{number}.png"):
            (root / name).write_bytes(encode(canvas))
        references = [{"path": f"{number}_{place}.png", "role": "subject"} for place in range(3)]
        told = {"id": str(number), "instruction": "What stands out in image 1, 2 and 3, side by side."}
        lines.append(json.dumps({**told, "references": references, "targets": [f"{number}_gold.png"]}))
    (root / "cases.jsonl").write_text("\n".join(lines))
    seven = {"seven": lambda prompt: json.dumps(dict.fromkeys(FIVE, 7))}
    evaluate(
        str(root / "cases.jsonl"),
        models=f"A=folder:{root / 'A'}",
        judges=seven,
        out=root / "run",
        rubric="five_criteria",
    )
    return root / "run"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--cases", type=int, default=48)
    parser.add_argument("--redrawn", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    root = given.out or Path(tempfile.mkdtemp())
    run = made(given.pictures, root, given.cases, other=given.redrawn)
    eight = {"eight": lambda prompt: json.dumps(dict.fromkeys(FIVE, 8))}
    asyncio.run(audit(AuditRequest(run, root / "audit", eight, MakeOptions("core", given.cases, anchor="truth"))))
    asyncio.run(attribute(AttributionRequest(root / "audit", "offline")))
    cases = Run.open(root / "audit").cases(Case[OwnDetails])
    images = {case.id: [n for n, _ in enumerate(case.request.pictures, 1)] for case in cases}
    for row in planted(attributions(root / "audit"), images):
        print(row.by)
        for name in ("recall", "precision", "false_alarms", "gone", "gone_clean", "known"):
            print(f"  {name:>12} {percent(getattr(row, name))} of {getattr(row, name).n} cases")


if __name__ == "__main__":
    main()
