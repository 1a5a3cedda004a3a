"""What is asked of the judge: one question to an edit, in four wordings by the pictures that a case has.

The order is the official one: source, output, mask, reference, then the text. Both protocols ask the same, so that
one call serves both; but for pictures that would be seen otherwise as files, which in the official words `paper` shows
as the release opens them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from refbench.benchmarks.icebench.cases import ICECase, task_of
from refbench.benchmarks.icebench.tasks import QA
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.scripts import Script
from refbench.benchmarks.kit.wording import Wording, chosen_wording, own_text
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import SentPicture, made_picture
from refbench.failure import Failure

# The answer is one digit, and the release allows 512; judges that think aloud need more to get there.
MAX_TOKENS = 4096
INSTRUCTION = "{instruction}"
WAYS = ("plain", "mask", "reference", "mask_reference")


def wording_of(prompts: str = "own") -> Wording:
    """Our words, the release's from `official:CHECKOUT`, or those in a folder of the user's."""
    own = {way: own_text(__package__, way) for way in WAYS}
    return chosen_wording(prompts, own, dict.fromkeys(WAYS, INSTRUCTION), released_wording)


def released_wording(checkout: Path) -> Wording:
    """The four texts, told apart by the pictures that they are for, and how long a reply may be."""
    script = Script(checkout, "evaluators/vllm.py")
    texts = script.by_condition(_ASKS, "text", {"instruction": INSTRUCTION})
    found = {way: texts[names] for names, way in _BRANCHES.items() if names in texts}
    if len(found) < len(WAYS) or len(texts) > len(WAYS) or not all(INSTRUCTION in text for text in found.values()):
        branches = [" and ".join(sorted(names)) or "neither" for names in texts]
        raise script.unlike(
            f"a text with the instruction in {_ASKS}() for src_mask and ref_img, for each alone and for neither",
            f"texts for {', '.join(branches) or 'nothing'}",
        )
    return Wording(
        name="official",
        texts={way: found[way] for way in WAYS},
        numbers={"limit": script.number(_ASKS, "max_new_tokens")},
    )


_ASKS = "__call__"
_BRANCHES = {
    frozenset({"src_mask", "ref_img"}): "mask_reference",
    frozenset({"ref_img"}): "reference",
    frozenset({"src_mask"}): "mask",
    frozenset(): "plain",
}


def named(instruction: str) -> str:
    """The instruction with its picture tokens as our question calls the pictures.

    The released code leaves `<SOURCE>` and `<REF_1>` as they are and calls the pictures something else; so they stay in
    its words, and in those of users, who know what theirs call them.
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
    instruction = named(case.request.instruction) if wording.name == "own" else case.request.instruction
    text = wording[way].replace(INSTRUCTION, instruction)
    parts = (*(ChatPicture(sha256=sha256) for sha256 in shown), ChatText(text=text))
    return ChatRequest(parts=parts, max_tokens=wording.numbers.get("limit", MAX_TOKENS))


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """One call an output at most, and two where the protocols show its pictures differently."""
    wording = wording_of(settings["prompts"])

    def ask(case: ICECase, material: Material) -> list[Asked]:
        def asked(protocol: str, shown: Sequence[SentPicture | Failure]) -> list[Asked]:
            broken = next((one for one in shown if isinstance(one, Failure)), None)
            sent = [one if isinstance(one, SentPicture) else files[number] for number, one in enumerate(shown)]
            by_role: dict[str, str] = {}
            for picture, one in zip(case.request.pictures, sent[:-1], strict=True):
                by_role.setdefault(picture.role, one.sha256)
            request = judge_request(case, sent[-1].sha256, by_role, wording)
            return [] if request is None else [Asked(QA, request, protocol, settled=broken)]

        files = (*material.inputs, material.outputs[0])
        if not material.composed:
            return asked("", files)
        opened = [material.composed.get(str(number), one) for number, one in enumerate(files)]
        return [*asked("corrected", files), *asked("paper", opened)]

    return Judging(ask, wording.recorded(settings), compose=as_released if wording.official else None)


def as_released(case: ICECase, material: Material, store: Callable[[bytes, str], Path]) -> Material:
    """Of the pictures that are not sent as their files (turned, CMYK, animated), what the release hands to its model:
    what Pillow makes of them in RGB, a mask in grey, unturned."""
    made: dict[str, SentPicture | Failure] = {}
    roles = [*(picture.role for picture in case.request.pictures), ""]
    for number, (role, sent) in enumerate(zip(roles, (*material.inputs, material.outputs[0]), strict=True)):
        if sent.file is not None and not sent.resized:
            data = _opened(sent.file, "L" if role == "mask" else "RGB")
            told = "as the release opens it"
            made[str(number)] = data if isinstance(data, Failure) else made_picture(data, told, store, sent.original)
    return replace(material, composed=made)


def _opened(path: Path, mode: str) -> bytes | Failure:
    try:
        data = io.BytesIO()
        Image.open(path).convert(mode).save(data, format="PNG")
        return data.getvalue()
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        return Failure(kind="unreadable_picture", detail=f"{path.name} could not be opened ({error})")
