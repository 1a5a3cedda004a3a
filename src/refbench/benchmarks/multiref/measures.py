"""What is measured of an output: for each reference of a synthetic case the paper's metric, and beside it, under a
name of its own, what a laptop's networks can say; and what follows from these for the case as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refbench.benchmarks.kit.definition import Derived, Measured, mean_of, mean_over, numbered, state_of
from refbench.benchmarks.kit.rows import csv_rows
from refbench.benchmarks.multiref.cases import ERRORS, TYPES, WORDS, MultiRefCase, Reference, Type
from refbench.record import Record
from refbench.score import Score
from refbench.tables.table import Row

CAPTION_SCALE = 50.0
"""A CLIP score is 100 times a cosine, and text and picture hardly reach 0.5. How the paper scales its column is not
said; 1/50 puts plausible scores where the printed ones are (0.38 to 0.58)."""
AESTHETIC_SCALE = 10.0


class Way(Record):
    """One part: which type it measures, by which metric in each protocol, on which range."""

    type: Type
    corrected: str
    paper: str
    """Where the paper measures by another metric, not just by another variant of the same."""
    low: float
    high: float


WAYS: Mapping[str, Way] = {row.pop("part"): Way.model_validate(row) for row in csv_rows(__package__, "ways.csv")}
"""Parts by name. Lines drawn by a rule differ from those of the paper's network even for the same picture, and the
number would be about the extractors: a sketch is measured by whatever drew it, in a column of its own."""

DREW: Mapping[str, str] = {"sketch": "", "sketch@sketch_dodge": "sketch_dodge"}
"""The parts that only concern references by one extractor; the paper's own where the data names none."""
_THE_PAPERS = frozenset({"", "sketch"})

LOWER = frozenset({"inception_mean", "fid", *(part for part, way in WAYS.items() if way.type in ERRORS)})
"""The measures of which less is better; of what the release calls FID, as the paper has it."""

LOCAL: Mapping[Type, str] = {
    "canny": "canny",
    **{way.type: part for part, way in WAYS.items() if "@" in part},
}
"""The part that needs no network of the hub, for the types that have one."""

QUALITY: Mapping[str, str] = {"inception_mean": "inception_mean@inception_v3", "aesthetics": "aesthetic@laion_v1_l14"}
"""Measured of the output alone. `inception_mean` is what the release calls the FID of one picture."""

SEVERAL: tuple[Type, ...] = ("subject", "pose")
"""Types of which a case may have more than one reference; the release draws one, the data engine allows several."""
MOST = 4

FURTHER: Mapping[str, tuple[str, int]] = {
    numbered(part, number): (part, number)
    for part, way in WAYS.items()
    if way.type in SEVERAL
    for number in range(2, MOST + 1)
}
"""Parts of the second and further references of a type, with the part that they are averaged into."""

MEASURED = frozenset({*WAYS, *FURTHER, *QUALITY})
DERIVED = ("fid", "fidelity", "fidelity@local")

_REAL_WORLD = "the real-world split is judged only: it has no typed references"
_NO_FID = "a distance between sets of pictures: one picture has none, and the paper's number is not one"


def measuring(case: MultiRefCase) -> list[Measured]:
    """The metrics of a case. The second of two subjects is `subject#2`; `derived` averages them."""
    if case.details.split != "synthetic":
        return []
    away = not_applicable(case)
    found = [Measured(part, metric) for part, metric in QUALITY.items()]
    caption = next((r.caption for r in case.details.of_type("caption") if r.caption), None)
    for part, way in WAYS.items():
        if part not in away:
            for number, reference in enumerate(case.details.of_type(way.type), 1):
                found += _ways(numbered(part, number), way, reference, caption)
    return found


def _ways(name: str, way: Way, reference: Reference, caption: str | None) -> Iterator[Measured]:
    facts: dict[str, Any] = {}
    if caption is not None and (way.type == "caption" or (way.type in ("bbox", "mask") and "@" not in name)):
        # The paper's networks find boxes and masks by the caption that the model was given. The release asks a chat
        # model for a new caption of the output, at temperature 0.7, and looks for whatever that names first.
        facts["caption"] = caption
    if reference.box is not None:
        facts["box"] = reference.box
    shown = {} if reference.picture is None else {"reference": reference.picture}
    if reference.official is None and not way.paper:
        yield Measured(name, way.corrected, shown, facts)
        return
    yield Measured(name, way.corrected, shown, facts, protocol="corrected")
    official = shown if reference.official is None else {"reference": reference.official}
    yield Measured(name, way.paper or way.corrected, official, facts, protocol="paper")


def not_applicable(case: MultiRefCase) -> dict[str, str]:
    """Parts that do not concern the case: types that it has no reference of, everything in the real-world split."""
    if case.details.split != "synthetic":
        return dict.fromkeys((*MEASURED, *DERIVED, *(judged(kind) for kind in JUDGEABLE)), _REAL_WORLD)
    why = {kind: reason for kind in TYPES if (reason := _why_not(case, kind))}
    away = {part: why[way.type] for part, way in WAYS.items() if way.type in why}
    away |= {part: reason for part in DREW if part not in away and (reason := _another_drew(case, part))}
    for further, (part, number) in FURTHER.items():
        if part in away or len(case.details.of_type(WAYS[part].type)) < number:
            away[further] = away.get(part, f"fewer than {number} references of the type")
    return away | {judged(kind): why[kind] for kind in JUDGEABLE if kind in why}


