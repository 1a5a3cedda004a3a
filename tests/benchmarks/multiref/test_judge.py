"""What is asked of the judge and how its replies become scores: order of pictures, words, contract, settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refbench.benchmarks.kit.definition import Asked, Dataset, Material
from refbench.benchmarks.multiref.benchmark import BENCHMARK
from refbench.benchmarks.multiref.cases import AXES, MultiRefCase, load
from refbench.benchmarks.multiref.judge import judging, not_asked, with_prompt, wording_sha256
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.benchmarks.multiref.replies import (
    OVERALL,
    import_replies,
    read_overall,
    read_references,
    references_contract,
)
from refbench.case import AnyCase
from refbench.chat import ChatPicture, ChatText
from refbench.chat.pictures import SentPicture
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.pictures import PictureFacts
from refbench.record import RefBenchError
from refbench.score import Score
from support.multiref import Blend, write_synthetic

GOOD = {"reason": "Fine.", "image_quality": 4, "instruction_following": 3, "source_fidelity": 5}


def sent(name: str) -> SentPicture:
    facts = PictureFacts(sha256=name, format="png", width=4, height=4, mode="RGB")
    return SentPicture(name, Path(name), "image/png", 4, 4, 100, facts)


def material(case: AnyCase) -> Material:
    return Material(inputs=tuple(sent(p.name) for p in case.request.pictures), outputs=(sent("output"),))


def ask(case: AnyCase, **settings: str) -> list[Asked]:
    chosen = BENCHMARK.asking.chosen(settings, BENCHMARK.title)
    return judging(Path(), chosen).ask(case, material(case))


def case_of(root: Path, *types: str, **changes: Any) -> MultiRefCase:
    blend = Blend("a", types, changes={key.replace("__", "."): value for key, value in changes.items()})
    return load(write_synthetic(root, [blend])).cases[0]


def texts(asked: Asked) -> list[str]:
    return [part.text for part in asked.request.parts if isinstance(part, ChatText)]


def shown(asked: Asked) -> list[str]:
    return [part.sha256 for part in asked.request.parts if isinstance(part, ChatPicture)]


def read(
    case: AnyCase, part: str, reply: str | None, request: dict[str, Any] | None = None, protocol: str = "corrected"
) -> dict[str, Score]:
    failure = None if reply is not None else Failure(kind="timeout")
    evidence = Evidence(kind="chat", request=request or {"t": 1}, reply=reply, failure=failure)
    purpose = Purpose(case=case.id, model="m", judge="j", part=part)
    return {score.metric: score for score in BENCHMARK.scoring.protocols[protocol].read(case, purpose, evidence)}


def test_references_come_in_order_and_announced_then_the_output_then_the_words(dataset: Dataset) -> None:
    for case in dataset.cases:
        (asked,) = ask(case)
        assert shown(asked) == [*(p.name for p in case.request.pictures), "output"]
        words = texts(asked)
        for token, text in zip(case.details.tokens, words, strict=False):
            assert f"<{token}> in the instruction:" in text
        assert words[-2] == "The picture that was made:"
        assert case.request.instruction in words[-1]
        assert "{" not in words[-1], "every placeholder is filled"
        assert not any(target.name in shown(asked) for target in case.targets), "the golden picture is not shown"


def test_source_fidelity_is_about_references_or_about_inputs(dataset: Dataset) -> None:
    for case in dataset.cases:
        (asked,) = ask(case)
        assert ("each reference is followed" in texts(asked)[-1]) == (case.groups["split"] == "synthetic")
        assert ("what was not to be touched is untouched" in texts(asked)[-1]) == (case.groups["split"] == "real-world")


def test_a_picture_cannot_be_forgotten(dataset: Dataset) -> None:
    case = dataset.cases[0]
    few = Material(inputs=(), outputs=(sent("output"),))
    with pytest.raises(ValueError, match="1 pictures, 0 were given"):
        judging(Path(), {"prompt": "structured", "reference_axis": "no"}).ask(case, few)


def test_the_enhanced_prompt_is_a_choice_that_is_recorded(tmp_path: Path) -> None:
    case = case_of(tmp_path, "depth", "caption")
    assert "Dear brush" not in texts(ask(case)[0])[-1]
    assert "Dear brush" in texts(ask(case, prompt="enhanced")[0])[-1]
    recorded = judging(Path(), {"prompt": "enhanced", "reference_axis": "no"}).recorded
    assert recorded == {"prompt": "enhanced", "reference_axis": "no", "prompts": "own", "wording": wording_sha256()}


def test_a_case_without_an_enhanced_prompt_is_not_asked_under_the_other_one(tmp_path: Path, dataset: Dataset) -> None:
    case = case_of(tmp_path, "depth", "caption", instructions__enhance_prompts=None)
    assert ask(case, prompt="enhanced") == []
    assert len(ask(case)) == 1
    real = next(c for c in dataset.cases if c.groups["split"] == "real-world")
    assert with_prompt(real, "enhanced") == real, "real-world cases have one prompt"


def test_single_references_are_asked_about_by_choice(tmp_path: Path) -> None:
    case = case_of(tmp_path, "semantic_map", "style", "caption")
    assert [a.part for a in ask(case)] == ["overall"]
    yes, every = ask(case, reference_axis="yes")[1], ask(case, reference_axis="all")[1]
    assert (yes.part, every.part) == ("references", "references")
    assert set((yes.request.json_schema or {})["properties"]) == {"reason", "art_style"}
    assert set((every.request.json_schema or {})["properties"]) == {"reason", "art_style", "caption", "semantic_map"}
    assert [a.part for a in ask(case_of(tmp_path / "b", "depth", "caption"), reference_axis="yes")] == ["overall"]


def test_what_is_not_asked_for_does_not_apply() -> None:
    assert set(not_asked({})) == {judged(kind) for kind in JUDGEABLE}
    assert set(not_asked({"reference_axis": "yes"})) == {"judged_caption", "judged_sketch", "judged_semantic_map"}
    assert not_asked({"reference_axis": "all"}) == {}


def test_both_protocols_ask_once_and_read_alike(dataset: Dataset) -> None:
    case = dataset.cases[0]
    assert [a.protocol for a in ask(case)] == [""]
    for protocol in BENCHMARK.scoring.protocols:
        found = read(case, "overall", json.dumps(GOOD), protocol=protocol)
        assert {name: score.value for name, score in found.items()} == {"IQ": 4, "IF": 3, "SF": 5}


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        (json.dumps(GOOD), (4, 3, 5)),
        (f"```json\n{json.dumps(GOOD, indent=1)}\n```", (4, 3, 5)),
        ("Image quality: 4\nInstruction following: 3\nSource fidelity: 5", (4, 3, 5)),
        ('{"image_quality": "4/5", "instruction_following": 3.0, "source_fidelity": 5}', (4, 3, 5)),
        ('{"image_quality": 4, "instruction_following": 3}', (4, 3, "unparsable")),
        ('{"image_quality": 0, "instruction_following": 6, "source_fidelity": 2.5}', ("out_of_range",) * 3),
        (
            '{"image_quality": 8, "instruction_following": "4/10", "source_fidelity": true}',
            ("out_of_range", "unparsable", "unparsable"),
        ),
        (
            '{"image_quality": 4, "image_quality": 2, "instruction_following": 3, "source_fidelity": 5}',
            ("unparsable", 3, 5),
        ),
        ("I'm sorry, I can't rate this.", ("refused",) * 3),
        ("", ("empty_reply",) * 3),
        ("A fine picture.", ("unparsable",) * 3),
    ],
)
def test_marks_are_read_as_they_are_written_and_each_for_itself(reply: str, marks: tuple[float | str, ...]) -> None:
    found = read_overall(reply)
    assert tuple(found) == AXES
    assert tuple(v.kind if isinstance(v, Failure) else v for v in found.values()) == marks


def test_a_call_that_failed_fails_every_mark(dataset: Dataset) -> None:
    found = read(dataset.cases[0], "overall", None)
    assert {name: score.failure and score.failure.kind for name, score in found.items()} == dict.fromkeys(
        AXES, "timeout"
    )


def test_marks_of_references_are_those_that_were_asked_for(tmp_path: Path) -> None:
    case = case_of(tmp_path, "semantic_map", "style", "caption")
    asked = ask(case, reference_axis="yes")[1]
    request = asked.request.canonical("here", "m")
    found = read(case, "references", '{"art_style": 2, "caption": 5}', request)
    assert found["judged_style"].value == 2
    assert found["judged_caption"].not_applicable == "the judge was not asked about it"
    assert set(found) == {"judged_style", "judged_caption", "judged_semantic_map"}
    everything = ask(case, reference_axis="all")[1].request.canonical("here", "m")
    found = read(case, "references", '{"art_style": 2, "caption": 5}', everything)
    assert found["judged_caption"].value == 5
    assert found["judged_semantic_map"].failure is not None
    assert read(case, "references", None, everything)["judged_style"].failure == Failure(kind="timeout")


def test_a_measured_part_is_not_read_as_a_reply(dataset: Dataset) -> None:
    assert read(dataset.cases[0], "canny", "0.5") == {}


def test_every_way_of_asking_can_be_answered_in_its_own_format() -> None:
    text = OVERALL.format_text()
    assert all(label in text for label in ("image_quality", "instruction_following", "source_fidelity"))
    for kind in JUDGEABLE:
        assert read_references(f'{{"{references_contract([kind]).criteria[1].name}": 3}}', [kind]) == {
            judged(kind): 3.0
        }


def test_replies_on_disk_are_named_by_case(dataset: Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    for case in dataset.cases:
        path = folder / f"{case.id}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(GOOD))
    (folder / "synthetic/stray.txt").write_text("x")
    found = import_replies(dataset, folder, None, "gpt")
    assert (found.judge, found.models, found.unknown) == ("gpt", ("my-model",), ("synthetic/stray.txt",))
    assert len(list(found.replies())) == len(dataset.cases)
    with pytest.raises(RefBenchError, match="--judge is needed"):
        import_replies(dataset, folder, None, None)
    with pytest.raises(RefBenchError, match="may be given once"):
        import_replies(dataset, folder, ["a", "b"], "gpt")
    with pytest.raises(RefBenchError, match="named by a case"):
        import_replies(dataset, dataset.root, None, "gpt")
    with pytest.raises(RefBenchError, match="is not there"):
        import_replies(dataset, tmp_path / "gone", None, "gpt")
