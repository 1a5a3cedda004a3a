"""What a sheet says in words, for a reader who decides and is no statistician. An open question is never called a
draw, and a lead that may be luck is never called a lead without saying so.
"""

from __future__ import annotations

from collections.abc import Iterable

from refbench.analysis.failures import failure_test
from refbench.judges.panel import MEAN
from refbench.record import counted
from refbench.report.brief.findings import Lead, Verdict, Verdicts
from refbench.report.brief.view import Part, View, open_view
from refbench.stats.effect import LEVEL
from refbench.tables.table import Row

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


def clipped(text: str, most: int) -> str:
    """At most so many characters, of the beginning and the end, where versions stand."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    end = most // 3
    return f"{flat[: most - end - 1]}…{flat[-end:]}"


def _short(name: str) -> str:
    return clipped(name, 34)


def any_value(view: View) -> bool:
    return any(row.value is not None for row in view.rows)


def headline(view: View, verdict: Verdict | None) -> str:
    """The answer in one line."""
    if verdict is None:
        return "No model is ranked: none has enough scores" if any_value(view) else "No model has a score yet"
    first, leads, rivals = _short(verdict.first), verdict.leads, verdict.rivals
    if not leads:
        return f"{first} scores {number(view, verdict.value)}, with nothing to compare it to"
    if verdict.settled:
        return f"Choose {first}"
    if all(lead.ci95 is None for lead in leads) and any(row.n_not_asked for row in view.rows):
        return "Not enough was asked yet to compare the models"
    for lead in leads:
        if lead.behind:
            ahead = f"{_short(lead.over)} is ahead of it on the cases that both have"
            return f"No single best: {first} comes first, but {ahead}"
    undone = [lead for lead in leads if lead.undone]
    what = min((lead.undone for lead in undone), default="")  # "what failed" alone, where that is enough for one
    if all(lead.clear or lead.undone for lead in leads):
        return f"{first} comes first, but {what} could undo its lead over {_models(undone)}"
    if len(rivals) == len(leads) and undone:
        others = _models(lead for lead in leads if not lead.undone)
        return (
            f"No model stands out: {first} comes first, but its lead over {others} may be chance, and {what} could "
            f"undo that over {_models(undone)}"
        )
    if len(rivals) == len(leads):
        return f"No model stands out: these cases cannot tell the {len(leads) + 1} models apart"
    if len(rivals) < _NAMED:
        *names, last = map(_short, (verdict.first, *rivals))
        return f"Choose {', '.join(names)} or {last}: these cases cannot tell them apart"
    others = f"{len(rivals)} of the {len(leads)} others"
    return f"No single best: {first} comes first, but {others} cannot be told from it"


def _models(leads: Iterable[Lead]) -> str:
    return _listed(_short(lead.over) for lead in leads)


def confidence(view: View, verdicts: Verdicts) -> list[str]:
    """How sure one may be of the headline."""
    verdict = verdicts.overall
    if verdict is None or verdict.closest is None:
        return []
    first = _short(verdict.first)
    found = [_over_next(view, first, verdict.closest, verdicts.n_pairs)]
    if verdict.closest.gap is not None:
        above, level, below = verdict.closest.cases
        found.append(f"Case by case it is better in {above}, level in {level} and worse in {below}.")
    rank = view.ranks.get(verdict.first)
    if rank is not None and rank.best is not None and not verdict.settled and not verdict.closest.undone:
        share = round(100 * rank.best)
        lean = ": a lean, not a proof" if share >= _LEANS else ""
        found.append(f"With the cases redrawn at random, {first} comes first {share} times in 100{lean}.")
    behind = [_short(lead.over) for lead in verdict.leads if lead.clear]
    if verdict.settled:
        others = "the other model" if len(verdict.leads) == 1 else f"each of the other {len(verdict.leads)} models"
        found.append(f"It is ahead of {others} by more than chance explains.")
    elif behind:
        others = f"{behind[0]} is" if len(behind) == 1 else f"The other {len(behind)} models are"
        found.append(f"{others} behind {first} by more than chance explains.")
    return found


def _over_next(view: View, first: str, lead: Lead, pairs: int) -> str:
    """The lead over the next model with what fits the data; pairs that cannot be compared say so."""
    if lead.gap is None:
        return f"{first} and the next, {_short(lead.over)}, were scored on too few of the same cases to be compared."
    head = f"{first} is {amount(view, lead.gap)} ahead of the next, {_short(lead.over)}"
    if float(number(view, lead.gap)) == 0:
        head = f"{first} and the next, {_short(lead.over)}, are level on the {counted(lead.n_cases, 'case')} both have"
    elif lead.gap < 0:
        # Failures have left another set of cases to the pair than to the table.
        head = (
            f"{first} has the best score over the cases it has; on the {lead.n_cases} that {_short(lead.over)} has as "
            f"well it is {amount(view, -lead.gap)} behind"
        )
    if lead.ci95 is None:
        return f"{head}; there are too few differences to say how sure that is."
    text = f"{head}; {span(view, lead.ci95)} fits the data"
    if lead.undone == "what failed":
        text += ", but what failed could have scored so that nothing is left of it"
    elif lead.undone and lead.together is not None:
        text += f", but with what failed and chance together {span(view, lead.together)} does"
    elif not lead.clear and not lead.behind and not lead.ci95[0] <= 0 <= lead.ci95[1]:
        text += f", which may still be luck when {pairs} pairs of models are looked at"
    return f"{text}."


def lead_of(view: View, verdict: Verdict) -> str:
    """The lead over the next model and what fits the data, in a few signs."""
    lead = verdict.closest
    if lead is None or lead.gap is None or lead.ci95 is None:
        return "too few shared cases that differ"
    low, high = (signed(view, end) for end in lead.ci95)
    return f"{signed(view, lead.gap)} ({low} to {high})"


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
    return counted(int(name), "reference") if part.kind == "n_refs" and name.isdigit() else name


def span(view: View, ci95: tuple[float, float]) -> str:
    """An interval of a lead, in words."""
    low, high = ci95
    if low < 0 < high:
        return f"anything from {number(view, -low)} behind to {number(view, high)} ahead"
    side = "ahead" if high > 0 else "behind"
    ends = sorted((abs(low), abs(high)))
    return f"anything from {number(view, ends[0])} to {number(view, ends[1])} {side}"


def failures(view: View) -> list[str]:
    """What has no score and why, by model, and whether that depends on the model."""
    found = [f"{_short(place.row.model)} is {place.why_not}." for place in view.order if place.why_not][:_NAMED]
    waiting = [f"{_short(row.model)} {row.n_not_asked} of {row.n_expected}" for row in view.rows if row.n_not_asked]
    found += [f"Not asked yet: {_listed(waiting)}."] if waiting else []
    lacking = [row for row in view.rows if row.failures]
    if not lacking:
        return [*found, "Nothing failed."] if waiting else ["Every picture that was asked for has a score.", *found]
    listed = _listed(f"{_short(row.model)} {sum(row.failures.values())} ({_kinds(row)})" for row in lacking)
    found.append(f"{'Pictures' if lacking[0].n_seeds > 1 else 'Cases'} that failed: {listed}.")
    test = failure_test(view.result, view.protocol, view.judge, seed=view.board.seed)
    if test.p is not None and test.p <= LEVEL:
        found += [
            f"{_short(one.model)} fails {'more' if one.failed > one.expected_if_alike else 'less'} often than chance "
            f"explains ({one.failed} of {one.n_pictures} pictures; {one.expected_if_alike:.1f} if all models were "
            "alike)."
            for one in test.models
            if one.p is not None and one.p <= LEVEL
        ][:2]
    imputed = [f"{_short(row.model)} {row.n_imputed}" for row in lacking if row.n_imputed]
    if imputed:
        how = "by the protocol" if view.board.result.refusals == "conditional" else "as the worst value"
        found.append(f"Counted {how}: {_listed(imputed)}.")
    for first in view.ranked[:1]:
        if first.bounds is not None and sum(first.failures.values()) > first.n_imputed:
            low, high = (number(view, end) for end in first.bounds)
            which = f"{'other ' if first.n_imputed else ''}failed ones of {_short(first.model)}"
            found.append(f"Had the {which} all been worst, or all best, it would have {low} to {high}.")
    return found


def _listed(names: Iterable[str]) -> str:
    named = list(names)
    more = f", and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more


def _kinds(row: Row) -> str:
    """What kept cases from having a score, the most frequent first; the model's own failures apart from others'."""
    counts: list[tuple[int, str]] = []
    for kind, n in row.failures.items():
        own = row.own_failures.get(kind, 0)
        name = KINDS.get(kind, kind.replace("_", " "))
        counts += [(own, name), (n - own, _NOT_THE_MODELS.get(kind, name))]
    listed = sorted((-n, name) for n, name in counts if n)
    return listed[0][1] if len(listed) == 1 else ", ".join(f"{-n} {name}" for n, name in listed)


def limits(view: View, verdicts: Verdicts) -> list[str]:
    """What the numbers do not say."""
    board = view.board
    found = [_judged(view), *_other_judges(view)]
    closest = verdicts.overall.closest if verdicts.overall else None
    size = f"There {'is' if len(view.cases) == 1 else 'are'} {counted(len(view.cases), 'case')}"
    if closest is not None and closest.detectable is not None:
        size += (
            f": a true difference between two models of {amount(view, closest.detectable, rough=True)} would be found "
            "at least 4 times in 5, smaller ones less often, and on parts of the cases it takes larger ones"
        )
    found.append(f"{size}. Prompts and subjects unlike these are not covered.")
    found += [*_uneven(view), *_other_protocols(view)]
    if verdicts.n_pairs:
        found.append(
            '"More than chance explains" is held so strictly that fewer than one in twenty such leaderboards would '
            f"hold a false claim (Holm's correction, {counted(verdicts.n_pairs, 'pair')} of models)."
        )
    seeds = {output.seed for outputs in board.outputs for output in outputs}
    if len(seeds) == 1:
        found.append("Each model had one try at each case: another seed gives other pictures and other scores.")
    if any(output.seconds is not None for outputs in board.outputs for output in outputs):
        found.append("Seconds and prices are those of this run, on its machine and endpoints.")
    # What boards say about runs that were not judged alike.
    found += [f"{note[0].upper()}{note[1:]}." for note in board.result.notes if note.startswith("the runs ")][:2]
    return found


def _judged(view: View) -> str:
    if not any_value(view):
        return "Nothing has a score yet."
    if view.judge is None:
        return "Scores are measurements by formulas and networks, not the opinion of people."
    how = f" ({view.board.wording})" if view.board.wording else ""
    if view.judge == MEAN and view.board.bench.scoring.judges_mean:
        return f"Scores are the {view.board.judge_title(view.judge)}{how}: of models that act as judges, not of people."
    return f"Scores are the opinion of one judge, the model {view.judge}{how}, not of people."


def _other_judges(view: View) -> list[str]:
    """Whether the other judges would choose the same."""
    found = []
    first = view.ranked[0].model if view.ranked else None
    for judge in view.board.judges:
        if judge in (view.judge, None):
            continue
        rows = open_view(view.board, view.protocol, judge).ranked
        if len(rows) == 1 and len(view.ranked) > 1:
            found.append(f"Judge {judge} has scored {rows[0].model} only.")
        elif len(rows) > 1:
            also = "too" if rows[0].model == first else f"({number(view, rows[0].value or 0.0)})"
            found.append(f"Judge {judge}, who has scored {len(rows)} models, puts {rows[0].model} first {also}.")
    return found[:2]


def _uneven(view: View) -> list[str]:
    """Scores on other cases are not to be compared line by line."""
    most = max((row.n_scored for row in view.ranked), default=0)
    fewer = [row for row in view.ranked if row.n_scored < _MOST_OF * most]
    if not fewer:
        return []
    who = _listed(f"{clipped(row.model, 30)} ({row.n_scored})" for row in fewer)
    what = "pictures" if any(row.n_seeds > 1 for row in view.ranked) else "cases"
    return [
        f"{who} of {most}: scores about fewer {what} than the others. Leads are on the cases that both models have."
    ]


def _other_protocols(view: View) -> list[str]:
    found = []
    first = view.ranked[0].model if view.ranked else None
    for protocol in view.board.protocols[1:]:
        rows = open_view(view.board, protocol, view.judge).ranked
        if rows:
            who = f"{rows[0].model} comes first too" if rows[0].model == first else f"{rows[0].model} comes first"
            found.append(f"Read as the released code does ({protocol}), which has faults, {who}.")
    return found


def number(view: View, value: float) -> str:
    return f"{value:.{view.digits}f}"


def signed(view: View, value: float) -> str:
    text = f"{value:+.{view.digits}f}"
    return f"±{text[1:]}" if float(text) == 0 else text.replace("-", "−")


def amount(view: View, value: float, *, rough: bool = False) -> str:
    """A difference on the benchmark's scale; marks and percentages are points."""
    text = f"{float(f'{value:.2g}'):g}" if rough else number(view, value)
    return text if view.digits == 4 else f"{text} points"
