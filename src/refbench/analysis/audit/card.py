"""The judge's card: where it is kept and found, by judge, wording and rubric; and the sentence to paste."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from refbench.analysis.audit.records import NOT_VALIDATED, CriterionCard, CriterionVerdict, Figure, JudgeCard
from refbench.record import RefBenchError, content_key, counted
from refbench.runs.disk import disk_error, write_whole
from refbench.tables.result import KeptCard, Result
from refbench.text.files import file_text, is_file

CARDS = "cards"
"""The folder of an audit's run directory that has one file a card."""
SETTING = "audit"
"""The setting under which an audit's run records the manifest of its variants."""
_ASKS_THE_SAME = (SETTING, "ask")
"""Settings of a run that change no request."""


class CardKey(NamedTuple):
    """What one card is of: the model behind a judge's name, how it is asked, and the rubric or benchmark."""

    judge: str
    wording: str
    rubric: str


def key_of(parts: Mapping[str, Any], judge: str) -> CardKey:
    """The key of a judge's card, from what a table's fingerprint is made of."""
    asked = dict(parts.get("asked", {}).get(judge, {}))
    settings = {name: text for name, text in parts.get("settings", {}).items() if name not in _ASKS_THE_SAME}
    model = str(asked.pop("model", judge))
    return CardKey(model, content_key([settings, asked]), settings.get("rubric", parts["benchmark"]))


def card_name(judge: str, wording: str, rubric: str) -> str:
    return f"{content_key([judge, wording, rubric])[:16]}.json"


def keep_card(card: JudgeCard, audit: Path | str) -> Path:
    """Write a card into the audit's run directory; one of the same judge, wording and rubric is replaced."""
    path = Path(audit) / CARDS / card_name(card.judge, card.wording, card.rubric)
    try:
        write_whole(path, card.model_dump_json(indent=1).encode() + b"\n")
    except OSError as error:
        raise disk_error(error, path) from error
    return path


def card_of(run: Path | str, *, judge: str, wording: str, rubric: str) -> JudgeCard | None:
    """The card of a run's judge, from the run directory itself or one beside it; of several the one of most cases."""
    found = _kept(Path(run), CardKey(judge, wording, rubric))
    return None if found is None else found[1]


def with_cards(result: Result, run: Path | str) -> Result:
    """A run's result with the cards of its judges that are kept in its directory or in one beside it."""
    cards = []
    for judge in result.table.parts.get("judges", ()):
        kept = _kept(Path(run), key_of(result.table.parts, judge))
        if kept is not None:
            cards.append(KeptCard(judge, os.path.relpath(kept[0]), in_short(kept[1]), in_numbers(kept[1])))
    return replace(result, cards=tuple(cards)) if cards else result


def _kept(run: Path, key: CardKey) -> tuple[Path, JudgeCard] | None:
    found = [(path, card) for path in _places(run, card_name(*key)) if (card := _read(path)) is not None]
    same = [(path, card) for path, card in found if (card.judge, card.wording, card.rubric) == key]
    return max(same, key=lambda one: one[1].n_cases, default=None)


def _places(run: Path, name: str) -> Iterator[Path]:
    run = run.resolve()
    yield run / CARDS / name
    try:
        beside = sorted(run.parent.iterdir())
    except OSError:  # a folder that may be entered and not listed has no cards that could be found
        return
    yield from (one / CARDS / name for one in beside if one != run)


def _read(path: Path) -> JudgeCard | None:
    """None where there is no card, or one of another version: a card is made anew from the marks."""
    if not is_file(path):
        return None
    try:
        return JudgeCard.model_validate_json(file_text(path))
    except (ValidationError, RefBenchError):
        return None


def in_short(card: JudgeCard) -> str:
    """The verdicts in a sentence, for who reads numbers of the judge."""
    if not card.n_marks:
        return f"no marks of {counted(card.n_cases, 'case')}, {card.n_failures} failed; {NOT_VALIDATED}"
    parts = []
    for one in card.criteria:
        missed = [flag.said for flag in card.flags if (flag.kind, flag.criterion) == ("blind to", one.name)]
        why = [*(one.why if one.verdict != "cannot tell" else ()), *([f"blind to {_listed(missed)}"] if missed else [])]
        parts.append(f"{one.name} {one.verdict}" + (f" ({'; '.join(why)})" if why else ""))
    parts += [f"{flag.criterion} {flag.said}" for flag in card.flags if flag.kind == "side"]
    unfinished = f", not finished ({card.n_waiting} not asked about yet)" if card.n_waiting else ""
    return f"{'; '.join(parts)}; audited on {counted(card.n_cases, 'case')}{unfinished}; {NOT_VALIDATED}"


def in_numbers(card: JudgeCard) -> str:
    """How many criteria have which verdict, and what fools or moves the judge, for where there is room for a line."""
    verdicts = Counter(one.verdict for one in card.criteria)
    counts = [f"{verdicts[name]} {name}" for name in get_args(CriterionVerdict) if verdicts[name]]
    fooled = sorted({flag.said for flag in card.flags if flag.kind == "fooled by"})
    n = len(card.criteria)
    parts = [f"of {n} criteria {_listed(counts)}" if n > 1 else counts[0]] if card.n_marks else ["no marks"]
    parts += [f"fooled by {_listed(fooled)}"] if fooled else []
    unfinished = ["not finished"] if card.n_waiting else []
    return "; ".join([*parts, f"audited on {counted(card.n_cases, 'case')}", *unfinished, NOT_VALIDATED])


def judge_said(card: JudgeCard, name: str = "") -> str:
    """The judge as whoever ran the audit calls it, with the model behind the name where that is another."""
    return card.judge if name in ("", card.judge) else f"{name} ({card.judge})"


def sentence(card: JudgeCard, name: str = "") -> str:
    """Figures to paste, without the words of the verdicts, which are for the reader of the card. `name` is what the
    judge is called."""
    parts = [_of_criterion(one) for one in card.criteria]
    told = "; ".join(part for part in parts if part)
    rubric = f" with the rubric {card.rubric}" if card.rubric else ""
    words = f" (wording {card.wording[:12]})" if card.wording else ""
    fooled = sorted({flag.said for flag in card.flags if flag.kind == "fooled by"})
    rises = f" Marks rise under {_listed(fooled)}." if fooled else ""
    found = f"gave the undamaged picture the higher mark in {told}" if told else "gave too few marks for any figure"
    whose = (
        f"In an audit of {counted(card.n_cases, 'case')} with planted damages, {judge_said(card, name)}{rubric}{words}"
    )
    return f"{whose} {found}.{rises} ({NOT_VALIDATED[0].upper()}{NOT_VALIDATED[1:]}.)"


def _of_criterion(one: CriterionCard) -> str:
    if one.sees.value is None:
        return ""
    same = "" if one.sd.value is None else f", sd of repeats {one.sd.value:.2f}"
    return f"{percent(one.sees)} of pairs for {one.name}{same}"


def percent(one: Figure) -> str:
    if one.value is None:
        return one.why
    interval = "" if one.ci95 is None else f" (95 % CI {100 * one.ci95[0]:.0f} to {100 * one.ci95[1]:.0f})"
    return f"{100 * one.value:.0f} %{interval}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
