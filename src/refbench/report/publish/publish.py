"""From a run to a folder that others can read and check: what is in it is written, read back, and tabled from there."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from refbench import __version__
from refbench.benchmarks.registry import SHIPPED
from refbench.calls.keys import Secrets
from refbench.evidence import Purpose
from refbench.machine import scratch_folder, sweep
from refbench.record import Record, RefBenchError, counted
from refbench.report.publish.card import card_of
from refbench.report.publish.croissant import croissant_of
from refbench.report.publish.licences import UNKNOWN, Licence, Licences, read_licences
from refbench.report.publish.pictures import PictureLine, Sources, found_pictures, write_pictures
from refbench.report.site.boards import picture_root
from refbench.runs import Run
from refbench.runs.disk import disk_error, write_whole
from refbench.runs.published import (
    CASES,
    MANIFEST,
    OUTPUTS,
    RUBRIC,
    SCHEMA,
    SCORES,
    TABLE,
    Act,
    Manifest,
    Private,
    standing_notes,
)
from refbench.tables.result import OFFICIAL, Result
from refbench.tables.scoring import Tabling, benchmark_of, run_result, score_run
from refbench.tables.table import DRAWS, SEED

READ_WITHOUT_CODE = frozenset({*SHIPPED, "own"})
"""Benchmarks whose published runs can be read with nothing but RefBench: the readers of others are their own code."""
_PART_BYTES = 100 << 20
"""Evidence in one file, about: each is read whole."""
_HIDDEN = re.compile(r"(?i)key|token|secret|passw|credential|auth")


class Publishing(Record):
    """What may be published of a run, and how it is tabled."""

    licences: Path | None = None
    """Of the cases' pictures."""
    outputs_licence: str = ""
    allow: tuple[str, ...] = ()
    """Further licences under which pictures may be published; `unknown` for those without one."""
    data: Path | None = None
    draws: int = DRAWS
    seed: int = SEED
    refusals: str = "conditional"


class Published(Record):
    """What was written."""

    files: Mapping[str, int]
    """Bytes by name."""
    pictures: int
    left_out: Mapping[str, int]
    """How many pictures are not in it, by reason."""
    fingerprint: str
    notes: tuple[str, ...]


def publish_folder(path: Path, folder: Path, wanted: Publishing | None = None) -> Published:
    """Write the folder, which must not be there yet or be empty; nothing stands under its name until all is written."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise RefBenchError(f"--to {folder}: something is there already: remove it, or choose another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        sweep(folder.parent)
        with scratch_folder(folder.parent) as scratch:
            made = scratch / (folder.name or "published")
            published = write_published(path, made, wanted or Publishing())
            if folder.exists():
                folder.rmdir()
            made.rename(folder)
    except OSError as error:
        raise disk_error(error, folder) from error
    return published


def write_published(path: Path, folder: Path, wanted: Publishing) -> Published:
    """Everything that is published of a run, in a new folder."""
    run = Run.open(path)
    tabling = Tabling("both", wanted.draws, wanted.seed, wanted.refusals)
    bench = benchmark_of(run)
    result = run_result(run, bench, run.cases(bench.data.case_type), tabling)
    secrets = environment_secrets()
    folder.mkdir(parents=True)
    lines = _write_pictures(run, result, folder, wanted, secrets)
    manifest = _write_record(run, result, folder, (wanted, secrets))
    made = _tabled_again(result, folder, manifest, secrets)
    _write_rows(made, folder, secrets)
    texts = _licence_of_texts(made)
    _write_text(folder / "README.md", card_of(made, lines, texts), secrets)
    name = re.sub(r"[^\w.-]+", "-", folder.name) or "refbench"
    described = croissant_of(name, made.bench.title, _hashes(folder), f"{datetime.now(UTC):%Y-%m-%d}")
    write_whole(folder / "croissant.json", orjson.dumps(described, option=orjson.OPT_INDENT_2))
    final = {"fingerprint": made.table.fingerprint, "digest": made.table.digest, "files": _hashes(folder)}
    write_whole(folder / MANIFEST, _json(manifest.model_copy(update=final)))
    left_out = Counter(line.left_out for line in lines if line.left_out)
    return Published(
        files={str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()},
        pictures=sum(not line.left_out for line in lines),
        left_out=dict(left_out.most_common()),
        fingerprint=made.table.fingerprint,
        notes=tuple(_warnings(run, made, texts)),
    )


def environment_secrets() -> Secrets:
    """Values of this process's environment that are called like keys: none of them may leave the machine."""
    return Secrets(value for name, value in os.environ.items() if _HIDDEN.search(name))


def _write_pictures(run: Run, result: Result, folder: Path, wanted: Publishing, secrets: Secrets) -> list[PictureLine]:
    stated = read_licences(wanted.licences) if wanted.licences is not None else {}
    of_data = next((source.licence for source in result.bench.data.sources if not source.name), UNKNOWN)
    sources = Sources(
        run=run,
        root=picture_root([run], result.bench, result.cases, wanted.data),
        inputs=Licences(stated, Licence(licence=of_data), wanted.allow),
        outputs=Licence(licence=wanted.outputs_licence or UNKNOWN),
    )
    return write_pictures(list(found_pictures(sources, result.cases)), folder, secrets)


