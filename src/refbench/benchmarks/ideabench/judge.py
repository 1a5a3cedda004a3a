"""What is asked of the judge: each of the six questions three times, in `paper` about one stitched picture, in
`corrected` about the pictures themselves. The words of the questions are those of the user's official files.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from PIL import Image, ImageDraw, ImageFont

from refbench.benchmarks.ideabench.cases import AUTO, CALLS, BinaryQuestion, IdeaCase, data_root, part, read_auto
from refbench.benchmarks.ideabench.replies import CONTRACT
from refbench.benchmarks.kit.asks import request_of
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import OFFICIAL, commit_of, own_text, texts_sha256
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import SentPicture, made_picture
from refbench.failure import Failure
from refbench.judges.prompts import filled
from refbench.record import RefBenchError, canonical_json

MAX_TOKENS = 8192

Store: TypeAlias = Callable[[bytes, str], Path]
Settled: TypeAlias = str | Failure | None
"""What is known without a call: the reply, or why there can be none."""


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """Three calls for each of six questions, under each protocol that is to be asked for."""
    place = data_root(root) or root
    protocols = ("corrected", "paper") if settings["ask"] == "both" else (settings["ask"],)
    official, wording = released_questions(root, settings.get("prompts", ""))
    limit = None if official is not None else MAX_TOKENS

    def compose(case: IdeaCase, material: Material, store: Store) -> Material:
        if "paper" not in protocols or not case.details.judged:
            return material
        return replace(material, composed=compositions(case, material, place / case.id, store))

    def ask(case: IdeaCase, material: Material) -> list[Asked]:
        if not case.details.judged:
            return []
        _check_questions(case, official)
        requests = {
            (name, number): paper_request(question, number, material, limit)
            if name == "paper"
            else corrected_request(case, question, material)
            for name in protocols
            for number, question in enumerate(case.details.auto, 1)
        }
        return [
            Asked(part(number, call), request, name, draw=call - 1, settled=settled)
            for call in range(1, CALLS + 1)
            for (name, number), (request, settled) in requests.items()
        ]

    return Judging(ask, {**settings, **wording}, shows_targets=False, compose=compose)


QUESTIONS = "questions"
"""The questions of the data, which are the authors', in `corrected` with words of ours around them."""


def released_questions(root: Path, prompts: str) -> tuple[Mapping[str, Sequence[str]] | None, dict[str, str]]:
    """The questions of a checkout by case, where official wording is wanted, and what is recorded of the words.

    `official` alone is the checkout that the data are in: the questions are theirs, and `paper` asks them without any
    limit, as the released script does.
    """
    if prompts in ("", QUESTIONS):
        return None, {"prompts": "questions of the official files", "wording": wording_sha256()}
    word, _, named = prompts.partition(":")
    if word.lower() != OFFICIAL:
        raise RefBenchError(f"--prompts {prompts}: the questions are in the data; choose {QUESTIONS} or {OFFICIAL}")
    checkout = Path(named).expanduser() if named else root
    place = data_root(checkout)
    if place is None:
        raise RefBenchError(f"--prompts {prompts}: no case folder with a meta.json is in {checkout}")
    questions: dict[str, list[str]] = {}
    for file in sorted(place.glob(f"*/{AUTO}")):
        asked = read_auto(file.read_bytes())
        if isinstance(asked, str):
            raise RefBenchError(f"{file}: {asked}; official wording is read from it: copy it again")
        questions[file.parent.name] = [question.text for question in asked]
    if not questions:
        raise RefBenchError(f"--prompts {prompts}: no case in {place} has an {AUTO}, where the questions are")
    texts = [wording_sha256(), *(text for of_case in questions.values() for text in of_case)]
    return questions, {"prompts": OFFICIAL, "wording": texts_sha256(texts), "commit": commit_of(checkout)}


