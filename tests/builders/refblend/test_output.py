"""The files of a dataset: every reader finds the same samples in them, and nothing of the machine that wrote them."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from refbench.benchmarks.multiref.cases import load
from refbench.builders.refblend.build import Built
from refbench.builders.refblend.output import shown_on_sheet
from refbench.failure import Failure
from refbench.pictures import decode
from support.blend import built, tree, write_drawings


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Built]:
    """Four subjects with three pictures each, blended into 40 samples."""
    root = tmp_path_factory.mktemp("made")
    for number, name in enumerate(("cup", "hat", "jar", "key")):
        write_drawings(root / "in" / name, 3, start=10 * number)
    out = root / "out"
    done = built(root / "in", out, layout="subjects", licence="CC0-1.0", samples=40, several=("subject=2",))
    return root / "in", out, done


def entries(out: Path, name: str = "benchmark.json") -> list[dict[str, Any]]:
    found = orjson.loads((out / name).read_bytes())
    assert isinstance(found, list)
    return found


def test_multiref_bench_reads_every_sample_and_finds_every_picture(made: tuple[Path, Path, Built]) -> None:
    _, out, done = made
    dataset = load(out)
    assert len(dataset.cases) == done.statistics["samples"] == len(entries(out)) == 40
    for case, entry in zip(dataset.cases, entries(out), strict=True):
        assert case.id == f"synthetic/{entry['id']}"
        assert set(case.details.types) == set(entry["instructions"]["conditions"])
        assert all(reference.usable for reference in case.details.references)
        assert all(reference.official is None for reference in case.details.references), "shown is what is compared"
        assert all(dataset.path(picture).is_file() for picture in (*case.request.pictures, *case.targets))
        assert all(f"<{token}>" in case.request.instruction for token in case.details.tokens)
    assert max(len(case.details.of_type("subject")) for case in dataset.cases) == 2


def test_originals_are_copies_and_references_have_no_loss(made: tuple[Path, Path, Built]) -> None:
    given, out, _ = made
    for entry in entries(out):
        assert (out / entry["original_image_path"]).read_bytes() == (given / entry["source"]).read_bytes()
        for path in entry["instructions"]["image_path_mapping"].values():
            assert path.endswith(".png")
            assert not isinstance(decode((out / path).read_bytes()), Failure)
    assert not (out / entries(out)[0]["original_image_path"]).samefile(given / entries(out)[0]["source"])


def test_no_picture_of_a_test_sample_is_in_a_training_sample(made: tuple[Path, Path, Built]) -> None:
    _, out, _ = made
    seen: dict[str, set[str]] = {"train": set(), "test": set()}
    for entry in entries(out):
        seen[entry["split"]] |= {entry["original_image_path"], *entry["instructions"]["image_path_mapping"].values()}
    assert seen["test"]
    assert not seen["train"] & seen["test"]
    assert {entry["id"] for entry in entries(out, "train.json")} | {
        entry["id"] for entry in entries(out, "test.json")
    } == {entry["id"] for entry in entries(out)}


def test_shards_hold_every_sample_with_its_pictures_and_nothing_of_this_machine(made: tuple[Path, Path, Built]) -> None:
    _, out, _ = made
    samples: dict[str, dict[str, bytes]] = {}
    for shard in sorted((out / "webdataset").glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                assert (member.mtime, member.uid, member.gid, member.uname, member.mode) == (0, 0, 0, "", 0o644)
                key, _, field = member.name.partition(".")
                file = tar.extractfile(member)
                assert file is not None
                samples.setdefault(key, {})[field] = file.read()
    assert {entry["id"] for entry in entries(out)} == set(samples)
    for entry in entries(out):
        mine = samples[entry["id"]]
        assert orjson.loads(mine["json"]) == entry
        assert mine["target.png"] == (out / entry["original_image_path"]).read_bytes()
        for token, path in entry["instructions"]["image_path_mapping"].items():
            assert mine[f"{token}.png"] == (out / path).read_bytes()
        assert len(mine) == 2 + len(entry["instructions"]["image_path_mapping"])


def test_parquet_says_the_same_as_the_json(made: tuple[Path, Path, Built]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    _, out, _ = made
    rows = [row for split in ("train", "test") for row in parquet.read_table(out / f"{split}.parquet").to_pylist()]
    by_id = {row["id"]: row for row in rows}
    for entry in entries(out):
        row = by_id.pop(entry["id"])
        told = entry["instructions"]
        assert row["instruction"] == told["original_prompts"]
        assert (
            dict(zip(row["reference_tokens"], row["reference_file_names"], strict=True)) == told["image_path_mapping"]
        )
        assert row["types"] == told["conditions"]
        assert row["caption"] == entry["conditions"].get("caption")
        assert dict(row["extractors"]) == entry["extractors"]
        assert row["licence"] == "CC0-1.0"
    assert not by_id


def test_statistics_count_what_is_there(made: tuple[Path, Path, Built]) -> None:
    _, out, done = made
    found = done.statistics
    assert orjson.loads((out / "stats.json").read_bytes()) == found
    combinations = Counter("+".join(sorted(e["instructions"]["conditions"])) for e in entries(out))
    assert {name: of["kept"] for name, of in found["sets"].items() if of["kept"]} == combinations
    assert found["splits"]["train"]["samples"] + found["splits"]["test"]["samples"] == 40
    assert found["pictures"]["given"] == 12


def test_the_card_names_licence_settings_and_the_rule_of_the_split(made: tuple[Path, Path, Built]) -> None:
    text = (made[1] / "README.md").read_text()
    assert "Licence as given by the source: CC0-1.0" in text
    assert "differ in at most 10 bits" in text
    assert "sketch_dodge" in text
    assert str(made[0].parent) not in text


def test_no_file_of_the_dataset_tells_where_it_was_made(made: tuple[Path, Path, Built]) -> None:
    given, out, _ = made
    for name in tree(out):
        assert str(given.parent).encode() not in (out / name).read_bytes(), name


def test_another_plan_in_the_same_directory_leaves_nothing_of_the_first(
    made: tuple[Path, Path, Built], tmp_path: Path
) -> None:
    given, _, _ = made
    built(given, tmp_path / "out", samples=12, types=("canny", "caption"))
    built(given, tmp_path / "out", samples=10, types=("sketch_dodge", "caption"), formats=("json",))
    built(given, tmp_path / "fresh", samples=10, types=("sketch_dodge", "caption"), formats=("json",))
    fresh, again = tree(tmp_path / "fresh"), tree(tmp_path / "out")
    assert {n: h for n, h in again.items() if not n.startswith("work/")} == {
        n: h for n, h in fresh.items() if not n.startswith("work/")
    }
    assert not any(name.endswith((".tar", ".parquet")) for name in again)


def test_the_sheet_shows_every_combination_before_any_twice() -> None:
    ids, kinds = [str(n) for n in range(40)], ["a"] * 36 + ["b", "c", "c", "d"]
    shown = [kinds[place] for place in shown_on_sheet(ids, kinds, 0)]
    assert shown[:4] == ["a", "b", "c", "d"]
    assert len(shown) == 24
    assert shown_on_sheet(ids, kinds, 0) != shown_on_sheet(ids, kinds, 1)
