"""turns: one reference a turn, and the result of the turn before in the source's place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from refbench.failure import Failure
from refbench.models.model import Commission, Painted, Traits
from refbench.models.wrappers.turns import Turns
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.recording_model import RecordingModel, flat, write_pictures

SPEC = Spec(name="t", kind="turns", what="m")


def run(model: RecordingModel, folder: Path, *roles: str, n_pictures: int = 1) -> Painted:
    commission = Commission("Follow all.", write_pictures(folder / "in", *roles), (64, 48), n_pictures)
    return asyncio.run(Turns(SPEC, model, folder / "work").generate(commission, 9))


def test_each_turn_shows_one_reference_and_the_result_so_far(tmp_path: Path) -> None:
    model = RecordingModel()
    painted = run(model, tmp_path, "canny", "style", "reference")
    assert [ask.data for ask in model.asks] == [[flat(100)], [flat(10), flat(101)], [flat(20), flat(102)]]
    assert [ask.roles for ask in model.asks] == [["canny"], ["source", "style"], ["source", "reference"]]
    assert all((ask.seed, ask.commission.size) == (9, (64, 48)) for ask in model.asks)
    assert painted.pictures == (flat(30),)
    assert [step.pictures for step in painted.steps] == [(flat(10),), (flat(20),)]


def test_a_turn_is_told_the_whole_request_and_which_picture_it_is_about(tmp_path: Path) -> None:
    model = RecordingModel()
    run(model, tmp_path, "canny", "reference")
    first, second = (ask.commission.instruction for ask in model.asks)
    assert first.startswith("Follow all.\n\n") and "in 2 turns" in first and "this is turn 1." in first
    assert "picture 1 of the request (canny)." in first and "result so far" not in first
    assert "this is turn 2. The first picture is the result so far" in second and "picture 2 of the request." in second


def test_a_source_and_its_mask_are_there_from_the_first_turn_and_the_result_replaces_the_source(tmp_path: Path) -> None:
    model = RecordingModel()
    run(model, tmp_path, "source", "mask", "subject", "subject")
    assert [ask.data for ask in model.asks] == [
        [flat(100), flat(101), flat(102)],
        [flat(10), flat(101), flat(103)],
    ]
    assert [ask.roles for ask in model.asks] == [["source", "mask", "subject"]] * 2
    assert "picture 4 of the request (subject)" in model.asks[1].commission.instruction


@pytest.mark.parametrize("roles", [(), ("source",), ("source", "mask", "style"), ("style",)])
def test_one_reference_or_none_is_one_plain_turn(roles: tuple[str, ...], tmp_path: Path) -> None:
    model = RecordingModel()
    painted = run(model, tmp_path, *roles)
    assert len(model.asks) == 1 and model.asks[0].commission.instruction == "Follow all."
    assert len(model.asks[0].data) == len(roles) and painted.steps == () and painted.provenance["turns"] == "1"


def test_only_the_last_turn_is_asked_for_several_pictures(tmp_path: Path) -> None:
    model = RecordingModel()
    painted = run(model, tmp_path, "style", "subject", n_pictures=4)
    assert [ask.commission.n_pictures for ask in model.asks] == [1, 4] and len(painted.pictures) == 4


def test_a_turn_without_a_picture_ends_it_and_keeps_the_turns_before(tmp_path: Path) -> None:
    failure = Failure(kind="refused", detail="safety")
    model = RecordingModel(results=[Painted(pictures=(flat(1),)), Painted(failure=failure)])
    painted = run(model, tmp_path, "style", "subject", "pose")
    assert len(model.asks) == 2 and painted.failure == failure and painted.pictures == ()
    assert [step.pictures for step in painted.steps] == [(flat(1),)]
    assert painted.provenance["turns"] == "2 of 3"
    assert list((tmp_path / "work").iterdir()) == []


def test_every_turn_has_its_own_cost(tmp_path: Path) -> None:
    painted = run(RecordingModel(), tmp_path, "style", "subject", "pose")
    assert [step.cost_usd for step in painted.steps] == [0.25, 0.25] and painted.cost_usd == 0.25


def test_a_model_of_one_picture_needs_a_collage(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"takes 1: write turns\(collage\(...\)\)"):
        Turns(SPEC, RecordingModel(traits=Traits(max_references=1)), tmp_path)
    with pytest.raises(RefBenchError, match="works on from a source"):
        Turns(SPEC, RecordingModel(traits=Traits(roles=("style",))), tmp_path)
    turns = Turns(SPEC, RecordingModel(traits=Traits(max_references=2)), tmp_path)
    assert turns.traits.max_references is None and turns.canonical()["model.kind"] == "recording"
