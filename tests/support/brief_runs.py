"""Runs to be briefed about: models by how red and green they paint, and a judge who sees that; and released replies."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web

from refbench.engine import evaluate
from refbench.failure import Failure
from refbench.pictures import decode, encode
from refbench.tables.scoring import rescore
from support.checkout import METRICS, plain_items, reply_text, write_checkout
from support.five_criteria import FIVE
from support.judge_server import JudgeServer, dice, text_of, wire

NASTY = '</style><script>alert(1)</script><img src=x onerror=alert(2)> & "quoted" \u202e'
NASTY_MODEL = '<script>alert(3)<b onclick=x> "&"'


@dataclass
class Onlooker(JudgeServer):
    """Marks what it sees: the redder the output, the better the alignment; the greener, the more consistent; the
    rest by the dice of the case, or by the red as well."""

    sees_red_only: bool = False

    async def _answer(self, request: web.Request, body: dict[str, Any], digest: str) -> web.StreamResponse:
        urls = re.findall(r"data:image/\w+;base64,([A-Za-z0-9+/=]+)", json.dumps(body))
        pixels = decode(base64.b64decode(urls[-1]))
        assert not isinstance(pixels, Failure)
        red, green, _ = pixels.reshape(-1, 3).mean(axis=0)
        rest = FIVE[2:]
        marks = {"instruction_alignment": red / 255, "reference_consistency": green / 255}
        marks |= {name: red / 255 if self.sees_red_only else dice(text_of(body), name) for name in rest}
        said = {"reasoning": NASTY, **{name: round(1 + 9 * mark) for name, mark in marks.items()}}
        return web.json_response(wire(request.path, json.dumps(said), refused=False))


def evaluated(root: Path, models: dict[str, tuple[float, float, int]], *, cases: int = 36, red: bool = False) -> Path:
    """A run on cases of one's own, of models by how red and green they paint and how many cases they miss."""
    rng = np.random.default_rng(7)
    (root / "pics").mkdir(parents=True)
    rows = []
    for n in range(cases):
        (root / f"pics/{n}.png").write_bytes(encode(rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)))
        groups = {"kind": ("people", "things", NASTY)[n % 3]}
        if red:
            groups |= {"light": ("day", "night", "dusk")[n // 3 % 3], "size": ("small", "large")[n % 2]}
        picture = {"path": f"pics/{n}.png", "role": "subject"}
        rows.append(
            {"id": f"case{n:02d}", "instruction": f"Paint {n} {NASTY}", "references": [picture], "groups": groups}
        )
    (root / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    specs = []
    for k, (name, (redness, greenness, missing)) in enumerate(models.items()):
        (root / f"m{k}").mkdir()
        specs.append(f"{name}=folder:{root / f'm{k}'}")
        for n in range(missing, cases):
            level = np.clip(np.array([redness, greenness, 0.5]) + rng.normal(0, 0.12, 3), 0, 1) * 255
            (root / f"m{k}/case{n:02d}.png").write_bytes(encode(np.full((30, 24, 3), level, dtype=np.uint8)))
    with Onlooker(sees_red_only=red) as server:
        judges = [f"eye=openai:gpt-4o?base_url={server.url}/v1"]
        evaluate(str(root / "cases.jsonl"), models=specs, judges=judges, out=root / "run", rubric="five_criteria")
    return root / "run"


def crowd(root: Path, count: int) -> Path:
    """A run of released replies, without pictures: many models with long names, and one with a nasty one, each with
    gifts of its own."""
    items = plain_items(36)
    write_checkout(root / "data", items, pictures=False)
    rng = np.random.default_rng(3)
    for k in range(count):
        for m, metric in enumerate(METRICS):
            name = f"a-model-with-a-very-long-name-of-its-own-{k:02d}" if k < count - 1 else NASTY_MODEL
            place = root / "replies" / metric / name
            place.mkdir(parents=True)
            share = 0.25 + 0.7 * ((k * (m + 2)) % count) / count
            for item in items:
                answers = [(qid, "Yes" if rng.random() < share else "No") for qid, *_ in item.of(metric)]
                (place / f"{item.stem}.txt").write_text(reply_text(answers))
    rescore("creval", data=root / "data", replies=root / "replies", out=root / "run", draws=0)
    return root / "run"
