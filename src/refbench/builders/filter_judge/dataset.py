"""The training set as files: samples with labels and weights, their pictures, people's marks of the test part as CSV,
and the columns that TRL takes as Parquet."""

from __future__ import annotations

import csv
import hashlib
import importlib
import importlib.util
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from refbench.builders.filter_judge.marks import LEVELS, MarkedReference, axes_of, left_out_said, read_marks
from refbench.builders.filter_judge.negatives import MadeReference, label_of, made_negatives
from refbench.builders.filter_judge.parts import PARTS, Part, Seen, check_leaks, groups_of, seen_in, split
from refbench.builders.kit.folder import Shipment, as_json, as_lines, claim
from refbench.builders.refblend.screening import rubric, shown
from refbench.builders.refblend.types import TYPES, Type
from refbench.failure import Failure
from refbench.pictures import EXTENSIONS, Pixels, encode, read_pixels
from refbench.record import Record, RefBenchError
from refbench.runs.disk import whole_file
from refbench.text.console import csv_cell
from refbench.text.files import file_bytes, json_file, json_lines

VERSION = 1
MOST_MADE = 0.25
"""Share of the training part that may be made negatives."""
SAMPLES, ABOUT = "samples.jsonl", "set.json"
_ROWS = 100
Labels = tuple[float, float, float, float, float]


class Sample(Record):
    """What a judge is shown, and what people said of it. Paths lie below the folder of the set."""

    id: str
    part: Part
    type: Type
    original: str
    reference: str | None
    caption: str = ""
    labels: Mapping[str, Labels]
    """The raters' distribution over the levels 1 to 5, by axis in the order of the reply."""
    marks: Mapping[str, Mapping[str, int]] = {}
    """By axis and rater; none of what is made."""
    weight: float = 1.0
    """How often it is drawn in training, 1 on average."""
    group: int
    """Samples that share an original, or near copies of one, have the same number."""
    looks: tuple[int, ...] = ()
    """Hashes of the pictures that must not be in two parts."""
    made: str = ""
    """How it was made of another sample; empty for those that people marked."""

    def means(self) -> dict[str, float]:
        return {axis: mean_of(labels) for axis, labels in self.labels.items()}

    def shown(self, root: Path) -> list[str | Path]:
        """What the judge is shown: what screening sends."""
        return shown(self.type, root / self.original, self.caption if self.reference is None else root / self.reference)

    def reply(self) -> str:
        """The reply of a judge that agrees with people, in the form that the request asks for."""
        return reply_of({axis: plain(labels) for axis, labels in self.labels.items()})


def mean_of(labels: Sequence[float]) -> float:
    return sum(level * share for level, share in zip(LEVELS, labels, strict=True))


def plain(labels: Sequence[float]) -> int:
    """The whole mark nearest to the mean."""
    return math.floor(mean_of(labels) + 0.5)


def reply_of(marks: Mapping[str, int]) -> str:
    return "{" + ", ".join(f'"{axis}": {mark}' for axis, mark in marks.items()) + "}"


def prompts() -> dict[str, str]:
    """The hash of what a judge is asked, by type: another request is another judge."""
    return {kind: hashlib.sha256(rubric(kind).text.encode()).hexdigest()[:16] for kind in TYPES}


