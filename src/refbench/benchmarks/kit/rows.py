"""Files to rows and rows to cases: JSON, JSON lines, CSV, Parquet, a Hugging Face dataset; and the data files that
benchmarks ship."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from refbench.case import Case, Picture, Request
from refbench.pictures.facts import EXTENSIONS, sniff
from refbench.record import RefBenchError
from refbench.runs.disk import write_whole
from refbench.text.files import csv_table, file_text, is_file, json_file, json_lines, json_value

Row = tuple[str, Mapping[str, Any]]
"""Where it stands, for error messages, and the row."""

LISTS = ("pictures", "references", "targets", "tags", "questions")
"""Columns that hold several things: in CSV separated by `;`, or as JSON where there is more to say than that."""


def rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a JSON file (a list of objects), of JSON lines, CSV or Parquet; what is not understood is an error
    that names its place."""
    if path.suffix.lower() == ".json":
        found = json_file(path)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise RefBenchError(f"{path}: a list of objects is wanted")
        yield from found
    else:
        yield from (row for _, row in rows_of(path)[0])


def hub_rows(root: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a dataset as it lies on the Hub, in the order of its files: Parquet or Arrow, whose pictures are
    unpacked beside them, or JSON lines. Pictures are paths from `root`; every row has the `columns`."""
    for ending, reader in ((".parquet", _parquet), (".arrow", _arrow), (".jsonl", _jsonl)):
        files = sorted(p for p in root.rglob(f"*{ending}") if not p.relative_to(root).as_posix().startswith("."))
        for file in files:
            for place, row in reader(file):
                if lacking := [name for name in columns if name not in row]:
                    raise RefBenchError(f"{place}: it has no {lacking[0]!r}, only {', '.join(row)}: fetch it again")
                yield {key: _from_root(value, root) for key, value in row.items()}
        if files:
            return
    raise RefBenchError(f"{root} has no .parquet, .arrow or .jsonl file: fetch the dataset again")


def _from_root(value: Any, root: Path) -> Any:
    """A row's value, with pictures that were unpacked as paths from the dataset's root."""
    if isinstance(value, list):
        return [_from_root(item, root) for item in value]
    if isinstance(value, dict) and isinstance(path := value.get("path"), str):
        place = Path(path)
        return place.relative_to(root.absolute()).as_posix() if place.is_absolute() else path
    return value


def csv_rows(package: str, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file that a benchmark's package ships."""
    return list(csv.DictReader(resources.files(package).joinpath(name).read_text("utf-8").splitlines()))


def toml_data(package: str, name: str) -> dict[str, Any]:
    """What a TOML file that a benchmark's package ships has to say."""
    return tomllib.loads(resources.files(package).joinpath(name).read_text("utf-8"))


def case(
    name: str,
    instruction: str,
    pictures: Mapping[str, str | Sequence[str]],
    *,
    groups: Mapping[str, str] | None = None,
    cluster: str = "",
    targets: str | Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    outputs: int = 1,
    **details: Any,
) -> Case[dict[str, Any]]:
    """A case with this name. `pictures` are paths below the data's directory by role, in the order in which
    the model gets them. `targets` (paths, or paths by role) and whatever else is given, which is in the case's
    `details`, are for scorers alone: no model sees them.

    Cases of one `cluster` are resampled together: those about the same picture, for example. By default each is alone.
    `outputs` is how many pictures are asked for.
    """
    return Case(
        id=name,
        request=Request(instruction=instruction, pictures=_by_role(pictures), n_pictures=outputs),
        targets=_by_role(targets if isinstance(targets, Mapping) else {"target": targets}),
        groups=dict(groups or {}),
        cluster=cluster or name,
        details=details,
    )


def _by_role(pictures: Mapping[str, str | Sequence[str]]) -> tuple[Picture, ...]:
    return tuple(
        Picture(name=path, role=role)
        for role, paths in pictures.items()
        for path in ([paths] if isinstance(paths, str) else paths)
    )


def rows_of(path: Path) -> tuple[Iterator[Row], Path]:
    """The rows, and the directory that relative picture paths start from."""
    if path.is_dir() or not path.suffix or not path.exists():
        if path.exists() or _is_hub_name(path):
            return _hugging_face(path)
        raise RefBenchError(f"{path} is not there: give a .jsonl, .csv or .parquet file, or a Hugging Face dataset")
    readers = {".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise RefBenchError(f"{path}: cases come as .jsonl, .csv or .parquet, or as a Hugging Face dataset")
    return reader(path), path.parent


def _is_hub_name(path: Path) -> bool:
    """`owner/name`, as the hub has it; anything else that does not exist is a mistyped path."""
    return len(path.parts) == 2 and not path.is_absolute() and path.parts[0] not in (".", "..") and not path.suffix


def _jsonl(path: Path) -> Iterator[Row]:
    for number, row in json_lines(path):
        place = f"{path}, line {number}"
        if not isinstance(row, dict):
            raise RefBenchError(f"{place}: a case is a JSON object, not {type(row).__name__}")
        yield place, {key: value for key, value in row.items() if value is not None}


def _csv(path: Path) -> Iterator[Row]:
    for number, row in csv_table(file_text(path), str(path), strict=True)[1]:
        where = f"{path}, line {number}"
        if None in row or None in row.values():
            raise RefBenchError(f"{where}: it has another number of columns than the first line")
        found = _nested({key.strip(): value for key, value in row.items() if value.strip()}, where)
        for key in LISTS:
            if isinstance(found.get(key), str):
                found[key] = [item.strip() for item in found[key].split(";") if item.strip()]
        if isinstance(found.get("groups"), str):
            found["groups"] = _csv_groups(found["groups"], where)
        yield where, found


def _nested(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The row with the lists and objects that cells hold as JSON, as `refbench cases` writes them into flat files."""
    found = dict(row)
    for key in (*LISTS, "groups", "size"):
        if isinstance(text := found.get(key), str) and text.lstrip().startswith(("[", "{")):
            with contextlib.suppress(RefBenchError):  # a path may begin like that too
                found[key] = json_value(text, where)
    return found


def _csv_groups(text: str, where: str) -> dict[str, str]:
    pairs = [item.partition("=") for item in text.split(";") if item.strip()]
    if not all(sign and name.strip() for name, sign, _ in pairs):
        raise RefBenchError(f"{where}: write groups as name=value;name=value, not {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _parquet(path: Path) -> Iterator[Row]:
    return _unpacked(_parquet_rows(path), str(path), path.with_name(f"{path.name}.pictures"))


def _arrow(path: Path) -> Iterator[Row]:
    return _unpacked(_arrow_rows(path), str(path), path.with_name(f"{path.name}.pictures"))


def _arrow_rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, ipc
    except ImportError as error:
        raise RefBenchError(f"{path}: reading Arrow needs pyarrow: pip install 'refbench[parquet]'") from error
    try:
        with path.open("rb") as file, ipc.open_stream(file) as batches:
            for batch in batches:
                yield from batch.to_pylist()
    except (OSError, ArrowException) as error:
        raise RefBenchError(f"{path} cannot be read as Arrow: {error}") from error


def unpack_by_path(files: Sequence[Path], wanted: Collection[str], folder: Path) -> None:
    """Write the pictures of Parquet files with the columns `image` and `path` that are wanted, each under its path, and
    not again what lies there; a path that leaves the folder names no picture."""
    inside = [name for name in wanted if name and "\0" not in name and ".." not in name.split("/")]
    missing = {name for name in inside if not is_file(folder / name)}
    for file in files if missing else ():
        for row in _parquet_rows(file, ["image", "path"]):
            name, image = str(row.get("path") or "").lstrip("/"), row.get("image")
            data = image.get("bytes") if isinstance(image, dict) else image
            if name in missing and isinstance(data, bytes):
                _write_once(folder / name, data, str(file))


def _parquet_rows(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file that may be larger than the memory, some at a time."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise RefBenchError(f"{path}: reading Parquet needs pyarrow: pip install 'refbench[parquet]'") from error
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=64, columns=columns):
            yield from batch.to_pylist()
    except (OSError, ArrowException) as error:
        raise RefBenchError(f"{path} cannot be read as Parquet: {error}") from error


def _hugging_face(path: Path) -> tuple[Iterator[Row], Path]:
    try:
        import datasets  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise RefBenchError(
            f"{path}: reading a Hugging Face dataset needs the package: pip install datasets"
        ) from error
    try:
        found = datasets.load_from_disk(str(path)) if path.exists() else datasets.load_dataset(str(path))
    except Exception as error:  # the library has no error of its own
        first = (str(error).splitlines() or [""])[0]
        raise RefBenchError(f"{path} cannot be loaded as a Hugging Face dataset: {first}") from error
    if isinstance(found, dict):
        if len(found) != 1:
            raise RefBenchError(f"{path} has the splits {', '.join(found)}: save the one you want with save_to_disk")
        (found,) = found.values()
    # Pictures as the bytes they are stored as: decoding and encoding again would change them.
    rows = found.with_format("arrow")
    plain = (row for batch in rows.iter(batch_size=256) for row in batch.to_pylist())
    if path.exists():
        return _unpacked(plain, str(path), path.with_name(f"{path.name}.pictures")), path.parent
    home = Path(os.environ.get("REFBENCH_DATA") or Path.home() / ".cache/refbench") / "own" / "--".join(path.parts)
    return _unpacked(plain, str(path), home / "pictures"), home


def _unpacked(rows: Iterable[Mapping[str, Any]], where: str, folder: Path) -> Iterator[Row]:
    """Rows whose embedded pictures lie as files in the folder, named by the hash of their bytes."""
    for number, row in enumerate(rows, 1):
        place = f"{where}, row {number}"
        there = {key: value for key, value in row.items() if value is not None}
        yield place, {key: _on_disk(value, folder, place) for key, value in _nested(there, place).items()}


def _on_disk(value: Any, folder: Path, where: str) -> Any:
    if isinstance(value, list):
        return [_on_disk(item, folder, where) for item in value]
    if not isinstance(value, dict):
        return value
    data = value.get("bytes")
    if not isinstance(data, bytes):
        return {k: _on_disk(v, folder, where) for k, v in value.items() if v is not None and k != "bytes"}
    extension = EXTENSIONS.get(sniff(data) or "")
    if extension is None:
        raise RefBenchError(f"{where}: the embedded picture {value.get('path') or ''} is in no known format")
    file = folder / f"{hashlib.sha256(data).hexdigest()}{extension}"
    _write_once(file, data, where)
    return {"path": str(file.absolute()), **{k: v for k, v in value.items() if k == "role" and v}}


def _write_once(file: Path, data: bytes, where: str) -> None:
    """A file that is there already is left."""
    try:
        if not file.exists():
            write_whole(file, data, flush=False)
    except OSError as error:
        raise RefBenchError(f"{where}: its picture cannot be written to {file.parent}: {error.strerror}") from error
