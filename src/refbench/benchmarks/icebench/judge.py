"""What is asked of the judge: one question to an edit, in four wordings by the pictures that a case has.

The order is the official one: source, output, mask, reference, then the text. Both protocols ask the same, so that
one call serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from refbench.benchmarks.icebench.cases import ICECase, task_of
from refbench.benchmarks.icebench.tasks import QA
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import Wording, chosen_wording
from refbench.chat import ChatPicture, ChatRequest, ChatText

# The answer is one digit, and the release allows 512; judges that think aloud need more to get there.
MAX_TOKENS = 4096
INSTRUCTION = "{instruction}"
WAYS = ("plain", "mask", "reference", "mask_reference")


def wording_of(prompts: str = "own") -> Wording:
    """Our words, or those in a folder of the user's: the official text is part of a Python file."""
    return chosen_wording(prompts, __package__, WAYS, dict.fromkeys(WAYS, INSTRUCTION))


def named(instruction: str) -> str:
    """The instruction with its picture tokens as the question calls the pictures.

    The released code leaves `<SOURCE>` and `<REF_1>` as they are and calls the pictures something else.
    """
    for token, name in (("<SOURCE>", "[SOURCE]"), ("<REF_1>", "[REFERENCE]"), ("<MASK>", "[MASK]")):
        instruction = instruction.replace(token, name)
    return instruction


def judge_request(
    case: ICECase, output_sha256: str, input_sha256s: Mapping[str, str], wording: Wording
) -> ChatRequest | None:
    """The question to one output; `input_sha256s` by role. None for a task without it, or without a source."""
    if QA not in task_of(case).parts or "source" not in input_sha256s:
        return None
    way = "_".join(role for role in ("mask", "reference") if role in input_sha256s) or "plain"
    further = [input_sha256s[role] for role in ("mask", "reference") if role in input_sha256s]
    shown = (input_sha256s["source"], output_sha256, *further)
    text = wording[way].replace(INSTRUCTION, named(case.request.instruction))
    return ChatRequest(
        parts=(*(ChatPicture(sha256=sha256) for sha256 in shown), ChatText(text=text)), max_tokens=MAX_TOKENS
    )


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """At most one call an output. `prompts` may also name a folder of wording."""
    wording = wording_of(settings["prompts"])

    def ask(case: ICECase, material: Material) -> list[Asked]:
        by_role: dict[str, str] = {}
        for shown, sent in zip(case.request.pictures, material.inputs, strict=True):
            by_role.setdefault(shown.role, sent.sha256)
        request = judge_request(case, material.outputs[0].sha256, by_role, wording)
        return [] if request is None else [Asked(QA, request)]

    return Judging(ask, {**settings, "prompts": wording.name, "wording": wording.sha256})
