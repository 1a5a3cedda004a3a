"""Arrays out of pickles without running them, and into safetensors.

Only stand-ins of ours are ever called, anything else is refused. Knows pickles of nested dicts of numpy arrays,
and state dicts of torch in its old and its zip format.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.record import RefBenchError, canonical_json

Arrays = dict[str, NDArray[Any]]

_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled magic number of torch before 1.6
_NUMPY_TYPES = frozenset({"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})
_STORAGES = {
    "HalfStorage": "<f2",
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "CharStorage": "<i1",
    "ShortStorage": "<i2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
    "ByteStorage": "<u1",
}


class _RefusedError(Exception):
    """The pickle asks for something other than an array."""


class _Dict(dict[Any, Any]):
    """Stands in for OrderedDict: what is set on it besides its items is dropped."""

    def __setstate__(self, state: object) -> None:
        return


class _DType:
    """Stands in for a numpy dtype under construction: plain numbers, either byte order."""

    def __init__(self, code: object, *_flags: object) -> None:
        if code not in _NUMPY_TYPES:
            raise _RefusedError(f"an array of {code!r}")
        self.code, self.order = str(code), "<"

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|"):
            raise _RefusedError(f"byte order {state[1]!r}")
        self.order = str(state[1])


class _Array:
    """Stands in for a numpy array under construction."""

    def __init__(self, *_of: object) -> None:
        self.values: NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, fortran, data = state
        if not isinstance(dtype, _DType) or not isinstance(data, bytes):
            raise _RefusedError("an array of objects")
        flat = np.frombuffer(data, np.dtype(dtype.order + dtype.code))
        self.values = flat.reshape(tuple(map(int, shape)), order="F" if fortran else "C")


class _Storage:
    """A torch storage: a type, a key, a length; its numbers lie elsewhere in the file."""

    def __init__(self, pid: Any) -> None:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], _StorageType):
            raise _RefusedError("a persistent object that is no storage")
        self.dtype, self.key, self.length = np.dtype(pid[1].code), str(pid[2]), int(pid[4])
        if self.length < 0:
            raise _RefusedError("a storage of negative length")
        if len(pid) > 5 and pid[5] is not None:
            raise _RefusedError("a view of a storage")


class _StorageType:
    """Stands in for a torch storage class."""

    def __init__(self, code: str) -> None:
        self.code = code


class _Tensor:
    """Stands in for a torch tensor: a window on a storage."""

    def __init__(self, storage: Any, offset: Any, size: Any, stride: Any, *_rest: object) -> None:
        if not isinstance(storage, _Storage):
            raise _RefusedError("a tensor without a storage")
        self.storage, self.offset = storage, int(offset)
        self.size, self.stride = tuple(map(int, size)), tuple(map(int, stride))

    def read(self, storages: Mapping[str, bytes]) -> NDArray[Any]:
        flat = np.frombuffer(storages[self.storage.key], self.storage.dtype)
        last = self.offset + sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        if min((*self.size, *self.stride, self.offset), default=0) < 0 or (0 not in self.size and last >= flat.size):
            raise _RefusedError("a tensor that reaches beyond its storage")
        if math.prod(self.size) > flat.size:  # strides of 0 would make terabytes of one number
            raise _RefusedError("a tensor that is larger than its storage")
        steps = tuple(step * flat.itemsize for step in self.stride)
        return np.array(np.lib.stride_tricks.as_strided(flat[self.offset :], self.size, steps), order="C")


class _Unpickler(pickle._Unpickler):
    """Every name in the pickle becomes a stand-in of ours or an error; nothing is imported.

    The one written in Python: that in C makes a table as long as the largest number that a pickle gives to a memo,
    32 GB at the most. There are thousands of steps in a file of weights, not millions.
    """

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="latin1")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        stand_in: type | None = {
            ("collections", "OrderedDict"): _Dict,
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _DType,
            ("numpy.core.multiarray", "_reconstruct"): _Array,
            ("numpy._core.multiarray", "_reconstruct"): _Array,
            ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
        }.get((module, name))
        if stand_in is not None:
            # A subclass made for this pickle alone: whatever it sets on the class ends with it.
            return type(stand_in.__name__, (stand_in,), {})
        if module == "torch" and name in _STORAGES:
            return _StorageType(_STORAGES[name])
        raise _RefusedError(f"it calls {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        storage = _Storage(pid)
        return self.storages.setdefault(storage.key, storage)


def read_pickle(path: Path) -> Arrays:
    """All arrays of the file by name, nested names joined by a slash. Refuses a file that holds anything else."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_OLD_TORCH))
            file.seek(0)
            if start == _OLD_TORCH:
                return dict(_flat(*_old_torch(file)))
            if start.startswith(b"PK"):
                return dict(_flat(*_zip_torch(path)))
            return dict(_flat(_Unpickler(file).load(), {}))
    except _RefusedError as error:
        raise RefBenchError(f"{path.name} is refused, it is not only arrays: {error}") from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a hostile pickle can end in any exception
        raise RefBenchError(f"{path.name} cannot be read as a pickle of arrays: {type(error).__name__}") from None


