"""What the pages are given, chunk by chunk: the one description that the writer in Python and the scripts share.

Every chunk is a classic script, `refbench.put("<name>", <JSON>)`, because a page opened from the file system may
neither fetch nor import; in written sites those of cases are `refbench.unpack("<name>", "<base64 of gzip of JSON>")`.
Names of chunks are their paths under `data/` without `.js`. Everything that comes from people, models or judges is text
and stays text: pages set `textContent`, never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, cast

T = TypeVar("T")

INDEX_SIZE = 2000
"""Cases in an `index` chunk: what is needed to filter, sort and search."""
CASES_SIZE = 25
"""Cases in a `cases` chunk: what is needed to show one."""

FLAGS = ("near_source", "near_reference")
"""Bits of `IndexChunk.flags`, lowest first."""


def as_view(kind: type[T], record: object, **given: Any) -> T:
    """A record of the pages: what is given by name, and the rest as the record has it under the same names."""

    def value(name: str) -> Any:
        if name in given:
            return given[name]
        return record[name] if isinstance(record, Mapping) else getattr(record, name)

    return cast("T", {name: value(name) for name in kind.__annotations__})


class ModelHead(TypedDict):
    """A model of a board, in the order of its number."""

    name: str
    run: str
    """Name of the run directory that it comes from."""
    place: int
    """Where it stands on the board that the site begins with, from 0: its column beside the others."""
    letter: str
    """A to Z, then AA and on, in the order of the places."""
    colour: int
    """The number of its variable in theme.css."""
    mark: str
    """One of those of charts.js."""


class MeasureHead(TypedDict):
    name: str
    low: float | None
    high: float | None
    better: str
    """higher or lower"""
    digits: int
    factor: float
    """What one score is multiplied by in the table: 100 where it is tabled in per cent."""
    about: str
    """What it measures, in a sentence; empty where nobody has said it."""


class BoardHead(TypedDict):
    """One benchmark with its cases, and all models of all runs on them."""

    id: str
    benchmark: str
    title: str
    paper: str
    address: str
    """Of the paper, on arXiv; empty where it is not known."""
    bibtex: str
    subset: str | None
    n_cases: int
    models: Sequence[ModelHead]
    judges: Sequence[str | None]
    """Each judge; None stands for measurements without one."""
    judge_titles: Sequence[str | None]
    """The same in words: of the judges' mean, whose it is."""
    protocols: Sequence[str]
    measures: Mapping[str, Sequence[MeasureHead]]
    """By protocol; only those that have a value somewhere."""
    summary: Mapping[str, str]
    """By protocol: the measure that the leaderboard is sorted by."""
    judge: Mapping[str, int]
    """By protocol: whose numbers are shown unless another judge is chosen, the same as on the brief."""
    wording: str | None
    """In whose words the judges were asked; None without a judge."""
    rows_apart: bool
    """Whether `<board>/rows` exists, see BoardChunk."""
    levels: Sequence[str]
    """Levels of rows: overall first, then the benchmark's own, then number of references, tag."""
    fingerprint: str
    has_pictures: bool
    figures: Sequence[tuple[str, int]]
    """Protocol and judge of each chunk `<board>/figures/<k>`, in order."""
    models_said: str
    """How many models there are, in words; of an audit how many changes."""
    audit: bool
    """Whether `<board>/audit` exists: a run of it is an audit of judges."""


class SiteHead(TypedDict):
    """Chunk `site`: the only one that every page loads."""

    version: str
    live: bool
    """Whether annotations can be saved in the run (else they stay in the browser until exported)."""
    boards: Sequence[BoardHead]
    failure_kinds: Mapping[str, str]
    """Every kind of failure with one sentence about it."""


