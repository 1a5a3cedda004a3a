"""What the filter judge is asked: MultiRef's axes for each type, the original first, the reference after it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest

from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.screening import Marks, axis_name, marks_of, rubric, too_low
from refbench.builders.refblend.types import Type
from refbench.calls.transport import Transport
from refbench.chat.vlm import make_vlm
from refbench.failure import Failure
from refbench.pictures import encode
from refbench.specs import Spec
from support.blend import drawing
from support.judge_server import JudgeServer
from support.planner import content, saying

AXES = {
    **dict.fromkeys(("semantic_map", "sketch", "canny", "depth"), ("alignment", "quality")),
    **dict.fromkeys(("mask", "caption", "subject", "pose", "style"), ("alignment",)),
    "bbox": ("accuracy",),
}


@pytest.mark.parametrize("kind", get_args(Type))
def test_every_type_has_the_axes_of_the_paper(kind: Type) -> None:
    asked = rubric(kind)
    assert tuple(criterion.name for criterion in asked.contract.criteria) == AXES[kind]
    assert asked.what in asked.text
    assert "{" not in asked.text.replace(asked.contract.format_text(), "")


def test_axes_are_named_as_in_the_official_files() -> None:
    names = [axis_name(kind, axis) for kind, axes in AXES.items() for axis in axes]  # type: ignore[arg-type]
    for name in (
        "Semantic-Map Alignment",
        "Sketch Quality",
        "Mask Alignment",
        "Bounding-Box Accuracy",
        "Pose Alignment",
    ):
        assert name in names


def test_three_is_kept_and_two_is_not() -> None:
    assert too_low({"Canny Alignment": 3, "Canny Quality": 5}) == ""
    assert too_low({"Canny Alignment": 3, "Canny Quality": 2}) == "Canny Quality 2"


def asked_about(server: JudgeServer, tmp_path: Path, kind: Type, shown: Path | str) -> Marks | Failure:
    original = tmp_path / "original.png"
    original.write_bytes(encode(drawing(1)))

    async def go() -> Marks | Failure:
        async with Transport(timeout=60) as transport, Interviews(tmp_path / "replies", transport) as interviews:
            vlm = make_vlm(Spec.parse(f"openai:tiny?base_url={server.url}/v1", "--judge"), transport)
            return await marks_of(interviews, vlm, "a", kind, original, shown)

    return asyncio.run(go())


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def test_the_judge_sees_the_original_before_the_reference(tmp_path: Path) -> None:
    reference = tmp_path / "reference.png"
    reference.write_bytes(encode(drawing(2)))
    with saying('{"alignment": 5, "quality": 3}') as server:
        assert asked_about(server, tmp_path, "canny", reference) == {"Canny Alignment": 5, "Canny Quality": 3}
        parts = content(server.requests[0])
    pictures = [part for part in parts if isinstance(part, bytes)]
    assert pictures == [encode(drawing(1)), encode(drawing(2))]
    with saying('{"alignment": 4}') as server:
        assert asked_about(server, tmp_path, "caption", "Two discs") == {"Caption Alignment": 4}
        assert "The caption: Two discs" in str(server.requests[0].body)


@pytest.mark.parametrize(
    "reply", ['{"alignment": 6, "quality": 3}', '{"alignment": 2.5, "quality": 3}', '{"quality": 3}', "fine"]
)
def test_marks_that_are_none_are_asked_for_again_and_then_a_failure(tmp_path: Path, reply: str) -> None:
    reference = tmp_path / "reference.png"
    reference.write_bytes(encode(drawing(2)))
    with saying(reply) as server:
        assert isinstance(asked_about(server, tmp_path, "canny", reference), Failure)
        assert len(server.requests) == 2
