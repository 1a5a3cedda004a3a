"""What is asked of the judge: pure functions from a case and two picture hashes to chat requests.

Two settings that the paper and the released code disagree on are parameters: all questions of a metric in
one call (the code) or one call each (the paper's text), and whether the editing instruction is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from refbench.benchmarks.creval.cases import METRICS, CREvalCase, Metric, Question
from refbench.benchmarks.creval.replies import read_choice
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.wording import Wording, own_text
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.record import RefBenchError

MAX_TOKENS = 2000
OFFICIAL_TEMPLATE = "code/prompt_templete/answer.txt"
PLACEHOLDER = "{Questions}"


def own_wording() -> Wording:
    # The template ends with a newline, which judges have always been sent.
    texts = {"system": own_text(__package__, "system"), "answer": own_text(__package__, "answer") + "\n"}
    return Wording(name="own", texts=texts)


def official_wording(root: Path) -> Wording:
    """The template of the release, sent literally as its script does; the system sentence stays ours."""
    path = root / OFFICIAL_TEMPLATE
    try:
        template = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: official wording comes from your own CREval checkout") from error
    if PLACEHOLDER not in template:
        raise RefBenchError(f"{path} has no {PLACEHOLDER} to put the questions in: copy the file again")
    return Wording(name="official", texts={"system": own_wording()["system"], "answer": template})


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
        block = question_block(group)
        if show_instruction:
            block = f"The editing instruction was: {case.request.instruction}\n\n{block}"
        text = wording["answer"].replace(PLACEHOLDER, block)
        requests.append(
            ChatRequest(system=wording["system"], parts=(*pictures, ChatText(text=text)), max_tokens=MAX_TOKENS)
        )
    return requests


def judging(root: Path, settings: Mapping[str, str]) -> Judging:
    """Ask as either protocol does; where both ask the same, once."""
    wording = official_wording(root) if settings["prompts"] == "official" else own_wording()
    one, show = settings["questions"] == "one", settings["show_instruction"] == "yes"
    requests_of = partial(judge_requests, wording=wording, questions="one" if one else "all", show_instruction=show)

    def ask(case: CREvalCase, material: Material) -> list[Asked]:
        (source,), (output,) = material.inputs, material.outputs
        shown = source.sha256, output.sha256
        asked: list[Asked] = []
        for metric in METRICS:
            ways: dict[str, list[ChatRequest]] = {
                protocol: requests_of(case, metric, shown, protocol=protocol) for protocol in _PROTOCOLS
            }
            if ways["paper"] == ways["corrected"]:
                ways = {"": ways["corrected"]}
            asked += [
                Asked(f"{metric}/{number}" if one else metric, request, protocol)
                for protocol, requests in ways.items()
                for number, request in enumerate(requests, 1)
            ]
        return asked

    return Judging(ask, {**settings, "wording": wording.sha256})


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


def question_block(questions: Sequence[Question]) -> str:
    """The questions with their choices, as the release's script lays them out."""
    blocks = [f"{q.id}: {q.text}\nChoices: {', '.join(q.choices)}\n" for q in questions]
    return "\n".join(["Answer these questions:", *blocks])
