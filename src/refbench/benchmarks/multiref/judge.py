"""What is asked of the judge: one call for the three marks of an output, and by choice one for its references.

The pictures come first, each announced by what the instruction calls it, then the output, then the text. The
original or golden picture is never shown: it would turn the marks into a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from refbench.benchmarks.kit.asks import Parts, request_of
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import Wording, chosen_wording, own_text, texts_sha256
from refbench.benchmarks.multiref.cases import WORDS, MultiRefCase, Type
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.benchmarks.multiref.replies import OVERALL, OVERALL_PART, REFERENCES_PART, references_contract
from refbench.chat import ChatRequest
from refbench.chat.pictures import SentPicture
from refbench.judges import Contract
from refbench.judges.prompts import filled
from refbench.record import RefBenchError

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


def given(cases: Sequence[MultiRefCase], settings: Mapping[str, str]) -> list[MultiRefCase]:
    """The cases with the kind of prompt that was chosen: what models are told and judges go by is the same."""
    told = [with_prompt(case, settings["prompt"]) for case in cases]
    if cases and not any(told):
        raise RefBenchError(
            f"prompt={settings['prompt']}: no case has such a prompt (the combined release has none): leave it out"
        )
    return [one or case for one, case in zip(told, cases, strict=True)]


def overall_request(case: MultiRefCase, material: Material, wording: Wording | None = None) -> ChatRequest:
    """The call that gives the three marks."""
    words = wording or wording_of()
    told = "synthetic" if case.details.split == "synthetic" else "real_world"
    text = _text(words["overall"], case, OVERALL, fidelity=words[f"fidelity_{told}"])
    return request_of([*_shown(case, material), text], OVERALL, MAX_TOKENS)


def references_request(
    case: MultiRefCase, material: Material, types: Sequence[Type], wording: Wording | None = None
) -> ChatRequest:
    """The call that gives one mark for the references of each type."""
    words, contract = wording or wording_of(), references_contract(types)
    criteria = "\n".join(f"- {WORDS[kind]}: {words[f'reference_{kind}']}" for kind in types)
    text = _text(words["references"], case, contract, criteria=criteria)
    return request_of([*_shown(case, material), text], contract, MAX_TOKENS)


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """Ask about the chosen kind of prompt, and about single references where that was chosen; both protocols alike."""
    axis, wording = _AXIS[settings["reference_axis"]], wording_of(settings.get("prompts", "own"))

    def ask(case: MultiRefCase, material: Material) -> list[Asked]:
        chosen = with_prompt(case, settings["prompt"])
        if chosen is None:
            return []
        asked = [Asked(OVERALL_PART, overall_request(chosen, material, wording))]
        types = [kind for kind in axis if any(r.usable for r in case.details.of_type(kind))]
        if types:
            asked.append(Asked(REFERENCES_PART, references_request(chosen, material, types, wording)))
        return asked

    recorded = {**settings, "prompts": wording.name, "wording": wording_sha256(wording)}
    return Judging(ask, recorded, shows_targets=False)


def wording_of(prompts: str = "own") -> Wording:
    """Our words, or those in a folder of the user's, whose overall.txt takes the place of ours, and by choice any other
    text. None were released."""
    own = _own_texts()
    needed = {"overall": "{format}"}
    return chosen_wording(prompts, own, needed, optional=[name for name in own if name != "overall"])


@cache
def _own_texts() -> Mapping[str, str]:
    folder = resources.files(__package__).joinpath("rubric")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".txt"))
    return {(bare := name.removesuffix(".txt")): own_text(__package__, bare) for name in names}


def wording_sha256(wording: Wording | None = None) -> str:
    formats = [OVERALL.format_text(), references_contract(JUDGEABLE).format_text()]
    return texts_sha256([*(wording or wording_of()).texts.values(), *formats])


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


def _text(template: str, case: MultiRefCase, contract: Contract, **values: str) -> str:
    return filled(template, {"instruction": case.request.instruction, "format": contract.format_text(), **values})
