"""A user's pictures: what is wrong with a file is said, and near-duplicates are known by their looks."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench.pictures import Pixels, collection, decode, encode, resize
from refbench.pictures.collection import collect, lookalikes, looks_of
from refbench.record import RefBenchError


def noise(seed: int, side: int = 96) -> Pixels:
    rng = np.random.default_rng(seed)
    return resize(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8), (side, side))


def test_every_file_is_used_or_skipped_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "kitten").mkdir()
    (tmp_path / "kitten/貓 ü.png").write_bytes(encode(noise(1)))
    (tmp_path / "copy.png").write_bytes(encode(noise(1)))
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "cut.png").write_bytes(encode(noise(2))[:-30])
    (tmp_path / "tiny.png").write_bytes(encode(noise(3, 16)))
    (tmp_path / "notes.txt").write_text("no picture")
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    (tmp_path / "huge.png").write_bytes(header + bytes(4) + b"\0\0\0\0IDAT\x35\xaf\x06\x1e" + b"\0\0\0\0IEND\xaeB`\x82")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "kitten/loop").symlink_to(tmp_path)
    collection = collect(tmp_path)
    assert [f.name for f in collection.found] == ["copy.png"]
    assert {s.name: s.kind for s in collection.skipped} == {
        "kitten/貓 ü.png": "duplicate",
        "empty.jpg": "unreadable",
        "cut.png": "unreadable",
        "tiny.png": "tiny",
        "gone.png": "unreadable",
        "huge.png": "huge",
        "pipe.png": "unreadable",
    }
    assert all(s.reason for s in collection.skipped)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="is not a folder of pictures"):
        collect(tmp_path / "nowhere")


@pytest.mark.parametrize("seed", range(8))
def test_a_picture_looks_like_itself_re_encoded_and_smaller(seed: int) -> None:
    pixels = noise(seed, 256)
    encoded = decode(encode(pixels, "jpeg", quality=30))
    assert not isinstance(encoded, type(None))
    groups = lookalikes([looks_of(p) for p in (pixels, encoded, resize(pixels, (100, 100)), noise(seed + 100, 256))])  # type: ignore[arg-type]
    assert list(groups) == [0, 0, 0, 1]


def test_looks_are_transitive_and_groups_are_numbered_in_order() -> None:
    looks = [0, (1 << 63) - 1 << 1, 0b1111111111, 0b11111111111111111111]
    assert list(lookalikes(looks)) == [0, 1, 0, 0]


def near(look: int) -> st.SearchStrategy[int]:
    """Looks that differ in up to 12 bits, wherever those are."""
    return st.sets(st.integers(0, 63), max_size=12).map(lambda bits: look ^ sum(1 << bit for bit in bits))


@pytest.mark.parametrize("many", [10**6, 0], ids=["every pair", "by pieces"])
@given(looks=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**12) | near(0x0123456789ABCDEF), max_size=30))
def test_groups_are_those_of_a_plain_search(many: int, looks: list[int]) -> None:
    expected = list(range(len(looks)))
    for _ in looks:
        for i, a in enumerate(looks):
            for j, b in enumerate(looks):
                if (a ^ b).bit_count() <= 10:
                    expected[i] = expected[j] = min(expected[i], expected[j])
    names = {head: number for number, head in enumerate(dict.fromkeys(expected))}
    with mock.patch.object(collection, "_MANY", many):
        assert lookalikes(looks).tolist() == [names[head] for head in expected]
