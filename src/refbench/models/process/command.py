"""`command:`: a program that paints, started for every case or kept alive as a worker that is asked in JSON lines.

Its command line is split once and filled argument by argument; no shell ever sees an instruction.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from refbench.calls.functions import digest
from refbench.calls.pool import Pool
from refbench.calls.process import Process
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.model import Commission, Painted
from refbench.models.process.workers import (
    LinesWorker,
    PaintJob,
    PooledModel,
    environments,
    is_reply,
    lines_workers,
    log_of,
    painted_of,
    read,
    removed_meanwhile,
    request_of,
    settings,
)
from refbench.models.returned import painted
from refbench.pictures import sniff
from refbench.record import RefBenchError, clean_text
from refbench.specs import Spec, model_options

_PLACE = re.compile(r"\{([a-z_]+)(\d*)\}")
PLACES = ("instruction", "request", "output", "folder", "seed", "width", "height", "n_pictures", "pictures", "picture1")


@dataclass(frozen=True)
class CommandLine:
    """The arguments as written, with their places."""

    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, name: str, *, asked: bool) -> CommandLine:
        """Split as a shell would and check that the program and the places exist. `asked`: it will read requests."""
        try:
            arguments = tuple(shlex.split(text))
        except ValueError as error:
            raise RefBenchError(f"--model {name}: the command {text} cannot be split: {error}") from error
        if not arguments:
            raise RefBenchError(f"--model {name}: the command is empty")
        if shutil.which(arguments[0]) is None:
            raise RefBenchError(f"--model {name}: there is no program {arguments[0]} here")
        places = {match[1] for argument in arguments for match in _PLACE.finditer(argument)}
        if asked and places:
            raise RefBenchError(
                f"--model {name}: with mode=worker requests come on standard input, so {{{min(places)}}} has no meaning"
            )
        if not asked:
            _check(arguments, name)
        return cls(arguments)

    def filled(self, values: Mapping[str, str], commission: Commission) -> list[str] | Failure:
        """The arguments of one request; a place that the request has nothing for is a Failure."""
        pictures = [str(shown.path.absolute()) for shown in commission.pictures]
        filled: list[str] = []
        for argument in self.arguments:
            if argument == "{pictures}":
                filled += pictures
                continue
            lacking = ""

            def fill(match: re.Match[str]) -> str:
                nonlocal lacking
                if match[1] == "picture":
                    number = int(match[2])
                    if number <= len(pictures):
                        return pictures[number - 1]
                    lacking = f"the command wants {match[0]}, but this case shows {len(pictures)} pictures"
                elif not values[match[1]]:
                    lacking = f"the command wants {match[0]}, but this case names no size: add ?size=1024x1024"
                return values.get(match[1], "")

            text = _PLACE.sub(fill, argument)
            if lacking:
                return Failure(kind="missing_output", detail=lacking)
            filled.append(clean_text(text).replace("\0", ""))
        return filled

    def sources(self) -> str:
        """The files among the arguments with hashes of their content: they may be edited between two runs."""
        files = []
        for number, argument in enumerate(self.arguments):
            path = Path(argument.rpartition("=")[2] if argument.startswith("-") else argument)
            if _PLACE.search(argument) or not path.is_file():
                continue
            if number == 0 and path.read_bytes()[:2] != b"#!":
                continue  # an interpreter: the same program wherever it is installed
            files.append(f"{path.name}={digest(path)}")
        return " ".join(files)


def _check(arguments: tuple[str, ...], name: str) -> None:
    places: set[str] = set()
    for argument in arguments:
        for match in _PLACE.finditer(argument):
            place, number = match[1], match[2]
            good = place == "picture" if number else place in PLACES and place != "picture1"
            if not good or number == "0":
                raise RefBenchError(f"--model {name}: the command has {match[0]}, there are {{{'}, {'.join(PLACES)}}}")
            if place == "pictures" and argument != "{pictures}":
                raise RefBenchError(
                    f"--model {name}: {{pictures}} becomes several arguments and must stand alone, not as {argument}"
                )
            places.add(place)
    if not places & {"output", "folder"}:
        raise RefBenchError(f"--model {name}: the command has no {{output}}, so it cannot know where to write")
    if not places & {"instruction", "request"}:
        raise RefBenchError(f"--model {name}: the command has no {{instruction}}, so it cannot know what to paint")


class CommandModel(PooledModel):
    """`command:python make.py {instruction} {output}`, or `command:python worker.py?mode=worker`."""

    def __init__(self, spec: Spec, scratch: Path | None = None) -> None:
        super().__init__(spec, scratch)
        options = model_options(spec)
        self._format = options["format"]
        worker = options["mode"] == "worker"
        self._line = CommandLine.parse(spec.what, spec.name, asked=worker)
        self._timeout: float = options["timeout"]
        self._log = log_of(spec)
        version, sources = options["version"], self._line.sources()
        known = {"version": version} if version else {"sources": sources} if sources else {}
        self._identity = {"kind": "command", "what": spec.what, **settings(spec), **known}
        places: list[LinesWorker | Mapping[str, str]] = [*environments(spec)]
        if worker:
            places = [*lines_workers(spec, self._line.arguments, {})]
        self._pool = Pool(places, self._work, begin=_begin, end=_end)

    def _work(self, place: LinesWorker | Mapping[str, str], jobs: list[PaintJob]) -> list[Painted]:
        (job,) = jobs
        commission, seed = job.request
        if commission.size is None and self.traits.size is not None:
            commission = replace(commission, size=self.traits.size)
        abandoned = job.abandoned.is_set
        start = time.perf_counter()
        with scratch_folder(self.scratch) as folder:
            if isinstance(place, LinesWorker):
                reply = place.ask(request_of(commission, seed, folder), abandoned)
                if isinstance(reply, Failure):
                    made = Painted(failure=reply)
                else:
                    made = painted_of(reply, folder, commission.n_pictures, place.about)
            else:
                made = self._run(place, commission, seed, folder, abandoned)
            if made.failure is not None and not folder.exists():
                made = Painted(failure=removed_meanwhile(folder))
        return [replace(made, seconds=time.perf_counter() - start)]

    def _run(
        self, env: Mapping[str, str], commission: Commission, seed: int, folder: Path, abandoned: Callable[[], bool]
    ) -> Painted:
        results = folder / "results"  # apart from the request, so that all that lies in it was made
        results.mkdir()
        output, request = results / f"output.{self._format}", folder / "request.json"
        request.write_bytes(orjson.dumps(request_of(commission, seed, results)))
        width, height = commission.size or ("", "")
        values = {
            "instruction": commission.instruction,
            "request": str(request),
            "output": str(output),
            "folder": str(results),
            "seed": str(seed),
            "width": str(width),
            "height": str(height),
            "n_pictures": str(commission.n_pictures),
        }
        argv = self._line.filled(values, commission)
        if isinstance(argv, Failure):
            return Painted(failure=argv)
        replies: list[dict[str, Any]] = []

        def take(line: bytes) -> bool:
            reply = read(line)
            if reply is not None and is_reply(reply):
                replies.append(reply)
            return False

        try:
            process = Process(argv, env, asked=False, log=self._log)
        except OSError as error:  # an instruction that is longer than an argument may be
            return Painted(failure=Failure(kind="missing_output", detail=f"the command cannot be started: {error}"))
        outcome = process.exchange(b"", take, self._timeout, abandoned)
        ended, last_words = process.end(), process.told()
        if outcome != "ended":
            return Painted(failure=Failure(kind="timeout", detail=f"no picture within {self._timeout:g} s{last_words}"))
        if ended.code != 0:
            kind = "worker_died" if ended.by_signal else "missing_output"
            return Painted(failure=Failure(kind=kind, detail=f"the command {ended}{last_words}"))
        if replies:
            return painted_of(replies[-1], results, commission.n_pictures, {})
        return _written(results, output, commission.n_pictures, last_words)


def _written(results: Path, output: Path, n_pictures: int, last_words: str) -> Painted:
    """What a command has written: the file it was given, or all pictures beside it, in the order of their numbers."""
    if output.is_file() and n_pictures == 1:
        return painted(output, who="the command")
    pictures = sorted((path for path in results.rglob("*") if path.is_file() and _is_picture(path)), key=_natural)
    if not pictures:
        detail = f"the command ended well but wrote no picture{last_words}"
        return Painted(failure=Failure(kind="missing_output", detail=detail))
    return painted(pictures, n_pictures, who="the command")


def _is_picture(path: Path) -> bool:
    """By content, or by name: what is called a picture and is none has to be said, not passed over."""
    if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"):
        return True
    if not path.is_file():  # opening a pipe would wait for ever
        return False
    with path.open("rb") as file:
        return sniff(file.read(64)) is not None


def _natural(path: Path) -> list[tuple[int, str]]:
    """output.png, output_2.png, output_10.png: numbers count as numbers."""
    stem = str(path.with_suffix(""))
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", stem)]


def _begin(place: LinesWorker | Mapping[str, str], gone: Callable[[], bool]) -> None:
    if isinstance(place, LinesWorker):
        place.start(gone)


def _end(place: LinesWorker | Mapping[str, str]) -> None:
    if isinstance(place, LinesWorker):
        place.close()
