"""Outputs: what painting took and cost, counted by hand."""

from __future__ import annotations

import pytest

from refbench.failure import Failure
from refbench.output import Output, StoredPicture, painting, paintings

PICTURE = (StoredPicture(sha256="0" * 64, format="png", width=8, height=8),)


def painted(case: str, seconds: float | None, cost: float | None, step: int | None = None) -> Output:
    return Output(case=case, model="m", step=step, pictures=PICTURE, seconds=seconds, cost_usd=cost)


def test_the_steps_of_an_agent_are_part_of_what_its_picture_took_and_cost() -> None:
    outputs = [painted("a", 10, 0.5, step=0), painted("a", 4, 0.25), painted("b", 2, 0.25)]
    found = paintings(outputs)["m"]
    assert (found.n, found.seconds, found.cost_usd) == (2, 8.0, 0.5)
    assert painting(outputs) == ["m: 8.0 s and 0.5000 usd a case"]


@pytest.mark.parametrize("missing", [painted("b", 3, None), painted("b", 3, None, step=0)])
def test_a_price_known_of_some_pictures_only_is_no_price(missing: Output) -> None:
    outputs = [painted("a", 3, 0.4), missing, *([painted("b", 3, 0.1)] if missing.step is not None else [])]
    assert paintings(outputs)["m"].cost_usd is None
    assert "usd" not in painting(outputs)[0]


def test_what_failed_is_in_no_average_and_a_model_that_only_failed_has_none() -> None:
    refused = Output(case="b", model="m", failure=Failure(kind="refused", detail="no"), seconds=100, cost_usd=None)
    found = paintings([painted("a", 3, 0.4), refused])["m"]
    assert (found.n, found.seconds, found.cost_usd) == (1, 3.0, 0.4)
    assert paintings([refused])["m"].seconds is None
    assert painting([refused]) == []


def test_seeds_are_pictures_of_their_own() -> None:
    again = painted("a", 5, 0.2).model_copy(update={"seed": 1})
    found = paintings([painted("a", 3, 0.4), again])["m"]
    assert (found.n, found.seconds, found.cost_usd) == (2, 4.0, pytest.approx(0.3))