def _write_record(run: Run, result: Result, folder: Path, how: tuple[Publishing, Secrets]) -> Manifest:
    """Cases, outputs and evidence, and the manifest of them."""
    wanted, secrets = how
    private = Private()
    cases = (folder / CASES, (run.path / "cases.jsonl").read_bytes().splitlines())
    _write_lines(*cases, secrets)
    outputs = sorted(run.outputs(), key=lambda o: (o.case, o.model, o.seed, -1 if o.step is None else o.step))
    _write_lines(folder / OUTPUTS, (_json(private.output(output)) for output in outputs), secrets)
    for number, part in enumerate(_parts(_acts(run, private, texts=result.wording != OFFICIAL)), 1):
        _write_lines(folder / f"evidence/{number:05d}.jsonl", part, secrets)
    if run.info.benchmark == "own" and run.keeps("rubric.md"):
        _write_text(folder / RUBRIC, run.kept("rubric.md").decode("utf-8", "surrogateescape"), secrets)
    manifest = Manifest(
        schema_version=SCHEMA,
        written_by=__version__,
        benchmark=run.info.benchmark,
        subset=run.info.subset,
        settings=private.within(run.info.settings),
        code=run.info.code,
        notes=standing_notes(run, private),
        inputs=run.inputs(),
        draws=wanted.draws,
        seed=wanted.seed,
        refusals=wanted.refusals,
        fingerprint="",
        digest="",
        files=_hashes(folder),
    )
    write_whole(folder / MANIFEST, _json(manifest))
    return manifest


def _acts(run: Run, private: Private, *, texts: bool) -> Iterator[bytes]:
    """Each act once, with all that it was for. Those that are one without what is private have one line each: they
    were asked of two servers, which their numbers keep apart."""
    purposes: dict[str, list[Purpose]] = defaultdict(list)
    for purpose, act in run.evidence():
        purposes[act.id].append(purpose)
    for _, act in run.evidence():
        if serves := purposes.pop(act.id, None):
            yield _json(Act(purposes=tuple(serves), evidence=private.evidence(act, texts=texts)))


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _PART_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _tabled_again(result: Result, folder: Path, manifest: Manifest, secrets: Secrets) -> Result:
    """The result of what was written, which must be the one of the run: so whoever reads it gets the same numbers."""
    if manifest.benchmark not in READ_WITHOUT_CODE:
        return result
    try:
        made = score_run(folder, draws=manifest.draws, seed=manifest.seed, refusals=manifest.refusals)
        same = made.table.digest == result.table.digest and made.table.rows == result.table.rows
    except RefBenchError:
        same = False
    if not same:
        raise RefBenchError(
            "what would be published gives other numbers than the run. Where the value of an environment variable that "
            "is called like a key stands in it, that was cut: unset the variable if it is no secret; else report this"
        )
    return made


def _write_rows(result: Result, folder: Path, secrets: Secrets) -> None:
    _write_lines(folder / TABLE, (_json(row) for row in result.table.rows), secrets)
    _write_lines(folder / SCORES, map(orjson.dumps, score_rows(result)), secrets)


def score_rows(result: Result) -> Iterator[dict[str, Any]]:
    """The scores as they are published: without what a failure said, which may name servers and folders."""
    for item in result.items():
        failure = item["failure"] and {key: item["failure"][key] for key in ("kind", "by_model")}
        yield {**item, "failure": failure}


def _json(record: Record) -> bytes:
    return orjson.dumps(record.model_dump(mode="json"))


def _write_lines(path: Path, lines: Iterable[bytes], secrets: Secrets) -> None:
    text = b"".join(line + b"\n" for line in lines)
    write_whole(path, _without(text, secrets))


def _write_text(path: Path, text: str, secrets: Secrets) -> None:
    write_whole(path, _without(text.encode("utf-8", "surrogateescape"), secrets))


def _without(data: bytes, secrets: Secrets) -> bytes:
    """What holds a secret of the environment is cut where it stands."""
    if not secrets.within(data):
        return data
    return secrets.cut(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _hashes(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            with path.open("rb") as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _licence_of_texts(result: Result) -> str:
    sources = result.bench.data.sources
    if result.bench.name == "own":
        return "those of whoever published this; ask them."
    licence = sources[0].licence if sources else UNKNOWN
    stated = licence if licence != UNKNOWN else "a licence that their authors do not state"
    return f"by the authors of {result.bench.title}, under {stated}."


def _warnings(run: Run, result: Result, texts: str) -> Iterator[str]:
    """What whoever publishes should know."""
    if result.bench.name not in READ_WITHOUT_CODE:
        yield f"nobody can verify it without your code: {result.bench.title} is not shipped with RefBench"
    if result.wording == OFFICIAL:
        yield "the words that judges were asked in are others' and are not in it, only their hashes"
    if "does not state" in texts or "do not state" in texts:
        yield f"texts of the cases: {texts}"
    if result.bench.name == "own":
        yield f"instructions, rubric and replies of {counted(len(result.cases), 'case')} are in it as they are"


def said_of_pictures(published: Published) -> list[str]:
    """How many pictures are in it, and how many are not and why."""
    lines = [f"{counted(published.pictures, 'picture')} in it"]
    return lines + [f"{counted(n, 'picture')} left out: {why}" for why, n in published.left_out.items()]