class BoardRow(TypedDict):
    """One number: a row of the table, `model` and `judge` by their numbers in the head."""

    model: int
    judge: int
    protocol: str
    metric: str
    slice: Mapping[str, str]
    value: float | None
    ci95: tuple[float, float] | None
    bounds: tuple[float, float] | None
    rank: int | None
    """Overall rows only; None without a value or with too few cases, see `unranked`."""
    unranked: str | None
    """Why an overall row has no rank, in words that follow the model's name."""
    rank95: tuple[int, int] | None
    """Ranks that the model could hold, at 95 % for all models together; overall summary rows only."""
    first: float | None
    """The share of resamples in which the model comes first; overall summary rows only."""
    n_cases: int
    n_seeds: int
    n_expected: int
    """= n_scored + failures + n_not_asked; counts are of pictures, each case as often as there are seeds."""
    failures: Mapping[str, int]
    n_scored: int
    n_not_asked: int
    n_not_applicable: int
    n_imputed: int
    """Of the failures: those that have a value all the same, by the official aggregate or as the worst."""
    remark: str | None


class PublishedRow(TypedDict):
    label: str
    """Name as the paper prints it."""
    model: int | None
    """The model of the board that it is about, if any."""
    source: int
    """Place in `BoardChunk.sources`."""
    metric: str
    slice: Mapping[str, str]
    value: float
    table: str


class PublishedSource(TypedDict):
    """How published numbers were measured."""

    judge: str
    """Empty for what is measured without one, "human" for people."""
    differs: Mapping[str, str]
    """By `"<protocol>/<judge number>"` of the board: what is not the same there, in words that follow "with"; empty
    where it is the same measurement. Only such a number may stand beside the board's own."""


class LookView(TypedDict):
    """A case to look at first, and what a few models made of it."""

    why: str
    """best, worst or disputed"""
    case: str
    instruction: str
    given: PictureView | None
    """The first picture that the models were given, if it is at hand."""
    n_given: int
    models: Sequence[LookAt]


class LookAt(TypedDict):
    model: int
    picture: PictureView | None
    value: float | None
    failed: str | None


class BoardChunk(TypedDict):
    """Chunk `<board>/board`: everything of the overview and the methods page but pictures.

    Of a benchmark with very many rows (`BoardHead.rows_apart`) it has the overall rows and those of the summary
    measure; the others, each measure on each slice, are in `<board>/rows`, so that the first view stays small.
    """

    rows: Sequence[BoardRow]
    published: Sequence[PublishedRow]
    sources: Sequence[PublishedSource]
    changes: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    fingerprint_parts: Mapping[str, Any]
    prompts: Sequence[Mapping[str, str]]
    """`{title, text}`: one real request to each judge for each part, as it was sent."""
    faults: Sequence[Mapping[str, str]]
    """`{fault, effect, paper}`: what the released code gets wrong, what `corrected` and what `paper` do about it."""
    cards: Sequence[Mapping[str, str]]
    """`{judge, said, path}`: the audit's card of each judge that has one, in short, and the file of the whole."""
    painting: Sequence[Mapping[str, Any]]
    """`{model, n, seconds, cost_usd, refusals}`: seconds and dollars a picture, None where not known."""
    looks: Mapping[str, Sequence[LookView]]
    """By `"<protocol>/<judge number>"`: the best, the worst and the most disputed case, to look at first."""


class RowsChunk(TypedDict):
    """Chunk `<board>/rows`, where `BoardHead.rows_apart`: what `BoardChunk.rows` leaves out."""

    rows: Sequence[BoardRow]


class GapRow(TypedDict):
    """One pair of models, the first minus the second, overall, in one measure."""

    first: int
    second: int
    judge: int
    protocol: str
    metric: str
    gap: float
    ci95: tuple[float, float] | None
    p: float | None
    p_adjusted: float | None
    resolved: bool
    """Whether the sentence claims a difference: it needs the adjusted p and the interval to say so."""
    undone: str
    """What could undo a gap that chance alone does not explain, in words; "" for all other pairs."""
    effect: float | None
    n: int
    sentence: str
    drivers: Sequence[Mapping[str, Any]]
    """`{slice, gap, share, n}`: the slices that make most of the gap."""