def _check_questions(case: IdeaCase, official: Mapping[str, Sequence[str]] | None) -> None:
    if official is not None and official.get(case.id) != [question.text for question in case.details.auto]:
        raise RefBenchError(f"{case.id} has other questions in the data than in the checkout of --prompts: use one")


# --- paper: one picture a question --------------------------------------------------------------------------------


def compositions(case: IdeaCase, material: Material, folder: Path, store: Store) -> dict[str, SentPicture | Failure]:
    """The picture of each question, by its name `q1` to `q6`; none where no output that it asks about is there."""
    made: dict[object, SentPicture | Failure] = {}
    by_question: dict[str, SentPicture | Failure] = {}
    for number, question in enumerate(case.details.auto, 1):
        outputs = [picture.path for picture in _outputs(question, material).values()]
        if not outputs:
            continue
        # References that are not there are left out, as the released script does.
        inputs = [folder / name for name in question.inputs if Path(name).name == name and (folder / name).is_file()]
        counting = question.counts is not None
        what = len(outputs) if counting else (tuple(inputs), tuple(outputs))
        if what not in made:
            data = count_card(len(outputs)) if counting else stitched(inputs, outputs)
            told = "a card with the number of outputs" if counting else f"{len(inputs)} above {len(outputs)} stitched"
            made[what] = data if isinstance(data, Failure) else made_picture(data, told, store)
        by_question[f"q{number}"] = made[what]
    return by_question


def paper_request(
    question: BinaryQuestion, number: int, material: Material, limit: int | None = MAX_TOKENS
) -> tuple[ChatRequest, Settled]:
    """The question and its one picture, as the released script means to send them (it sends base64 as text)."""
    text = ChatText(text=question.text)
    picture = material.composed.get(f"q{number}", _no_output(question))
    if isinstance(picture, Failure):
        return ChatRequest(parts=(text,)), picture
    return ChatRequest(parts=(text, ChatPicture(sha256=picture.sha256)), max_tokens=limit), None


# --- the stitched picture and the card ----------------------------------------------------------------------------

# Sizes, gaps and order are those of the release. Pillow does all of it, as there: file by file, without EXIF rotation.
GAP = 20
CARD = 512
FONT = 256
_WHITE = (255, 255, 255)


def stitched(inputs: Sequence[Path], outputs: Sequence[Path]) -> bytes | Failure:
    """References in a row above the outputs in a row, as JPEG; the references as high as the first output."""
    try:
        results = [Image.open(path) for path in outputs]
        height = results[0].height
        references = [_as_high(Image.open(path), height) for path in inputs]
        rows = [_joined(pictures) for pictures in (references, results) if pictures]
        return _jpeg(_joined(rows, down=True))
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        names = ", ".join(path.name for path in (*inputs, *outputs))
        return Failure(kind="unreadable_picture", detail=f"{names} could not be stitched ({error})")


def count_card(number: int) -> bytes:
    """The number in black in the middle of a white card.

    The released script loads its font by a path that depends on where it is started, and falls back to a tiny one
    without a word. Pillow's own scalable font is there on every machine, at the size that was meant.
    """
    card = Image.new("RGB", (CARD, CARD), _WHITE)
    draw = ImageDraw.Draw(card)
    draw.text((CARD / 2, CARD / 2), str(number), fill="black", font=ImageFont.load_default(FONT), anchor="mm")
    return _jpeg(card)


def _as_high(picture: Image.Image, height: int) -> Image.Image:
    return picture.resize((int(height * (picture.width / picture.height)), height), Image.Resampling.LANCZOS)


def _joined(pictures: Sequence[Image.Image], *, down: bool = False) -> Image.Image:
    """Side by side with their tops in line, or one below the other with their left edges in line."""
    widths, heights = [picture.width for picture in pictures], [picture.height for picture in pictures]
    gaps = GAP * (len(pictures) - 1)
    size = (max(widths), sum(heights) + gaps) if down else (sum(widths) + gaps, max(heights))
    joined = Image.new("RGB", size, _WHITE)
    at = 0
    for picture in pictures:
        joined.paste(picture, (0, at) if down else (at, 0))
        at += (picture.height if down else picture.width) + GAP
    return joined


