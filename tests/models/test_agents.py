"""MultiBanana's agents on recorded requests: who is shown what, in which order, with which prompt, how often."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.models.agents import METHODS, Agent
from refbench.models.agents.agent import Plan, read_plan
from refbench.models.model import Commission, ImageModel, Painted, Traits
from refbench.models.wrappers.wrapper import charged_usd
from refbench.pictures import facts_of
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.judge_server import Faults, JudgeServer, Seen
from support.planner import content, pictures, saying, texts, with_vlm
from support.recording_model import RecordingModel, flat, write_pictures

P0 = "Put the dog of image 1 beside the cat of image 2, in the style of image 3."
NOTE = "The last of the pictures is the result of the step before."


def spec(kind: str, **options: str) -> Spec:
    return Spec(name=f"{kind}+recording", kind=kind, what="recording:x", options=options)


def run(
    kind: str,
    server: JudgeServer,
    folder: Path,
    model: RecordingModel,
    *,
    seed: int = 7,
    n_pictures: int = 1,
    options: str = "",
    **own: str,
) -> Painted:
    shown = write_pictures(folder / "in", "subject", "subject", "style")
    commission = Commission(P0, shown, size=(64, 48), n_pictures=n_pictures)

    async def work(vlm: VLM) -> Painted:
        agent: ImageModel = Agent(spec(kind, **own), vlm, model, folder / "work")
        try:
            return await agent.generate(commission, seed)
        finally:
            await agent.close()

    return with_vlm(server, work, options)


def plan(prompt: str, *indices: int) -> str:
    return json.dumps({"indices": indices, "prompt": prompt})


REFERENCES = [flat(100), flat(101), flat(102)]


def test_ipr_gives_the_model_each_new_prompt_with_all_references_and_nothing_else(tmp_path: Path) -> None:
    model = RecordingModel()
    with saying("P one", "P two", "never asked") as server:
        painted = run("ipr", server, tmp_path, model)
        assert len(server.requests) == 2, "the third planner's reply would not be used"
    assert [ask.commission.instruction for ask in model.asks] == [P0, "P one", "P two"]
    assert all(ask.data == REFERENCES for ask in model.asks)
    assert all(ask.roles == ["subject", "subject", "style"] for ask in model.asks)
    assert all((ask.seed, ask.commission.size, ask.commission.n_pictures) == (7, (64, 48), 1) for ask in model.asks)
    assert painted.pictures == (flat(30),) and painted.failure is None


def test_every_steps_picture_is_kept_with_its_own_prompt(tmp_path: Path) -> None:
    with saying("P one", "P two") as server:
        painted = run("ipr", server, tmp_path, RecordingModel())
    assert [step.pictures for step in painted.steps] == [(flat(10),), (flat(20),)]
    assert [step.instruction for step in painted.steps] == [P0, "P one"]
    assert [step.provenance["step"] for step in painted.steps] == ["1 of 3", "2 of 3"]
    assert [step.provenance["planner_reply"] for step in painted.steps] == ["P one", "P two"]
    assert painted.provenance["instruction"] == painted.provenance["prompt"] == "P two"
    assert painted.provenance["step"] == "3 of 3"
    assert painted.provenance["planner_calls"] == "2" and painted.provenance["planner_unread"] == "0"
    assert not isinstance(facts_of(painted.steps[0].pictures[0]), Failure)


@pytest.mark.parametrize("kind", list(METHODS))
def test_the_planner_reads_the_last_prompt_then_sees_all_references_and_the_new_result_last(
    kind: str, tmp_path: Path
) -> None:
    replies = (plan("P one", 1), plan("P two", 0)) if kind == "sra" else ("P one", "P two")
    with saying(*replies) as server:
        run(kind, server, tmp_path, RecordingModel())
        asked = list(server.requests)
    for seen, prompt, result in zip(asked, (P0, "P one"), (flat(10), flat(20)), strict=True):
        assert pictures(seen) == [*REFERENCES, result]
        first = content(seen)[0]
        assert f"<prompt>\n{prompt}\n</prompt>" in first, "the text comes before all pictures"
        assert NOTE not in first, "the planner writes on the prompt, not on the note that the model got"


def labels(seen: Seen) -> list[str]:
    return [part for part in content(seen)[1:] if isinstance(part, str)]


def test_references_are_numbered_as_the_planner_has_to_answer(tmp_path: Path) -> None:
    with saying(plan("P", 1)) as server:
        run("sra", server, tmp_path, RecordingModel(), steps="2")
        assert labels(server.requests[0]) == ["Reference 0:", "Reference 1:", "Reference 2:", "The result:"]
    with saying("P") as server:
        run("ipr", server, tmp_path, RecordingModel(), steps="2")
        assert labels(server.requests[0]) == ["Reference 1:", "Reference 2:", "Reference 3:", "The result:"]


def test_cafg_shows_the_model_its_last_result_as_the_last_picture_and_says_so(tmp_path: Path) -> None:
    model = RecordingModel()
    with saying("P one", "P two") as server:
        run("cafg", server, tmp_path, model)
    first, second, third = model.asks
    assert first.commission.instruction == P0 and first.data == REFERENCES, "no result yet: the plain form"
    assert second.commission.instruction.startswith(f"P one\n\n{NOTE}")
    assert second.data == [*REFERENCES, flat(10)] and second.roles[-1] == "previous"
    assert third.commission.instruction.startswith(f"P two\n\n{NOTE}")
    assert third.data == [*REFERENCES, flat(20)], "the newest result only"


def test_sra_shows_only_the_references_that_were_not_reflected_and_the_last_result(tmp_path: Path) -> None:
    model = RecordingModel()
    with saying(plan("P one", 2, 0), plan("P two", 1)) as server:
        painted = run("sra", server, tmp_path, model)
    first, second, third = model.asks
    assert first.data == REFERENCES and first.commission.instruction == P0
    assert second.data == [REFERENCES[0], REFERENCES[2], flat(10)], "in the order of the request"
    assert second.commission.instruction.startswith(f"P one\n\n{NOTE}")
    assert third.data == [REFERENCES[1], flat(20)]
    assert painted.provenance["references"] == "1" and painted.steps[1].provenance["references"] == "0 2"


def test_no_index_means_all_references(tmp_path: Path) -> None:
    model = RecordingModel()
    with saying(plan("P one")) as server:
        run("sra", server, tmp_path, model, steps="2")
    assert model.asks[1].data == [*REFERENCES, flat(10)]


@pytest.mark.parametrize(
    "reply",
    [
        "I would use reference 1 again.",
        '{"indices": [3], "prompt": "beyond the last"}',
        '{"indices": [-1], "prompt": "before the first"}',
        '{"indices": ["0"], "prompt": "a text"}',
        '{"indices": [true], "prompt": "a truth"}',
        '{"indices": 0, "prompt": "a number"}',
        '{"prompt": "no indices"}',
        '{"indices": [0]}',
        '{"indices": [0], "prompt": "  "}',
        '{"indices": [0], "prompt": "cut',
    ],
)
def test_an_unparsable_plan_keeps_the_prompt_and_the_references_and_is_recorded(reply: str, tmp_path: Path) -> None:
    model = RecordingModel()
    with saying(plan("P one", 1), reply) as server:
        painted = run("sra", server, tmp_path, model)
    assert painted.failure is None and len(model.asks) == 3
    assert model.asks[2].commission.instruction == model.asks[1].commission.instruction
    assert model.asks[2].data == [REFERENCES[1], flat(20)]
    assert painted.steps[1].provenance["planner_failure"].startswith("unparsable")
    assert painted.steps[1].provenance["planner_reply"] == reply
    assert painted.provenance["planner_unread"] == "1"


@pytest.mark.parametrize("kind", ["ipr", "cafg"])
def test_a_refusing_planner_is_not_painted(kind: str, tmp_path: Path) -> None:
    model = RecordingModel()
    with saying("I'm sorry, but I can't help with that.") as server:
        painted = run(kind, server, tmp_path, model)
    assert [ask.commission.instruction.partition("\n\n")[0] for ask in model.asks] == [P0, P0, P0]
    assert painted.failure is None and painted.provenance["planner_unread"] == "2"
    assert painted.steps[0].provenance["planner_failure"].startswith("refused")


def test_a_refusal_on_the_wire_keeps_the_prompt_too(tmp_path: Path) -> None:
    model = RecordingModel()
    with JudgeServer(faults=Faults(refused=1.0)) as server:
        painted = run("ipr", server, tmp_path, model, steps="2")
    assert model.asks[1].commission.instruction == P0 and painted.failure is None
    assert painted.steps[0].provenance["planner_failure"].startswith("refused")


def test_a_planner_that_cannot_be_reached_ends_the_case_for_the_next_run_and_keeps_the_steps(tmp_path: Path) -> None:
    model = RecordingModel()
    with JudgeServer(status=503, error={"error": {"message": "busy"}}) as server:
        painted = run("ipr", server, tmp_path, model)
    assert painted.failure is not None and painted.failure.transient and "planner seer" in painted.failure.detail
    assert len(model.asks) == 1 and painted.pictures == () and painted.steps[0].pictures == (flat(10),)


def test_a_step_without_a_picture_is_the_result_and_no_earlier_picture_takes_its_place(tmp_path: Path) -> None:
    refused = Painted(failure=Failure(kind="refused", detail="safety"), cost_usd=0.0)
    model = RecordingModel(results=[Painted(pictures=(flat(1),)), refused])
    with saying("P one") as server:
        painted = run("cafg", server, tmp_path, model)
        assert len(server.requests) == 1
    assert painted.pictures == () and painted.failure == refused.failure
    assert [step.pictures for step in painted.steps] == [(flat(1),)]
    assert painted.provenance["step"] == "2 of 3"


def test_half_a_set_of_an_early_step_is_not_the_result(tmp_path: Path) -> None:
    half = Painted(pictures=(flat(1),), failure=Failure(kind="missing_output", detail="1 of 2 came"))
    for results, kept in (([half], ()), ([Painted(pictures=(flat(2), flat(3))), half], (flat(1),))):
        model = RecordingModel(results=results)
        with saying("P one") as server:
            painted = run("ipr", server, tmp_path, model, n_pictures=2, steps="2")
        assert painted.failure == half.failure and painted.pictures == kept
    with saying("P one") as server:
        painted = run("ipr", server, tmp_path, RecordingModel(results=[Painted()]))
    assert painted.failure is not None and painted.failure.kind == "missing_output"


def test_steps_are_as_many_as_asked_for(tmp_path: Path) -> None:
    for steps in (1, 2, 5):
        model = RecordingModel()
        with saying("again") as server:
            painted = run("ipr", server, tmp_path, model, steps=str(steps))
            assert len(server.requests) == steps - 1
        assert len(model.asks) == steps and len(painted.steps) == steps - 1
    for wrong in ("0", "x", "-1", "1000"):
        with saying("again") as server, pytest.raises(RefBenchError, match="steps="):
            run("ipr", server, tmp_path, RecordingModel(), steps=wrong)


def test_what_a_step_may_have_cost_is_kept_and_counted(tmp_path: Path) -> None:
    unknown = Painted((flat(1),), worst_usd=0.5)
    with saying(plan("again", 0, 1)) as server:
        painted = run(
            "ipr", server, tmp_path, RecordingModel(results=[unknown] * 3), options="&price=1000,10000", steps="3"
        )
    assert [step.worst_usd for step in painted.steps] == pytest.approx([2.5, 2.5]), "with the planner's two dollars"
    assert painted.worst_usd == 0.5
    assert charged_usd(painted) == pytest.approx(5.5)


def test_each_step_counts_its_own_picture_and_the_question_after_it(tmp_path: Path) -> None:
    with saying("P") as server:
        painted = run("ipr", server, tmp_path, RecordingModel(), options="&price=1000,10000")
    # 1,000 tokens in at $1,000 and 100 out at $10,000 a million: $2 a question; a picture costs $0.25.
    assert [step.cost_usd for step in painted.steps] == pytest.approx([2.25, 2.25])
    assert painted.cost_usd == pytest.approx(0.25) and painted.seconds == pytest.approx(1.0)
    assert painted.steps[0].provenance["vlm_usd"] == "2.0"


def test_nothing_is_left_on_disk(tmp_path: Path) -> None:
    with saying("P") as server:
        run("cafg", server, tmp_path, RecordingModel())
    assert list((tmp_path / "work").iterdir()) == []


def test_several_pictures_a_step_all_go_on(tmp_path: Path) -> None:
    model = RecordingModel()
    with saying("P") as server:
        painted = run("cafg", server, tmp_path, model, n_pictures=2, steps="2")
        assert pictures(server.requests[0]) == [*REFERENCES, flat(10), flat(11)]
    assert model.asks[1].data == [*REFERENCES, flat(10), flat(11)] and len(painted.pictures) == 2


def test_the_last_result_comes_in_a_role_that_the_model_takes(tmp_path: Path) -> None:
    model = RecordingModel(traits=Traits(roles=("source", "subject", "style")))
    with saying("P") as server:
        run("cafg", server, tmp_path, model, steps="2")
    assert model.asks[1].roles == ["subject", "subject", "style", "source"]


def test_the_last_result_takes_a_place_and_steps_have_a_price(tmp_path: Path) -> None:
    inner = RecordingModel(traits=Traits(max_references=4, price=0.5, family="f", max_pictures=1))
    with saying("P") as server:

        async def work(vlm: VLM) -> dict[str, Agent]:
            return {kind: Agent(spec(kind), vlm, inner, tmp_path) for kind in METHODS}

        agents = with_vlm(server, work)
    assert {kind: agent.traits.max_references for kind, agent in agents.items()} == {"ipr": 4, "cafg": 3, "sra": 3}
    assert all(agent.traits.price == 1.5 and agent.traits.family == "f" for agent in agents.values())
    records = [dict(agent.canonical()) for agent in agents.values()]
    assert all(record["model.kind"] == "recording" and record["steps"] == "3" for record in records)
    assert json.loads(records[0]["planner"])["model"] == "tiny" and "tiny" in records[0]["planner"]
    assert len({json.dumps(record) for record in records}) == 3
    asyncio.run(agents["ipr"].close())
    assert inner.closed


@pytest.mark.parametrize(
    "reply",
    [
        "A dog.",
        "  A dog.\n",
        "```\nA dog.\n```",
        "```text\nA dog.\n```",
        '"A dog."',
        "“A dog.”",
        "Prompt: A dog.",
        "New prompt:\nA dog.",
        "Here is the revised prompt:\n\nA dog.",
        "Sure! Here's the new prompt for the next attempt: A dog.",
        '{"prompt": "A dog."}',
    ],
)
def test_a_prompt_is_read_without_its_wrapping(reply: str) -> None:
    assert read_plan(reply, 2, select=False) == Plan("A dog.", (0, 1))


@pytest.mark.parametrize(
    "reply",
    [
        'A sign that says "OPEN"',
        '"OPEN" and "SHUT"',
        "Two lines:\nA dog.\nA cat.",
        "Style: watercolour. A {curly} dog.",
        "A prompt actor enters: the stage is lit.",
    ],
)
def test_a_prompt_that_only_looks_wrapped_is_kept_whole(reply: str) -> None:
    assert read_plan(reply, 1, select=False) == Plan(reply, (0,))


def test_the_last_of_several_plans_counts() -> None:
    reply = f"First {plan('no', 0)}, better:\n```json\n{plan('yes', 1, 1, 0)}\n```"
    assert read_plan(reply, 2, select=True) == Plan("yes", (0, 1))


def test_a_question_of_unclosed_brackets_is_read_in_no_time() -> None:
    assert isinstance(read_plan("{" * 100_000, 2, select=True), Failure)


def test_a_reply_that_was_cut_off_is_no_prompt(tmp_path: Path) -> None:
    from refbench.evidence import Evidence
    from refbench.models.wrappers.wrapper import reply_of

    cut = Evidence(kind="chat", request={}, reply="A dog and", provenance="cut off at the limit of tokens")
    found = reply_of(cut)
    assert isinstance(found, Failure) and found.kind == "unparsable"


def test_two_seeds_and_two_steps_are_different_questions(tmp_path: Path) -> None:
    """Evidence is keyed by the repeat: an answer must not be reused where another was meant."""
    repeats: list[int] = []

    async def work(vlm: VLM) -> None:
        class Listening:
            name, family = vlm.name, vlm.family
            canonical = staticmethod(vlm.canonical)
            worst_cost = staticmethod(vlm.worst_cost)

            async def ask(self, request, pictures, repeat):  # type: ignore[no-untyped-def]
                repeats.append(repeat)
                return await vlm.ask(request, pictures, repeat)

        agent = Agent(spec("ipr"), Listening(), RecordingModel(), tmp_path)
        for seed in (0, 1):
            await agent.generate(Commission(P0, write_pictures(tmp_path / "in", "subject")), seed)

    with saying("P") as server:
        with_vlm(server, work)
        assert texts(server.requests[0])
    assert len(set(repeats)) == len(repeats) == 4


# The critic: planted painters, whose quality by step is known, and planted critics, which see it in the picture or err.


def painter(*qualities: int) -> RecordingModel:
    made = [Painted(pictures=(flat(quality),), seconds=1.0, cost_usd=0.25) for quality in qualities]
    return RecordingModel(results=made)


def critic(says: Callable[[int], object]) -> JudgeServer:
    """Marks the picture that it is shown, by its quality; as a planner it wants the same again."""
    qualities = {flat(quality): quality for quality in range(1, 11)}

    def reply(text: str) -> str:
        if '{"mark"' not in text:
            return "again"
        mark = says(qualities[pictures(server.requests[-1])[-1]])
        return mark if isinstance(mark, str) else json.dumps({"mark": mark})

    server = JudgeServer(reply=reply)
    return server


def quality_of(painted: Painted) -> int:
    return next(quality for quality in range(1, 11) if painted.pictures == (flat(quality),))


def refuse(quality: int) -> str:
    return "I'm sorry, I can't mark this."


@pytest.mark.parametrize(
    ("own", "says", "expected"),
    [
        ({}, int, lambda made: (made[-1], 3, 0)),
        ({"keep": "best"}, int, lambda made: (max(made), 3, 3)),
        ({"keep": "best"}, lambda quality: 11 - quality, lambda made: (min(made), 3, 3)),
        ({"keep": "best"}, lambda quality: 7, lambda made: (made[-1], 3, 3)),
        ({"keep": "best"}, refuse, lambda made: (made[-1], 3, 3)),
        ({"keep": "best"}, lambda quality: 99 if quality == 9 else quality, lambda made: (6, 3, 3)),
        ({"stop": "6"}, int, lambda made: until(made, 6)),
        ({"stop": "10"}, int, lambda made: (made[-1], 3, 2)),
        ({"stop": "1"}, refuse, lambda made: (made[-1], 3, 2)),
        ({"stop": "6", "keep": "best"}, int, lambda made: (until(made, 6)[0], until(made, 6)[1], until(made, 6)[1])),
    ],
    ids=["fixed", "knows", "errs the other way", "sees no difference", "refuses", "out of range", "stop", "never", "unread", "both"],
)  # fmt: skip
def test_what_the_critic_says_decides_which_step_is_the_result_and_how_many_there_are(
    own: dict[str, str], says: Callable[[int], object], expected: Callable[..., tuple[int, int, int]], tmp_path: Path
) -> None:
    for number, made in enumerate(itertools.permutations((3, 6, 9))):
        model = painter(*made)
        with critic(says) as server:
            painted = run("ipr", server, tmp_path / str(number), model, options="&price=1000,10000", **own)
            asked = [texts(seen) for seen in server.requests]
        marked = [text for text in asked if '{"mark"' in text]
        assert (quality_of(painted), len(model.asks), len(marked)) == expected(made), made
        assert len(asked) - len(marked) == len(model.asks) - 1, "the planner is not asked where nothing follows"
        assert all(f"<request>\n{P0}\n</request>" in text for text in marked), "by what the user asked for"
        # A question is $2 and a picture $0.25: what was asked is paid for, the critic's questions too.
        whole = sum(cost or 0.0 for cost in (painted.cost_usd, *(step.cost_usd for step in painted.steps)))
        assert whole == pytest.approx(2.0 * len(asked) + 0.25 * len(model.asks))
        assert painted.failure is None and painted.provenance.get("critic_calls", "0") == str(len(marked))
        kept = {quality_of(Painted(pictures=step.pictures)) for step in painted.steps} | {quality_of(painted)}
        assert kept == set(made[: len(model.asks)]), "every picture that was paid for is kept"


def until(made: tuple[int, ...], stop: int) -> tuple[int, int, int]:
    """The fixed agent's last step, or the first that is good enough; the last is not marked, as nothing would follow."""
    first = next(n for n, quality in enumerate(made, 1) if quality >= stop or n == len(made))
    return made[first - 1], first, min(first, len(made) - 1)


