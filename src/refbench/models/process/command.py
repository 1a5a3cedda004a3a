"""A command line with places for a request: split once, filled argument by argument, never seen by a shell."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from refbench.calls.process import Process
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.model import Commission, Painted
from refbench.models.process.jsonlines import LinesWorker, is_reply, painted_of, read, request_of
from refbench.models.process.options import (
    LOAD_TIMEOUT_S,
    TIMEOUT_S,
    TRAITS,
    WORKERS,
    digest,
    environments,
    log_of,
    only,
    positive,
    settings,
    traits_of,
)
from refbench.models.process.pool import Asked, Lanes
from refbench.models.returned import painted
from refbench.pictures import sniff
from refbench.record import RefBenchError, clean_text
from refbench.specs import Spec

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
        found = []
        for number, argument in enumerate(self.arguments):
            path = Path(argument.rpartition("=")[2] if argument.startswith("-") else argument)
            if _PLACE.search(argument) or not path.is_file():
                continue
            if number == 0 and path.read_bytes()[:2] != b"#!":
                continue  # an interpreter: the same program wherever it is installed
            found.append(f"{path.name}={digest(path)}")
        return " ".join(found)


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


# `command:`: a program that paints, started for every case or kept alive as a worker that is asked in JSON lines.

_OWN = (*WORKERS, *TRAITS, "mode", "format")
_FORMATS = ("png", "jpg", "webp")


class CommandModel:
    """`command:python make.py {instruction} {output}`, or `command:python worker.py?mode=worker`."""

    scratch: Path | None = None
    """Where requests and results lie meanwhile; None for the system's folder."""

    def __init__(self, spec: Spec) -> None:
        only(spec, _OWN)
        self.name = spec.name
        self.traits = traits_of(spec)
        mode = spec.options.get("mode", "case")
        if mode not in ("case", "worker"):
            raise RefBenchError(f"--model {spec.name}: mode={mode} must be case or worker")
        self._format = spec.options.get("format", "png")
        if self._format not in _FORMATS:
            raise RefBenchError(f"--model {spec.name}: format={self._format} must be one of {', '.join(_FORMATS)}")
        self._line = CommandLine.parse(spec.what, spec.name, asked=mode == "worker")
        self._timeout = positive(spec, "timeout") or TIMEOUT_S
        self._log = log_of(spec)
        version, sources = spec.options.get("version"), self._line.sources()
        known = {"version": version} if version else {"sources": sources} if sources else {}
        self._identity = {"kind": "command", "what": spec.what, **settings(spec.options), **known}
        places: list[LinesWorker | Mapping[str, str]] = [*environments(spec)]
        if mode == "worker":
            load_timeout = positive(spec, "load_timeout") or LOAD_TIMEOUT_S
            places = [
                LinesWorker(
                    self._line.arguments,
                    env,
                    name=spec.name,
                    timeout=self._timeout,
                    load_timeout=load_timeout,
                    log=self._log,
                )
                for env in environments(spec)
            ]
        self._lanes: Lanes[LinesWorker | Mapping[str, str]] = Lanes(places, self._work, end=_end)

    def canonical(self) -> Mapping[str, str]:
        return self._identity

    async def generate(self, commission: Commission, seed: int) -> Painted:
        return await self._lanes.ask(commission, seed)

    async def close(self) -> None:
        await self._lanes.close()

    def _work(self, place: LinesWorker | Mapping[str, str], asked: list[Asked]) -> list[Painted]:
        (one,) = asked
        if one.commission.size is None and self.traits.size is not None:
            commission = replace(one.commission, size=self.traits.size)
        else:
            commission = one.commission
        start = time.perf_counter()
        with scratch_folder(self.scratch) as folder:
            if isinstance(place, LinesWorker):
                made = self._asked(place, commission, one, folder)
            else:
                made = self._run(place, commission, one, folder)
            if made.failure is not None and not folder.exists():
                told = f"somebody removed {folder} while the model painted: keep other programs from cleaning it up"
                made = Painted(failure=Failure(kind="worker_died", detail=told))
        return [replace(made, seconds=time.perf_counter() - start)]

    def _asked(self, worker: LinesWorker, commission: Commission, one: Asked, folder: Path) -> Painted:
        reply = worker.ask(request_of(commission, one.seed, folder), one.gone.is_set)
        if isinstance(reply, Failure):
            return Painted(failure=reply)
        return painted_of(reply, folder, commission.n_pictures, worker.about)

    def _run(self, env: Mapping[str, str], commission: Commission, one: Asked, folder: Path) -> Painted:
        results = folder / "results"  # apart from the request, so that all that lies in it was made
        results.mkdir()
        output, request = results / f"output.{self._format}", folder / "request.json"
        request.write_bytes(orjson.dumps(request_of(commission, one.seed, results)))
        width, height = commission.size or ("", "")
        values = {
            "instruction": commission.instruction,
            "request": str(request),
            "output": str(output),
            "folder": str(results),
            "seed": str(one.seed),
            "width": str(width),
            "height": str(height),
            "n_pictures": str(commission.n_pictures),
        }
        argv = self._line.filled(values, commission)
        if isinstance(argv, Failure):
            return Painted(failure=argv)
        said: list[dict[str, Any]] = []

        def take(line: bytes) -> bool:
            found = read(line)
            if found is not None and is_reply(found):
                said.append(found)
            return False

        try:
            process = Process(argv, env, asked=False, log=self._log)
        except OSError as error:  # an instruction that is longer than an argument may be
            return Painted(failure=Failure(kind="missing_output", detail=f"the command cannot be started: {error}"))
        outcome = process.exchange(b"", take, self._timeout, one.gone.is_set)
        ended, told = process.end(), process.told()
        if outcome != "ended":
            return Painted(failure=Failure(kind="timeout", detail=f"no picture within {self._timeout:g} s{told}"))
        if ended.code != 0:
            kind = "worker_died" if ended.by_signal else "missing_output"
            return Painted(failure=Failure(kind=kind, detail=f"the command {ended}{told}"))
        if said:
            return painted_of(said[-1], results, commission.n_pictures, {})
        return _written(results, output, commission.n_pictures, told)


def _written(results: Path, output: Path, n_pictures: int, told: str) -> Painted:
    """What a command has written: the file it was given, or all pictures beside it, in the order of their numbers."""
    if output.is_file() and n_pictures == 1:
        return painted(output, who="the command")
    found = sorted((path for path in results.rglob("*") if path.is_file() and _is_picture(path)), key=_natural)
    if not found:
        detail = f"the command ended well but wrote no picture{told}"
        return Painted(failure=Failure(kind="missing_output", detail=detail))
    return painted(found, n_pictures, who="the command")


def _is_picture(path: Path) -> bool:
    """By content, or by name: what is called a picture and is none has to be said, not passed over."""
    with path.open("rb") as file:
        return sniff(file.read(64)) is not None or path.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp")


def _natural(path: Path) -> list[tuple[int, str]]:
    """output.png, output_2.png, output_10.png: numbers count as numbers."""
    stem = str(path.with_suffix(""))
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", stem)]


def _end(place: LinesWorker | Mapping[str, str]) -> None:
    if isinstance(place, LinesWorker):
        place.close()
