"""overflow: what reaches a model that takes fewer pictures than a request has, under each policy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from refbench.failure import Failure
from refbench.models.collage import covering, grid
from refbench.models.model import Commission, Painted, Shown, Traits
from refbench.models.wrappers.overflow import Overflow, gathered, truncated
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from refbench.specs import POLICIES, Spec
from support.recording_model import RecordingModel, flat, write_pictures


def wrap(policy: str, model: RecordingModel, folder: Path) -> Overflow:
    return Overflow(Spec(name=f"{policy}+m", kind="overflow", what="m", options={"policy": policy}), model, folder)


def run(policy: str, folder: Path, traits: Traits, *roles: str) -> tuple[Painted, RecordingModel]:
    model = RecordingModel(traits=traits)
    commission = Commission("Mix them.", write_pictures(folder / "in", *roles))
    return asyncio.run(wrap(policy, model, folder / "work").generate(commission, 3)), model


def shown(*roles: str) -> tuple[Shown, ...]:
    return tuple(Shown(Path(f"{n}.png"), role) for n, role in enumerate(roles))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("most", [3, None])
def test_a_request_that_fits_is_left_alone(policy: str, most: int | None, tmp_path: Path) -> None:
    painted, model = run(policy, tmp_path, Traits(max_references=most), *["reference"] * 3)
    assert model.asks[0].data == [flat(100), flat(101), flat(102)]
    assert model.asks[0].commission.instruction == "Mix them." and model.asks[0].seed == 3
    assert "overflow" not in painted.provenance


def test_error_stops_the_run_and_says_what_to_choose(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"at most 2 pictures and the request has 3.*truncate or collage"):
        run("error", tmp_path, Traits(max_references=2), *["reference"] * 3)


def test_skip_asks_nobody_and_is_no_failing_of_the_model(tmp_path: Path) -> None:
    painted, model = run("skip", tmp_path, Traits(max_references=2), *["reference"] * 3)
    assert not model.asks and painted.pictures == () and painted.cost_usd == 0
    assert painted.failure is not None and not painted.failure.transient
    assert "at most 2 pictures and the request has 3" in painted.failure.detail
    assert painted.provenance == {"overflow": "skip"}


def test_truncate_keeps_the_first_pictures_in_order(tmp_path: Path) -> None:
    painted, model = run("truncate", tmp_path, Traits(max_references=2), *["reference"] * 4)
    assert model.asks[0].data == [flat(100), flat(101)]
    assert model.asks[0].commission.instruction == "Mix them."
    assert painted.provenance["overflow"] == "truncate: pictures 1, 2 as they are"


def test_a_model_without_pictures_gets_the_text_alone_when_truncated(tmp_path: Path) -> None:
    _, model = run("truncate", tmp_path, Traits(max_references=0), "reference", "reference")
    assert model.asks[0].data == []


@pytest.mark.parametrize(
    "roles, most, kept",
    [
        (("subject", "style", "source"), 1, (2,)),
        (("subject", "style", "source"), 2, (0, 2)),
        (("subject", "style", "previous"), 2, (0, 2)),
        (("source", "subject", "previous"), 1, (2,)),
        (("source", "mask", "subject", "subject"), 2, (0, 1, 2)),
    ],
)
def test_the_picture_that_is_worked_on_stays_and_masks_do_not_count(
    roles: tuple[str, ...], most: int, kept: tuple[int, ...]
) -> None:
    assert truncated(shown(*roles), Traits(max_references=most)).kept == kept


def test_pictures_in_roles_that_the_model_does_not_know_are_left_out(tmp_path: Path) -> None:
    traits = Traits(roles=("source", "subject"))
    painted, model = run("truncate", tmp_path, traits, "source", "mask", "pose", "subject")
    assert model.asks[0].roles == ["source", "subject"]
    assert painted.provenance["overflow"] == "truncate: pictures 1, 4 as they are"


def test_collage_puts_what_does_not_fit_into_one_picture_and_says_where(tmp_path: Path) -> None:
    painted, model = run("collage", tmp_path, Traits(max_references=3), *["reference"] * 5)
    (ask,) = model.asks
    assert ask.data[:2] == [flat(100), flat(101)] and len(ask.data) == 3
    assert ask.commission.instruction.startswith("Mix them.\n\n")
    assert "picture 3 is a grid that holds the request's pictures 3, 4, 5" in ask.commission.instruction
    assert painted.provenance["overflow"] == "collage: pictures 1, 2 as they are, pictures 3, 4, 5 in one"
    pixels = decode(ask.data[2])
    assert not isinstance(pixels, Failure)
    quarter_y, quarter_x = pixels.shape[0] // 4, pixels.shape[1] // 4
    colours = [pixels[y, x].tolist() for y in (quarter_y, 3 * quarter_y) for x in (quarter_x, 3 * quarter_x)]
    alone = [decode(flat(n)) for n in (102, 103, 104)]
    assert colours[:3] == [p[0, 0].tolist() for p in alone if not isinstance(p, Failure)]
    assert colours[3] == [255, 255, 255], "the free field is white"
    assert list((tmp_path / "work").iterdir()) == []


def test_an_agents_last_result_stays_the_last_picture_beside_a_collage(tmp_path: Path) -> None:
    _, model = run("collage", tmp_path, Traits(max_references=3), *["reference"] * 4, "previous")
    assert model.asks[0].roles == ["reference", "reference", "previous"]
    assert model.asks[0].data[2] == flat(104)
    assert "picture 2 is a grid that holds the request's pictures 2, 3, 4" in model.asks[0].commission.instruction


def test_all_pictures_go_into_one_where_the_model_takes_one(tmp_path: Path) -> None:
    _, model = run("collage", tmp_path, Traits(max_references=1), "source", "reference", "mask")
    assert model.asks[0].roles == ["reference", "mask"] and model.asks[0].data[1] == flat(102)
    assert "picture 1 is a grid that holds the request's pictures 1, 2" in model.asks[0].commission.instruction


def test_a_collage_takes_roles_that_the_model_does_not_know(tmp_path: Path) -> None:
    traits = Traits(roles=("source",), max_references=2)
    assert gathered(shown("source", "pose", "style"), traits).gathered == (1, 2)
    _, model = run("collage", tmp_path, traits, "source", "pose", "style")
    assert model.asks[0].roles == ["source", "source"]
    _, model = run("collage", tmp_path, traits, "source", "mask")
    assert model.asks[0].roles == ["source"], "a mask alone is left out, nothing to gather"


def test_a_collage_of_a_broken_picture_is_a_failure(tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "in", "reference", "reference")
    pictures[1].path.write_bytes(b"no picture")
    model = RecordingModel(traits=Traits(max_references=1))
    painted = asyncio.run(wrap("collage", model, tmp_path).generate(Commission("x", pictures), 0))
    assert painted.failure is not None and painted.failure.kind == "unreadable_picture" and not model.asks
    assert "1.png" in painted.failure.detail


def test_policies_are_recorded_and_lift_the_limit_only_where_they_do(tmp_path: Path) -> None:
    traits = Traits(max_references=2, family="f", price=0.1)
    wrapped = {policy: wrap(policy, RecordingModel(traits=traits), tmp_path) for policy in POLICIES}
    limits = {policy: model.traits.max_references for policy, model in wrapped.items()}
    assert limits == {"error": 2, "skip": 2, "truncate": None, "collage": None}
    assert len({tuple(sorted(model.canonical().items())) for model in wrapped.values()}) == 4
    assert wrapped["skip"].canonical() == {
        "kind": "overflow",
        "policy": "skip",
        "model.kind": "recording",
        "model.what": "recording",
    }


def test_wrong_options_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"policy=cut: write error, skip"):
        wrap("cut", RecordingModel(), tmp_path)
    with pytest.raises(RefBenchError, match="takes no pictures, so no collage: use rephrase"):
        wrap("collage", RecordingModel(traits=Traits(max_references=0)), tmp_path)


@pytest.mark.parametrize(
    "count, size", [(1, (64, 64)), (2, (100, 60)), (3, (1, 1)), (5, (640, 480)), (9, (31, 17)), (8, None)]
)
def test_a_grid_has_the_size_asked_for_and_every_picture_whole(count: int, size: tuple[int, int] | None) -> None:
    made = grid([np.full((30, 20, 3), 10 * n, np.uint8) for n in range(count)], size)
    assert size is None or made.shape == (size[1], size[0], 3)
    if size is None or min(size) > 60:
        assert {10 * n for n in range(count)} <= set(np.unique(made).tolist())


def test_covering_cuts_two_sides_and_distorts_nothing() -> None:
    wide = np.zeros((50, 200, 3), np.uint8)
    wide[:, 100:] = 255
    cut = covering(wide, (50, 50))
    assert cut.shape == (50, 50, 3) and np.array_equal(cut, wide[:, 75:125])
    assert covering(wide, None) is wide
    assert covering(wide, (101, 30)).shape == (30, 101, 3)
    assert encode(cut)
