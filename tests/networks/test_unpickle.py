"""The restricted unpickler: arrays come out, nothing else is ever called."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import pickle
import struct
import subprocess
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.networks.unpickle import read_pickle, safetensors_bytes
from refbench.record import RefBenchError

ARRAYS = {
    "kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
    "foreign order": np.arange(5, dtype=">i4"),
    "half": np.array([0.5, -2], np.float16),
    "single": np.array(7, np.int64),
}


def saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "weights.ckpt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", [3, 4])
def test_nested_numpy_arrays_come_out_as_numpy_reads_them(tmp_path: Path, protocol: int) -> None:
    found = read_pickle(saved(tmp_path, pickle.dumps({"a": OrderedDict(ARRAYS)}, protocol=protocol)))
    assert list(found) == [f"a/{name}" for name in ARRAYS]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[f"a/{name}"], array)
        assert found[f"a/{name}"].dtype == array.dtype


class _Runs:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.how = call, arguments

    def __reduce__(self) -> Any:
        return self.how


def _hostile(place: str) -> dict[str, bytes]:
    return {
        "os.system": pickle.dumps(_Runs(os.system, f"touch {place}")),
        "eval": pickle.dumps({"a": _Runs(eval, f"open({place!r}, 'w')")}),
        "subprocess": pickle.dumps([_Runs(subprocess.Popen, ["touch", place])], protocol=3),
        "old style": b"cos\nsystem\n(S'touch " + place.encode() + b"'\ntR.",
        "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x08touch /x\x85R.",
        "instance": b"(S'touch " + place.encode() + b"'\nios\nsystem\n.",
        "numpy's load": pickle.dumps(_Runs(np.load, place)),
        "torch's loader": b"ctorch.storage\n_load_from_bytes\n(S'x'\ntR.",
        "getattr": b"cbuiltins\ngetattr\n(cnumpy\nndarray\nS'tofile'\ntR.",
        "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
        "extension": b"\x80\x02\x82\x01.",
    }  # fmt: skip


@pytest.mark.parametrize("how", list(_hostile("")))
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(tmp_path: Path, how: str) -> None:
    ran = tmp_path / "ran"
    with pytest.raises(RefBenchError, match=r"weights\.ckpt"):
        read_pickle(saved(tmp_path, _hostile(str(ran))[how]))
    assert not ran.exists()


@pytest.mark.parametrize(
    "found",
    [
        {"a": np.array([object()], dtype=object)},
        {"a": np.array([(1, 2.0)], dtype=[("x", "i4"), ("y", "f4")])},
        {"a": np.array(["text"])},
        {"a": "text"},
        {"a": [1, 2]},
        {1: np.zeros(2)},
        np.float32(1),
        5,
    ],
)
def test_what_is_not_only_arrays_is_refused(tmp_path: Path, found: Any) -> None:
    with pytest.raises(RefBenchError, match=r"refused|cannot be read"):
        read_pickle(saved(tmp_path, pickle.dumps(found, protocol=3)))


@pytest.mark.parametrize("data", [b"", b"PK", b"\x80\x04", b"no pickle at all", pickle.dumps(ARRAYS, protocol=3)[:-40]])
def test_a_broken_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(RefBenchError, match="cannot be read as a pickle of arrays"):
        read_pickle(saved(tmp_path, data))


def test_a_pickle_cannot_take_more_memory_than_its_own_size(tmp_path: Path) -> None:
    bombs = {
        "memo": b"\x80\x02}r" + struct.pack("<I", 1 << 24) + b".",  # in C: a table of 2^25 places
        "bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.",
        "frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"x.",
    }
    for bomb in bombs.values():
        tracemalloc.start()
        with contextlib.suppress(RefBenchError):
            assert read_pickle(saved(tmp_path, bomb)) == {}
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 << 20


def test_a_compressed_torch_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "weights.ckpt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickle.dumps({}, protocol=2) + bytes(1 << 20))
    with pytest.raises(RefBenchError, match="compressed"):
        read_pickle(tmp_path / "weights.ckpt")


# A torch tensor as torch pickles it: rebuilt from a storage that is named, not contained.
def _tensor(kind: bytes, key: bytes, length: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    numbers = b"".join(b"K" + bytes([n]) for n in (offset,))
    tuples = b"".join(b"(" + b"".join(b"K" + bytes([n]) for n in values) + b"t" for values in (size, stride))
    storage = b"(X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX" + struct.pack("<I", len(key)) + key
    storage += b"X\x03\x00\x00\x00cpuK" + bytes([length]) + b"tQ"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + numbers + tuples + b"\x89ccollections\nOrderedDict\n)RtR"


def _named(tensor: bytes) -> bytes:
    return b"\x80\x02ccollections\nOrderedDict\n)R(X\x01\x00\x00\x00w" + tensor + b"u}X\x09\x00\x00\x00_metadataNsb."


def _torch_zip(body: bytes, storages: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", body)
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
    return made.getvalue()


def _torch_old(body: bytes, storages: dict[str, bytes], itemsize: int) -> bytes:
    start = [pickle.dumps(x, protocol=2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    parts = [struct.pack("<q", len(data) // itemsize) + data for data in storages.values()]
    return b"".join((*start, body, pickle.dumps(list(storages), protocol=2), *parts))


NUMBERS = np.arange(12, dtype="<f4")


@pytest.mark.parametrize("old", [False, True])
def test_state_dicts_of_torch_come_out_with_their_strides(tmp_path: Path, old: bool) -> None:
    body = _named(_tensor(b"FloatStorage", b"0", 12, 2, (3, 2), (1, 4)))
    storages = {"0": NUMBERS.tobytes()}
    data = _torch_old(body, storages, 4) if old else _torch_zip(body, storages)
    found = read_pickle(saved(tmp_path, data))
    np.testing.assert_array_equal(found["w"], [[2, 6], [3, 7], [4, 8]])


@pytest.mark.parametrize("shape", [(12, 0, (13,), (1,)), (12, 5, (8,), (1,)), (12, 0, (4, 4), (4, 1))])
def test_a_tensor_that_reaches_beyond_its_storage_is_refused(tmp_path: Path, shape: Any) -> None:
    with pytest.raises(RefBenchError, match="beyond its storage"):
        read_pickle(
            saved(tmp_path, _torch_zip(_named(_tensor(b"FloatStorage", b"0", *shape)), {"0": NUMBERS.tobytes()}))
        )


def test_a_tensor_of_one_number_a_million_times_is_refused(tmp_path: Path) -> None:
    many = _torch_zip(
        _named(_tensor(b"FloatStorage", b"0", 12, 0, (200, 200, 200), (0, 0, 0))), {"0": NUMBERS.tobytes()}
    )
    with pytest.raises(RefBenchError, match="larger than its storage"):
        read_pickle(saved(tmp_path, many))


def test_an_unknown_storage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"torch\.QInt8Storage"):
        read_pickle(saved(tmp_path, _torch_zip(_named(_tensor(b"QInt8Storage", b"0", 12, 0, (3,), (1,))), {})))


def test_a_hostile_pickle_inside_a_torch_file_is_refused(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with pytest.raises(RefBenchError, match="system"):
        read_pickle(saved(tmp_path, _torch_zip(pickle.dumps(_Runs(os.system, f"touch {ran}")), {})))
    assert not ran.exists()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("new", [False, True])
def test_files_written_by_torch_come_out_as_torch_reads_them(tmp_path: Path, new: bool) -> None:
    import torch

    state = OrderedDict(w=torch.arange(6.0).reshape(2, 3).T, n=torch.tensor(3))
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=new)
    found = read_pickle(tmp_path / "w.pth")
    for name, tensor in state.items():
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_safetensors_are_written_in_the_order_of_names_whatever_the_order_of_the_dict() -> None:
    data = safetensors_bytes(ARRAYS)
    assert data == safetensors_bytes(dict(reversed(ARRAYS.items())))
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert list(header) == sorted(ARRAYS)
    assert header["fortran"] == {"data_offsets": [20, 68], "dtype": "F64", "shape": [2, 3]}


def test_the_safetensors_package_reads_what_is_written() -> None:
    load = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed").load
    found = load(safetensors_bytes(ARRAYS))
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