class CompareChunk(TypedDict):
    """Chunk `<board>/compare`."""

    pairs: Sequence[GapRow]
    limits: Sequence[str]
    """What a reader should know before believing a pair."""


class FailuresChunk(TypedDict):
    """Chunk `<board>/failures`."""

    by_kind: Sequence[Mapping[str, Any]]
    """`{model, judge, protocol, metric, kind, n, n_expected}`"""
    by_slice: Sequence[Mapping[str, Any]]
    """`{model, judge, protocol, level, name, n_expected, n_scored, n_not_asked, failures}` of the summary measure"""
    test: Sequence[Mapping[str, Any]]
    """`{protocol, judge, statement, p}`: whether failures depend on the model."""
    flags: Sequence[Mapping[str, Any]]
    """`{model, flag, n, of, cases: [ids]}`: outputs nearly equal to a source or reference."""
    unchecked: str
    """Which outputs could not be compared with what their model was given, or not yet; empty where all were."""
    causes: Sequence[Mapping[str, Any]]
    """`{protocol, judge, kind, n, models, metrics, cause, case, model, seed, detail}`: pictures (or replies about them)
    that failed alike, most first: how many, of which models (`[number, n]`), and one of them."""
    n_causes: int
    """How many such groups there are; `causes` has a hundred at most of each kind, protocol and judge."""


class AgreementChunk(TypedDict):
    """Chunk `<board>/agreement`: empty lists where there is one judge and no human."""

    pairs: Sequence[Mapping[str, Any]]
    """`{first, second, level, metric, group, n, pearson, spearman, kendall, mse, mae, kappa, qwk, alpha, icc}`, each
    figure `{value, ci95}` or None"""
    components: Sequence[Mapping[str, Any]]
    """`{model, judge, metric, source, share, variance, buys}`: variance by case, seed, judge, repeat. `judge` is None
    (over all judges), `buys` what one more of the source would do, in words, or None."""
    notes: Sequence[str]


class FigureRow(TypedDict):
    """One number of a figure; the mark that shows it has the same panel, series and category among its data."""

    panel: str
    series: str
    category: str
    value: float | None
    low: float | None
    high: float | None
    across: float | None
    """Its other number, of a point in a plane."""
    digits: int
    why: str
    """Why there is no value."""
    about: str
    to: Mapping[str, str]
    """State of the page of cases that shows what is behind it, or `{pair}` on the page of comparisons; may be empty."""


class FigureView(TypedDict):
    name: str
    title: str
    shows: str
    """What it is for, in words that need no more than the page; may be empty."""
    svg: str
    """As `refbench figure` draws it, but in the colours and marks of the pages."""
    rows: Sequence[FigureRow]


class FiguresChunk(TypedDict):
    """Chunk `<board>/figures/<k>`: the figures of one protocol and judge."""

    protocol: str
    judge: int
    figures: Sequence[FigureView]
    why_not: Mapping[str, str]
    """Of the figures that cannot be drawn: why, by name."""


class VariantView(TypedDict):
    """A variant of a case's output, as an audited judge was shown it."""

    model: int
    """The model of the board that it is."""
    base: str
    """The variant that it was made of."""
    marks: Mapping[str, Sequence[float | str | None]]
    """By criterion, for each repeat: the mark, the kind of failure, or None where nobody asked yet."""
    shown: Sequence[PictureView] | None
    """The pictures of the request in the order and form in which the judge saw them; None where they are the case's
    own."""
    said: str
    """What is changed in words; may be empty."""


class JudgeAuditView(TypedDict):
    """What an audit says of one judge; without a report, `why` there is none."""

    run: str
    judge: int
    why: str
    report: Mapping[str, Any] | None
    """The audit's report, as `refbench audit show --json` has it. Outputs of cells (`worst`) are in `variants`."""
    variants: Mapping[str, Mapping[str, VariantView]]
    """By case and variant: those of the cells' worst outputs, their clean outputs, and what attacks were made of."""
    figures: Sequence[FigureView]
    left_out: Mapping[str, Mapping[str, int]]
    """By variant: how many cases have none, by reason."""
    without_ability: Sequence[str]
    """Criteria of which nothing says what they are about."""
    at_hand: bool
    """Whether the variants are there: else what was shown in the place of references, and what was left out, is not
    known."""
    sentence: str
    """Figures to paste."""


