"""Criteria of studies: presets for the papers' studies, or a judge's rubric word for word."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from refbench.judges.criteria import Scale, YesNo
from refbench.judges.rubric import Rubric, load_rubric, parse_rubric, shipped_rubrics
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.studies.design import Criterion
from refbench.text.files import toml_value

PRESETS = ("creval", "imagenhub", "multiref", "references")
RUBRIC_OF = {"multibanana": "five_criteria", "multiref": "multiref", "creval": "creval"}
"""What people are asked about a benchmark's outputs unless the owner says otherwise: MultiBanana's criteria have the
names that its judge has."""


def criteria_named(name: str) -> tuple[tuple[Criterion, ...], str]:
    """The criteria of a preset or of a judge's rubric, by name or file, and the hash of the rubric."""
    if name in PRESETS:
        return tuple(Criterion.model_validate(row) for row in _toml(name)["criteria"]), ""
    try:
        return _of_rubric(load_rubric(name))
    except RefBenchError as error:
        known = "" if name in shipped_rubrics() else f"; of studies there are {', '.join(PRESETS)}"
        raise RefBenchError(f"{error}{known}") from error


def criteria_of_run(run: Run) -> tuple[tuple[Criterion, ...], str, str]:
    """What the run's own judge is asked, its name, and the hash of its rubric."""
    if run.info.benchmark == "own" and run.keeps("rubric.md"):
        text, name = run.kept("rubric.md").decode("utf-8", "surrogateescape"), run.info.settings.get("rubric", "own")
        criteria, sha256 = _of_rubric(parse_rubric(text, name))
        return criteria, name, sha256
    name = RUBRIC_OF.get(run.info.benchmark, "")
    if not name:
        raise RefBenchError(
            f"--rubric: nothing says what people are asked about {run.info.benchmark}: give {', '.join(PRESETS)}, or a "
            "rubric of a judge"
        )
    criteria, sha256 = criteria_named(name)
    return criteria, name, sha256


def words(*place: str) -> dict[str, str]:
    """A text that raters read, by language."""
    found: Any = _toml("words")
    for name in place:
        found = found[name]
    return dict(found)


def _of_rubric(rubric: Rubric) -> tuple[tuple[Criterion, ...], str]:
    made = []
    chinese = _chinese_labels(rubric)
    for part in rubric.parts:
        for one in part.criteria:
            ability = rubric.abilities.get(one.name) or rubric.abilities.get(part.name)
            plain: dict[str, Any] = {
                "name": one.name,
                "label": {"en": one.label, **({"zh": chinese[one.name]} if one.name in chinese else {})},
                "description": {"en": one.description} if one.description else {},
                "gold": ability in ("IA", "RC"),
                "ability": ability or "",
            }
            if isinstance(one.kind, Scale):
                made.append(Criterion(**plain, low=one.kind.low, high=one.kind.high, step=_step(one.kind)))
            elif isinstance(one.kind, YesNo):
                made.append(Criterion(**plain, kind="yes_no", low=0, high=1))
    if not made:
        raise RefBenchError(f"the rubric {rubric.name} asks for no mark: people can be asked its questions only")
    return tuple(made), rubric.sha256


def _chinese_labels(rubric: Rubric) -> dict[str, str]:
    """By criterion, of a shipped rubric; none where somebody has changed a word of it."""
    if rubric.name not in shipped_rubrics() or rubric.sha256 != load_rubric(rubric.name).sha256:
        return {}
    labels: dict[str, str] = _toml("labels").get(rubric.name, {})
    return labels


def _step(scale: Scale) -> float:
    """Whole marks where the scale has room for some, else halves."""
    return 1.0 if scale.high - scale.low >= 2 else 0.5


@cache
def _toml(name: str) -> dict[str, Any]:
    text = resources.files("refbench.studies").joinpath(f"presets/{name}.toml").read_text("utf-8")
    return toml_value(text, f"{name}.toml")
