"""What a usable picture takes: refusals are the model's, timeouts the road's, and money spent on either counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import refbench
from refbench.analysis.usable import UsableTable, usable_table
from refbench.failure import Failure
from refbench.output import Output, StoredPicture
from refbench.runs import Run
from support.checkout import plain_items, write_checkout

Refbench = Callable[..., tuple[int, str, str]]
ITEMS = plain_items(20)
PICTURE = StoredPicture(sha256="0" * 64, format="png", width=1, height=1)


def told(root: Path, outputs: list[Output], *, turns: bool = True) -> UsableTable:
    data = write_checkout(root / "creval", ITEMS, pictures=False)
    run = Run.create(root / "run", "creval", refbench.load("creval", data).cases)
    order = {item.stem: i for i, item in enumerate(ITEMS)}
    if turns:
        outputs = sorted(outputs, key=lambda o: order[o.case])
    with run.writer() as writer:
        for number, output in enumerate(outputs):
            writer.add_output(output, recorded=1000.0 + number)
    return usable_table(run.path)


def of(model: str, *, refuses: int = 0, hangs: int = 0, cost: float | None = 0.02) -> list[Output]:
    """Twenty outputs, the n-th of which took n seconds."""
    found = []
    for n, item in enumerate(ITEMS):
        place = {"case": item.stem, "model": model, "seconds": float(n), "cost_usd": cost}
        if n < refuses + hangs:
            failure = Failure(kind="refused" if n < refuses else "timeout")
            found.append(Output(**place, failure=failure))
        else:
            found.append(Output(**place, pictures=(PICTURE,)))
    return found


def test_rates_latency_and_price_are_of_what_was_asked(tmp_path: Path) -> None:
    found = told(tmp_path, [*of("shy", refuses=4, hangs=2), *of("bold", cost=0.01)])
    bold, shy = found.rows
    assert (bold.model, shy.model) == ("bold", "shy"), "the cheapest usable picture first"
    assert (shy.asked, shy.usable, shy.refused, shy.road) == (20, 14, 4, 2)
    assert shy.rate == pytest.approx(4 / 18), "what never reached the model is not asked"
    assert shy.rate95 == pytest.approx((0.0641, 0.4764), abs=1e-3)  # scipy: binomtest(4, 18).proportion_ci()
    assert shy.p50 == pytest.approx(12.5)
    assert shy.usd_per_usable == pytest.approx(20 * 0.02 / 14), "refusals were paid for"
    assert bold.rate == 0
    assert bold.rate95 == pytest.approx((0.0, 0.1684), abs=1e-3)
    assert found.interleaved


def test_models_asked_one_after_the_other_are_said_to_be(tmp_path: Path) -> None:
    found = told(tmp_path, [*of("first"), *of("second")], turns=False)
    assert found.interleaved is False
    assert "the models were not asked in turns" in found.notes[0]


def test_what_is_not_known_of_every_picture_is_not_guessed(tmp_path: Path) -> None:
    outputs = [o.model_copy(update={"seconds": None, "cost_usd": None}) if n == 7 else o for n, o in enumerate(of("a"))]
    (row,) = told(tmp_path, outputs).rows
    assert (row.p50, row.p95, row.usd, row.usd_per_usable) == (None, None, None, None)


def test_a_model_that_gave_nothing_has_no_price_and_no_latency(tmp_path: Path, run_cli: Refbench) -> None:
    (row,) = told(tmp_path, of("mute", refuses=20)).rows
    assert (row.usable, row.rate, row.p50, row.usd_per_usable) == (0, 1.0, None, None)
    assert row.usd == pytest.approx(0.4)
    code, said, _ = run_cli("table", tmp_path / "run", "--usable")
    assert code == 0
    assert "0/20" in said
    assert json.loads(run_cli("table", tmp_path / "run", "--usable", "--json")[1])["rows"][0]["refused"] == 20
    assert run_cli("table", tmp_path / "run", "--usable", "--csv")[0] == 2