def test_marks_and_what_became_of_them_are_on_record(tmp_path: Path) -> None:
    with critic(int) as server:
        painted = run("sra", server, tmp_path, painter(5, 9, 4), keep="best")
    assert [step.provenance["critic_mark"] for step in painted.steps] == ["5", "9", "4"]
    assert painted.provenance["kept"] == "2 of 3" and painted.provenance["step"] == "2 of 3"
    with critic(int) as server:
        painted = run("cafg", server, tmp_path, painter(5, 9, 4), stop="8")
    assert painted.provenance["stopped"] == "2 of 3" and painted.provenance["critic_mark"] == "9"
    assert [step.provenance["critic_mark"] for step in painted.steps] == ["5"]
    with critic(lambda quality: "{") as server:
        painted = run("ipr", server, tmp_path, painter(5, 9, 4), stop="8")
    assert painted.provenance["critic_unread"] == "2" and "stopped" not in painted.provenance
    assert painted.steps[0].provenance["critic_failure"].startswith("unparsable")


def test_a_critic_that_cannot_be_reached_ends_the_case_and_a_step_without_a_picture_fails_it(tmp_path: Path) -> None:
    with JudgeServer(status=503, error={"error": {"message": "busy"}}) as server:
        painted = run("ipr", server, tmp_path, painter(5, 9, 4), stop="8")
    assert painted.failure is not None and painted.failure.transient and "critic seer" in painted.failure.detail
    assert painted.steps[0].pictures == (flat(5),)
    refused = Painted(failure=Failure(kind="refused", detail="safety"), cost_usd=0.0)
    for nothing in (refused, Painted()):
        with critic(int) as server:
            made = [Painted(pictures=(flat(9),)), nothing]
            painted = run("ipr", server, tmp_path, RecordingModel(results=made), keep="best")
        assert painted.failure is not None and painted.pictures == (), "no earlier picture takes its place"


def test_the_critic_is_part_of_who_the_agent_is_and_the_paper_s_agent_is_who_it_was(tmp_path: Path) -> None:
    options: list[dict[str, str]] = [{}, {"keep": "last"}, {"keep": "best"}, {"stop": "8"}, {"stop": "9"}]
    with saying("P") as server:

        async def work(vlm: VLM) -> list[str]:
            agents = [Agent(spec("ipr", **own), vlm, RecordingModel(), tmp_path) for own in options]
            return [json.dumps(dict(agent.canonical())) for agent in agents]

        fixed, last, *others = with_vlm(server, work)
    assert fixed == last and "critic" not in fixed and "keep" not in fixed and "stop" not in fixed
    assert len({fixed, *others}) == 4
    for wrong in ({"keep": "first"}, {"stop": "0"}, {"stop": "11"}, {"stop": "yes"}):
        with saying("P") as server, pytest.raises(RefBenchError, match=next(iter(wrong))):
            run("ipr", server, tmp_path, RecordingModel(), **wrong)
