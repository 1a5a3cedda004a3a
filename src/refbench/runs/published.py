"""A published run: plain files from which the run is made again, and what of a run may be in them.

Whoever opens one has it from a stranger. Its JSON lines are read as data, under the same checks as a run's own; its
code, links and archives are never used, and pictures are not opened.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.machine import scratch_prefix
from refbench.output import Output
from refbench.record import Record, RefBenchError, Whole
from refbench.runs.ledger import ANSWERED, SEEDS, SERVED, KnownPicture
from refbench.runs.run import Run
from refbench.text.files import file_bytes, json_file, json_lines

MANIFEST = "refbench.json"
SCHEMA = 1
"""Version of these files, bumped whenever a reader of the old one would be wrong."""
CASES, OUTPUTS, TABLE, SCORES, PICTURES, RUBRIC = (
    *("cases.jsonl", "outputs.jsonl", "table.jsonl", "scores.jsonl", "pictures.jsonl"),
    "rubric.md",
)
_FILE = re.compile(
    r"(cases|outputs|table|scores|pictures)\.jsonl|rubric\.md|README\.md|croissant\.json"
    r"|evidence/\d{5}\.jsonl|pictures/\d{5}\.parquet"
)
NOTES = (
    *(SEEDS, "wanted", "sample design", "stop when resolved: ", "resolved: ", "measures ", "cases chosen"),
    *("imported for", "source of the data", "not measured ", "family of ", SERVED, ANSWERED),
)
"""What the notes of a run begin with that shape its table. Others are about the machine: folders, threads, painters."""
KEPT_OF_OUTPUTS = ("partial", "surplus", "rephrased")
"""What is published of how an output was made: the rest may name folders, prompts and prices."""
_MOST_DRAWS = 20_000
_MOST_NOTES = 10_000
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.~/])(?:~|[A-Za-z]:)?(?:[/\\][\w.+@ -]+){2,}[/\\]?")
_PUBLIC = re.compile(
    r"https://(?:api\.openai\.com|api\.anthropic\.com|generativelanguage\.googleapis\.com|api\.bfl\.ai|openrouter\.ai)"
    r"(?:/[\w./-]*)?"
)
"""Addresses that everyone knows; others tell of the network of whoever judged."""


class Manifest(Record):
    """What `refbench.json` says: the run, how it was tabled, and the hash of every other file."""

    schema_version: Annotated[Whole, Field(ge=1, le=SCHEMA)]
    written_by: str
    benchmark: str
    subset: str | None
    settings: Mapping[str, str]
    code: str
    """Of a benchmark that is not shipped; its file is not published."""
    notes: Annotated[Mapping[str, str], Field(max_length=_MOST_NOTES)]
    inputs: Mapping[str, _Sha256]
    """The hash of each picture of the cases that was opened, by name."""
    draws: Annotated[int, Field(ge=100, le=_MOST_DRAWS)]
    seed: Annotated[Whole, Field(ge=0)]
    refusals: str
    fingerprint: str
    digest: str
    files: Mapping[str, _Sha256]


class Act(Record):
    """A line of the evidence: what was asked and said, and what for."""

    purposes: tuple[Purpose, ...]
    evidence: Evidence


def is_published(path: Path) -> bool:
    return (path / MANIFEST).is_file() and not (path / "run.json").exists()


def holds_run(path: Path) -> bool:
    """Whether a folder is a run, or one that was published."""
    return (path / "run.json").is_file() or is_published(path)


def open_run(path: Path) -> Run:
    """A run, also one that was published: that is made again in a folder of this process, to be read from there."""
    return _made_again(path) if is_published(path) else Run.open(path)


def manifest_of(path: Path) -> Manifest:
    """What the folder says of itself. It is a stranger's word until the numbers are computed again."""
    file = own_file(path, MANIFEST)
    told = json_file(file)
    version = told.get("schema_version") if isinstance(told, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        raise RefBenchError(f"{file} was written by a newer RefBench: install it, pip install -U refbench")
    try:
        return Manifest.model_validate(told)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise RefBenchError(f"{file} is not as RefBench writes it ({place}): download the folder again") from error


def own_file(path: Path, name: str) -> Path:
    """A file of the folder by a name that we gave it; a link would lead out of it."""
    file = path / name
    if not (name == MANIFEST or _FILE.fullmatch(name)):
        raise RefBenchError(f"{path / MANIFEST} names {name[:80]!r}, which is no file of a published run")
    if file.is_symlink() or (path / name.partition("/")[0]).is_symlink():
        raise RefBenchError(f"{file} is a link, and no link is followed: download the folder with --local-dir")
    return file


def unlike_manifest(path: Path, manifest: Manifest) -> list[str]:
    """The files that are not there or are not those that were written."""
    wrong = []
    for name, sha256 in sorted(manifest.files.items()):
        file = own_file(path, name)
        if not file.is_file():
            wrong.append(f"{name} is not there")
        elif _hash(file) != sha256:
            wrong.append(f"{name} is not the file that was published")
    return wrong


def _hash(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def lines_of(path: Path, name: str, kind: type[Record] | None = None) -> Iterator[Any]:
    """The records of one of the folder's files."""
    for number, value in json_lines(own_file(path, name), "download the folder again"):
        try:
            yield value if kind is None else kind.model_validate(value)
        except ValidationError as error:
            raise RefBenchError(f"{path / name}, line {number} is not as RefBench writes it") from error


def evidence_files(manifest: Manifest) -> list[str]:
    return sorted(name for name in manifest.files if name.startswith("evidence/"))


_opened: dict[tuple[Path, str], Run] = {}
"""The runs that this process has made again, by folder and manifest."""


def _made_again(path: Path) -> Run:
    manifest = manifest_of(path)
    known = path.resolve(), manifest.key
    if known in _opened:
        return _opened[known]
    for name in (CASES, OUTPUTS, *evidence_files(manifest), *([RUBRIC] if RUBRIC in manifest.files else [])):
        if name not in manifest.files or _hash_of(path, name) != manifest.files[name]:
            raise RefBenchError(f"{path / name} is not the file that was published: download the folder again")
    folder = Path(tempfile.mkdtemp(prefix=scratch_prefix()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        run = _written(path, manifest, folder / (path.resolve().name or "run"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _opened[known] = run
    return run


def _hash_of(path: Path, name: str) -> str:
    file = own_file(path, name)
    return _hash(file) if file.is_file() else ""


def _written(path: Path, manifest: Manifest, place: Path) -> Run:
    cases: list[AnyCase] = list(lines_of(path, CASES, AnyCase))
    if not cases or len({case.id for case in cases}) < len(cases):
        raise RefBenchError(f"{path / CASES} has no cases, or one of them twice: download the folder again")
    keep = {}
    if manifest.benchmark == "own" and RUBRIC in manifest.files:
        keep["rubric.md"] = file_bytes(own_file(path, RUBRIC)).decode("utf-8", "surrogateescape")
    run = Run.create(
        place,
        manifest.benchmark,
        cases,
        subset=manifest.subset,
        settings=manifest.settings,
        keep=keep,
        code=manifest.code,
    )
    with run.writer() as writer:
        for name, value in manifest.notes.items():
            if name.startswith(NOTES):
                writer.note(name, value)
        for name, sha256 in manifest.inputs.items():
            writer.know(KnownPicture(name, "", "", sha256))
        for output in lines_of(path, OUTPUTS, Output):
            writer.add_output(output)
        for name in evidence_files(manifest):
            for act in lines_of(path, name, Act):
                for purpose in act.purposes:
                    writer.add(act.evidence, purpose)
            writer.commit()
    return Run.open(place)


# What leaves the machine.


class Private:
    """Takes out of records what tells of a machine: addresses, folders, prices. Each address has one number, so that
    two servers stay two."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}

    def name(self, text: str) -> str:
        """A name, an address or a path as it may be published: the last part of a path, a number for an address."""
        return _PATH.sub(lambda match: _last(match[0]), _ADDRESS.sub(lambda match: self._server(match[0]), text))

    def _server(self, address: str) -> str:
        if _PUBLIC.fullmatch(address):
            return address
        return self._servers.setdefault(address, f"server-{len(self._servers) + 1}")

    def within(self, value: Any) -> Any:
        """The same throughout a record, its keys too."""
        if isinstance(value, str):
            return self.name(value)
        if isinstance(value, Mapping):
            return {self.name(key): self.within(item) for key, item in value.items()}
        return [self.within(item) for item in value] if isinstance(value, list | tuple) else value

    def failure(self, failure: Failure | None) -> Failure | None:
        return failure and failure.model_copy(update={"detail": self.name(failure.detail)})

    def output(self, output: Output) -> Output:
        """The output without its price and without how it was made, but for what a table says of it."""
        kept = {name: value for name, value in output.provenance.items() if name in KEPT_OF_OUTPUTS}
        update = {"failure": self.failure(output.failure), "provenance": kept, "cost_usd": None, "worst_usd": None}
        return output.model_copy(update=update)

    def evidence(self, act: Evidence, *, texts: bool) -> Evidence:
        """The act without attempts, prices and where the judge was. Without `texts`, of what it was asked only hashes
        are there: the words are others'."""
        request = {
            key: self.within(value)
            if key in ("endpoint", "model", "parameters", "metric", "networks", "code")
            else value
            for key, value in act.request.items()
        }
        if not texts:
            request = {key: _hashed(value) if key in ("system", "parts") else value for key, value in request.items()}
        return Evidence(
            kind=act.kind,
            request=request,
            reply=act.reply,
            failure=self.failure(act.failure),
            input_tokens=act.input_tokens,
            output_tokens=act.output_tokens,
        )


def _last(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def _hashed(value: Any) -> Any:
    """Texts as their hashes; pictures are hashes already."""
    if isinstance(value, str):
        return {"sha256": hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()}
    if isinstance(value, Mapping):
        return {key: _hashed(item) if key == "text" else item for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hashed(item) if isinstance(item, Mapping) else item for item in value]
    return value


def standing_notes(run: Run, private: Private) -> dict[str, str]:
    """The notes that shape the table."""
    return {
        name: private.name(value) if name.startswith(("not measured ", "source", SERVED, ANSWERED)) else value
        for name, value in run.notes("").items()
        if name.startswith(NOTES)
    }
