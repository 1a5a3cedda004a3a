"""What a benchmark is: the cases read from one place on disk, and how they are asked, scored and shown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from refbench.benchmarks.kit.published import FailureRate, Fault, PublishedValue
from refbench.case import AnyCase, Case, Picture
from refbench.chat import ChatRequest
from refbench.chat.pictures import SentPicture
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges.prompts import filled
from refbench.metrics import Metric, find_metric
from refbench.output import Output
from refbench.pictures import read_facts
from refbench.record import Record, RefBenchError
from refbench.score import Score
from refbench.tables.table import Aggregate, Row
from refbench.text.files import is_file

PICTURE_ANOMALIES = {
    "missing_picture": "the picture is not there: the case cannot be run",
    "unreadable_picture": "the picture cannot be read: the case cannot be run",
}


PROTOCOL = "corrected"
"""The protocol that every benchmark has, and the first of them."""


class Anomaly(Record):
    """One oddity of the data, where it is. What its kind does to scores is the benchmark's `anomaly_kinds`."""

    kind: str
    case: str
    part: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Dataset:
    """Cases with the directory their pictures lie in. Pictures are opened when they are needed, not before."""

    benchmark: str
    root: Path
    picture_root: Path
    """The names of pictures in the cases start from here."""
    cases: tuple[AnyCase, ...]
    subset: str | None = None
    outside: frozenset[str] = frozenset()
    """Ids of cases that are in the data but not in the subset."""
    folder: Path | None = None
    """Where a file of one's own cases lies, and its pictures beside it or anywhere else."""

    def __post_init__(self) -> None:
        """Raises where two cases have one id: outputs, replies and scores go by it, and would be paid for and lost."""
        twice = [name for name, times in Counter(case.id for case in self.cases).items() if times > 1]
        if twice:
            more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
            raise RefBenchError(
                f"{self.benchmark}: more than one case has the id {', '.join(twice[:3])}{more}: give each its own"
            )

    def path(self, picture: Picture) -> Path:
        return self.picture_root / picture.name

    def by_id(self) -> Mapping[str, AnyCase]:
        return {case.id: case for case in self.cases}

    def lacking(self, cases: Sequence[AnyCase] | None = None) -> str:
        """Which of the cases have a picture that is not there, in words; empty when all are."""
        chosen = self.cases if cases is None else cases
        gone = {
            case.id: picture.name
            for case in chosen
            for picture in reversed((*case.request.pictures, *case.targets))
            if not is_file(self.path(picture))
        }
        return unjudged({case: f"{name} is not there" for case, name in gone.items()})

    def elsewhere(self, cases: Sequence[AnyCase] | None = None) -> str:
        """How many pictures of one's own cases lie outside their folder, by path or by link, in words; empty when none
        does. One's own may lie anywhere; a stranger's file could name any picture of this machine, to be sent."""
        if self.folder is None:
            return ""
        folder = self.folder.resolve()
        chosen = self.cases if cases is None else cases
        names = {self.path(picture) for case in chosen for picture in (*case.request.pictures, *case.targets)}
        outside = sum(not path.resolve().is_relative_to(folder) for path in names)
        lie = "picture lies" if outside == 1 else "pictures lie"
        advice = "with a file from someone else, look at them before they are sent"
        return f"{outside} {lie} outside {self.folder}; {advice}" if outside else ""


def check_subset(title: str, subset: str | None, subsets: Iterable[str] = ()) -> None:
    """Raises where a benchmark has no such subset."""
    there = tuple(subsets)
    if subset is not None and subset not in there:
        names = f"the subsets {', '.join(there)}" if there else "no subsets"
        raise RefBenchError(f"--subset {subset}: {title} has {names}")


def folders_in(place: Path) -> list[str]:
    """The names of the folders in a directory, hidden ones left out; none where there is no directory."""
    try:
        with os.scandir(place) as entries:
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RefBenchError(f"{place} cannot be read: {error.strerror}") from error


