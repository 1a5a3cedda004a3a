"""What is asked of the judge: one call for the three marks of an output, and by choice one for its references.

The pictures come first, each announced by what the instruction calls it, then the output, then the text. The
original or golden picture is never shown: it would turn the marks into a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from refbench.benchmarks.kit.asks import Parts, request_of
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import own_text, texts_sha256
from refbench.benchmarks.multiref.cases import WORDS, MultiRefCase, Type
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.benchmarks.multiref.replies import OVERALL, OVERALL_PART, REFERENCES_PART, references_contract
from refbench.chat import ChatRequest
from refbench.chat.pictures import SentPicture
from refbench.judges import Contract
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
    text = _text("overall", case, OVERALL, fidelity=_own(f"fidelity_{told}"))
    return request_of([*_shown(case, material), text], OVERALL, MAX_TOKENS)


def references_request(case: MultiRefCase, material: Material, types: Sequence[Type]) -> ChatRequest:
    """The call that gives one mark for the references of each type."""
    contract = references_contract(types)
    criteria = "\n".join(f"- {WORDS[kind]}: {_own(f'reference_{kind}')}" for kind in types)
    text = _text("references", case, contract, criteria=criteria)
    return request_of([*_shown(case, material), text], contract, MAX_TOKENS)


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


def _shown(case: MultiRefCase, material: Material) -> Parts:
    pictures, tokens = case.request.pictures, case.details.tokens
    if len(material.inputs) != len(pictures):
        raise ValueError(f"{case.id} has {len(pictures)} pictures, {len(material.inputs)} were given")
    parts: list[str | SentPicture] = []
    for number, (picture, token, sent) in enumerate(zip(pictures, tokens, material.inputs, strict=True), 1):
        what = f" ({WORDS[picture.role]})" if picture.role in WORDS else ""  # type: ignore[index]
        name = f"Reference {number}{what}" if case.details.split == "synthetic" else f"Input {number}"
        parts += [f"{name}, <{token}> in the instruction:", sent]
    return [*parts, "The picture that was made:", material.outputs[0]]


def _text(name: str, case: MultiRefCase, contract: Contract, **values: str) -> str:
    return filled(_own(name), {"instruction": case.request.instruction, "format": contract.format_text(), **values})


_own = partial(own_text, __package__)