def _another_drew(case: MultiRefCase, part: str) -> str:
    """Why a part does not concern a reference that something else has drawn; empty where it does."""
    drew = case.details.of_type(WAYS[part].type)[0].extractor
    if drew == DREW[part] or (not DREW[part] and drew in _THE_PAPERS):
        return ""
    return f"its reference was drawn by {drew or 'the network of the paper'}"


def _why_not(case: MultiRefCase, kind: Type) -> str:
    """Why a type cannot be measured in a case; empty when it can."""
    references = case.details.of_type(kind)
    if not references:
        return f"no {WORDS[kind]} among its references"
    if not all(reference.usable for reference in references):
        return f"the data names no {WORDS[kind]} for this case"
    if len(references) > (MOST if kind in SEVERAL else 1):
        return f"{len(references)} references of the type {WORDS[kind]}: more than the benchmark defines"
    return ""


JUDGEABLE: tuple[Type, ...] = ("style", "subject", "caption", "sketch", "semantic_map")
"""Types that a judge may be asked about one by one: the first two always, the others by choice."""


def judged(kind: Type) -> str:
    """The name of a judge's mark for the references of a type."""
    return f"judged_{kind}"


def derived(case: MultiRefCase, protocol: str, scores: Mapping[str, Score]) -> dict[str, Derived]:
    """The case's fidelity, by the paper's metrics and by those of a laptop, and the number that the paper calls FID;
    and, of types with several references, the mean over these."""
    if case.details.split != "synthetic":
        return dict.fromkeys(DERIVED, _REAL_WORLD)
    types = case.details.types
    means = {part: _of_type(case, part, scores) for part in WAYS}
    several: dict[str, Derived] = {p: means[p] for p, way in WAYS.items() if len(case.details.of_type(way.type)) > 1}
    away = not_applicable(case)
    local = [LOCAL[kind] for kind in types if kind in LOCAL and LOCAL[kind] not in away]
    return {
        **several,
        "fid": state_of(scores, "inception_mean") if protocol == "paper" else _NO_FID,
        "fidelity": _fidelity(means, types),
        "fidelity@local": _fidelity(means, local) if local else "no reference of a type that a laptop can measure",
    }


def _fidelity(means: Mapping[str, Derived], parts: Sequence[str]) -> Derived:
    """The mean over the case's types, each from 0 to 1. One that failed makes the case fail: a mean over the others
    would be another measure, and easier for a model that fails where it is bad."""
    if not parts:
        return "it has no references"
    return mean_of([goodness(part, value) if isinstance(value := means[part], float) else value for part in parts])


def _of_type(case: MultiRefCase, part: str, scores: Mapping[str, Score]) -> Derived:
    """The mean over the references of the part's type."""
    count = len(case.details.of_type(WAYS[part].type)) or 1
    return mean_over(scores, part, min(count, MOST))


def goodness(part: str, value: float) -> float:
    """A part's value from 0 (bad) to 1 (good): errors turned round, CLIP scores brought to 1, cosines from 0 up."""
    way = WAYS[part]
    if part in LOWER:
        return 1.0 - value
    return min(1.0, max(0.0, value / (CAPTION_SCALE if way.type == "caption" else 1.0)))


assert tuple(part for part in WAYS if "@" not in part) == TYPES  # the paper's parts are its types, in its order


# --- the truth row: the golden or original picture scored like a model's --------------------------------------------

TRUTH = "truth"
"""The name of the model whose outputs are the targets."""

_NOT_SHARED = frozenset({"fid"})
"""No distance, and no share: one picture has none."""


def ratio_to_truth(rows: Sequence[Row], truth: str = TRUTH) -> list[Row]:
    """For every row of every model a row `<metric> / truth`; none where the table holds no model of that name.

    Errors are turned round before the division, as in every average: (1 - x) / (1 - truth). The truth is compared
    under the same judge, protocol and slice. There is no interval: numerator and denominator depend on each other.
    """
    known = {_place(row): row.value for row in rows if row.model == truth}
    return [_ratio(row, known[_place(row)]) for row in rows if _place(row) in known and row.metric not in _NOT_SHARED]


def _place(row: Row) -> tuple[str | None, str, str, tuple[tuple[str, str], ...]]:
    return row.judge, row.protocol, row.metric, tuple(sorted(row.slice.items()))


def _ratio(row: Row, truth: float | None) -> Row:
    value, whole = _oriented(row.metric, row.value), _oriented(row.metric, truth)
    remark = "no value of the truth" if whole is None else "the truth's value is not above 0" if whole <= 0 else None
    share = None if value is None or whole is None or whole <= 0 else round(value / whole, 9)
    update = {"metric": f"{row.metric} / truth", "value": share, "ci95": None, "bounds": None, "remark": remark}
    return row.model_copy(update=update)


def _oriented(metric: str, value: float | None) -> float | None:
    return 1.0 - value if value is not None and metric in LOWER else value