class FilterSet:
    """A set that `filter data` has written, checked again: another hand may have moved samples between the parts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        about = json_file(root / ABOUT, "give a folder that refbench filter data has written")
        if not isinstance(about, dict) or about.get("version") != VERSION or not isinstance(about.get("prompts"), dict):
            raise RefBenchError(f"{root / ABOUT} is not of this version: write the set again with refbench filter data")
        self.about: dict[str, Any] = about
        data = file_bytes(root / SAMPLES)
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.samples: tuple[Sample, ...] = tuple(_sample(root, n, row) for n, row in json_lines(root / SAMPLES))
        parts = {sample.id: sample.part for sample in self.samples}
        if len(parts) < len(self.samples):
            raise RefBenchError(f"{root / SAMPLES} has one id twice: write the set again with refbench filter data")
        check_leaks([Seen(s.id, s.original, looks) for s in self.samples for looks in s.looks], parts)
        if made := next((s for s in self.samples if s.made and s.part != "train"), None):
            raise RefBenchError(f"{root / SAMPLES}: {made.id} is made, not marked, and may only be trained on")

    def part(self, part: Part) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if sample.part == part)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        return tuple(sorted({sample.type for sample in self.samples}))

    def check_prompts(self) -> None:
        """Refuse a set that was made for other requests than screening sends now."""
        now = prompts()
        for kind in self.types:
            if self.about["prompts"].get(kind) != now[kind]:
                raise RefBenchError(f"{self.root}: the request about {kind} has changed since: write the set again")


def _sample(root: Path, number: int, row: Any) -> Sample:
    try:
        return Sample.model_validate(row)
    except ValidationError as error:
        what = error.errors()[0]
        where = ".".join(map(str, what["loc"]))
        raise RefBenchError(f"{root / SAMPLES}, line {number}: {where}: {what['msg']}") from error


# --- writing ------------------------------------------------------------------------------------------------------


def write_set(marks: Path, pictures: Path, out: Path, *, made: float = 0.2, seed: int = 0) -> dict[str, Any]:
    """Write the set, and return what is in it: what `set.json` says."""
    if not 0 <= made <= MOST_MADE:
        raise RefBenchError(f"--made {made:g}: give a share of the training part from 0 to {MOST_MADE:g}")
    claim(out, pictures, "filter", (SAMPLES, ABOUT, "pictures"))
    read = read_marks(marks, pictures)
    parts = split(read.samples, seed)
    groups = groups_of(seen_in(read.samples))
    training = [sample for sample in read.samples if parts[sample.id] == "train"]

    def pixels(sample: MarkedReference) -> Pixels:
        assert sample.reference is not None
        found = read_pixels(pictures / sample.reference.name)
        if isinstance(found, Failure):
            raise RefBenchError(f"{pictures / sample.reference.name} cannot be used: {found.detail}")
        return found

    negatives = made_negatives(training, groups, pixels, made, seed)
    files = Shipment(out, out / ".build" / "files.json")
    samples = [_marked(sample, parts[sample.id], groups[sample.id], pictures, files) for sample in read.samples]
    samples += [_negative(one, groups[one.of.id], pictures, files) for one in negatives]
    samples = _weighted(samples)
    about = _about(samples, read.left_out, seed)
    files.put(SAMPLES, as_lines(sample.model_dump(mode="json") for sample in samples))
    for part in PARTS[1:]:
        files.put(f"{part}.csv", marks_csv(s for s in samples if s.part == part).encode())
    files.put(ABOUT, as_json(about))
    files.finish()
    for part in PARTS if importlib.util.find_spec("pyarrow") is not None else ():
        _write_parquet(out / f"{part}.parquet", out, [sample for sample in samples if sample.part == part])
    return about


def _marked(sample: MarkedReference, part: Part, group: int, pictures: Path, files: Shipment) -> Sample:
    return Sample(
        id=sample.id,
        part=part,
        type=sample.type,
        original=_copied(files, pictures, sample.original),
        reference=_copied(files, pictures, sample.reference) if sample.reference else None,
        caption=sample.caption,
        labels={axis: label_of(sample.marks[axis]) for axis in axes_of(sample.type)},
        marks={axis: dict(sorted(sample.marks[axis].items())) for axis in axes_of(sample.type)},
        group=group,
        looks=tuple(one.looks for one in seen_in([sample])),
    )


def _negative(one: MadeReference, group: int, pictures: Path, files: Shipment) -> Sample:
    name, caption = None, ""
    if one.pixels is not None:
        data = encode(one.pixels)
        files.put(name := f"pictures/{hashlib.sha256(data).hexdigest()}.png", data)
    elif one.other is not None and one.other.reference is not None:
        name = _copied(files, pictures, one.other.reference)
    elif one.other is not None:
        caption = one.other.caption
    return Sample(
        id=f"{one.of.id}-{one.way}",
        part="train",
        type=one.of.type,
        original=_copied(files, pictures, one.of.original),
        reference=name,
        caption=caption,
        labels={axis: one.labels[axis] for axis in axes_of(one.of.type)},
        group=group,
        looks=(one.of.original.looks,),
        made=f"{one.way}, {one.of.id}" if one.other is None else f"{one.way}, {one.of.id} with {one.other.id}",
    )


def _copied(files: Shipment, pictures: Path, found: Any) -> str:
    name = f"pictures/{found.sha256}{EXTENSIONS[found.format]}"
    files.put(name, pictures / found.name)
    return name


def _weighted(samples: Sequence[Sample]) -> list[Sample]:
    """Training samples weigh 1/sqrt(count) of their type and lowest mark, so that few bad ones are not drowned."""
    kinds = {s.id: (s.type, min(map(plain, s.labels.values()))) for s in samples if s.part == "train"}
    counts = Counter(kinds.values())
    mean = sum(counts[kind] ** -0.5 for kind in kinds.values()) / len(kinds)
    weight = {name: counts[kind] ** -0.5 / mean for name, kind in kinds.items()}
    return [s.model_copy(update={"weight": round(weight.get(s.id, 1.0), 6)}) for s in samples]


def marks_csv(samples: Iterable[Sample], judged: Mapping[str, Mapping[tuple[str, str], float]] | None = None) -> str:
    """Marks of people, and of judges by sample and axis, as `refbench agree` reads them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", "type", "metric", "rater", "score", "original"])
    for sample in samples:
        for axis, by_rater in sample.marks.items():
            rows: list[tuple[str, float]] = [*by_rater.items()]
            for judge, said in (judged or {}).items():
                if (sample.id, axis) in said:
                    rows.append((judge, said[sample.id, axis]))
            for rater, mark in rows:
                writer.writerow([sample.id, sample.type, axis, csv_cell(rater), f"{mark:g}", sample.original])
    return text.getvalue()