def ordered_counts(values: Iterable[str], order: Iterable[str] | None = None) -> dict[str, int]:
    """How often each value is there, in the order given or else sorted, numbers by size; zeros are left out."""
    counts = Counter(values)
    by_size = sorted(counts, key=lambda value: (int(value) if value.isdecimal() and len(value) < 20 else 0, value))
    return {name: counts[name] for name in (by_size if order is None else order) if counts[name]}


def group_counts(cases: Sequence[AnyCase], order: Mapping[str, Iterable[str] | None]) -> dict[str, dict[str, int]]:
    """How many cases each value of these groups has, in the order given for the group."""
    return {
        group: ordered_counts((case.groups[group] for case in cases if group in case.groups), values)
        for group, values in order.items()
    }


def unjudged(why: Mapping[str, str]) -> str:
    """A sentence about cases that cannot be judged, since one of their own pictures is missing or broken."""
    if not why:
        return ""
    case, reason = next(iter(why.items()))
    if len(why) == 1:
        return f"1 case has a picture that is missing or broken, {case}: {reason}"
    return f"{len(why)} cases have a picture that is missing or broken, e.g. {case}: {reason}"


def picture_anomalies(dataset: Dataset) -> list[Anomaly]:
    """Pictures that are not there or cannot be read, in the order of the cases."""
    found = []
    for case in dataset.cases:
        for picture in (*case.request.pictures, *case.targets):
            path = dataset.path(picture)
            if not is_file(path):
                found.append(Anomaly(kind="missing_picture", case=case.id, part=picture.role, detail=picture.name))
            elif isinstance(facts := read_facts(path), Failure):
                detail = f"{picture.name}: {facts.detail}"
                found.append(Anomaly(kind="unreadable_picture", case=case.id, part=picture.role, detail=detail))
    return found


# Benchmark: what an evaluation is made of, as plain functions that one can check against the paper.
#
# It has four parts: files to cases (`Data`), what is asked of a judge and measured (`Asking`), scores to a table
# (`Scoring`), and what stands beside the table (`Reporting`).

Derived: TypeAlias = float | Failure | str | None
"""What follows from other scores: a value, why there is none, why it does not apply, or None while one that it needs
has not been asked for."""


def state_of(scores: Mapping[str, Score], part: str) -> Derived:
    """What the score of a part says."""
    score = scores.get(part)
    if score is None:
        return Failure(kind="not_measured", detail=f"{part} has not been measured")
    return score.value if score.value is not None else score.failure or score.not_applicable


def mean_of(states: Sequence[Derived]) -> Derived:
    """The mean where all have a value. Else one that does not concern the case decides, then one that failed."""
    for kind in (str, Failure):
        for state in states:
            if isinstance(state, kind):
                return state
    values = [state for state in states if isinstance(state, float)]
    return sum(values) / len(values) if len(values) == len(states) else None


def numbered(part: str, number: int) -> str:
    """The name of a part that is measured several times of one output: `part`, `part#2`, `part#3`, ..."""
    return part if number == 1 else f"{part}#{number}"


def mean_over(scores: Mapping[str, Score], part: str, count: int) -> Derived:
    """The mean over so many measurements of a part."""
    return mean_of([state_of(scores, numbered(part, number)) for number in range(1, count + 1)])


@dataclass(frozen=True)
class Protocol:
    """How evidence becomes a table: `read` gives the scores, `aggregate` the numbers.

    `versions` names the parts and is bumped whenever their numbers change; it lands in the fingerprint.
    """

    name: str
    read: Callable[[AnyCase, Purpose, Evidence], list[Score]]
    aggregate: Aggregate
    versions: Mapping[str, int]
    formulas: Mapping[str, Aggregate] = field(default_factory=dict)
    """Other ways to the numbers that a reader may choose by name, where paper and released code have different ones."""


@dataclass(frozen=True)
class ImportedReplies:
    """Judge replies found on disk, and what of them could not be used."""

    judge: str | None
    """None where they are no replies but measurements that the released code has made."""
    models: tuple[str, ...]
    replies: Callable[[], Iterator[tuple[Purpose, Evidence]]]
    unknown: tuple[str, ...] = ()
    """Replies for items that are not in the benchmark: skipped, and said."""
    outside: tuple[str, ...] = ()
    """Replies for items that are in the data but not in the subset that was chosen."""
    protocol: str = ""
    """The only protocol that they say anything about; empty for all."""


