"""What is asked of the judge: a pure function from a case and picture hashes to the one call that gives all marks.

The order is the official one: text, all references, the instruction, the output, the rubric. Reference 0 is
among them; the released script for the API judges starts at index 1 and never shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import Wording, chosen_wording
from refbench.benchmarks.multibanana.cases import PART, MultiBananaCase
from refbench.chat import ChatPicture, ChatRequest, ChatText

MAX_TOKENS = 8192
INSTRUCTION, COUNT = "{instruction}", "{count}"


TEXTS = ("a", "b", "c")
"""Before the references, around the instruction, behind the output. Both protocols ask with the same words, so that
one call serves both. The official text calls every task a replacement; ours does not, in either."""


def wording_of(prompts: str = "own") -> Wording:
    """Our words, or those in a folder of the user's: the official text is part of a Python file, and who wants it puts
    it in such files."""
    return chosen_wording(prompts, __package__, TEXTS, {"b": INSTRUCTION})


def judge_requests(
    case: MultiBananaCase,
    reference_sha256s: Sequence[str],
    output_sha256: str,
    wording: Wording,
) -> list[ChatRequest]:
    """The one call that judges an output. `reference_sha256s` are those of all references, in their order."""
    if len(reference_sha256s) != len(case.request.pictures):
        raise ValueError(
            f"{case.id} has {len(case.request.pictures)} references, {len(reference_sha256s)} hashes were given"
        )
    parts = (
        ChatText(text=wording["a"].replace(COUNT, str(len(reference_sha256s)))),
        *(ChatPicture(sha256=sha256) for sha256 in reference_sha256s),
        ChatText(text=wording["b"].replace(INSTRUCTION, case.request.instruction)),
        ChatPicture(sha256=output_sha256),
        ChatText(text=wording["c"]),
    )
    return [ChatRequest(parts=parts, max_tokens=MAX_TOKENS)]


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """One call for all five marks, the same for both protocols. `prompts` may also name a folder of wording."""
    wording = wording_of(settings["prompts"])

    def ask(case: MultiBananaCase, material: Material) -> list[Asked]:
        references = [picture.sha256 for picture in material.inputs]
        (request,) = judge_requests(case, references, material.outputs[0].sha256, wording)
        return [Asked(PART, request)]

    return Judging(ask, {**settings, "prompts": wording.name, "wording": wording.sha256})
