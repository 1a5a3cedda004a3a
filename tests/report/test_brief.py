"""The sheet for the person who decides: one A4 page in a real browser, and claims that the scores bear out."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from refbench.cli.view import view_command
from refbench.engine import evaluate
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from refbench.report.site.album import Album
from refbench.report.site.boards import Board, open_boards
from refbench.report.site.brief import brief_sheet, write_brief
from refbench.report.site.brief_markup import clipped, tag
from refbench.report.site.brief_pictures import gallery
from refbench.report.site.brief_traits import traits
from refbench.report.site.brief_verdicts import verdicts
from refbench.report.site.brief_view import open_view, parts_of, parts_with_room
from refbench.scoring import rescore
from refbench.stats import holm
from support.checkout import METRICS, Item, plain_items, reply_text, write_checkout
from support.judge_server import JudgeServer, dice, text_of, wire
from support.site_browser import start_browser

NASTY = "</style><script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" \u202e"
DRAWS = 400


class Onlooker(JudgeServer):
    """Marks what it sees: the redder the output, the better the alignment; the greener, the more consistent; the
    rest by the dice of the case."""

    async def _answer(self, request: web.Request, body: dict[str, Any], digest: str) -> web.StreamResponse:
        urls = re.findall(r"data:image/\w+;base64,([A-Za-z0-9+/=]+)", json.dumps(body))
        red, green, _ = decode(base64.b64decode(urls[-1])).reshape(-1, 3).mean(axis=0)  # type: ignore[union-attr]
        text = text_of(body)
        marks = {
            "instruction_alignment": 1 + red / 255 * 9,
            "reference_consistency": 1 + green / 255 * 9,
            **{
                name: 1 + 9 * dice(text, name)
                for name in ("background_subject_match", "physical_realism", "visual_quality")
            },
        }
        said = {"reasoning": NASTY, **{name: round(mark) for name, mark in marks.items()}}
        return web.json_response(wire(request.path, json.dumps(said), refused=False))


def paint(folder: Path, rng: np.random.Generator, cases: int, red: float, green: float, missing: int = 0) -> Path:
    folder.mkdir(parents=True)
    for n in range(cases):
        level = np.clip([red, green, 0.5] + rng.normal(0, 0.12, 3), 0, 1) * 255
        if n >= missing:
            (folder / f"case{n:02d}.png").write_bytes(encode(np.full((30, 24, 3), level, dtype=np.uint8)))
    return folder


def evaluated(root: Path, models: dict[str, tuple[float, float, int]], cases: int = 36) -> Path:
    """A run on cases of one's own in three kinds, of models by how red and green they paint and what they miss."""
    rng = np.random.default_rng(7)
    (root / "pics").mkdir(parents=True)
    rows = []
    for n in range(cases):
        (root / f"pics/{n}.png").write_bytes(encode(rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)))
        rows.append(
            {
                "id": f"case{n:02d}",
                "instruction": f"Paint {n} {NASTY}",
                "references": [{"path": f"pics/{n}.png", "role": "subject"}],
                "groups": {"kind": ("people", "things", NASTY)[n % 3]},
            }
        )
    (root / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    specs = []
    for k, (name, (red, green, missing)) in enumerate(models.items()):
        specs.append(f"{name}=folder:{paint(root / f'm{k}', rng, cases, red, green, missing)}")
    with Onlooker() as server:
        judges = [f"eye=openai:gpt-4o?base_url={server.url}/v1"]
        evaluate(str(root / "cases.jsonl"), models=specs, judges=judges, out=root / "run", rubric="five_criteria")
    return root / "run"


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the same mean but with different gifts, and one that is worse than both and misses cases."""
    models = {"ruby": (0.8, 0.4, 0), "jade": (0.4, 0.8, 0), "slate": (0.15, 0.15, 4)}
    return evaluated(tmp_path_factory.mktemp("three"), models)


@pytest.fixture
def board(three: Path) -> Iterator[Board]:
    (found,) = open_boards([three], draws=DRAWS)
    yield found
    found.close()


@pytest.fixture
def album() -> Iterator[Album]:
    found = Album("thumbs")
    yield found
    found.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver, running = start_browser()
    yield running
    running.close()
    driver.stop()


def crowd(root: Path, count: int) -> Path:
    """A CREval run of many models with long names and clear differences, of all that a sheet must leave out."""
    items = plain_items(60)
    write_checkout(root / "data", items, pictures=False)
    rng = np.random.default_rng(3)
    for k in range(count):
        model = f"a-model-with-a-very-long-name-of-its-own-{k:02d}"
        for m, metric in enumerate(METRICS):
            place = root / "replies" / metric / model
            place.mkdir(parents=True)
            share = 0.25 + 0.7 * ((k * (m + 2)) % count) / count
            for item in items:
                answers = [(qid, "Yes" if rng.random() < share else "No") for qid, *_ in item.of(metric)]
                (place / f"{item.stem}.txt").write_text(reply_text(answers))
    rescore("creval", data=root / "data", replies=root / "replies", out=root / "run", draws=0)
    return root / "run"