@dataclass(frozen=True)
class Material:
    """What a judge may be shown of one case and one model: pictures as they are sent, in the order of the case."""

    inputs: tuple[SentPicture, ...]
    outputs: tuple[SentPicture, ...]
    targets: tuple[SentPicture, ...] = ()
    composed: Mapping[str, SentPicture | Failure] = field(default_factory=dict)
    """Pictures that the benchmark has made of them, by names of its own."""
    model: str = ""
    """Whose outputs they are: for what is shown beside them, never for the judge to know."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The texts of the benchmark's prompts, in the words that the run has chosen."""
    official: bool = False
    """Whether these are the authors' words."""
    protocol: str = "corrected"
    """Whose way of asking is wanted, where a benchmark asks in both."""

    def text(self, name: str, **values: str) -> str:
        """A text of the benchmark's prompts with its places filled in."""
        if name not in self.texts:
            there = ", ".join(self.texts) or "none"
            raise RefBenchError(f"no text of the prompts is called {name!r}: there are {there}")
        return filled(self.texts[name], values)

    @property
    def output(self) -> SentPicture:
        """The only output, or the first of several."""
        return self.outputs[0]


@dataclass(frozen=True)
class Asked:
    """One request to a judge, for one part of a case. `protocol` is empty when all protocols ask the same.

    A benchmark that asks the same several times numbers the draws, so that each is a call of its own. `settled` is
    what needs no call: the reply itself, or why there can be none. `families` says which judges are asked so, by who
    made them, where a release asks its judges differently.
    """

    part: str
    request: ChatRequest
    protocol: str = ""
    draw: int = 0
    settled: str | Failure | None = None
    families: Callable[[str], bool] = lambda family: True


@dataclass(frozen=True)
class Judging:
    """How a run judges: `ask` gives the requests for one output, `recorded` the settings that shape them.

    A part that is asked in several requests has them as `part/1`, `part/2`, ...; their replies are read as one.
    """

    ask: Callable[[AnyCase, Material], list[Asked]]
    recorded: Mapping[str, str]
    compose: Callable[[AnyCase, Material, Callable[[bytes, str], Path]], Material] | None = None
    """Makes further pictures to show (stitched ones, cards); `store` keeps one and gives its file."""
    repeats: Mapping[str, int] = field(default_factory=dict)
    """How often judges are asked about the outputs of some models, where that is not as often as the run asks."""
    shows_targets: bool = True
    """Whether the judge sees golden pictures; where it does not, a missing one does not keep a case from judging."""


@dataclass(frozen=True)
class Measured:
    """One metric of an output: the score it gives, the metric's id, and the case's pictures and facts that it reads.

    `pictures` and `facts` (captions, boxes) go by the names of the metric's arguments; `output` is the model's. The
    same metric may give several scores of a case, and a part may be measured differently by each protocol.
    """

    part: str
    metric: str
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""


@dataclass(frozen=True)
class ShownQuestion:
    """What a score answers, for a person who looks at the case; `metric` is the name of that score.

    A metric with several questions has them in the order of `Score.answers`.
    """

    metric: str
    text: str
    expected: str | None = None
    weight: float | None = None
    gate: str | None = None
    """What must hold for it to count, in words."""