def _jpeg(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, format="JPEG")
    return data.getvalue()


# --- corrected: the pictures themselves ---------------------------------------------------------------------------


def corrected_request(case: IdeaCase, question: BinaryQuestion, material: Material) -> tuple[ChatRequest, Settled]:
    """Every picture by itself, named and in order, then the question. How many there are is counted, not asked."""
    known = _inputs(case, material)
    inputs = {name: known[name] for name in question.inputs if name in known}
    outputs = _outputs(question, material)
    parts: list[str | SentPicture] = [_introduction(question, len(inputs), outputs)]
    for number, picture in enumerate(inputs.values(), 1):
        parts += [f"Reference {number}:", picture]
    for name, picture in outputs.items():
        parts += [f"Result {question.outputs.index(name) + 1}:", picture]
    text = filled(_own("question"), {"question": question.text, "format": CONTRACT.format_text()})
    request = request_of([*parts, text], CONTRACT, MAX_TOKENS)
    if not outputs:
        return request, _no_output(question)
    if question.counts is not None:
        return request, _counted(question.counts, len(outputs))
    absent = [name for name in question.inputs if name not in known]
    if absent:
        return request, Failure(kind="unreadable_picture", detail=f"{absent[0]}, which is asked about, is not there")
    return request, None


def _introduction(question: BinaryQuestion, n_inputs: int, outputs: Mapping[str, SentPicture]) -> str:
    counts = ((n_inputs, "reference"), (len(outputs), "result"))
    shown = [f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count]
    absent = [f"result {n}" for n, name in enumerate(question.outputs, 1) if name not in outputs]
    missing = ""
    if absent:
        counts_of = {"wanted": str(len(question.outputs)), "there": str(len(outputs))}
        missing = f" {filled(_own('missing'), {**counts_of, 'absent': ' and '.join(absent)})}"
    return filled(_own("separate"), {"shown": ", then ".join(shown), "missing": missing})


def _counted(wanted: int, there: int) -> str:
    """The reply to the question about the number of outputs, by arithmetic."""
    reason = f"Counted: {there} of the pictures are there, {wanted} are wanted."
    return canonical_json({"score": int(there == wanted), "reason": reason}).decode()


# --- both ---------------------------------------------------------------------------------------------------------


def _inputs(case: IdeaCase, material: Material) -> dict[str, SentPicture]:
    names = [PurePosixPath(picture.name).name for picture in case.request.pictures]
    return dict(zip(names, material.inputs, strict=True))


def _outputs(question: BinaryQuestion, material: Material) -> dict[str, SentPicture]:
    """The outputs that the question lists and the model has given, by the names that the question has for them.

    Files with official names are taken by their numbers, so that of an incomplete set the right one is missing;
    others by their places.
    """
    stems = [PurePosixPath(picture.name or picture.path.name).stem for picture in material.outputs]
    official = len(set(stems)) == len(stems) and all(len(stem) == 4 and stem.isdecimal() for stem in stems)
    numbers = [int(stem) for stem in stems] if official else range(1, len(stems) + 1)
    by_number = dict(zip(numbers, material.outputs, strict=True))
    listed = {name: PurePosixPath(name).stem for name in question.outputs}
    return {name: by_number[int(stem)] for name, stem in listed.items() if stem.isdecimal() and int(stem) in by_number}


def _no_output(question: BinaryQuestion) -> Failure:
    asked = ", ".join(question.outputs) or "no output"
    return Failure(kind="missing_output", detail=f"the question is about {asked}, of which the model has given none")


def wording_sha256() -> str:
    return texts_sha256([*(_own(name) for name in ("separate", "missing", "question")), CONTRACT.format_text()])


_own = partial(own_text, __package__)
