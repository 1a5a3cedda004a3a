"""Six pictures by a rule that the sheet states: the two best models on a typical case, and where they are furthest
apart, either way. Chosen pictures would only show what somebody wanted to show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refbench.analysis.compare.records import counted
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.output import Output
from refbench.report.brief.markup import clipped
from refbench.report.brief.view import View
from refbench.report.grid.choice import marks_of
from refbench.report.site.pictures import Album, thumbnail
from refbench.stats import Array

PICTURES = 6
_MOST_NAMED = 3
_MOST_REFERENCES = 4


@dataclass(frozen=True)
class Shown:
    """A model's picture of a case (None where it cannot be opened) with what it was given for it."""

    model: str
    value: float
    jpeg: bytes | None


@dataclass(frozen=True)
class Scene:
    """One case: why it is there, what was asked, and the pictures."""

    why: str
    case: AnyCase
    references: tuple[bytes | None, ...]
    """None where a picture is not at hand or is not the one that was used."""
    shown: tuple[Shown, ...]


@dataclass(frozen=True)
class Gallery:
    rule: str
    scenes: tuple[Scene, ...]


def gallery(view: View, album: Album) -> Gallery:
    """The pictures of the two best models that have any; of a single one, six from its worst case to its best."""
    outputs = _outputs(view)
    models = [row.model for row in view.ranked if outputs.get(row.model)][:2]
    if not models:
        return Gallery(_without_pictures(outputs), ())
    marks = marks_of(view.result, measure=view.measure, protocol=view.protocol, judge=view.judge)
    values = view.sign(view.measure) * np.stack([marks.values[model] for model in models])
    there = [
        n
        for n, case in enumerate(view.cases)
        if np.isfinite(values[:, n]).all() and all(case.id in outputs[model] for model in models)
    ]
    if not there:
        who = " and ".join(models)
        return Gallery(
            f"There is no case of which {who} {'both ' if len(models) > 1 else ''}have picture and score.", ()
        )
    chosen, rule = _rule(view, values, there, models)
    if any(len(seeds) > 1 for model in models for seeds in outputs[model].values()):
        rule += " Of several seeds the first is shown; the score is their mean."
    scenes = [
        Scene(
            why=why,
            case=view.cases[n],
            references=_references(view, album, view.cases[n]),
            shown=tuple(
                Shown(
                    model, float(marks.values[model][n]), _jpeg(view, album, model, outputs[model][view.cases[n].id][0])
                )
                for model in models
            ),
        )
        for why, n in chosen
    ]
    return Gallery(rule, tuple(scenes))


def _outputs(view: View) -> dict[str, dict[str, list[Output]]]:
    """By model and case, the final outputs that have pictures, lowest seed first."""
    found: dict[str, dict[str, list[Output]]] = {}
    for case, of_case in view.board.outputs_by_case.items():
        for number, output in of_case:
            if output.step is None and output.pictures:
                found.setdefault(view.board.models[number].name, {}).setdefault(case, []).append(output)
    return found


def _without_pictures(outputs: Mapping[str, Mapping[str, Sequence[Output]]]) -> str:
    made = {model: sum(len(seeds) for seeds in of_model.values()) for model, of_model in outputs.items()}
    if not made:
        return "The runs hold no pictures that the models made: there are only replies of judges to score."
    return (
        f"None is shown: the {sum(made.values())} outputs with pictures in the runs are of "
        f"{', '.join(clipped(model, 30) for model in list(made)[:_MOST_NAMED])}"
        f"{f' and {len(made) - _MOST_NAMED} more' if len(made) > _MOST_NAMED else ''}, and no model of these is ranked."
    )


def _rule(view: View, values: Array, there: Sequence[int], models: Sequence[str]) -> tuple[list[tuple[str, int]], str]:
    """The chosen cases with why each is there, and the rule in words; more is better in `values`."""

    def order(key: Array) -> list[int]:
        return sorted(there, key=lambda n: (float(key[n]), view.cases[n].id))

    if len(models) == 1:
        ranked = order(values[0])
        places = sorted({round(k * (len(ranked) - 1) / (PICTURES - 1)) for k in range(PICTURES)})
        last = len(ranked)
        chosen = [(f"place {last - place} of {last}", ranked[place]) for place in places]
        return chosen, f"Cases of {models[0]} at equal steps from its worst score to its best; ties by case id."
    first, second = models
    lead = values[0] - values[1]
    apart = order(lead)
    # The extremes first: they must be what they are called, and any case near the middle is typical.
    furthest = [apart[-1], apart[0]][: len(there) - 1]
    rest = [n for n in order(values.mean(axis=0)) if n not in furthest]
    chosen = [("Typical", rest[(len(rest) - 1) // 2])]
    for model, n, way in zip(models, furthest, (1, -1), strict=False):
        chosen.append((_place_of(model, way * float(lead[n])), n))
    of = f"{counted(len(there), 'case')} with pictures and scores of both {first} and {second}"
    rule = (
        f"Chosen by rule, not by eye: of the {of}, the two that are best for either beside the other, and of the rest "
        "the one in the middle by their mean score; ties by case id."
        if len(there) > 1
        else f"There is one case with pictures and scores of both {first} and {second}."
    )
    return chosen, rule


def _place_of(model: str, lead: float) -> str:
    """What a model's best case beside the other is: one that is never ahead has one in which it is level, or least
    behind."""
    return f"{clipped(model, 22)} {'furthest ahead' if lead > 0 else 'least behind' if lead < 0 else 'level'}"


def _references(view: View, album: Album, case: AnyCase) -> tuple[bytes | None, ...]:
    found = []
    for picture in case.request.pictures[:_MOST_REFERENCES]:
        shot = album.input_shot(picture, view.board.picture_root, view.board.inputs)
        data = None if shot is None else thumbnail(shot)
        found.append(data if isinstance(data, bytes) else None)
    return tuple(found)


def _jpeg(view: View, album: Album, model: str, output: Output) -> bytes | None:
    board = view.board
    shot = album.output_shot(output.pictures[0], board.runs[board.models[board.model_numbers[model]].run])
    data = None if shot is None else thumbnail(shot)
    return None if isinstance(data, Failure) else data