def _about(samples: Sequence[Sample], left_out: Mapping[str, int], seed: int) -> dict[str, Any]:
    counts = Counter((s.part, s.type) for s in samples if not s.made)
    return {
        "version": VERSION,
        "seed": seed,
        "prompts": prompts(),
        "references": {part: {kind: n for (p, kind), n in sorted(counts.items()) if p == part} for part in PARTS},
        "marks": sum(len(by_rater) for s in samples for by_rater in s.marks.values()),
        "raters": len({rater for s in samples for by_rater in s.marks.values() for rater in by_rater}),
        "originals": len({s.original for s in samples}),
        "levels": {
            str(level): n
            for level, n in sorted(
                Counter(mark for s in samples for by_rater in s.marks.values() for mark in by_rater.values()).items()
            )
        },
        "made": dict(sorted(Counter(s.made.partition(",")[0] for s in samples if s.made).items())),
        "left_out": left_out_said(left_out),
    }


def _write_parquet(path: Path, root: Path, samples: Sequence[Sample]) -> None:
    """The columns of TRL's SFTTrainer: pictures with their bytes, and prompt and completion as conversations."""
    pyarrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    text = pyarrow.string()
    part = pyarrow.struct([("type", text), ("text", text)])
    turn = pyarrow.list_(pyarrow.struct([("role", text), ("content", pyarrow.list_(part))]))
    picture = pyarrow.struct([("bytes", pyarrow.binary()), ("path", text)])
    columns = [("images", pyarrow.list_(picture)), ("prompt", turn), ("completion", turn)]
    columns += [("id", text), ("type", text), ("weight", pyarrow.float64()), ("made", text)]
    rows = (_trl_row(sample, root) for sample in samples)
    schema = pyarrow.schema(columns)
    with whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while block := list(islice(rows, _ROWS)):
            writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))


def _trl_row(sample: Sample, root: Path) -> dict[str, Any]:
    said = sample.shown(root)
    content = [{"type": "text", "text": p} if isinstance(p, str) else {"type": "image", "text": None} for p in said]
    reply = [{"type": "text", "text": sample.reply()}]
    return {
        "images": [{"bytes": p.read_bytes(), "path": p.name} for p in said if isinstance(p, Path)],
        "prompt": [{"role": "user", "content": content}],
        "completion": [{"role": "assistant", "content": reply}],
        "id": sample.id,
        "type": sample.type,
        "weight": sample.weight,
        "made": sample.made,
    }