class Condition(NamedTuple):
    """A measure of those outputs whose other measure is at least so much, in the units of the table."""

    of: str
    given: str
    at_least: float


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a benchmark's paper that can be drawn of any run: a measure on the slices of a level, or several.

    With one level there is a panel for each measure, with several levels one for each of them; without any, the
    measures themselves stand side by side, on all cases. Without `measures` it is the one that models are ranked by.
    """

    name: str
    shows: str
    kind: Literal["bars", "lines", "radar", "rows", "heatmap"]
    by: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    paper: str = ""
    """Where the paper has it: Figure 7."""
    interval: Literal[95, 99] = 95


@dataclass(frozen=True)
class Setting:
    """One choice of how a judge is asked, as `--set NAME=VALUE` and as an option of its own: `--name VALUE`.

    The first of the choices is the default. `folder` says what a directory has to hold that may be named instead, and
    `checkout` what is read from a copy of the release, named as `official:CHECKOUT`.
    """

    name: str
    choices: tuple[str, ...]
    help: str
    folder: str = ""
    checkout: str = ""

    @property
    def default(self) -> str:
        return self.choices[0]

    @property
    def values(self) -> str:
        """What may be given, in words."""
        official = (f"official:CHECKOUT ({self.checkout})",) if self.checkout else ()
        folder = (f"a directory with {self.folder}",) if self.folder else ()
        return " or ".join((*self.choices, *official, *folder))

    @property
    def open(self) -> bool:
        """Whether something else than one of the choices may be given."""
        return bool(self.folder or self.checkout)

    def allows(self, value: str) -> bool:
        return value in self.choices or self.open


@dataclass(frozen=True)
class Source:
    """Where the authors publish files: a dataset on the Hub, and code on GitHub."""

    dataset: str
    """`owner/name` on the Hub; what `refbench fetch` brings."""
    code: str = ""
    """`owner/name` on GitHub, where there is released code."""
    licence: str = "unknown"
    """Of the data, as the authors state it."""
    name: str = ""
    """Of what is not the benchmark itself: `training` is fetched as BENCHMARK-training."""
    leave: tuple[str, ...] = ()
    """Patterns of files that nobody needs here: weights that are published with the data."""
    only: tuple[str, ...] = ()
    """Patterns of the files that are the benchmark's, where the dataset holds much else; all when empty."""
    unpack: bool = False
    """Whether the files come in zip archives."""

    @property
    def page(self) -> str:
        return f"https://huggingface.co/datasets/{self.dataset}"

    def by_hand(self, folder: str) -> str:
        """The line that brings the same files without RefBench."""
        leave = "".join(f" --exclude '{pattern}'" for pattern in self.leave)
        leave += "".join(f" --include '{pattern}'" for pattern in self.only)
        unpack = f" && (cd {folder} && unzip -q '*.zip' && rm *.zip)" if self.unpack else ""
        return f"hf download {self.dataset} --repo-type dataset{leave} --local-dir {folder}{unpack}"


@dataclass(frozen=True)
class Data:
    """Files to cases. Loaders read files; all else in a benchmark is a pure function."""

    load: Callable[[Path, str | None], Dataset]
    case_type: type[Any] = Case[dict[str, Any]]
    is_checkout: Callable[[Path], object] = lambda path: True
    """Gives something true for a folder that holds the data, for example where in it they are."""
    layout: str = ""
    """What a checkout must hold, for error messages."""
    landmark: str = ""
    """A file that gives a checkout of this benchmark away where another was expected."""
    subsets: Mapping[str, str] = field(default_factory=dict)
    anomalies: Callable[[Dataset], list[Anomaly]] = picture_anomalies
    anomaly_kinds: Mapping[str, str] = field(default_factory=lambda: PICTURE_ANOMALIES)
    """Every kind of anomaly with what it does to the scores."""
    describe: Callable[[Dataset], dict[str, Any]] = lambda dataset: {}
    output_names: Callable[[AnyCase], list[str]] = lambda case: [case.id]
    """Where the official layout has a model's output, without extension, best first."""
    output_extensions: tuple[str, ...] = ()
    """The order in which the released code looks for a picture that is there in several formats."""
    listed_outputs: Callable[[Path, Sequence[AnyCase]], Mapping[str, str] | None] | None = None
    """Where a list in the release's own form has the output of each case; None for a file in another form."""
    sources: tuple[Source, ...] = ()
    """Where the files are published; the first are the benchmark's own."""
    outputs: str = ""
    """Of a benchmark that ranks judges: the spec of the only model there is, whose outputs come with the data."""


Ability: TypeAlias = Literal["IA", "RC", "BM", "PR", "VQ"]
"""What a criterion is about: instruction alignment, reference consistency, background match, physical realism, visual
quality."""