class AuditChunk(TypedDict):
    """Chunk `<board>/audit`, where `BoardHead.audit`."""

    judges: Sequence[JudgeAuditView]


class IndexChunk(TypedDict):
    """Chunk `<board>/index/<k>`: cases k * INDEX_SIZE and on, as parallel arrays."""

    start: int
    ids: Sequence[str]
    instructions: Sequence[str]
    """The first 160 characters, the last of them an ellipsis where there are more."""
    groups: Mapping[str, Mapping[str, Any]]
    """By name of the group: `{"names": [...], "of": [number of the name or -1, one a case]}`"""
    n_references: Sequence[int]
    """Pictures given that are neither the source nor a mask."""
    values: Mapping[str, Sequence[Sequence[float | None]]]
    """`"<protocol>/<judge number>"`: for each model the summary measure of each case (null: none)."""
    failed: Mapping[str, Sequence[Sequence[str | None]]]
    """Same keys and shape: the kind of failure of the summary measure, where it failed."""
    waiting: Mapping[str, Sequence[Sequence[int]]]
    """Same keys: for each model the positions in this chunk of the cases that have not been asked for yet."""
    flags: Sequence[Sequence[int]]
    """For each model, each case: bits of FLAGS."""
    words: Sequence[str]
    """For each case, lower-cased text to search in: instruction, groups, tags, id, judge's words; cut to 600."""


class PictureView(TypedDict):
    role: str
    name: str
    thumb: str
    """Path from the page, 320 px at most; empty where the file is not at hand."""
    full: str
    width: int
    height: int


class OutputView(TypedDict):
    model: int
    seed: int
    step: int | None
    pictures: Sequence[PictureView]
    failure: Mapping[str, str] | None
    seconds: float | None
    cost_usd: float | None
    provenance: Mapping[str, str]
    references: Mapping[str, str]
    """By who says it: which references it uses, in words, and which is missing; empty where nobody was asked."""


class ScoreView(TypedDict):
    model: int
    judge: int
    protocol: str
    metric: str
    seed: int
    value: float | None
    failure: Mapping[str, str] | None
    not_applicable: str | None
    not_asked: bool
    answers: Sequence[str | None]


class ReplyView(TypedDict):
    """A judge's words, whole."""

    model: int
    judge: int
    part: str
    protocol: str
    seed: int
    repeat: int
    reply: str | None
    failure: Mapping[str, str] | None


class QuestionView(TypedDict):
    """A question that a judge answered. Those of one metric are in the order of `ScoreView.answers`; where a metric
    has one question and no answers (marks, IDEA-Bench's `q3#1`: question 3 in the first of three calls), its value
    is the answer."""

    metric: str
    text: str
    expected: str | None
    weight: float | None
    gate: str | None
    """What must hold for this question to count (IDEA-Bench), in words."""


class CaseView(TypedDict):
    id: str
    instruction: str
    references: Sequence[PictureView]
    targets: Sequence[PictureView]
    groups: Mapping[str, str]
    tags: Sequence[str]
    questions: Sequence[QuestionView]
    outputs: Sequence[OutputView]
    scores: Sequence[ScoreView]
    replies: Sequence[ReplyView]


class CasesChunk(TypedDict):
    """Chunk `<board>/cases/<k>`: cases k * CASES_SIZE and on."""

    start: int
    cases: Sequence[CaseView]


class AnnotationView(TypedDict):
    """Chunk `annotations` holds a list of these; live pages POST one to `/annotations`."""

    board: str
    case: str
    star: bool
    tags: Sequence[str]
    comment: str
