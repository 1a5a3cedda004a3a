"""The judge of the demonstration: labelled as made up, with every kind of reply that a real one gives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np

from refbench.demo import made_up_judge
from refbench.engine import evaluate
from refbench.pictures import encode


def test_the_made_up_judge_marks_refuses_and_replies_in_no_form_and_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    rng = np.random.default_rng(2)
    with (tmp_path / "cases.jsonl").open("w") as file:
        for n in range(100):
            file.write(json.dumps({"id": f"c{n}", "instruction": "Paint."}) + "\n")
            (tmp_path / f"out/c{n}.png").write_bytes(encode(rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)))
    with made_up_judge() as judge:
        given = {"models": f"A=folder:{tmp_path / 'out'}", "rubric": "five_criteria", "out": tmp_path / "run"}
        done = evaluate(tmp_path / "cases.jsonl", judges=judge, **given)
        failed = Counter({row["case"]: row["kind"] for row in done.failures()}.values())
    with made_up_judge() as elsewhere:
        again = evaluate(tmp_path / "cases.jsonl", judges=elsewhere, **given)
    assert set(failed) == {"refused", "unparsable"}
    assert 2 <= failed.total() <= 25
    acts = [evidence for _, evidence in done.run.evidence()]
    assert len(acts) > 100 + failed["unparsable"], "some replies are read when they are asked for again"
    assert all("ade-up re" in str(evidence) for evidence in acts)
    assert sum(evidence.cost_usd or 0 for evidence in acts) > 0
    assert len([*again.run.evidence()]) == len(acts), "the same judge, whatever port it has this time"
