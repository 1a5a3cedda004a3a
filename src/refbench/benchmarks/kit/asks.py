"""What a judge is asked about one output and how the reply is read, in one place: `@asks` over a plain function.

@asks("edit", reads=last_mark("Score", 0, 10))
def edit(case, shown):
    return ["Before:", shown.inputs[0], "After:", shown.output, f"Was this done? {case.request.instruction}"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from refbench.benchmarks.kit.definition import Material
from refbench.case import AnyCase
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import SentPicture
from refbench.judges import Contract, Criterion, Rule, Scale, Text, combine

MAX_TOKENS = 8192

Range: TypeAlias = tuple[float | None, float | None]
"""Lowest and highest value of a measure; None for an end that it does not have."""
Parts: TypeAlias = Sequence[str | SentPicture]
"""Texts and pictures in the order in which a judge gets them."""


@dataclass(frozen=True)
class Call:
    """One request to the judge about an output: the measures in its reply with their ranges, what is asked, the reader.

    `ask` gives texts and pictures, or a whole request. `read` takes a case and a reply and gives for each measure a
    number, yes (True) or no, or a `Failure`; a value outside of the range is a failure too. `@asks` makes a call of a
    function and a contract.
    """

    part: str
    measures: Mapping[str, Range]
    ask: Callable[[AnyCase, Material], ChatRequest | Parts]
    read: Callable[[AnyCase, str], Mapping[str, Any]]

    def request(self, case: AnyCase, shown: Material) -> ChatRequest:
        asked = self.ask(case, shown)
        return asked if isinstance(asked, ChatRequest) else request_of(asked)


def asks(
    part: str, reads: Contract, *, combined: Rule | None = None, max_tokens: int = MAX_TOKENS
) -> Callable[[Callable[[AnyCase, Material], Parts]], Call]:
    """Make a judge's call of a function that gives what is shown and said; the contract adds the form of the reply.

    Each criterion of the contract is a measure. With `combined` there is one, named as the part: their minimum, for
    example. A contract of a single criterion gives one of that name as well.
    """
    criteria = [criterion for criterion in reads.criteria if not isinstance(criterion.kind, Text)]
    names = {criterion.name: criterion.name if len(criteria) > 1 else part for criterion in criteria}

    def read(case: AnyCase, reply: str) -> dict[str, Any]:
        marks = reads.read(reply)
        if combined is not None:
            return {part: combine(combined, [marks[criterion.name] for criterion in criteria])}
        return {measure: marks[name] for name, measure in names.items()}

    ranges = [criterion.range for criterion in criteria]
    measures = {part: ranges[0]} if combined is not None else dict(zip(names.values(), ranges, strict=True))

    def declared(ask: Callable[[AnyCase, Material], Parts]) -> Call:
        def request(case: AnyCase, shown: Material) -> ChatRequest:
            return request_of(_with_format(ask(case, shown), reads), reads, max_tokens)

        return Call(part, measures, request, read)

    return declared


def last_mark(label: str, low: float, high: float, *, whole: bool = True) -> Contract:
    """Reads the mark behind the last `label:` of a reply, for judges that reason first and end with their mark."""
    return Contract("labelled_lines", (Criterion(label, Scale(low, high, whole=whole)),), which="last")


def request_of(parts: Parts, contract: Contract | None = None, max_tokens: int = MAX_TOKENS) -> ChatRequest:
    """Texts and pictures as one request; with a contract, the form of the reply is enforced where the provider can."""
    asked = [ChatText(text=p) if isinstance(p, str) else ChatPicture(sha256=p.sha256, detail="high") for p in parts]
    schema = contract.json_schema() if contract else None
    return ChatRequest(parts=tuple(asked), max_tokens=max_tokens, json_schema=schema)


def _with_format(parts: Parts, contract: Contract) -> Parts:
    """The form of the reply is said at the end of the last text."""
    if parts and isinstance(last := parts[-1], str):
        return [*parts[:-1], f"{last.strip()}\n\n{contract.format_text()}"]
    return [*parts, contract.format_text()]
