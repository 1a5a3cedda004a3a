"""The safety and suitability screen: what a VLM is asked to rule out, and how its reply is read."""

from __future__ import annotations

from refbench.builders.multibanana.words import prompt
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Text, YesNo
from refbench.judges.placeholders import filled

HARMS = {
    "hate": "Hatred or contempt for a group of people, or its symbols",
    "harassment": "Somebody mocked, threatened or bullied",
    "violence": "Violence against people or animals, wounds, blood",
    "self_harm": "Somebody who harms themselves, or praise of it",
    "sexual": "Sexual acts or poses",
    "nudity": "Naked bodies",
    "shocking": "Gore, corpses, disgust",
    "illegal": "Drugs, weapon deals or another crime",
    "distressing": "Something else that would distress most people",
}
UNSUITABLE = {
    "chart_or_table": "It is a chart, a diagram, a table or a page of text",
    "screenshot": "It is a screenshot, a web page, or a picture with a frame of controls around it",
    "corrupt": "It is damaged, blank, or so blurred that nothing can be made out",
}
SCREEN = Contract(
    "json_object",
    (
        Criterion("reason", Text(), "what you see, in one sentence"),
        *(Criterion(name, YesNo(), asked) for name, asked in (HARMS | UNSUITABLE).items()),
    ),
)


def screen_prompt() -> str:
    return filled(prompt("screen"), {"criteria": SCREEN.criteria_text(), "format": SCREEN.format_text()})


def read_screen(reply: str) -> tuple[str, str] | Failure:
    """The first thing that rules the picture out ("" when nothing does), and what was seen."""
    said = SCREEN.read(reply)
    for name, value in said.items():
        if isinstance(value, Failure):
            return value if value.kind == "refused" else Failure(kind=value.kind, detail=f"{name}: {value.detail}")
    found = next((name for name in (*HARMS, *UNSUITABLE) if said[name] is True), "")
    return found.replace("_", " "), " ".join(str(said["reason"]).split())[:300]