def _old_torch(file: io.BufferedReader) -> tuple[Any, dict[str, bytes]]:
    # Five pickles (magic, version, sizes of the writing system, the object, keys), then each storage.
    for _ in range(3):
        _Unpickler(file).load()
    reader = _Unpickler(file)
    state = reader.load()
    storages = {}
    for key in _Unpickler(file).load():
        storage = reader.storages[key]
        (length,) = struct.unpack("<q", file.read(8))
        if length != storage.length:
            raise _RefusedError("a storage of another length than stated")
        storages[key] = file.read(length * storage.dtype.itemsize)
    return state, storages


def _zip_torch(path: Path) -> tuple[Any, dict[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise _RefusedError("compressed members, which torch does not write")
        (inside,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = inside.removesuffix("data.pkl")
        if folder + "byteorder" in archive.namelist() and archive.read(folder + "byteorder") != b"little":
            raise _RefusedError("numbers in big-endian order")
        reader = _Unpickler(io.BytesIO(archive.read(inside)))
        state = reader.load()
        return state, {key: archive.read(f"{folder}data/{key}") for key in reader.storages}


def _flat(found: Any, storages: Mapping[str, bytes], name: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    if isinstance(found, dict):
        for key, value in found.items():
            if not isinstance(key, str):
                raise _RefusedError(f"a name that is no text: {key!r}")
            yield from _flat(value, storages, f"{name}/{key}" if name else key)
    elif isinstance(found, _Tensor):
        yield name, found.read(storages)
    elif isinstance(found, _Array) and found.values is not None:
        yield name, found.values
    else:
        raise _RefusedError(f"{name or 'the whole'} is no array")


_SAFETENSORS = {"f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64"}
_SAFETENSORS |= {"u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64"}


def safetensors_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The arrays as a safetensors file, in the order of their names.

    Written here and not by the safetensors package, because the registry states the file's hash, so that the same
    arrays must give the same bytes with every version of every library.
    """
    header: dict[str, Any] = {}
    parts = []
    end = 0
    for name in sorted(arrays):
        array = arrays[name]
        kind = f"{array.dtype.kind}{array.dtype.itemsize}"
        data = np.ascontiguousarray(array).astype(f"<{kind}").tobytes()
        header[name] = {
            "dtype": _SAFETENSORS[kind],
            "shape": list(array.shape),
            "data_offsets": [end, end + len(data)],
        }
        end += len(data)
        parts.append(data)
    head = canonical_json(header)
    head += b" " * (-len(head) % 8)  # the numbers begin at a multiple of eight, as the format wants them
    return b"".join((struct.pack("<Q", len(head)), head, *parts))
