"""What is known of a benchmark's release: where its files are, how many cases it has, its prompts, pictures and faults,
the numbers of papers, and how its own result files are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TypeAlias

from refbench.benchmarks.kit.definition import (
    PICTURE_ANOMALIES,
    Anomaly,
    Asking,
    Data,
    Dataset,
    ImportedReplies,
    Reporting,
    Source,
    group_counts,
    picture_anomalies,
)
from refbench.benchmarks.kit.imports import imported_reply, only_model
from refbench.benchmarks.kit.looks import Look
from refbench.benchmarks.kit.published import PublishedValue, published_rows, read_faults
from refbench.benchmarks.kit.wording import Prompts
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError

OTHER_COUNT = "other_count"
Loads: TypeAlias = Callable[[Path], Dataset | Iterable[AnyCase]]


class Given(NamedTuple):
    """A reply in a release's own result files: to which call about which case, in which pass, and where it is."""

    case: str
    part: str
    reply: str | Failure
    origin: str
    repeat: int = 0
    model: str = ""
    """Empty where the files do not say."""


@dataclass(frozen=True)
class Release:
    """`package` holds published.csv and faults.toml where there are any. `counts` has the cases of each value of a
    group, as the release has them. `given` reads the release's result files in a folder; `judge` wrote them."""

    package: str = ""
    sources: tuple[Source, ...] = ()
    prompts: Prompts | None = None
    look: Look | None = None
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    landmark: str = ""
    is_checkout: Callable[[Path], object] = lambda path: True
    output_names: Callable[[AnyCase], list[str]] = lambda case: [case.id]
    given: Callable[[Dataset, Path], Iterable[Given]] | None = None
    judge: str = ""
    given_protocol: str = ""
    """The only protocol that the result files say anything about, where they hold marks and no replies."""
    published_on: Mapping[str | None, int] = field(default_factory=dict)
    outputs: str = ""
    """Of a benchmark that ranks judges: the spec of the only model there is."""

    def data(self, layout: str) -> Data:
        """All about the files but how they are loaded."""
        return Data(
            _not_loaded,
            layout=layout,
            landmark=self.landmark,
            is_checkout=self.is_checkout,
            sources=self.sources,
            output_names=self.output_names,
            outputs=self.outputs,
            anomalies=self.anomalies,
            anomaly_kinds={**PICTURE_ANOMALIES, OTHER_COUNT: _COUNTED} if self.counts else PICTURE_ANOMALIES,
            describe=lambda dataset: dict(group_counts(dataset.cases, dict.fromkeys(self.counts))),
        )

    def read_whole(self, load: Loads | None) -> Loads | None:
        """`load`, with an error that names the folder where its files are in another form than those of the release;
        what a benchmark outside the tree raises is told with its own line."""
        if load is None or not self.package:
            return load

        def read(root: Path) -> Dataset | list[AnyCase]:
            try:
                found = load(root)
                return found if isinstance(found, Dataset) else list(found)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise RefBenchError(f"{root} is not as the release has it: {error!r}; fetch it again") from error

        return read

    def anomalies(self, dataset: Dataset) -> list[Anomaly]:
        """Groups with another number of cases than the release has, then pictures that are not there."""
        here = group_counts(dataset.cases, dict.fromkeys(self.counts))
        found = [
            Anomaly(kind=OTHER_COUNT, case=value, part=group, detail=f"{number} cases, {wanted.get(value, 0)} released")
            for group, wanted in self.counts.items()
            for value in dict.fromkeys([*wanted, *here[group]])
            if (number := here[group].get(value, 0)) != wanted.get(value, 0)
        ]
        return [*found, *picture_anomalies(dataset)]

    def reporting(self) -> Reporting:
        if not self.package:
            return Reporting()
        package, files = self.package, resources.files(self.package)

        def published() -> list[PublishedValue]:
            return published_rows(package) if files.joinpath("published.csv").is_file() else []

        has_faults = files.joinpath("faults.toml").is_file()
        return Reporting(
            published=published,
            published_on=self.published_on,
            faults=lambda: read_faults(package) if has_faults else [],
        )

    def asking(self, asking: Asking) -> Asking:
        """What is asked, with the settings of the prompts and the reader of result files."""
        settings = self.prompts.settings() if self.prompts is not None else ()
        return replace(asking, settings=settings, import_replies=self._replies if self.given is not None else None)

    def _replies(
        self, dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None
    ) -> ImportedReplies:
        """The replies in a folder of result files. One that is there twice counts once: a release that was started
        again appends what it had."""
        assert self.given is not None
        if not folder.is_dir():
            raise RefBenchError(f"{folder} is not there: give --replies the folder of the result files")
        name, known = judge or self.judge, dataset.by_id()
        first: dict[tuple[str, str, str, int], Given] = {}
        try:
            for one in self.given(dataset, folder):
                first.setdefault((one.model, one.case, one.part, one.repeat), one)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RefBenchError(f"{folder} is not as the release writes its results: {error!r}") from error
        if not first:
            raise RefBenchError(f"{folder} has no result files of {dataset.benchmark}: give --replies their folder")
        default = only_model(models, folder.name, "these files are") if not all(key[0] for key in first) else ""
        told = [one for one in first.values() if not (models and one.model and one.model not in models)]

        def replies() -> Iterator[tuple[Purpose, Evidence]]:
            for one in told:
                if one.case in known:
                    purpose = Purpose(
                        case=one.case, model=one.model or default, judge=name, part=one.part, repeat=one.repeat
                    )
                    further = {"part": one.part, "repeat": str(one.repeat)}
                    yield imported_reply(dataset.benchmark, purpose, one.reply, one.origin, **further)

        unknown = dict.fromkeys(one.case for one in told if one.case not in {*known, *dataset.outside})
        return ImportedReplies(
            judge=name,
            models=tuple(dict.fromkeys(one.model or default for one in told)),
            replies=replies,
            protocol=self.given_protocol,
            unknown=tuple(unknown),
            outside=tuple(dict.fromkeys(one.case for one in told if one.case in dataset.outside)),
        )


_COUNTED = "the release has another number of such cases: the table is about those that are here"


def _not_loaded(root: Path, subset: str | None) -> Dataset:
    raise RefBenchError("give load=")
