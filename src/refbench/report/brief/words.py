"""What a sheet says in words: `words.txt` has the sentences and when they are said; here is what they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources
from itertools import chain
from typing import TYPE_CHECKING, Any

from refbench.analysis.compare.records import holds_zero
from refbench.analysis.failures import ModelFailures, failure_test
from refbench.record import counted
from refbench.report.brief.findings import Verdict, Verdicts
from refbench.report.brief.view import Part, View, open_view
from refbench.report.site.boards import REFERENCES
from refbench.stats.effect import LEVEL
from refbench.tables.table import Row

if TYPE_CHECKING:
    from jinja2 import Template

_NAMED = 3
"""Names in a row; more are counted."""
_MOST_OF = 0.9
"""A model scored on less than this share of what another has is about other cases."""
_LEANS = 75
"""Times in a hundred from which on an open question may be called a lean."""
CRITERIA = {"IF": "instruction following", "VC": "visual consistency", "VQ": "visual quality"}
"""Abbreviations of papers, spelled out."""
KINDS = {
    "missing_output": "no picture",
    "missing_reply": "not judged",
    "unparsable": "reply not readable",
    "empty_reply": "empty reply",
    "unreadable_picture": "broken picture",
    "refused": "declined",
}
"""Kinds of failure in the fewest words; others are called what they are called."""
_NOT_THE_MODELS = {
    "refused": "declined by the judge",
    "unreadable_picture": "a picture of the case is missing or broken",
}
"""Kinds that mean something else where the failure is not the model's own."""


def clipped(text: str, most: int = 34) -> str:
    """At most so many characters, of the beginning and the end, where versions stand."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    end = most // 3
    return f"{flat[: most - end - 1]}…{flat[-end:]}"


def headline(view: View, verdict: Verdict | None) -> str:
    """The answer in one line."""
    (answer,) = _said("headline", view, verdict)
    return answer


def confidence(view: View, verdicts: Verdicts) -> list[str]:
    """How sure one may be of the headline."""
    return _said("confidence", view, verdicts)


def failures(view: View) -> list[str]:
    """What has no score and why, by model, and whether that depends on the model."""
    return _said("failures", view)


def limits(view: View, verdicts: Verdicts) -> list[str]:
    """What the numbers do not say."""
    notes = [note for note in view.board.result.notes if note.startswith("the runs ")]
    outputs = list(chain.from_iterable(view.board.outputs))
    return _said("limits", view, verdicts, outputs=outputs, notes=notes, cards=_cards(view))


def _cards(view: View) -> str:
    """What audits found of the judge, or of those whose mean it is; they stand in the line that names them."""
    alone = view.board.judge_title(view.judge) == view.judge
    cards = [card for card in view.board.result.cards if card.judge == view.judge or not alone]
    return "".join(f" Judge card of {card.judge}: {card.counted}." for card in cards)


def _said(what: str, *about: Any, **more: Any) -> list[str]:
    lines = getattr(_sentences().module, what)(*about, **more).splitlines()
    return [line for line in lines if line.strip()]


@cache
def _sentences() -> Template:
    """The sentences as plain text: who puts them on a page escapes them."""
    from jinja2 import Environment, StrictUndefined

    texts = Environment(undefined=StrictUndefined, finalize=_in_one_line, trim_blocks=True, lstrip_blocks=True)
    texts.filters |= {"short": clipped, "listed": _listed}
    texts.globals |= {"named": _NAMED, "most_of": _MOST_OF, "leans": _LEANS}
    for used in (any_value, counted, holds_zero, open_view, other_judges, span, unlike):
        texts.globals[used.__name__] = used
    return texts.from_string((resources.files("refbench.report.brief") / "words.txt").read_text(encoding="utf-8"))


def _in_one_line(value: Any) -> Any:
    return " ".join(value.splitlines()) if isinstance(value, str) else value


def _listed(of_models: Iterable[Any], pattern: str = "{name}", name: str = "model", most: int = 34) -> str:
    """The first of some rows or leads, each in the words of the pattern; the others are counted."""
    listed = []
    for one in of_models:
        facts = {"failed": sum(one.failures.values()), "kinds": _kinds(one)} if isinstance(one, Row) else {}
        listed.append(pattern.format(one, name=clipped(getattr(one, name), most), **facts))
    more = f", and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def _kinds(row: Row) -> str:
    """What kept cases from having a score, the most frequent first; the model's own failures apart from others'."""
    counts: list[tuple[int, str]] = []
    for kind, n in row.failures.items():
        own = row.own_failures.get(kind, 0)
        name = KINDS.get(kind, kind.replace("_", " "))
        counts += [(own, name), (n - own, _NOT_THE_MODELS.get(kind, name))]
    listed = sorted((-n, name) for n, name in counts if n)
    return listed[0][1] if len(listed) == 1 else ", ".join(f"{-n} {name}" for n, name in listed)


def any_value(view: View) -> bool:
    return any(row.value is not None for row in view.rows)


def unlike(view: View) -> list[ModelFailures]:
    """Models that fail more or less often than chance explains."""
    test = failure_test(view.result, view.protocol, view.judge, seed=view.board.seed)
    if test.p is None or test.p > LEVEL:
        return []
    return [one for one in test.models if one.p is not None and one.p <= LEVEL]


def other_judges(view: View) -> list[tuple[str, list[Row]]]:
    """What the other judges have ranked, where that can be held against this one."""
    others = [judge for judge in view.board.judges if judge not in (view.judge, None)]
    seen = [(judge, open_view(view.board, view.protocol, judge).ranked) for judge in others]
    return [(judge, rows) for judge, rows in seen if len(rows) > 1 or (rows and len(view.ranked) > 1)]


def span(view: View, ci95: tuple[float, float]) -> str:
    """An interval of a lead, in words."""
    low, high = ci95
    if low < 0 < high:
        return f"anything from {view.number(-low)} behind to {view.number(high)} ahead"
    side = "ahead" if high > 0 else "behind"
    ends = sorted((abs(low), abs(high)))
    return f"anything from {view.number(ends[0])} to {view.number(ends[1])} {side}"


def lead_of(view: View, verdict: Verdict) -> str:
    """The lead over the next model and what fits the data, in a few signs."""
    lead = verdict.closest
    if lead is None or lead.gap is None or lead.ci95 is None:
        return "too few shared cases that differ"
    low, high = map(view.signed, lead.ci95)
    return f"{view.signed(lead.gap)} ({low} to {high})"


def rivals_of(verdict: Verdict) -> str:
    """Who cannot be told from the first of a line."""
    if verdict.settled:
        return "nobody: clearly the best"
    if len(verdict.rivals) < _NAMED:
        return " and ".join(clipped(name, 26 if len(verdict.rivals) == 1 else 11) for name in verdict.rivals)
    return f"{len(verdict.rivals)} of the {len(verdict.leads)} others"


def title_of(part: Part) -> str:
    """What a part is called in running text."""
    name = CRITERIA.get(part.title, part.title.replace("_", " "))
    return counted(int(name), "reference") if part.slice.level == REFERENCES and name.isdigit() else name
