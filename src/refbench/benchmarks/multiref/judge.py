"""What is asked of the judge: one call for the three marks of an output, and by choice one for its references.

The pictures come first, each announced by what the instruction calls it, then the output, then the text. The
original or golden picture is never shown: it would turn the marks into a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import own_text, texts_sha256
from refbench.benchmarks.multiref.cases import WORDS, MultiRefCase, Type
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.benchmarks.multiref.replies import OVERALL, references_contract
from refbench.benchmarks.multiref.table import OVERALL_PART, REFERENCES_PART
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.judges.prompts import filled

MAX_TOKENS = 2048
_AXIS: Mapping[str, tuple[Type, ...]] = {"no": (), "yes": ("style", "subject"), "all": JUDGEABLE}


def not_asked(settings: Mapping[str, str]) -> dict[str, str]:
    """Marks that a run with these settings does not ask for, with the option that would."""
    axis = settings.get("reference_axis", "no")
    option = {"no": "--set reference_axis=yes or all", "yes": "--set reference_axis=all"}
    return {judged(kind): f"not asked for: {option[axis]}" for kind in JUDGEABLE if kind not in _AXIS[axis]}


def with_prompt(case: MultiRefCase, prompt: str) -> MultiRefCase | None:
    """The case with the kind of prompt that was chosen; None where it has none of that kind.

    Only synthetic cases have two. Of several enhanced prompts the first is meant: the others may belong to another
    draw of the references.
    """
    if prompt == "structured" or case.details.split == "real-world":
        return case
    if not case.details.enhanced:
        return None
    request = case.request.model_copy(update={"instruction": case.details.enhanced[0]})
    return case.model_copy(update={"request": request})


def overall_request(case: MultiRefCase, material: Material) -> ChatRequest:
    """The call that gives the three marks."""
    told = "synthetic" if case.details.split == "synthetic" else "real_world"
    values = {"fidelity": _own(f"fidelity_{told}"), "format": OVERALL.format_text()}
    return ChatRequest(
        parts=(*_shown(case, material), ChatText(text=_text("overall", case, values))),
        max_tokens=MAX_TOKENS,
        json_schema=OVERALL.json_schema(),
    )


def references_request(case: MultiRefCase, material: Material, types: Sequence[Type]) -> ChatRequest:
    """The call that gives one mark for the references of each type."""
    contract = references_contract(types)
    criteria = "\n".join(f"- {WORDS[kind]}: {_own(f'reference_{kind}')}" for kind in types)
    values = {"criteria": criteria, "format": contract.format_text()}
    return ChatRequest(
        parts=(*_shown(case, material), ChatText(text=_text("references", case, values))),
        max_tokens=MAX_TOKENS,
        json_schema=contract.json_schema(),
    )


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """Ask about the chosen kind of prompt, and about single references where that was chosen; both protocols alike."""
    axis = _AXIS[settings["reference_axis"]]

    def ask(case: MultiRefCase, material: Material) -> list[Asked]:
        chosen = with_prompt(case, settings["prompt"])
        if chosen is None:
            return []
        asked = [Asked(OVERALL_PART, overall_request(chosen, material))]
        types = [kind for kind in axis if any(r.usable for r in case.details.of_type(kind))]
        if types:
            asked.append(Asked(REFERENCES_PART, references_request(chosen, material, types)))
        return asked

    return Judging(ask, {**settings, "prompts": "own", "wording": wording_sha256()}, shows_targets=False)


def wording_sha256() -> str:
    folder = resources.files(__package__).joinpath("rubric")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".txt"))
    formats = [OVERALL.format_text(), references_contract(JUDGEABLE).format_text()]
    return texts_sha256([*(_own(name.removesuffix(".txt")) for name in names), *formats])


def _shown(case: MultiRefCase, material: Material) -> list[ChatText | ChatPicture]:
    pictures, tokens = case.request.pictures, case.details.tokens
    if len(material.inputs) != len(pictures):
        raise ValueError(f"{case.id} has {len(pictures)} pictures, {len(material.inputs)} were given")
    parts: list[ChatText | ChatPicture] = []
    for number, (picture, token, sent) in enumerate(zip(pictures, tokens, material.inputs, strict=True), 1):
        what = f" ({WORDS[picture.role]})" if picture.role in WORDS else ""  # type: ignore[index]
        name = f"Reference {number}{what}" if case.details.split == "synthetic" else f"Input {number}"
        parts += [ChatText(text=f"{name}, <{token}> in the instruction:"), _picture(sent.sha256)]
    return [*parts, ChatText(text="The picture that was made:"), _picture(material.outputs[0].sha256)]


def _picture(sha256: str) -> ChatPicture:
    return ChatPicture(sha256=sha256, detail="high")


def _text(name: str, case: MultiRefCase, values: Mapping[str, str]) -> str:
    return filled(_own(name), {"instruction": case.request.instruction, **values})


_own = partial(own_text, __package__)
