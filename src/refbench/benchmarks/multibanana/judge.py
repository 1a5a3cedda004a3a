"""What is asked of the judge: pure functions from a case and picture hashes to the one call that gives all marks.

The order is the official one: text, all references, the instruction, the output, the rubric. In our words both
protocols ask the same, reference 0 included. In the official words `paper` asks as the released scripts do, each judge
as its own script, and `corrected` asks with the same words and all references.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.scripts import Script
from refbench.benchmarks.kit.wording import Wording, chosen_wording, own_text
from refbench.benchmarks.multibanana.cases import PART, MultiBananaCase
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import MIME, SentPicture, made_picture
from refbench.failure import Failure

MAX_TOKENS = 8192
INSTRUCTION, COUNT = "{instruction}", "{count}"


TEXTS = ("a", "b", "c")
"""Before the references, around the instruction, behind the output. Our words call a task what it is; the official text
calls every task a replacement."""


class ReleasedWay(NamedTuple):
    """How the release asks some judges: the names of its numbers in a wording, and what it declares pictures to be."""

    families: Callable[[str], bool]
    first: str
    limit: str | None
    mime: str | None
    shows: str
    """What becomes of a picture whose file is not sent as it is otherwise."""


_FILE, _DECODED = "file", "decoded"
WAYS = (
    ReleasedWay(lambda family: family not in ("google", "alibaba"), "judge.py first", "gpt limit", "image/jpeg", _FILE),
    # Its client library takes pictures, not files, and sends no limit.
    ReleasedWay(lambda family: family == "google", "judge.py first", None, None, _DECODED),
    ReleasedWay(lambda family: family == "alibaba", "qwenvl_judge.py first", "qwenvl limit", "image/jpeg", _FILE),
)
"""By who made the judge: judge.py for GPT and whoever else speaks like it, and for Gemini; qwenvl_judge.py for Qwen."""


def wording_of(prompts: str = "own") -> Wording:
    """Our words, the release's from `official:CHECKOUT`, or those in a folder of the user's."""
    own = {name: own_text(__package__, name) for name in TEXTS}
    return chosen_wording(prompts, own, {"b": INSTRUCTION}, released_wording)


def released_wording(checkout: Path) -> Wording:
    """The three texts, where each script begins to count references, and how long replies may be."""
    api, qwen = Script(checkout, "judge.py"), Script(checkout, "qwenvl_judge.py")
    texts = api.returned(_PROMPTS, {"instruction": INSTRUCTION})
    if len(texts) != len(TEXTS) or INSTRUCTION not in texts[1] or qwen.has(_PROMPTS):
        raise api.unlike(
            f"three texts from {_PROMPTS}(), the second with the instruction, for both scripts",
            f"{len(texts)} texts, the instruction in {[n for n, text in enumerate(texts, 1) if INSTRUCTION in text]}"
            + (f", and another {_PROMPTS}() in {qwen.path.name}" if qwen.has(_PROMPTS) else ""),
        )
    numbers = {
        "judge.py first": api.number("find_reference_images", "i"),
        "gpt limit": api.number("judge_image_with_gpt", "max_completion_tokens"),
        "qwenvl_judge.py first": qwen.number("find_reference_images", "i"),
        "qwenvl limit": qwen.number("inference", "max_new_tokens"),
    }
    return Wording(name="official", texts=dict(zip(TEXTS, texts, strict=True)), numbers=numbers)


_PROMPTS = "create_evaluation_prompts"


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
    return [_request(case, reference_sha256s, output_sha256, wording, MAX_TOKENS)]


def released_request(
    case: MultiBananaCase, reference_sha256s: Sequence[str], output_sha256: str, wording: Wording, way: ReleasedWay
) -> tuple[ChatRequest, Failure | None]:
    """The call as the release makes it, and why it makes none where it finds no reference to show."""
    shown = reference_sha256s[wording.numbers[way.first] :]
    limit = wording.numbers[way.limit] if way.limit is not None else None
    request = _request(case, shown, output_sha256, wording, limit, way.mime)
    if shown:
        return request, None
    reason = f"the released script begins at reference {wording.numbers[way.first]}, and the set has none from there on"
    return request, Failure(kind="undefined", detail=f"{reason}: it asks nobody")


def _request(
    case: MultiBananaCase,
    references: Sequence[str],
    output: str,
    wording: Wording,
    max_tokens: int | None,
    mime: str | None = None,
) -> ChatRequest:
    # The official texts have one place, and braces that stand for themselves.
    first = wording["a"] if wording.official else wording["a"].replace(COUNT, str(len(references)))
    parts = (
        ChatText(text=first),
        *(ChatPicture(sha256=sha256, mime=mime) for sha256 in references),
        ChatText(text=wording["b"].replace(INSTRUCTION, case.request.instruction)),
        ChatPicture(sha256=output, mime=mime),
        ChatText(text=wording["c"]),
    )
    return ChatRequest(parts=parts, max_tokens=max_tokens)


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """One call for all five marks, the same for both protocols unless the words are official."""
    wording = wording_of(settings["prompts"])

    def ask(case: MultiBananaCase, material: Material) -> list[Asked]:
        references, output = [picture.sha256 for picture in material.inputs], material.outputs[0].sha256
        (request,) = judge_requests(case, references, output, wording)
        if not wording.official:
            return [Asked(PART, request)]
        asked = [Asked(PART, request, "corrected")] if settings["ask"] != "paper" else []
        for way in WAYS if settings["ask"] != "corrected" else ():
            (*shown, result), broken = _shown(material, way)
            released, settled = released_request(case, shown, result, wording, way)
            asked.append(Asked(PART, released, "paper", settled=settled or broken, families=way.families))
        return asked

    return Judging(ask, wording.recorded(settings), compose=as_released if wording.official else None)


# --- pictures as the released scripts send them -------------------------------------------------------------------


def as_released(case: MultiBananaCase, material: Material, store: Callable[[bytes, str], Path]) -> Material:
    """What the released scripts make of those files that are not sent as they are here (turned, CMYK, animated): GPT
    and Qwen get the bytes of the file, Gemini's client what Pillow decodes, as it is stored."""
    made: dict[str, SentPicture | Failure] = {}
    for number, sent in enumerate((*material.inputs, material.outputs[0])):
        if sent.file is None or sent.resized:
            continue
        facts = sent.original
        mime = MIME.get(facts.format, f"image/{facts.format}")
        size = facts.width, facts.height, sent.file.stat().st_size
        made[f"{number} {_FILE}"] = SentPicture(facts.sha256, sent.file, mime, *size, facts)
        data = decoded_again(sent.file)
        made[f"{number} {_DECODED}"] = (
            data if isinstance(data, Failure) else made_picture(data, "decoded and encoded again", store, facts)
        )
    return replace(material, composed=made)


def decoded_again(path: Path) -> bytes | Failure:
    """The file as google-genai 3.3 hands a Pillow picture on: a JPEG again as JPEG by its own tables, all else as PNG;
    without rotation. The release pins no version of it."""
    try:
        picture = Image.open(path)
        data = io.BytesIO()
        if picture.format == "JPEG" and picture.mode in ("L", "RGB", "CMYK"):
            picture.save(data, format="JPEG", quality="keep")
        else:
            picture.save(data, format="PNG")
        return data.getvalue()
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        return Failure(kind="unreadable_picture", detail=f"{path.name} could not be encoded again ({error})")


def _shown(material: Material, way: ReleasedWay) -> tuple[list[str], Failure | None]:
    """The hashes of the references and of the output as this way shows them, and why one of them cannot be shown."""
    sent = (*material.inputs, material.outputs[0])
    shown = [material.composed.get(f"{number} {way.shows}", one) for number, one in enumerate(sent)]
    broken = next((one for one in shown if isinstance(one, Failure)), None)
    known = [one if isinstance(one, SentPicture) else sent[number] for number, one in enumerate(shown)]
    return [one.sha256 for one in known], broken
