"""ablate and suffix: what a model is told less, in another order, or more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from refbench.models.model import Commission, Painted
from refbench.models.wrappers.inputs import Ablate, Suffix
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.recording_model import RecordingModel, flat, write_pictures


def run(folder: Path, *roles: str, instruction: str = "Mix them.", **options: str) -> tuple[Painted, RecordingModel]:
    model = RecordingModel()
    commission = Commission(instruction, write_pictures(folder / "in", *roles), (64, 48), 2)
    ablate = Ablate(Spec(name="a", kind="ablate", what="m", options=options), model)
    return asyncio.run(ablate.generate(commission, 4)), model


def test_without_the_text_the_pictures_stay(tmp_path: Path) -> None:
    painted, model = run(tmp_path, "source", "style", drop="text")
    assert model.asks[0].commission.instruction == "" and model.asks[0].data == [flat(100), flat(101)]
    assert painted.provenance["ablate"] == "without the text"
    assert (model.asks[0].seed, model.asks[0].commission.size, model.asks[0].commission.n_pictures) == (4, (64, 48), 2)
    _, model = run(tmp_path, "style", drop="text", text="Go on.")
    assert model.asks[0].commission.instruction == "Go on.", "for servers that refuse an empty prompt"


def test_a_named_reference_is_dropped_and_sources_do_not_count(tmp_path: Path) -> None:
    painted, model = run(tmp_path, "source", "mask", "subject", "style", drop="reference", which="2")
    assert model.asks[0].data == [flat(100), flat(101), flat(102)]
    assert model.asks[0].commission.instruction == "Mix them."
    assert painted.provenance["ablate"] == "without picture 4"


def test_a_drawn_reference_is_the_same_for_every_model_and_differs_between_requests(tmp_path: Path) -> None:
    def gone(instruction: str, seed: str = "0") -> str:
        painted, _ = run(tmp_path, *["subject"] * 4, instruction=instruction, drop="reference", seed=seed)
        return painted.provenance["ablate"]

    requests = [f"request {n}" for n in range(30)]
    first = [gone(text) for text in requests]
    assert first == [gone(text) for text in requests]
    assert set(first) == {f"without picture {n}" for n in (1, 2, 3, 4)}
    assert first != [gone(text, "1") for text in requests]


def test_draws_do_not_change_between_versions(tmp_path: Path) -> None:
    """Python keeps random() for a seed; what is drawn from it is kept here, since paired runs depend on it."""
    painted, _ = run(tmp_path, *["subject"] * 4, drop="reference", shuffle="yes")
    assert painted.provenance["ablate"] == "without picture 2; in the order 1 4 3"


def test_all_pictures_of_a_role_are_dropped(tmp_path: Path) -> None:
    painted, model = run(tmp_path, "source", "style", "subject", "style", drop="role", role="style")
    assert model.asks[0].data == [flat(100), flat(102)]
    assert painted.provenance["ablate"] == "without picture 2, 4"


def test_shuffling_changes_the_order_of_references_and_leaves_the_source_where_it_is(tmp_path: Path) -> None:
    for n in range(20):
        painted, model = run(tmp_path, "subject", "source", "subject", instruction=f"r{n}", shuffle="yes")
        assert model.asks[0].data == [flat(102), flat(101), flat(100)], "two have one other order"
        assert painted.provenance["ablate"] == "in the order 3 2 1"
    orders = {
        run(tmp_path, *["style"] * 3, instruction=f"r{n}", shuffle="yes")[0].provenance["ablate"] for n in range(60)
    }
    assert len(orders) == 5, "all orders but the one given"


@pytest.mark.parametrize(
    "roles, options",
    [
        (("source",), {"drop": "reference"}),
        (("source", "style"), {"drop": "reference", "which": "2"}),
        (("source", "style"), {"drop": "role", "role": "pose"}),
        (("source", "style"), {"shuffle": "yes"}),
    ],
)
def test_a_request_without_that_part_is_not_run_with_its_full_input(
    roles: tuple[str, ...], options: dict[str, str], tmp_path: Path
) -> None:
    painted, model = run(tmp_path, *roles, **options)
    assert not model.asks and painted.failure is not None and not painted.failure.transient
    assert "nothing to ablate" in painted.failure.detail


@pytest.mark.parametrize(
    "options, said",
    [
        ({}, "needs drop=text, drop=reference"),
        ({"drop": "all"}, "drop=all: write text, reference"),
        ({"drop": "nothing"}, "or shuffle=yes"),
        ({"drop": "role"}, "drop=role and role="),
        ({"drop": "text", "role": "style"}, "drop=role and role="),
        ({"drop": "reference", "which": "0"}, "which=0: write random or a whole number"),
        ({"shuffle": "maybe"}, "shuffle=maybe: write yes or no"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=said):
        run(tmp_path, **options)


def test_what_is_ablated_is_recorded() -> None:
    ablate = Ablate(Spec(name="a", kind="ablate", what="m", options={"drop": "role", "role": "pose"}), RecordingModel())
    assert ablate.canonical() == {
        "kind": "ablate",
        "drop": "role",
        "role": "pose",
        "shuffle": "no",
        "seed": "0",
        "model.kind": "recording",
        "model.what": "recording",
    }


def test_a_suffix_follows_every_instruction(tmp_path: Path) -> None:
    model = RecordingModel()
    suffix = Suffix(Spec(name="s", kind="suffix", what="m", options={"text": "Keep faces. "}), model)
    shown = write_pictures(tmp_path, "style")
    asyncio.run(suffix.generate(Commission("Mix them.\n", shown), 1))
    asyncio.run(suffix.generate(Commission(""), 1))
    assert [ask.commission.instruction for ask in model.asks] == ["Mix them. Keep faces.", "Keep faces."]
    assert model.asks[0].data == [flat(100)] and suffix.canonical()["text"] == "Keep faces."
    with pytest.raises(RefBenchError, match="suffix needs text="):
        Suffix(Spec(name="s", kind="suffix", what="m"), model)
