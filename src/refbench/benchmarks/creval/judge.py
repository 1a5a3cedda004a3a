"""What is asked of the judge: pure functions from a case and two picture hashes to chat requests.

Two settings that the paper and the released code disagree on are parameters: all questions of a metric in
one call (the code) or one call each (the paper's text), and whether the editing instruction is shown. In the official
words `paper` asks as the released script does, pictures included, which it decodes and encodes again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from refbench.benchmarks.creval.cases import METRICS, CREvalCase, Metric, Question
from refbench.benchmarks.creval.replies import read_choice
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.scripts import Script, released_file
from refbench.benchmarks.kit.wording import OFFICIAL, Wording, chosen_wording, own_text
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import SentPicture, made_picture
from refbench.failure import Failure
from refbench.judges.prompts import filled
from refbench.record import RefBenchError
from refbench.text.files import file_text

MAX_TOKENS = 2000
OFFICIAL_TEMPLATE = "code/prompt_templete/answer.txt"
OFFICIAL_SCRIPT = "code/answer_with_gpt4o.py"
PLACEHOLDER = "{Questions}"


def own_wording() -> Wording:
    return wording_of("own", Path())


def wording_of(prompts: str, root: Path) -> Wording:
    """Our words, the release's from `official:CHECKOUT`, or those in a folder of the user's. `official` alone is the
    checkout that the data are in."""
    # The template ends with a newline, which judges have always been sent.
    own = {"system": own_text(__package__, "system"), "answer": own_text(__package__, "answer") + "\n"}
    chosen = f"{OFFICIAL}:{root}" if prompts == OFFICIAL else prompts
    return chosen_wording(chosen, own, {"answer": PLACEHOLDER}, released_wording)


def released_wording(checkout: Path) -> Wording:
    """The template as its file has it, and the script's own words: the system message, the line before the questions,
    and how a question is laid out."""
    path = released_file(checkout, OFFICIAL_TEMPLATE)
    template = file_text(path)
    if PLACEHOLDER not in template:
        raise RefBenchError(f"{path} has no {PLACEHOLDER} to put the questions in: copy the file again")
    script = Script(checkout, OFFICIAL_SCRIPT)
    system, in_parts = script.said_by(_ASKS, "system")
    question = script.added(_ASKS, _QUESTIONS, _PLACES)
    if [question.count(place) for place in _PLACES.values()] != [1, 1, 1]:
        raise script.unlike(f"id, question and choices added to {_QUESTIONS} in {_ASKS}()", repr(question))
    return Wording(
        name="official",
        texts={
            "system": system,
            "answer": template,
            "lead": script.assigned(_ASKS, _QUESTIONS, {}),
            "question": question,
        },
        numbers={"limit": script.number(_ASKS, "max_tokens"), "system in parts": int(in_parts)},
    )


_ASKS, _QUESTIONS = "evaluate_pair", "questions_text"
_PLACES = {"q['question_id']": "{id}", "q['question']": "{question}", "', '.join(q['choices'])": "{choices}"}


def judge_requests(
    case: CREvalCase,
    metric: Metric,
    shown: Sequence[str],
    wording: Wording,
    *,
    protocol: Literal["paper", "corrected"] = "corrected",
    questions: Literal["all", "one"] = "all",
    show_instruction: bool = False,
) -> list[ChatRequest]:
    """The calls that judge one output on one metric. `shown` are the hashes of the original and of the edited picture:
    they come first, then the text."""
    asked = asked_questions(case.details.questions[metric], protocol)
    groups: Sequence[Sequence[Question]] = [asked] if questions == "all" else [[question] for question in asked]
    pictures = [ChatPicture(sha256=sha256, detail="high") for sha256 in shown]
    requests = []
    for group in groups:
        block = question_block(group, wording)
        if show_instruction:
            block = f"The editing instruction was: {case.request.instruction}\n\n{block}"
        text = wording["answer"].replace(PLACEHOLDER, block)
        requests.append(
            ChatRequest(
                system=wording["system"],
                system_in_parts=True if wording.numbers.get("system in parts") else None,
                parts=(*pictures, ChatText(text=text)),
                max_tokens=wording.numbers.get("limit", MAX_TOKENS),
            )
        )
    return requests


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """Ask as either protocol does; where both ask the same, once."""
    wording = wording_of(settings["prompts"], root)
    one, show = settings["questions"] == "one", settings["show_instruction"] == "yes"
    requests_of = partial(judge_requests, wording=wording, questions="one" if one else "all", show_instruction=show)
    protocols = tuple(name for name in _PROTOCOLS if settings["ask"] in ("both", name))

    def ask(case: CREvalCase, material: Material) -> list[Asked]:
        files = (material.inputs[0].sha256, material.outputs[0].sha256)
        again, broken = _encoded(material) if wording.official else (files, None)
        asked: list[Asked] = []
        for metric in METRICS:
            ways: dict[str, list[ChatRequest]] = {
                protocol: requests_of(case, metric, again if protocol == "paper" else files, protocol=protocol)
                for protocol in protocols
            }
            if broken is None and len(ways) > 1 and ways["paper"] == ways["corrected"]:
                ways = {"": ways["corrected"]}
            asked += [
                Asked(
                    f"{metric}/{number}" if one else metric,
                    request,
                    protocol,
                    settled=broken if protocol == "paper" else None,
                )
                for protocol, requests in ways.items()
                for number, request in enumerate(requests, 1)
            ]
        return asked

    return Judging(ask, wording.recorded(settings), compose=encoded_again if wording.official else None)


# --- pictures as the released script sends them -------------------------------------------------------------------

_ENCODED = ("original again", "edit again")
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")


def encoded_again(case: CREvalCase, material: Material, store: Callable[[bytes, str], Path]) -> Material:
    """The two pictures as the released script makes them of the files, beside the files themselves."""
    made: dict[str, SentPicture | Failure] = {}
    for name, sent in zip(_ENCODED, (material.inputs[0], material.outputs[0]), strict=True):
        # What was turned upright or changed its format is taken from its file, as there; not what was to be smaller.
        data = released_encoding(sent.file if sent.file is not None and not sent.resized else sent.path)
        made[name] = data if isinstance(data, Failure) else made_picture(data, "encoded again", store, sent.original)
    return replace(material, composed=made)


def _encoded(material: Material) -> tuple[Sequence[str], Failure | None]:
    """The hashes of the two, or why there are none."""
    made = [material.composed[name] for name in _ENCODED]
    broken = next((one for one in made if isinstance(one, Failure)), None)
    return [one.sha256 for one in made if isinstance(one, SentPicture)], broken


def released_encoding(path: Path) -> bytes | Failure:
    """The file decoded by Pillow, without EXIF rotation and without alpha, and encoded in its own format with Pillow's
    defaults. The released script turns colours round and back by OpenCV, which makes three equal channels of one
    (measured with 4.10 to 5.0): of a palette picture its indices, not its colours."""
    try:
        picture = Image.open(path)
        pixels = np.asarray(picture)
        if pixels.ndim == 2:
            pixels = np.stack([pixels] * 3, axis=2)
        if pixels.shape[2] not in (3, 4) or pixels.dtype != np.uint8 or picture.format not in _FORMATS:
            detail = f"{path.name} is {picture.format} {picture.mode}: the released script cannot convert it"
            return Failure(kind="unreadable_picture", detail=detail)
        data = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels[..., :3])).save(data, format=picture.format)
        return data.getvalue()
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        return Failure(kind="unreadable_picture", detail=f"{path.name} could not be encoded again ({error})")


_PROTOCOLS: tuple[Literal["corrected", "paper"], ...] = ("corrected", "paper")


def asked_questions(questions: Sequence[Question], protocol: Literal["paper", "corrected"]) -> list[Question]:
    """The questions worth asking: `paper` asks them as released, `corrected` not the blank and repeated ones,
    and without the mark-up that the release's conversion left in them."""
    if protocol == "paper":
        return list(questions)
    asked: dict[str, Question] = {}
    for question in questions:
        if question.text.strip() and question.id not in asked and read_choice(question.reference):
            asked[question.id] = question.model_copy(
                update={"text": question.text.replace("**", "").strip(), "choices": ("Yes", "No")}
            )
    return list(asked.values())


def question_block(questions: Sequence[Question], wording: Wording | None = None) -> str:
    """The questions with their choices, as the release's script lays them out."""
    if wording is not None and wording.official:
        rows = [{"id": q.id, "question": q.text, "choices": ", ".join(q.choices)} for q in questions]
        return wording["lead"] + "".join(filled(wording["question"], row) for row in rows)
    blocks = [f"{q.id}: {q.text}\nChoices: {', '.join(q.choices)}\n" for q in questions]
    return "\n".join(["Answer these questions:", *blocks])
