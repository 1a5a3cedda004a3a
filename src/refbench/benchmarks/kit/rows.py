"""Files to rows and rows to cases: JSON, JSON lines, CSV, Parquet, a Hugging Face dataset; and the data files that
benchmarks ship."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from refbench.case import Case, Picture, Request
from refbench.pictures.facts import EXTENSIONS, sniff
from refbench.record import RefBenchError

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


def csv_rows(package: str, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file that a benchmark's package ships."""
    return list(csv.DictReader(resources.files(package).joinpath(name).read_text("utf-8").splitlines()))


def toml_data(package: str, name: str) -> dict[str, Any]:
    """What a TOML file that a benchmark's package ships has to say."""
    return tomllib.loads(resources.files(package).joinpath(name).read_text("utf-8"))


def file_bytes(path: Path) -> bytes:
    """What a file holds, or an error that names it."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error


def json_file(path: Path) -> Any:
    """What a JSON file holds."""
    data = file_bytes(path)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RefBenchError(f"{path} is not valid JSON ({error}): copy the file again") from error


def case(
    name: str,
    instruction: str,
    pictures: Mapping[str, str | Sequence[str]],
    *,
    groups: Mapping[str, str] | None = None,
    cluster: str = "",
    targets: str | Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    **details: Any,
) -> Case[dict[str, Any]]:
    """A case with this name. `pictures` are paths below the data's directory by role, in the order in which
    the model gets them. `targets` (paths, or paths by role) and whatever else is given, which is in the case's
    `details`, are for scorers alone: no model sees them.

    Cases of one `cluster` are resampled together: those about the same picture, for example. By default each is alone.
    """
    return Case(
        id=name,
        request=Request(instruction=instruction, pictures=_by_role(pictures)),
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
    for number, line in enumerate(_text(path).split("\n"), 1):
        place = f"{path}, line {number}"
        try:
            row = orjson.loads(line) if line.strip() else {}
        except orjson.JSONDecodeError as error:
            raise RefBenchError(f"{place}: not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise RefBenchError(f"{place}: a case is a JSON object, not {type(row).__name__}")
        if line.strip():
            yield place, {key: value for key, value in row.items() if value is not None}


def _csv(path: Path) -> Iterator[Row]:
    reader = csv.DictReader(_text(path).splitlines(keepends=True), strict=True)
    try:
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row or None in row.values():
                raise RefBenchError(f"{where}: it has another number of columns than the first line")
            found: dict[str, Any] = {key.strip(): value for key, value in row.items() if value.strip()}
            found = _nested(found)
            for key in LISTS:
                if isinstance(found.get(key), str):
                    found[key] = [item.strip() for item in found[key].split(";") if item.strip()]
            if isinstance(found.get("groups"), str):
                found["groups"] = _csv_groups(found["groups"], where)
            yield where, found
    except csv.Error as error:
        raise RefBenchError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from error


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the lists and objects that cells hold as JSON, as `refbench cases` writes them into flat files."""
    found = dict(row)
    for key in (*LISTS, "groups", "size"):
        if isinstance(text := found.get(key), str) and text.lstrip().startswith(("[", "{")):
            with contextlib.suppress(orjson.JSONDecodeError):  # a path may begin like that too
                found[key] = orjson.loads(text)
    return found


def _csv_groups(text: str, where: str) -> dict[str, str]:
    pairs = [item.partition("=") for item in text.split(";") if item.strip()]
    if not all(sign and name.strip() for name, sign, _ in pairs):
        raise RefBenchError(f"{where}: write groups as name=value;name=value, not {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RefBenchError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error


def _parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise RefBenchError(f"{path}: reading Parquet needs pyarrow: pip install 'refbench[parquet]'") from error
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise RefBenchError(f"{path} cannot be read as Parquet: {error}") from error
    return _unpacked(rows, str(path), path.with_name(f"{path.name}.pictures"))


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
        yield place, {key: _on_disk(value, folder, place) for key, value in _nested(there).items()}


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
    try:
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            part = file.with_name(f".part-{os.getpid()}-{file.name}")
            part.write_bytes(data)
            part.replace(file)
    except OSError as error:
        raise RefBenchError(f"{where}: its picture cannot be written to {folder}: {error.strerror}") from error
    return {"path": str(file.absolute()), **{k: v for k, v in value.items() if k == "role" and v}}