@dataclass(frozen=True)
class Asking:
    """What is asked of a judge about an output, and what is measured of it."""

    parts: Mapping[str, tuple[str, ...]]
    """What the judge is asked for each case, and which metrics each part gives: all are expected of every case."""
    judging: Callable[[Path, Mapping[str, str]], Judging] | None = None
    """From the data's directory and the user's settings; None for a benchmark without a judge."""
    settings: tuple[Setting, ...] = ()
    given: Callable[[Sequence[AnyCase], Mapping[str, str]], Sequence[AnyCase]] = lambda cases, settings: cases
    """The cases as a run with these settings gives them to models and judges."""
    not_applicable: Callable[[AnyCase], Mapping[str, str]] = lambda case: {}
    """Metrics that do not concern a case, with the reason."""
    not_asked: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda settings: {}
    """Metrics that a run's settings leave out, with the reason."""
    measuring: Callable[[AnyCase], list[Measured]] | None = None
    """The metrics that concern a case; None for a benchmark that only asks a judge."""
    measured: frozenset[str] = frozenset()
    """Which of the parts are measured, not judged."""
    import_replies: Callable[[Dataset, Path, Sequence[str] | None, str | None], ImportedReplies] | None = None
    """Reads replies that were released, or made by the released scripts; None where there are none."""
    official_replies: bool = True
    """Whether replies that are imported were asked for in the authors' words; not where those were never released."""
    abilities: Mapping[str, Ability] = field(default_factory=dict)
    """What a judge's criteria are about, for audits of judges; those that are not named are in none."""
    questions: Callable[[AnyCase], list[ShownQuestion]] = lambda case: []
    """What was asked about a case, so that a page can show it beside the answers."""

    def chosen(self, given: Mapping[str, str], title: str) -> dict[str, str]:
        """Every setting as it is given or by default."""
        known = {setting.name: setting for setting in self.settings}
        for name, value in given.items():
            if name not in known:
                raise RefBenchError(f"--set {name}: {title} has {_settings_said(known)}")
            if not known[name].allows(value):
                raise RefBenchError(f"--set {name}={value}: choose {known[name].values}")
        return {name: given.get(name, setting.default) for name, setting in known.items()}


