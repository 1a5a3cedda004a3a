"""From people's marks to a training set: no picture in two parts, every type in each, bad references for training."""

from __future__ import annotations

import asyncio
import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from refbench.builders.filter_judge.dataset import FilterSet, Sample, plain, write_set
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.screening import marks_of
from refbench.calls.transport import Transport
from refbench.chat.vlm import make_vlm
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.blend import drawing
from support.commands import called
from support.filter_marks import write_marks
from support.planner import content, saying


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> FilterSet:
    root = tmp_path_factory.mktemp("set")
    write_set(write_marks(root), root / "pictures", root / "set", made=0.25)
    return FilterSet(root / "set")


def test_every_type_is_in_each_part_in_its_share(made: FilterSet) -> None:
    counts = Counter((s.part, s.type) for s in made.samples if not s.made)
    for kind in ("canny", "caption"):
        assert [counts[part, kind] for part in ("train", "calibration", "test")] == [32, 4, 4]  # type: ignore[index]


def test_references_of_one_original_are_in_one_part(made: FilterSet) -> None:
    parts: dict[str, set[str]] = {}
    for sample in made.samples:
        parts.setdefault(sample.original, set()).add(sample.part)
    assert all(len(of_original) == 1 for of_original in parts.values())


def test_labels_are_the_distribution_of_the_raters(made: FilterSet) -> None:
    marked = [s for s in made.samples if s.marks]
    assert any(max(labels) == 0.5 for s in marked for labels in s.labels.values())
    for sample in marked:
        for axis, by_rater in sample.marks.items():
            assert sample.labels[axis] == tuple([*by_rater.values()].count(k) / len(by_rater) for k in range(1, 6))
            assert sample.means()[axis] == pytest.approx(np.mean([*by_rater.values()]))


def test_made_negatives_are_for_training_alone_and_at_most_a_quarter(made: FilterSet) -> None:
    negatives = [s for s in made.samples if s.made]
    assert {s.part for s in negatives} == {"train"}
    assert 0.15 < len(negatives) / len(made.part("train")) <= 0.25
    assert len({s.made.partition(",")[0] for s in negatives}) >= 3
    assert all(plain(next(iter(s.labels.values()))) <= 2 for s in negatives)
    by_id = {s.id: s for s in made.samples}
    for one in negatives:
        assert (one.reference, one.caption) != (
            by_id[one.id.split("-")[0]].reference,
            by_id[one.id.split("-")[0]].caption,
        )


def test_weights_raise_what_is_rare(made: FilterSet) -> None:
    training = made.part("train")
    kinds = Counter((s.type, min(map(plain, s.labels.values()))) for s in training)
    assert np.mean([s.weight for s in training]) == pytest.approx(1, abs=1e-4)
    weights = {
        kind: {s.weight for s in training if (s.type, min(map(plain, s.labels.values()))) == kind} for kind in kinds
    }
    (often,), (rarely,) = weights[kinds.most_common()[0][0]], weights[kinds.most_common()[-1][0]]
    ratio = kinds.most_common()[0][1] / kinds.most_common()[-1][1]
    assert rarely / often == pytest.approx(ratio**0.5, rel=1e-3)
    assert {s.weight for s in made.samples if s.part != "train"} == {1.0}


def test_the_same_marks_in_another_order_give_the_same_set(tmp_path: Path, made: FilterSet) -> None:
    path = write_marks(tmp_path)
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *rows[::-1]]) + "\n")
    write_set(path, tmp_path / "pictures", tmp_path / "set", made=0.25)
    assert FilterSet(tmp_path / "set").sha256 == made.sha256


@pytest.mark.parametrize("copy", ["the file", "a near copy"])
def test_a_planted_leak_is_refused(tmp_path: Path, copy: str) -> None:
    parts = ["train"] * 30 + ["calibration"] * 5 + ["test"] * 5
    path = write_marks(tmp_path, extra={"part": parts})
    write_set(path, tmp_path / "pictures", tmp_path / "clean")
    leaked = drawing(3) if copy == "the file" else np.clip(drawing(3).astype(int) + 9, 0, 255).astype(np.uint8)
    (tmp_path / "pictures" / "37.png").write_bytes(encode(leaked, "png" if copy == "the file" else "jpeg"))
    with pytest.raises(RefBenchError, match=r"37.png \(test\) and 3.png \(train\) are the same picture or near copies"):
        write_set(path, tmp_path / "pictures", tmp_path / "set")


def test_near_copies_are_drawn_into_one_part(tmp_path: Path) -> None:
    path = write_marks(tmp_path)
    for number in range(1, 40, 2):  # every second picture a brighter copy of the one before
        (tmp_path / "pictures" / f"{number}.png").write_bytes(
            encode(np.clip(drawing(number - 1).astype(int) + 9, 0, 255).astype(np.uint8), "jpeg")
        )
    write_set(path, tmp_path / "pictures", tmp_path / "set")
    groups = Counter(s.group for s in FilterSet(tmp_path / "set").samples if s.type == "canny" and not s.made)
    assert set(groups.values()) == {2}


