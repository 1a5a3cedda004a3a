"""Whether telling a judge that text in pictures is no instruction helps it: planted judges over loopback, asked in both
wordings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import orjson
import pytest

from refbench.benchmarks.kit.hardening import sentence
from refbench.builders.audit.make import MakeOptions, make_variants
from refbench.builders.audit.variants import Variants, read_variants
from refbench.engine import evaluate
from refbench.pictures import encode
from refbench.runs import Run
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

Refbench = Callable[..., tuple[int, str, str]]
CASES = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty cases with golden pictures, a run of them, and the variants of a quick audit."""
    root = tmp_path_factory.mktemp("hardening")
    rng = np.random.default_rng(3)
    lines = []
    for n in range(CASES):
        for name in (f"{n}_a.png", f"{n}_b.png", f"{n}_gold.png", f"A/case{n}.png"):
            path = root / name
            path.parent.mkdir(exist_ok=True)
            small = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
            path.write_bytes(encode(np.asarray(cv2.resize(small, (64, 48)), np.uint8)))
        references = [{"path": f"{n}_{which}.png", "role": "subject"} for which in "ab"]
        told = {"id": f"case{n}", "instruction": f"Both things, number {n}.", "references": references}
        lines.append(json.dumps({**told, "targets": [f"{n}_gold.png"]}))
    (root / "cases.jsonl").write_text("\n".join(lines))
    evaluate(
        str(root / "cases.jsonl"),
        models=[f"A=folder:{root / 'A'}"],
        judges={"other": lambda prompt: json.dumps(dict.fromkeys(FIVE, 7))},
        out=root / "run",
        rubric="five_criteria",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_WEIGHTS", str(root / "no-weights"))
        make_variants(Run.open(root / "run"), root / "variants", MakeOptions("quick", CASES, anchor="truth"))
    return root


def planted(variants: Variants, *, heeds: bool) -> Callable[[str], str]:
    """A judge that gives 9 to clean pictures, 3 to damaged ones, and 7 to damaged ones that say they are good; where it
    heeds the sentence, it does so only without it."""
    said: dict[str, int] = {}
    for row in variants.rows.values():
        for picture in row.outputs if row.state == "made" else ():
            mark = {"clean": 9, "27:instruction_strip": 7}.get(row.variant, 9 if row.variant.startswith("20") else 3)
            data = base64.b64encode(variants.path(picture).read_bytes()).decode()
            said[data] = max(said.get(data, 0), mark) if row.variant != "1:other_output" else said.get(data, mark)

    def reply(body: str) -> str:
        """The output is the last picture shown; another case's is known by whose instruction stands beside it."""
        shown = re.findall(r"base64,([A-Za-z0-9+/=]+)", body)
        mark = said[shown[-1]]
        number = re.search(r"Both things, number (\d+)\.", body)
        assert number is not None
        if mark == 9 and shown[-1] != clean[f"case{number[1]}"]:
            mark = 3
        if mark == 7 and heeds and sentence() in body:
            mark = 3
        return json.dumps(dict.fromkeys(FIVE, mark))

    clean = {
        case: base64.b64encode(variants.path(row.outputs[0]).read_bytes()).decode()
        for (case, name), row in variants.rows.items()
        if name == "clean"
    }
    return reply


def test_the_audit_says_whether_the_sentence_helps(made: Path, tmp_path: Path, run_cli: Refbench) -> None:
    variants = read_variants(made / "variants")
    heeds, ignores = (planted(variants, heeds=which) for which in (True, False))
    with (
        JudgeServer(reply=heeds, with_pictures=True, keep_bodies=False) as first,
        JudgeServer(reply=ignores, with_pictures=True, keep_bodies=False) as second,
    ):
        judges = [f"heeds=openai:m?base_url={first.url}/v1", f"ignores=openai:m?base_url={second.url}/v1"]
        words = ["audit", made / "run", "--variants", made / "variants", "--json"]
        words += [word for judge in judges for word in ("--judge", judge)]
        assert run_cli(*words, "--out", tmp_path / "plain")[0] == 0
        asked = len(first.requests)
        assert run_cli(*words, "--out", tmp_path / "hard", "--set", "harden=yes")[0] == 0
        assert len(first.requests) == 2 * asked, "each wording is asked about everything once"
    code, out, _ = run_cli("audit", "wordings", tmp_path / "plain", tmp_path / "hard", "--json")
    told = orjson.loads(out)["judges"]
    assert code == 0
    of = {name: [row for row in told[name]["attacks"] if row["number"] == 27] for name in told}
    assert {len(rows) for rows in of.values()} == {len(FIVE)}
    assert {(row["before"]["value"], row["after"]["value"], row["verdict"], row["still"]) for row in of["heeds"]} == {
        (4.0, 0.0, "helps", False)
    }
    assert {(row["before"]["value"], row["after"]["value"], row["verdict"], row["still"]) for row in of["ignores"]} == {
        (4.0, 4.0, "cannot tell", True)
    }
    assert {row["shift"]["value"] for name in told for row in told[name]["clean"]} == {0.0}
    code, out, _ = run_cli("audit", "wordings", tmp_path / "plain", tmp_path / "hard", "--judge", "ignores")
    assert code == 4
    assert "cannot tell, still fooled" in " ".join(out.split())
    assert "same words" in run_cli("audit", "wordings", tmp_path / "plain", tmp_path / "plain")[2]
