"""What a judge is asked about one output and how the reply is read, in one place: `@asks` over a plain function.

@asks("edit", reads=last_mark("Score", 0, 10))
def edit(case, shown):
    return ["Before:", shown.inputs[0], "After:", shown.output, f"Was this done? {case.request.instruction}"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from refbench.benchmarks.kit.definition import Material
from refbench.case import AnyCase
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Rule, Scale, Text, combine
from refbench.judges.panel import check_rule
from refbench.record import RefBenchError

MAX_TOKENS = 8192

Range: TypeAlias = tuple[float | None, float | None]
"""Lowest and highest value of a measure; None for an end that it does not have."""


@dataclass(frozen=True)
class Said:
    """What the judge is made to have replied to the text before it: a release's way of setting it to work."""

    text: str


Parts: TypeAlias = Sequence[str | SentPicture | Said]
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


@dataclass(frozen=True)
class Sent:
    """How a release sends its requests: the limit of a reply's tokens, the detail of pictures, and the type that all of
    them are declared to have, whatever they are."""

    max_tokens: int | None = None
    detail: Literal["auto", "low", "high"] = "auto"
    mime: str | None = None


def asks(
    part: str,
    reads: Contract,
    *,
    combined: Rule | None = None,
    named: Mapping[str, str] | None = None,
    follows: Mapping[str, tuple[Callable[[Mapping[str, float]], float], Range]] | None = None,
    max_tokens: int = MAX_TOKENS,
    released: Sent | None = None,
) -> Callable[[Callable[[AnyCase, Material], Parts]], Call]:
    """Make a judge's call of a function that gives what is shown and said; the contract adds the form of the reply.

    Each criterion of the contract is a measure. With `combined` there is one, named as the part: their minimum, for
    example. A contract of a single criterion gives one of that name as well. `named` has the measures of criteria that
    judges know by another name. `follows` has further measures with their
    ranges, of a reply that has all of its marks. In the authors' words, which say the form
    of the reply themselves, the call goes as it is `released`.
    """
    criteria = [criterion for criterion in reads.criteria if not isinstance(criterion.kind, Text)]
    if combined is not None:
        _check_combined(part, combined)
    names = {criterion.name: criterion.name if len(criteria) > 1 else part for criterion in criteria}
    names |= named or {}

    def read(case: AnyCase, reply: str) -> dict[str, Any]:
        marks = reads.read(reply)
        if combined is not None:
            return {part: combine(combined, [marks[criterion.name] for criterion in criteria])}
        found: dict[str, Any] = {measure: marks[name] for name, measure in names.items()}
        broken = next((mark for mark in found.values() if isinstance(mark, Failure)), None)
        return found | {measure: broken or formula(found) for measure, (formula, _) in (follows or {}).items()}

    ranges = [criterion.range for criterion in criteria]
    measures: dict[str, Range] = (
        {part: ranges[0]} if combined is not None else dict(zip(names.values(), ranges, strict=True))
    )
    measures |= {measure: ends for measure, (_, ends) in (follows or {}).items()}

    def declared(ask: Callable[[AnyCase, Material], Parts]) -> Call:
        def request(case: AnyCase, shown: Material) -> ChatRequest:
            parts = ask(case, shown)
            check_parts(parts, part)
            if getattr(shown, "official", False):
                way = released or Sent(max_tokens, "high")
                return _as_sent(parts, way if shown.protocol == "paper" else replace(way, mime=None))
            return request_of(_with_format(parts, reads), reads, max_tokens)

        return Call(part, measures, request, read)

    return declared


def _check_combined(part: str, rule: Rule) -> None:
    try:
        check_rule(rule)
    except RefBenchError as error:
        raise RefBenchError(f"{part}: combined: {error}") from error
    if rule == "weighted_mean":
        raise RefBenchError(f"{part}: combined={rule!r} has no weights here: give them to the Total of the benchmark")


def last_mark(label: str, low: float, high: float, *, whole: bool = True) -> Contract:
    """Reads the mark behind the last `label:` of a reply, for judges that reason first and end with their mark."""
    return Contract("labelled_lines", (Criterion(label, Scale(low, high, whole=whole)),), which="last")


def request_of(parts: Parts, contract: Contract | None = None, max_tokens: int = MAX_TOKENS) -> ChatRequest:
    """Texts and pictures as one request; with a contract, the form of the reply is enforced where the provider can."""
    check_parts(parts)
    schema = contract.json_schema() if contract else None
    return _as_sent(parts, Sent(max_tokens, "high")).model_copy(update={"json_schema": schema})


def _as_sent(parts: Parts, way: Sent) -> ChatRequest:
    """Texts and pictures as they are sent; what the judge is made to have said belongs to the text before it."""
    opening = None
    if len(parts) > 1 and isinstance(parts[0], str) and isinstance(parts[1], Said):
        opening, parts = (parts[0], parts[1].text), parts[2:]
    asked: list[ChatText | ChatPicture] = []
    for part in parts:
        if isinstance(part, Said):
            raise RefBenchError("what the judge is made to have said stands behind the first text, and nowhere else")
        if isinstance(part, str):
            asked.append(ChatText(text=part))
        else:
            asked.append(ChatPicture(sha256=part.sha256, detail=way.detail, mime=way.mime))
    return ChatRequest(opening=opening, parts=tuple(asked), max_tokens=way.max_tokens)


def check_parts(parts: object, part: str = "a request") -> None:
    """Raises where these are no texts and pictures. A text alone would go letter by letter, and shows no output: who
    means to show none writes a list of one text."""
    if isinstance(parts, str) or not isinstance(parts, Sequence):
        what = "a text alone" if isinstance(parts, str) else f"a {type(parts).__name__}"
        raise RefBenchError(
            f"{part} is {what}: return a list of texts and pictures, such as [shown.output, 'Is it ...?']"
        )
    for one in parts:
        # A picture that is sent is known by the hash of its bytes; one of the case, which has only a name, is not sent.
        if not isinstance(one, str | Said) and not isinstance(getattr(one, "sha256", None), str):
            raise RefBenchError(
                f"{part} has a {type(one).__name__} among its parts: only texts and the pictures of `shown` can be sent"
            )


def _with_format(parts: Parts, contract: Contract) -> Parts:
    """The form of the reply is said at the end of the last text."""
    if parts and isinstance(last := parts[-1], str):
        return [*parts[:-1], f"{last.strip()}\n\n{contract.format_text()}"]
    return [*parts, contract.format_text()]
