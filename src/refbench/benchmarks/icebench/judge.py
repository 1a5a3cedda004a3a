"""What is asked of the judge: one question to an edit, in four wordings by the pictures that a case has.

The order is the official one: source, output, mask, reference, then the text. Both protocols ask the same, so that
one call serves both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Literal

from refbench.benchmarks.icebench.cases import ICECase, task_of
from refbench.benchmarks.icebench.tasks import QA
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.record import Record, RefBenchError

# The answer is one digit, and the release allows 512; judges that think aloud need more to get there.
MAX_TOKENS = 4096
INSTRUCTION = "{instruction}"
WAYS = ("plain", "mask", "reference", "mask_reference")


class Wording(Record):
    """The words of the question, one text for each way of asking."""

    name: Literal["own", "user"]
    texts: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """Goes into the fingerprint: numbers judged with other words are other numbers."""
        return hashlib.sha256("\0".join(self.texts[way] for way in WAYS).encode()).hexdigest()


def own_wording() -> Wording:
    folder = resources.files("refbench.benchmarks.icebench").joinpath("rubric")
    texts = {way: folder.joinpath(f"{way}.txt").read_text("utf-8").strip() for way in WAYS}
    return Wording(name="own", texts=texts)


def wording_from(folder: Path) -> Wording:
    """Other words, from four files in a folder of the user's: the official text is part of a Python file."""
    texts = {}
    for way in WAYS:
        path = folder / f"{way}.txt"
        try:
            texts[way] = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            files = ", ".join(f"{name}.txt" for name in WAYS)
            raise RefBenchError(f"{path} cannot be read: a wording is {files} in UTF-8") from error
        if INSTRUCTION not in texts[way]:
            raise RefBenchError(f"{path} has no {INSTRUCTION}: put it where the item's instruction belongs")
    return Wording(name="user", texts=texts)


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
    text = wording.texts[way].replace(INSTRUCTION, named(case.request.instruction))
    return ChatRequest(
        parts=(*(ChatPicture(sha256=sha256) for sha256 in shown), ChatText(text=text)), max_tokens=MAX_TOKENS
    )


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """At most one call an output. `prompts` may also name a folder of wording."""
    prompts = settings["prompts"]
    wording = own_wording() if prompts == "own" else wording_from(Path(prompts))

    def ask(case: ICECase, material: Material) -> list[Asked]:
        by_role: dict[str, str] = {}
        for shown, sent in zip(case.request.pictures, material.inputs, strict=True):
            by_role.setdefault(shown.role, sent.sha256)
        request = judge_request(case, material.outputs[0].sha256, by_role, wording)
        return [] if request is None else [Asked(QA, request)]

    return Judging(ask, {**settings, "prompts": wording.name, "wording": wording.sha256})
