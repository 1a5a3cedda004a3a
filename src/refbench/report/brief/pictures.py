"""Six pictures by a rule that the sheet states: the two best models on a typical case, and where they are furthest
apart, either way. Chosen pictures would only show what somebody wanted to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.output import Output
from refbench.record import counted
from refbench.report.brief.view import View
from refbench.report.brief.words import clipped
from refbench.report.grid.choice import marks_of
from refbench.report.site.pictures import PictureFile, PictureStore, thumbnail
from refbench.stats import Array

PICTURES = 6
_MOST_NAMED = 3
_MOST_REFERENCES = 4


class Shown(NamedTuple):
    """A model's picture of a case with what it was given for it."""

    model: str
    value: float
    jpeg: bytes | None
    """None where the picture cannot be opened."""


class Scene(NamedTuple):
    """One case: why it is there, what was asked, and the pictures."""

    why: str
    case: AnyCase
    references: tuple[bytes | None, ...]
    """None where a picture is not at hand or is not the one that was used."""
    shown: tuple[Shown, ...]


class Pictures(NamedTuple):
    """The cases that are shown, and the rule that chose them."""

    rule: str
    scenes: tuple[Scene, ...] = ()


def chosen_pictures(view: View, store: PictureStore) -> Pictures:
    """The pictures of the two best models that have any; of a single one, six from its worst case to its best."""
    board = view.board
    outputs = _outputs(view)
    models = [row.model for row in view.ranked if outputs.get(row.model)][:2]
    if not models:
        return Pictures(_without_pictures(outputs))
    marks = marks_of(view.result, measure=view.measure, protocol=view.protocol, judge=view.judge)
    values = view.sign(view.measure) * np.stack([marks.values[model] for model in models])
    there = [
        n
        for n, case in enumerate(view.cases)
        if np.isfinite(values[:, n]).all() and all(case.id in outputs[model] for model in models)
    ]
    if not there:
        who = " and ".join(models)
        return Pictures(f"There is no case of which {who} {'both ' if len(models) > 1 else ''}have picture and score.")
    chosen, rule = _rule(view, values, there, models)
    if any(len(seeds) > 1 for model in models for seeds in outputs[model].values()):
        rule += " Of several seeds the first is shown; the score is the mean of those that have one."

    def shown(model: str, n: int) -> Shown:
        run = board.runs[board.models[board.model_numbers[model]].run]
        file = store.output_file(outputs[model][view.cases[n].id][0].pictures[0], run)
        return Shown(model, float(marks.values[model][n]), _jpeg(file))

    def scene(why: str, n: int) -> Scene:
        given = view.cases[n].request.pictures[:_MOST_REFERENCES]
        references = tuple(_jpeg(store.input_file(one, board.picture_root, board.inputs)) for one in given)
        return Scene(why, view.cases[n], references, tuple(shown(model, n) for model in models))

    return Pictures(rule, tuple(scene(why, n) for why, n in chosen))


def _jpeg(file: PictureFile | None) -> bytes | None:
    small = None if file is None else thumbnail(file)
    return None if isinstance(small, Failure) else small


def _outputs(view: View) -> dict[str, dict[str, list[Output]]]:
    """By model and case, the final outputs that have pictures, lowest seed first."""
    found: dict[str, dict[str, list[Output]]] = {}
    for case, of_case in view.board.outputs_by_case.items():
        for number, output in of_case:
            if output.step is None and output.pictures:
                found.setdefault(view.board.models[number].name, {}).setdefault(case, []).append(output)
    return found


def _without_pictures(outputs: Mapping[str, Mapping[str, Sequence[Output]]]) -> str:
    if not outputs:
        return "The runs hold no pictures that the models made: there are only replies of judges to score."
    n = sum(len(seeds) for of_model in outputs.values() for seeds in of_model.values())
    names = ", ".join(clipped(model, 30) for model in list(outputs)[:_MOST_NAMED])
    names += f" and {len(outputs) - _MOST_NAMED} more" if len(outputs) > _MOST_NAMED else ""
    return f"None is shown: the {n} outputs with pictures in the runs are of {names}, and no model of these is ranked."


def _rule(view: View, values: Array, there: Sequence[int], models: Sequence[str]) -> tuple[list[tuple[str, int]], str]:
    """The chosen cases with why each is there, and the rule in words; more is better in `values`."""

    def order(key: Array) -> list[int]:
        return sorted(there, key=lambda n: (float(key[n]), view.cases[n].id))

    if len(models) == 1:
        by_score, last = order(values[0]), len(there)
        places = sorted({round(k * (last - 1) / (PICTURES - 1)) for k in range(PICTURES)})
        chosen = [(f"place {last - place} of {last}", by_score[place]) for place in places]
        return chosen, f"Cases of {models[0]} at equal steps from its worst score to its best; ties by case id."
    lead = values[0] - values[1]
    apart = order(lead)
    # The extremes first: they must be what they are called, and any case near the middle is typical.
    furthest = [apart[-1], apart[0]][: len(there) - 1]
    rest = [n for n in order(values.mean(axis=0)) if n not in furthest]
    chosen = [("Typical", rest[(len(rest) - 1) // 2])]
    for model, n, way in zip(models, furthest, (1, -1), strict=False):
        # A model that is never ahead has a case in which it is level, or least behind.
        ahead = way * float(lead[n])
        place = "furthest ahead" if ahead > 0 else "least behind" if ahead < 0 else "level"
        chosen.append((f"{clipped(model, 22)} {place}", n))
    both = f"with pictures and scores of both {models[0]} and {models[1]}"
    if len(there) == 1:
        return chosen, f"There is one case {both}."
    return chosen, (
        f"Chosen by rule, not by eye: of the {counted(len(there), 'case')} {both}, the two that are best for either "
        "beside the other, and of the rest the one in the middle by their mean score; ties by case id."
    )
