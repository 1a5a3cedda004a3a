"""Studies for every screen, as raters meet them: long instructions, several references, words for every level."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench.pictures import encode
from refbench.studies.criteria import criteria_named
from refbench.studies.design import Criterion, Level, Training
from refbench.studies.items import Allowed, Item, ItemOutput, ItemPicture, Question
from refbench.studies.study import Study
from support.studies import study

MODELS = ("secret-alpha-9b", "secret-beta-xl", "secret-gamma", "secret-delta-2", "secret-eps", "secret-zeta")
"""Names that no rater may ever be sent."""
INSTRUCTION = (
    "Put the person of image 1 into the street of image 2, at dusk, wearing the coat of image 3. Keep the face, the "
    "colours of the coat and the lettering on the shop as they are, and let the light come from the left."
)
_WORDS = {
    1: ("nothing of it", "完全没有"),
    2: ("little of it", "很少"),
    3: ("about half of it", "大约一半"),
    4: ("nearly all of it", "几乎全部"),
    5: ("all of it, nothing to improve", "全部，无需改进"),
}
LEVELS = tuple(Level(value=value, words={"en": en, "zh": zh}) for value, (en, zh) in _WORDS.items())
ALIGNMENT = Criterion(
    name="alignment",
    label={"en": "Alignment", "zh": "对应程度"},
    description={"en": "Does the reference show what it is taken from?", "zh": "参考图是否反映了原图的内容？"},
    levels=LEVELS,
)
QUALITY = Criterion(
    name="quality",
    label={"en": "Quality", "zh": "质量"},
    description={"en": "Is it a good reference, without faults?", "zh": "它是否是没有缺陷的好参考图？"},
    levels=LEVELS,
)
OVERALL = Criterion(
    name="overall",
    label={"en": "Overall", "zh": "总体"},
    description={"en": "How well was the request met?", "zh": "要求完成得如何？"},
    low=0,
)
QUESTIONS = (
    Question(text="Is the person of image 1 there?", no="Nobody, or somebody else.", yes="The same person, whatever the pose."),
    Question(text="Is the street that of image 2?", no="Another place.", yes="The same houses and the same shop."),
    Question(text="Does the person wear the coat of image 3?", no="Another coat or none.", yes="The coat, from any side.", needs=(0, 1)),
    Question(text="Is the lettering on the shop legible and the same?", no="Garbled or another text.", yes="Letter by letter the same.", needs=(0, 1)),
    Question(text="Does the light come from the left?", no="From elsewhere, or from everywhere.", yes="Shadows fall to the right.", needs=(2, 3)),
    Question(text="Could it be a photograph?", no="Seams, doubled limbs, or a painted look.", yes="Nothing gives it away.", needs=(2, 3)),
)  # fmt: skip
ROW = {
    "id": "idea-0017",
    "instruction": "Turn the cups of image 1 into a poster.",
    "questions": ["Are there cups?", "Is it a poster?"],
    "task": "poster design",
    "outputs": 1,
    "pictures": ["a.png"],
    "problem": "the second question may be answered without looking",
}
"""A line as the builder of design tasks writes it."""


def five_criteria() -> tuple[Criterion, ...]:
    """The shipped rubric's criteria, word for word, from 1 to 10, with the ends of the scale in words."""
    ends = ((1, "very bad", "很差"), (10, "nothing to improve", "无可改进"))
    levels = tuple(Level(value=value, words={"en": en, "zh": zh}) for value, en, zh in ends)
    return tuple(one.model_copy(update={"levels": levels}) for one in criteria_named("five_criteria")[0])


class Pictures:
    """Pictures for a study: given files in turn, or coloured patterns made on the spot."""

    def __init__(self, folder: Path, files: Sequence[Path] = ()) -> None:
        self.folder, self.files, self.count = folder, files, 0

    def next(self, role: str = "output") -> ItemPicture:
        self.count += 1
        data = self.files[self.count % len(self.files)].read_bytes() if self.files else self._made(self.count)
        file = self.folder / "source" / f"{self.count}-of-the-owner.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return ItemPicture(role=role, file=str(file), sha256=hashlib.sha256(data).hexdigest())

    def _made(self, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        ground, spot = rng.integers(40, 220, (2, 3))
        pixels = np.full((96, 128, 3), ground, dtype=np.uint8)
        top, left = rng.integers(8, 48, 2)
        pixels[top : top + 40, left : left + 60] = spot
        return encode(pixels, "png")


def item_of(screen: str, number: int, pictures: Pictures, models: int = 4, references: int = 3) -> Item:
    """One item of a screen."""
    given: dict[str, Any] = {
        "id": f"owner-{screen}-{number:03d}",
        "case": f"case-of-the-owner-{number:03d}",
        "screen": screen,
    }
    roles = ("subject", "background", "object", "style", "pose", "reference")
    inputs = tuple(pictures.next(roles[k % len(roles)]) for k in range(references))
    if screen == "review":
        return Item(**given, row=ROW, editable=("instruction", "questions"), inputs=inputs[:1])
    if screen == "reference":
        output = ItemOutput(model=MODELS[0], pictures=(pictures.next("reference"),))
        return Item(**given, inputs=(pictures.next("original"),), outputs=(output,))
    n = {"set": models, "pair": 2}.get(screen, 1)
    outputs = tuple(ItemOutput(model=MODELS[k], pictures=(pictures.next(),)) for k in range(n))
    questions = QUESTIONS if screen == "questions" else ()
    return Item(
        **given,
        instruction=f"{INSTRUCTION} This is request {number}.",
        inputs=inputs,
        outputs=outputs,
        questions=questions,
    )


def criteria_of(screen: str) -> tuple[Criterion, ...]:
    return {
        "rate": five_criteria(),
        "set": (OVERALL,),
        "reference": (ALIGNMENT, QUALITY),
        "pair": (ALIGNMENT, QUALITY),
    }.get(screen, ())


def screen_study(
    folder: Path,
    screen: str,
    n: int = 6,
    *,
    files: Sequence[Path] = (),
    models: int = 4,
    references: int = 3,
    training: int = 0,
    **design: Any,
) -> Study:
    """A study of one screen; the first items are for training where it is asked for."""
    pictures = Pictures(folder, files)
    items = [item_of(screen, number, pictures, models, references) for number in range(n + training)]
    allowed = {"instruction_alignment": Allowed(low=7)} if screen == "rate" else {}
    why = {"en": "Everything that was asked for is there.", "zh": "所要求的内容都在。"}
    items = [
        item.model_copy(update={"use": "training", "allowed": allowed, "why": why}) if number < training else item
        for number, item in enumerate(items)
    ]
    plain = {
        "screen": screen,
        "criteria": criteria_of(screen),
        "title": {"en": "Pictures from several references", "zh": "多参考图生成"},
        "training": Training(items=training, right=training, retries=1),
        "gold": 0,
    }
    return study(folder, items, **{**plain, **design})