def _settings_said(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"the settings {listed}" if listed else "no settings"


@dataclass(frozen=True)
class Scoring:
    """Scores to a table."""

    protocols: Mapping[str, Protocol]
    derived: Callable[[AnyCase, str, Mapping[str, Score]], Mapping[str, Derived]] | None = None
    """From a case, a protocol and the scores of one picture by metric, in whatever states: further scores of it."""
    lower: frozenset[str] = frozenset()
    """Measures of which less is better."""
    judges_mean: bool = False
    """Whether the benchmark's number is the mean of its judges; each judge is tabled as well."""
    further_rows: Callable[[Sequence[Row]], list[Row]] = lambda rows: []
    """Rows that follow from those of the table, for example each measure as a share of the truth's."""
    settled: Callable[[AnyCase, str, Mapping[str, Score]], Mapping[str, Derived]] | None = None
    """As `derived`, from scores that are means over a judge's repeats: which of two pictures it likes better."""


@dataclass(frozen=True)
class Reporting:
    """What stands beside a table: numbers of the paper, faults of the release, what each correction did."""

    published: Callable[[], list[PublishedValue]] = list
    published_on: Mapping[str | None, int] = field(default_factory=dict)
    """How many cases published numbers are about, by subset (None: all) or by the name of the slice that they are of,
    where the paper says so."""
    released: Callable[[str | None], tuple[Sequence[AnyCase], Sequence[Score]]] | None = None
    """Released item scores of real models (of a subset, or all), where there are any: what precision to expect is read
    off them."""
    explain_changes: Callable[[Sequence[AnyCase], Sequence[Score]], list[dict[str, Any]]] | None = None
    """From the scores of both protocols: what each correction did to each model."""
    notes: Callable[[Sequence[AnyCase], Sequence[Output]], list[str]] = lambda cases, outputs: []
    """What a reader of the table should know about how the outputs came about."""
    faults: Callable[[], list[Fault]] = list
    """What the released code gets wrong, and what each protocol does about it."""
    conditions: tuple[Condition, ...] = ()
    """Measures that mean most where another is high enough: keeping everything is easy for who changes nothing."""
    failure_rates: Callable[[Sequence[Score], str], list[FailureRate]] | None = None
    """Of the scores of a protocol: how many of its questions each judge failed to answer, as the paper counts them."""
    figures: tuple[PaperFigure, ...] = ()
    """The paper's figures that any run can be drawn as, beside those of every benchmark."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark: files to cases, what is asked of them, scores to a table, and what stands beside it."""

    name: str
    title: str
    paper: str
    data: Data
    asking: Asking
    scoring: Scoring
    reporting: Reporting = Reporting()
    code: str = ""
    """What tells the code of a benchmark that is not shipped, or a rubric, from an earlier state of it; goes into the
    fingerprint. Shipped ones have the versions of their protocols."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Files (name to text) that a run keeps, so that a benchmark which is not shipped can be made again."""
    beside: tuple[str, ...] = ()
    """Files that its own imports and that no run keeps; their content is in `code`."""


def measured_by(bench: Benchmark, cases: Iterable[AnyCase]) -> list[tuple[str, Metric]]:
    """The parts that the cases are measured in, with the metrics, one for each protocol where these differ.

    Raises where a metric does not exist or has no such arguments: that is the benchmark's mistake and not a network
    that is absent, and nothing should start with it.
    """
    found: dict[tuple[str, str, str], Metric] = {}
    lacking: dict[tuple[str, str], frozenset[str]] = {}
    if bench.asking.measuring is None:
        return []
    for case in cases:
        wanted = bench.asking.measuring(case)
        for (part, _), times in Counter((measured.part, measured.protocol) for measured in wanted).items():
            if times > 1:  # one of them would stand, and nobody could say which
                raise RefBenchError(
                    f"{bench.title}: {case.id} is measured {times} times as {part}: give each a part of its own, and "
                    "take their mean by derived="
                )
        for measured in wanted:
            for metric in _variants(bench, measured):
                _check_arguments(bench, measured, metric)
                found[measured.part, metric.id, metric.protocol] = metric
                lacks = frozenset(metric.needs()) - {*measured.pictures, *measured.facts}
                place = measured.part, metric.id
                lacking[place] = lacking.get(place, lacks) & lacks
    for (part, metric_id), lacks in lacking.items():
        if lacks:
            raise RefBenchError(
                f"{bench.title}: {part} is measured by {metric_id}, which needs {' and '.join(sorted(lacks))}: no case "
                "gives it"
            )
    return [(part, metric) for (part, _, _), metric in found.items()]


def _variants(bench: Benchmark, measured: Measured) -> list[Metric]:
    """The metric as each protocol measures it; a protocol that has none does without."""
    found: list[Metric] = []
    wrong: RefBenchError | None = None
    for protocol in (measured.protocol,) if measured.protocol else bench.scoring.protocols:
        try:
            found.append(find_metric(measured.metric, protocol))
        except RefBenchError as error:
            wrong = error
    if not found and wrong is not None:
        raise RefBenchError(f"{bench.title}: {measured.part} cannot be measured: {wrong}") from wrong
    if measured.part not in bench.asking.measured:
        there = ", ".join(sorted(bench.asking.measured)) or "none"
        raise RefBenchError(f"{bench.title}: it measures {measured.part!r}, but its measured parts are {there}")
    return found


def _check_arguments(bench: Benchmark, measured: Measured, metric: Metric) -> None:
    for kind, given, known in (
        ("picture", measured.pictures, metric.pictures()),
        ("fact", measured.facts, metric.facts()),
    ):
        if unknown := sorted(set(given) - known):
            ways = ", ".join(sorted(known)) or f"no {kind}s"
            raise RefBenchError(
                f"{bench.title}: {measured.part} gives {metric.id} the {kind} {unknown[0]!r}, but it takes {ways}"
            )
    for name, picture in measured.pictures.items():
        if not isinstance(picture, Picture):
            raise RefBenchError(
                f"{bench.title}: {measured.part} gives {metric.id} {picture!r} as {name}: give a picture of the case, "
                "one of case.request.pictures or case.targets"
            )
