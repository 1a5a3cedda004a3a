"""A run of one's own cases with good outputs, by the word of a judge that is not audited. No networks: what needs one
is left out, and says so."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from refbench.chat.python import Prompt
from refbench.engine import evaluate
from refbench.pictures import encode
from support.five_criteria import FIVE


def told(prompt: Prompt) -> str:
    """Marks as a function of the words: which outputs are the best third is then known and not by chance."""
    luck = hashlib.sha256(prompt.text.encode()).digest()
    return json.dumps({name: 4 + luck[n] % 6 for n, name in enumerate(FIVE)})


@pytest.fixture(autouse=True)
def no_networks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path_factory.getbasetemp() / "no-weights"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine cases with two references each and outputs of two models, judged once by `other`."""
    root = tmp_path_factory.mktemp("judged")
    rng = np.random.default_rng(5)
    lines = []
    for n in range(9):
        for name in (f"{n}_a.png", f"{n}_b.png", f"A/case{n}.png", f"B/case{n}.png"):
            path = root / name
            path.parent.mkdir(exist_ok=True)
            small = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
            path.write_bytes(encode(np.asarray(cv2.resize(small, (64, 48)), np.uint8)))
        references = [{"path": f"{n}_{which}.png", "role": "subject"} for which in "ab"]
        instruction = f"Put the thing of image 1 beside the one in the second image, number {n}."
        lines.append(json.dumps({"id": f"case{n}", "instruction": instruction, "references": references}))
    (root / "cases.jsonl").write_text("\n".join(lines))
    evaluate(
        str(root / "cases.jsonl"),
        models=[f"A=folder:{root / 'A'}", f"B=folder:{root / 'B'}"],
        judges={"other": told},
        out=root / "run",
        rubric="five_criteria",
    )
    return root / "run"
