"""rephrase: when the VLM is asked, what it sees, and what the model gets of its prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.models.model import Commission, Painted, Traits
from refbench.models.wrappers.rephrase import Rephrase, read_prompts
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.judge_server import Faults, JudgeServer
from support.planner import content, pictures, saying, texts, with_vlm
from support.recording_model import RecordingModel, flat, write_pictures

TEXT_ONLY = Traits(max_references=0, max_pictures=1)
INSTRUCTION = "Draw the growth of {the plant} in image 1, $5 the pot."


def prompts(*texts: str) -> str:
    return json.dumps({"prompts": texts})


def run(
    server: JudgeServer,
    folder: Path,
    model: RecordingModel,
    *roles: str,
    when: str = "unsupported",
    n_pictures: int = 1,
    seed: int = 5,
    options: str = "",
) -> Painted:
    commission = Commission(INSTRUCTION, write_pictures(folder / "in", *roles), (64, 48), n_pictures)

    async def work(vlm: VLM) -> Painted:
        spec = Spec(name="r", kind="rephrase", what="m", options={"when": when})
        return await Rephrase(spec, vlm, model, folder / "work").generate(commission, seed)

    return with_vlm(server, work, options)


def test_a_request_that_the_model_can_take_is_passed_on_and_nobody_is_asked(tmp_path: Path) -> None:
    model = RecordingModel(traits=Traits(max_references=2))
    with saying(prompts("no")) as server:
        painted = run(server, tmp_path, model, "subject", "style")
        assert not server.requests
    assert model.asks[0].commission.instruction == INSTRUCTION and model.asks[0].data == [flat(100), flat(101)]
    assert painted.provenance["rephrased"] == "no" and painted.cost_usd == 0.25


@pytest.mark.parametrize(
    "traits, roles, count, why",
    [
        (TEXT_ONLY, ("subject",), 1, "it takes at most 0 pictures and the request has 1"),
        (Traits(max_references=1), ("subject", "style"), 1, "it takes at most 1 pictures and the request has 2"),
        (Traits(max_pictures=1), (), 3, "it gives at most 1 pictures and 3 are asked for"),
        (Traits(roles=("source",)), ("source", "pose"), 1, "it takes no picture in the role pose"),
    ],
)
def test_what_the_model_cannot_take_is_rephrased(
    traits: Traits, roles: tuple[str, ...], count: int, why: str, tmp_path: Path
) -> None:
    model = RecordingModel(traits=traits)
    with saying(prompts(*[f"P{n}" for n in range(count)])) as server:
        painted = run(server, tmp_path, model, *roles, n_pictures=count)
    assert [ask.commission.instruction for ask in model.asks] == [f"P{n}" for n in range(count)]
    assert all(not ask.data for ask in model.asks), "the words stand for the pictures"
    assert painted.provenance["rephrased"] == "unsupported" and painted.provenance["rephrased_because"] == why


def test_always_rephrases_what_the_model_could_take_and_shows_it_no_picture(tmp_path: Path) -> None:
    model = RecordingModel(traits=Traits(max_references=4))
    with saying(prompts("A pot.")) as server:
        painted = run(server, tmp_path, model, "subject", when="always")
    assert model.asks[0].commission.instruction == "A pot." and not model.asks[0].data
    assert painted.provenance["rephrased"] == painted.provenance["rephrased_because"] == "always"
    assert json.loads(painted.provenance["prompts"]) == ["A pot."]


def test_one_prompt_and_one_request_for_each_expected_picture_in_order(tmp_path: Path) -> None:
    model = RecordingModel(traits=TEXT_ONLY)
    with saying(prompts("a seed", "a sprout", "a plant")) as server:
        painted = run(server, tmp_path, model, "subject", n_pictures=3)
        assert len(server.requests) == 1
        assert "Pictures to be made: 3." in texts(server.requests[0])
    assert painted.pictures == (flat(10), flat(20), flat(30)) and painted.failure is None
    assert [(ask.commission.n_pictures, ask.seed, ask.commission.size) for ask in model.asks] == [(1, 5, (64, 48))] * 3


def test_pictures_still_go_to_a_model_that_takes_them_when_only_their_number_back_is_too_much(tmp_path: Path) -> None:
    model = RecordingModel(traits=Traits(max_references=3, max_pictures=1))
    with saying(prompts("one", "two")) as server:
        run(server, tmp_path, model, "subject", "style", n_pictures=2)
    assert [ask.data for ask in model.asks] == [[flat(100), flat(101)]] * 2


def test_the_vlm_reads_the_request_and_sees_all_pictures_in_order(tmp_path: Path) -> None:
    with saying(prompts("P")) as server:
        run(server, tmp_path, RecordingModel(traits=TEXT_ONLY), "source", "style", when="always")
        (seen,) = server.requests
    assert pictures(seen) == [flat(100), flat(101)]
    assert INSTRUCTION in content(seen)[0] and "64 x 48 pixels" in content(seen)[0]
    assert [part for part in content(seen)[1:] if isinstance(part, str)] == [
        "Picture 1 (source):",
        "Picture 2 (style):",
    ]


def test_an_unparsable_reply_is_asked_for_once_more(tmp_path: Path) -> None:
    model = RecordingModel(traits=TEXT_ONLY)
    with saying("I think of a pot.", prompts("A pot.")) as server:
        painted = run(server, tmp_path, model, "subject", options="&price=1000,10000")
        assert len(server.requests) == 2
    assert painted.pictures == (flat(10),)
    assert painted.cost_usd == pytest.approx(4.25) and painted.provenance["vlm_usd"] == "4.0", "both were paid"


def test_two_unparsable_replies_are_a_failure_and_nothing_is_painted(tmp_path: Path) -> None:
    model = RecordingModel(traits=TEXT_ONLY)
    with saying(prompts("only one")) as server:
        painted = run(server, tmp_path, model, "subject", n_pictures=2)
        assert len(server.requests) == 2
    assert not model.asks and painted.failure is not None and painted.failure.kind == "unparsable"
    assert "rephrasing by seer: 1 prompts for 2 pictures" in painted.failure.detail


def test_a_refusing_vlm_is_a_refusal_and_is_not_asked_again(tmp_path: Path) -> None:
    for server in (saying("I'm sorry, I can't do that."), JudgeServer(faults=Faults(refused=1.0))):
        model = RecordingModel(traits=TEXT_ONLY)
        with server:
            painted = run(server, tmp_path, model, "subject")
            assert len(server.requests) == 1
        assert not model.asks and painted.failure is not None and painted.failure.kind == "refused"


def test_a_set_with_a_gap_ends_there_and_keeps_its_order(tmp_path: Path) -> None:
    ok = Painted(pictures=(flat(1),))
    for kind, expected in (("api_error", "missing_output"), ("refused", "refused")):
        failed = Painted(failure=Failure(kind=kind, detail="no"))  # type: ignore[arg-type]
        model = RecordingModel(traits=TEXT_ONLY, results=[ok, failed])
        with saying(prompts("a", "b", "c")) as server:
            painted = run(server, tmp_path, model, n_pictures=3)
        assert len(model.asks) == 2 and painted.pictures == (flat(1),)
        assert painted.failure is not None and painted.failure.kind == expected
        assert "1 of 3 pictures came, picture 2" in painted.failure.detail


@pytest.mark.parametrize(
    "reply, count",
    [
        ('{"prompts": ["a"]}', 1),
        ('```json\n{"prompts": ["a"]}\n```', 1),
        ('Not {"prompts": ["b", "c"]} but {"prompts": [" a "]}', 1),
    ],
)
def test_prompts_are_read_from_json_wherever_it_stands(reply: str, count: int) -> None:
    assert read_prompts(reply, count) == ("a",)


@pytest.mark.parametrize(
    "reply", ["", "a", "[]", '{"prompts": "a"}', '{"prompts": []}', '{"prompts": [""]}', '{"prompts": [1]}']
)
def test_nothing_is_made_up_for_prompts_that_are_not_there(reply: str) -> None:
    found = read_prompts(reply, 1)
    assert isinstance(found, Failure) and found.kind == "unparsable"


def test_the_wrapper_can_take_anything_and_records_how(tmp_path: Path) -> None:
    async def work(vlm: VLM) -> list[Rephrase]:
        inner = RecordingModel(traits=Traits(max_references=0, max_pictures=1, family="f"))
        return [
            Rephrase(Spec(name="r", kind="rephrase", what="m", options={"when": w}), vlm, inner, tmp_path)
            for w in ("always", "unsupported")
        ]

    with saying("") as server:
        always, sometimes = with_vlm(server, work)
    assert always.traits == Traits(family="f")
    assert always.canonical()["when"] == "always" and always.canonical() != sometimes.canonical()
    assert json.loads(always.canonical()["vlm"])["endpoint"] == f"openai {server.url}/v1"
    with pytest.raises(RefBenchError, match="when=never: write unsupported or always"), saying("") as server:
        run(server, tmp_path, RecordingModel(), when="never")


def test_what_a_picture_may_have_cost_is_kept_beside_what_the_vlm_did(tmp_path: Path) -> None:
    model = RecordingModel(traits=TEXT_ONLY, results=[Painted((flat(1),), worst_usd=0.5)] * 2)
    with saying(prompts("A pot.", "A leaf.")) as server:
        painted = run(server, tmp_path, model, "subject", n_pictures=2, options="&price=1000,10000")
    assert painted.worst_usd == pytest.approx(2 * 0.5 + 2)
