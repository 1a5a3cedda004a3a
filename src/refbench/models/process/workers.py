"""Workers that are asked in JSON lines: kept alive from request to request, started again after every death; what they
are told and reply; and the options that `python:` and `command:` share.

The protocol is in docs/python-models.md. Everything a worker prints that is no part of it goes to the log.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

import orjson

from refbench.calls.pool import Job, Pool, WithdrawnError
from refbench.calls.process import Process
from refbench.calls.transport import UNSENT
from refbench.failure import Failure, FailureKind
from refbench.models.model import Commission, Painted, Startable, Traits, priced, traits_of
from refbench.models.returned import painted
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of, model_options

_GRACE_S = 5.0
_STARTS = 2  # a death while loading may be another's fault, but only once
_BRACES = 32  # beginnings of an object that are tried in a line of noise
_SILENT = frozenset(
    {"gpus", "workers", "timeout", "load_timeout", "log", "version", "batch"}
    | {"family", "open_weights", "max_references", "max_pictures", "roles", "price"}
)

PaintJob: TypeAlias = Job[tuple[Commission, int], Painted]
"""A request and its seed on their way to a worker."""


class PooledModel(Startable):
    """An image model whose requests go through a pool of threads, one for each of its workers."""

    name: str
    traits: Traits
    _identity: Mapping[str, str]
    _pool: Pool[Any, tuple[Commission, int], Painted]

    def __init__(self, spec: Spec, scratch: Path | None) -> None:
        self.name = spec.name
        self.traits = traits_of(model_options(spec), family_of(spec.name))
        self.scratch = scratch
        """Where requests and results lie meanwhile; None for the system's folder."""

    def canonical(self) -> Mapping[str, str]:
        return self._identity

    async def generate(self, commission: Commission, seed: int) -> Painted:
        try:
            return priced(await self._pool.ask((commission, seed)), self.traits)
        except WithdrawnError:
            return Painted(failure=Failure(kind="missing_output", detail=UNSENT))

    async def start(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close()


class LinesWorker:
    """One process. All methods but the constructor are for one thread, and each blocks it."""

    def __init__(self, spec: Spec, argv: Sequence[str], env: Mapping[str, str]) -> None:
        options = model_options(spec)
        self._argv = list(argv)
        self._env = dict(env)
        self._name = spec.name
        self._timeout: float = options["timeout"]
        self._load_timeout: float = options["load_timeout"]
        self._log = log_of(spec)
        self._process: Process | None = None
        self._worked = False
        self._served = False
        """Whether this process has answered."""
        self._well = False
        """Whether the last process ended by itself and without an error."""
        self._count = 0
        self.about: Mapping[str, str] = {}
        """What the worker said of itself when it was ready."""

    def ask(
        self, message: Mapping[str, Any], gone: Callable[[], bool] = lambda: False, *, times: int = 1
    ) -> dict[str, Any] | Failure:
        """The answer to a message, or what became of the worker; it may take `times` as long as a request may."""
        if self._process is not None and not self._process.answers:  # while it was idle: no request is to blame
            self._end()
        if self._process is None:
            failure = self._load(gone)
            if failure is not None:
                return failure
        assert self._process is not None
        self._count += 1
        number = str(self._count)
        answer: dict[str, Any] = {}

        def take(line: bytes) -> bool:
            message = read(line)
            if message is None or not (str(message["id"]) == number if "id" in message else is_reply(message)):
                return False
            answer.update(message)
            return True

        limit = self._timeout * times
        outcome = self._process.exchange(orjson.dumps({"id": number, **message}) + b"\n", take, limit, gone)
        if outcome == "answered":
            self._served = True
            if "stop" in answer:
                raise RefBenchError(f"--model {self._name}: {answer['stop']}")
            return answer
        served, failure = self._served, self._lost(outcome, f"no picture within {limit:g} s")
        if served and self._well:  # it was on its way out when this request came in, as after a fixed number of them
            return self.ask(message, gone, times=times)
        return failure

    def start(self, gone: Callable[[], bool]) -> None:
        """Have the process ready before there is a request; raises where it cannot be used."""
        if self._process is None:
            self._load(gone)

    def close(self) -> None:
        self._end(_GRACE_S)

    def _load(self, gone: Callable[[], bool]) -> Failure | None:
        """Start the worker and wait until it is ready."""
        answer: dict[str, Any] = {}

        def take(line: bytes) -> bool:
            message = read(line) or {}
            answer.update(message if "ready" in message or "stop" in message else {})
            return bool(answer)

        failure = None
        for _ in range(_STARTS):
            try:
                self._process = Process(self._argv, self._env, asked=True, log=self._log)
            except (OSError, ValueError) as error:
                raise RefBenchError(f"--model {self._name}: {self._argv[0]} cannot be started: {error}") from error
            outcome = self._process.exchange(b"", take, self._load_timeout, gone)
            if outcome == "answered" and "stop" not in answer:
                self._worked, self._served = True, False
                self.about = {k: str(v) for k, v in answer.items() if k != "ready" and isinstance(v, str | int | float)}
                return None
            if outcome == "answered":
                self._end()
                raise RefBenchError(f"--model {self._name}: {answer['stop']}")
            failure = self._lost(outcome, f"not ready within {self._load_timeout:g} s")
            if outcome != "ended":
                break
        assert failure is not None
        if self._worked or gone():  # it did work: this request fails, others may not
            return failure
        raise RefBenchError(
            f'--model {self._name}: the worker has not said {{"ready": true}} and cannot be used: {failure.detail}'
        )

    def _lost(self, outcome: str, late: str) -> Failure:
        """What to say of a worker that gave no answer; it is ended, and the next request starts another."""
        assert self._process is not None
        process, self._process = self._process, None
        exit_ = process.end()
        self._well = outcome == "ended" and exit_.code == 0
        if outcome == "timeout":
            return Failure(kind="timeout", detail=late + process.told())
        return Failure(kind="worker_died", detail=f"the worker {exit_}{process.told()}")

    def _end(self, grace: float = 0.0) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(grace)


def read(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line, also behind something that was printed without an end."""
    at = line.find(b"{")
    for _ in range(_BRACES):
        if at < 0:
            return None
        try:
            message = orjson.loads(line[at:])
        except orjson.JSONDecodeError:
            at = line.find(b"{", at + 1)
            continue
        return message if isinstance(message, dict) else None
    return None


def is_reply(message: Mapping[str, Any]) -> bool:
    """Whether an object without an id answers: libraries that log JSON print `error` too, but no `kind` beside it."""
    return "pictures" in message or ("error" in message and "kind" in message)


_KINDS = frozenset(kind for kinds in get_args(FailureKind) for kind in get_args(kinds))


def request_of(commission: Commission, seed: int, folder: Path) -> dict[str, Any]:
    """All that a worker is told."""
    width, height = commission.size or (None, None)
    return {
        "instruction": commission.instruction,
        "pictures": [{"path": str(shown.path.absolute()), "role": shown.role} for shown in commission.pictures],
        "width": width,
        "height": height,
        "n_pictures": commission.n_pictures,
        "seed": seed,
        "folder": str(folder),
    }


def painted_of(reply: Mapping[str, Any], folder: Path, n_pictures: int, about: Mapping[str, str]) -> Painted:
    """The pictures that a reply names, read at once, or why there are none."""
    given = reply.get("pictures")
    listed = [given] if isinstance(given, str | dict) else given
    failure = _failure(reply)
    if listed and isinstance(listed, list):
        made = painted([_picture(one, folder) for one in listed], n_pictures, who="the worker")
        made = replace(made, failure=failure or made.failure)
    else:
        shown = "no pictures and no error" if not listed else f"pictures that are a {type(listed).__name__}"
        made = Painted(failure=failure or Failure(kind="missing_output", detail=f"the reply has {shown}"))
    cost = reply.get("cost_usd")
    notes = reply.get("provenance")
    provenance = {str(k): str(v) for k, v in notes.items()} if isinstance(notes, dict) else {}
    return replace(
        made,
        cost_usd=float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
        provenance={**about, **provenance},
    )


def _failure(reply: Mapping[str, Any]) -> Failure | None:
    if "error" not in reply or reply["error"] in (None, ""):
        return None
    kind = reply.get("kind")
    return Failure(
        kind=kind if isinstance(kind, str) and kind in _KINDS else "missing_output", detail=str(reply["error"])[:2000]
    )


def _picture(one: Any, folder: Path) -> Any:
    """What `encoded` takes: a path, relative to the request's folder, or the bytes of a base64 object."""
    if isinstance(one, str):
        return folder / one
    if isinstance(one, dict) and isinstance(one.get("path"), str):
        return folder / one["path"]
    if isinstance(one, dict) and isinstance(one.get("base64"), str):
        try:
            return base64.b64decode(one["base64"], validate=True)
        except ValueError as error:  # also of a letter that is not ASCII
            return Failure(kind="unreadable_picture", detail=f"the picture is no base64: {error}")
    return one


def lines_workers(spec: Spec, argv: Sequence[str], env: Mapping[str, str]) -> list[LinesWorker]:
    """The workers of a spec, not started yet: one for each place that its options name."""
    return [LinesWorker(spec, argv, {**env, **place}) for place in environments(spec)]


def removed_meanwhile(folder: Path) -> Failure:
    """Why a request has no result whose folder is not there any more."""
    detail = f"somebody removed {folder} while the model painted: keep other programs from cleaning it up"
    return Failure(kind="worker_died", detail=detail)


def environments(spec: Spec) -> list[dict[str, str]]:
    """One environment for each worker: `gpus=4` (the first four), `gpus=0,2` (those), `workers` on each of them."""
    options = model_options(spec)
    each, text = options["workers"], options["gpus"]
    if text is None:
        return [{} for _ in range(each)]
    seen = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    if re.fullmatch(r"\d+", text) and int(text) > 0:
        if seen and int(text) > len(seen):
            raise RefBenchError(f"--model {spec.name}: gpus={text}, but CUDA_VISIBLE_DEVICES has {len(seen)}")
        devices = seen[: int(text)] if seen else [str(n) for n in range(int(text))]
    elif re.fullmatch(r"[\w-]+(,[\w-]+)+,?", text) or text.endswith(","):
        devices = [part for part in text.split(",") if part]
    else:
        raise RefBenchError(f"--model {spec.name}: gpus={text} must be how many, or which (gpus=0,2; one alone: 3,)")
    return [{"CUDA_VISIBLE_DEVICES": device} for device in devices for _ in range(each)]


def log_of(spec: Spec) -> Path | None:
    """Where to what workers print is appended."""
    log = model_options(spec)["log"]
    path = Path(log) if log else None
    if path is not None and not path.parent.is_dir():
        raise RefBenchError(f"--model {spec.name}: log={path}: there is no directory {path.parent}")
    return path


def settings(spec: Spec) -> dict[str, str]:
    """The options that change pictures, as `canonical` tells them."""
    return {key: value for key, value in sorted(spec.options.items()) if key not in _SILENT}
