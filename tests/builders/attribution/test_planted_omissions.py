"""How well references are found missing that are known to be: an audit's damages are the truth, planted judges over
loopback the finders."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest

from refbench.analysis.attribution.planted import planted
from refbench.analysis.attribution.records import OutputUse, State, Use
from refbench.builders.attribution.ask import AttributionRequest, attribute, prepared
from refbench.builders.audit.make import MakeOptions, make_variants
from refbench.builders.audit.run import AuditRequest, audit
from refbench.engine import evaluate
from refbench.pictures import decode, encode
from refbench.runs import Run
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

Refbench = Callable[..., tuple[int, str, str]]
CASES, REFERENCES, SIDE = 20, 3, 32
COLOURS = [(85 * (n % 4), 85 * (n // 4 % 4), 85 * (n // 16)) for n in range(64)]
"""What the planted judges know a reference by: no two are alike."""


def chosen(case: int) -> list[int]:
    """The colours of a case's references, which no other case has."""
    return [case + CASES * place for place in range(REFERENCES)]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of twenty cases, whose outputs are their three references side by side."""
    root = tmp_path_factory.mktemp("omissions")
    (root / "A").mkdir()
    lines = []
    for number in range(CASES):
        tiles = [np.full((SIDE, SIDE, 3), COLOURS[colour], np.uint8) for colour in chosen(number)]
        for place, tile in enumerate(tiles):
            tile[0, 0] = number
            (root / f"{number}_{place}.png").write_bytes(encode(tile))
        for name in (f"{number}_gold.png", f"A/{number}.png"):
            (root / name).write_bytes(encode(np.concatenate(tiles, axis=1)))
        references = [{"path": f"{number}_{place}.png", "role": "subject"} for place in range(REFERENCES)]
        told = {"id": f"{number}", "instruction": f"All three, number {number}.", "references": references}
        lines.append(json.dumps({**told, "targets": [f"{number}_gold.png"]}))
    (root / "cases.jsonl").write_text("\n".join(lines))
    seven = {"seven": lambda prompt: json.dumps(dict.fromkeys(FIVE, 7))}
    evaluate(
        root / "cases.jsonl", models=f"A=folder:{root / 'A'}", judges=seven, out=root / "run", rubric="five_criteria"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_WEIGHTS", str(root / "no-weights"))
        make_variants(Run.open(root / "run"), root / "v", MakeOptions("core", CASES, anchor="truth"))
        eight = {"eight": lambda prompt: json.dumps(dict.fromkeys(FIVE, 8))}
        asyncio.run(audit(AuditRequest(root / "run", root / "audit", eight, variants=root / "v")))
    return root / "audit"


def sees(body: str, *, blind_to: int = 0) -> str:
    """A judge that knows references by their colour, and takes one place's for being there whatever is shown."""
    files = [decode(base64.b64decode(data)) for data in re.findall(r"base64,([A-Za-z0-9+/=]+)", body)]
    *references, output = [one[8::16, 8::16].reshape(-1, 3) for one in files if isinstance(one, np.ndarray)]
    numbers = [int(n) for n in re.findall(r"Image (\d+) \(subject\):", body)]
    there = {
        n: n == blind_to or any((one == seen[0]).all() for one in output)
        for n, seen in zip(numbers, references, strict=True)
    }
    asked = re.findall(r"(Q\d+): Image (\d+): (can|is)", body)
    return json.dumps({q: "Yes" if verb == "can" and there[int(image)] else "No" for q, image, verb in asked})


@pytest.mark.parametrize("way", ["call", "each"])
def test_planted_judges_are_found_as_good_as_they_are(audited: Path, way: str, run_cli: Refbench) -> None:
    blind = JudgeServer(reply=lambda body: sees(body, blind_to=2), with_pictures=True, keep_bodies=False)
    with JudgeServer(reply=sees, with_pictures=True, keep_bodies=False) as good, blind:
        judges = [f"good=openai:m?base_url={good.url}/v1", f"blind=openai:m?base_url={blind.url}/v1"]
        words = [word for judge in judges for word in ("--judge", judge)]
        code, out, _ = run_cli("attribute", audited, *words, "--way", way, "--json", "--variants", audited.parent / "v")
        assert code == 0
        # One by one, the references that were not exchanged are asked about in the same words as in the clean output.
        calls = CASES * (REFERENCES + 1) if way == "each" else CASES * 2
        assert len(good.requests) == len(blind.requests) == calls
    rows = {row["by"].partition(",")[0]: row for row in orjson.loads(out)["planted"] if row["by"].endswith(way)}
    swapped = [row for row in orjson.loads(out)["outputs"] if row["model"].startswith("3:") and row["by"] == "good"]
    places = [int(row["model"].partition("@")[2]) for row in swapped if row["way"] == way]
    assert rows["good"]["recall"]["value"] == rows["good"]["precision"]["value"] == 1
    assert rows["good"]["false_alarms"]["value"] == 0
    assert rows["good"]["known"]["value"] == 1
    assert rows["blind"]["recall"]["value"] == pytest.approx(np.mean([place != 2 for place in places]))
    low, high = rows["blind"]["recall"]["ci95"]
    assert low < rows["blind"]["recall"]["value"] < high
    assert rows["good"]["gone"]["value"] is None, "without networks no subject is cut out"


def use(case: str, model: str, *states: State | None) -> OutputUse:
    uses = tuple(Use(image=n, role="subject", state=one) for n, one in enumerate(states, 1))
    return OutputUse(case=case, model=model, seed=0, way="call", by="j", references=uses)


def test_shares_are_of_what_is_known() -> None:
    """By hand: of 20 cases the exchanged second reference is called missing in 10, unknown in 5; in 5 clean outputs
    the first is called missing, which is there."""
    found = []
    for n in range(20):
        second: State | None = "missing" if n < 10 else None if n < 15 else "used"
        found.append(use(f"c{n}", "3:reference_swapped@2", "used", second))
        found.append(use(f"c{n}", "clean", "missing" if n < 5 else "used", "distorted"))
        found.append(use(f"c{n}", "4:subject_gone@1", "missing" if n < 12 else "used", None))
    (row,) = planted(found, {f"c{n}": [1, 2] for n in range(20)})
    assert row.recall.value is None, "15 cases have an answer, which is too few"
    assert row.false_alarms.value == pytest.approx(5 / 40)
    assert (row.gone.value, row.gone_clean.value) == (pytest.approx(12 / 20), pytest.approx(5 / 20))
    assert row.precision.n == 10
    assert row.known.value == pytest.approx((20 * 6 - 5 - 20) / (20 * 6))


def test_networks_say_what_they_measured(audited: Path) -> None:
    """Only where they are here: plain colours have neither a face nor a likeness to go by, so it is the road that is
    walked, not how well they see."""
    from refbench.builders.attribution.ask import available
    from refbench.record import RefBenchError

    try:
        available()
    except RefBenchError as error:
        pytest.skip(str(error))
    request = AttributionRequest(audited, "offline", variants=audited.parent / "v")
    options, subject = prepared(request)
    assert {model.name for model in subject.models} >= {"clean"}
    assert options.metrics
    asyncio.run(attribute(request))
    from refbench.analysis.attribution.read import attributions

    found = [one for one in attributions(audited) if one.way == "offline"]
    assert len(found) == 2 * CASES
    assert all(len(one.references) == REFERENCES for one in found)
    assert all(use.state or use.why for one in found for use in one.references)