def test_a_set_in_which_somebody_moved_a_sample_is_refused(tmp_path: Path) -> None:
    write_set(write_marks(tmp_path), tmp_path / "pictures", tmp_path / "set")
    path = tmp_path / "set" / "samples.jsonl"
    lines = path.read_text().splitlines()
    moved = next(n for n, line in enumerate(lines) if Sample.model_validate_json(line).part == "train")
    lines[moved] = lines[moved].replace('"train"', '"test"')
    path.write_text("\n".join(lines))
    with pytest.raises(RefBenchError, match="are the same picture or near copies"):
        FilterSet(tmp_path / "set")


def test_what_is_shown_in_training_is_what_screening_sends(
    made: FilterSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for kind in ("canny", "caption"):
        sample = next(s for s in made.samples if s.type == kind)
        said = sample.shown(made.root)
        with saying(sample.reply()) as server:

            async def go(sample: Sample = sample, url: str = server.url) -> object:
                async with (
                    Transport(timeout=10) as transport,
                    Interviews(tmp_path / sample.id, transport) as interviews,
                ):
                    vlm = make_vlm(Spec.parse(f"openai:tiny?base_url={url}/v1", "--judge"), transport)
                    given = sample.caption if sample.reference is None else made.root / sample.reference
                    return await marks_of(interviews, vlm, "a", sample.type, made.root / sample.original, given)

            marks = asyncio.run(go())
            parts = content(server.requests[0])
        assert list(marks.values()) == [plain(labels) for labels in sample.labels.values()]  # type: ignore[attr-defined]
        assert parts == [p.read_bytes() if isinstance(p, Path) else p for p in said]


def test_parquet_has_the_columns_of_trl(made: FilterSet) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(made.root / "train.parquet").to_pylist()
    assert len(rows) == len(made.part("train"))
    row = next(row for row in rows if row["type"] == "canny")
    (user,), (assistant,) = row["prompt"], row["completion"]
    assert [part["type"] for part in user["content"]] == ["text", "text", "image", "text", "image"]
    assert set(json.loads(assistant["content"][0]["text"])) == {"alignment", "quality"}
    assert all(not isinstance(decode(picture["bytes"]), str) for picture in row["images"])
    assert len(row["images"]) == 2


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("score", "6", "the mark 6 is none"),
        ("score", "3.5", "the mark 3.5 is none"),
        ("type", "cany", "did you mean canny"),
        ("original", "../away.png", "does not lie below"),
        ("original", "gone.png", "cannot be used"),
        ("reference", "", "needs its reference"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, column: str, value: str, said: str) -> None:
    path = write_marks(tmp_path, 10)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0][column] = value
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(RefBenchError, match=f"line 2: .*{said}"):
        write_set(path, tmp_path / "pictures", tmp_path / "set")


def test_two_marks_of_one_rater_contradict(tmp_path: Path) -> None:
    path = write_marks(tmp_path, 10)
    with path.open("a") as file:
        file.write("p0,canny,alignment,r0,1,0.png,0-canny.png,\n")
    with pytest.raises(RefBenchError, match="r0 marks alignment of one reference twice, 5 and 1"):
        write_set(path, tmp_path / "pictures", tmp_path / "set")


def test_a_reference_without_a_mark_on_an_axis_is_counted_and_left_out(tmp_path: Path) -> None:
    path = write_marks(tmp_path)
    rows = [r for r in path.read_text().splitlines() if not r.startswith("p0,canny,quality")]
    path.write_text("\n".join(rows) + "\n")
    about = write_set(path, tmp_path / "pictures", tmp_path / "set")
    assert about["left_out"] == ["left out: 1 reference without a mark on quality"]
    assert sum(about["references"][part]["canny"] for part in about["references"]) == 39


def test_the_command_says_what_is_in_the_set_and_agree_reads_its_test_part(tmp_path: Path) -> None:
    path = write_marks(tmp_path)
    _, said, _ = called("filter", "data", path, "--pictures", tmp_path / "pictures", "--out", tmp_path / "set")
    assert "240 marks by 2 raters on references of 40 originals" in said
    assert "refbench calibrate" in said
    _, table, _ = called("agree", tmp_path / "set" / "test.csv", "--level", "item", "--by", "type", "--scale", "same")
    assert "caption" in table


def test_a_dozen_originals_are_enough_for_three_parts(tmp_path: Path) -> None:
    write_set(write_marks(tmp_path, 12), tmp_path / "pictures", tmp_path / "set")
    counts = Counter(s.part for s in FilterSet(tmp_path / "set").samples if s.type == "canny" and not s.made)
    assert set(counts) == {"train", "calibration", "test"}
    assert counts["train"] >= 8
