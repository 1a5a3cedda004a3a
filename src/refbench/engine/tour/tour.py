"""A tour of judges within a budget, and the report that it ends in: Markdown and JSON without keys and addresses."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from refbench.calls.keys import Secrets, secrets_of
from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.http import HttpVLM
from refbench.chat.vlm import VLM, make_vlm
from refbench.demo.photographs import subject_photographs
from refbench.engine.doctor import Largest
from refbench.engine.tour.purse import Allowance, Purse
from refbench.engine.tour.records import JudgeTour, Place, Step, Tour
from refbench.engine.tour.steps import AUDITED, NAMES, Steps, toured
from refbench.failure import without_keys
from refbench.machine import scratch_folder
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, write_whole
from refbench.specs import Spec
from refbench.text.console import as_markdown as escaped

CALLS = 30
"""Calls for each judge where no budget is given: a whole tour makes 21."""
TIMEOUT = 90.0
_PACKAGES = ("refbench", "aiohttp", "pydantic", "numpy", "opencv-python-headless", "pillow", "genai-prices")
_OWN = "[own server]"


@dataclass(frozen=True)
class TourRequest:
    """Whom to visit, for how much, and where the report goes."""

    specs: Sequence[str]
    out: Path
    budget: str | None = None
    timeout: float = TIMEOUT
    official: Callable[[Path], Largest | str] = lambda folder: "no checkout is given (--prompts official:CHECKOUT)"
    """The largest request in official words, made in a folder; or why there is none."""

    @property
    def allowance(self) -> Allowance:
        return Allowance.parse(self.budget) if self.budget is not None else Allowance(calls=CALLS * len(self.specs))


async def tour(request: TourRequest, told: Callable[[str], None] = lambda line: None) -> Tour:
    """Visit each judge in turn. The report is written after each, and when it is interrupted."""
    specs = [Spec.parse(text, "--tour") for text in request.specs]
    purse = Purse.opened(request.out / "calls.jsonl", request.allowance)
    found: list[JudgeTour] = []
    hidden = _Hidden()
    why = ""
    try:
        photographs: dict[str, bytes] | str = subject_photographs(AUDITED)
    except RefBenchError as error:
        photographs = str(error)
    with scratch_folder() as folder:
        official = request.official(folder)
        async with Transport(timeout=request.timeout, policy=RetryPolicy(attempts=1)) as transport:
            for spec in specs:
                if why == _INTERRUPTED:
                    break
                told(f"{spec.name}: at most {purse.allowance} in all, {purse.calls} made so far")
                one, why = await _visited(spec, transport, (purse, folder, official, photographs), hidden)
                found.append(one)
                _write(_report(request, purse, found, why), request.out, hidden)
    return _read_back(_report(request, purse, found, why), hidden)


_INTERRUPTED, _SPENT = "the tour was interrupted", "the budget does not cover it"


async def _visited(
    spec: Spec,
    transport: Transport,
    given: tuple[Purse, Path, Largest | str, dict[str, bytes] | str],
    hidden: _Hidden,
) -> tuple[JudgeTour, str]:
    purse, folder, official, photographs = given
    calls, spent = purse.calls, purse.charged
    try:
        judge = make_vlm(spec, transport)
    except RefBenchError as error:  # no key, no such kind: nothing was sent
        return _without_judge(spec, str(error)), ""
    hidden.know(judge)
    try:
        if purse.allowance.usd is not None and judge.price is None:
            reason = "its price is not known: give the budget in calls, or ?price=IN,OUT"
            return _without_judge(spec, reason), ""
        steps = Steps(judge, purse, folder, official, photographs)
        why = await toured(steps)
        served = {} if why else await judge.served() or {}
    finally:
        await judge.close()
    own = isinstance(judge, HttpVLM) and judge.own_server
    at: Place = "a server of one's own" if own else "the provider" if isinstance(judge, HttpVLM) else "this machine"
    return (
        JudgeTour(
            judge=spec.name,
            kind=spec.kind,
            model=judge.model if isinstance(judge, HttpVLM) else Path(spec.what).name,
            at=at,
            parameters={k: str(v) for k, v in judge.parameters.items()} if isinstance(judge, HttpVLM) else {},
            told=served,
            steps=steps.whole(why),
            calls=purse.calls - calls,
            spent_usd=purse.charged - spent if judge.price is not None else None,
        ),
        why if why in (_INTERRUPTED, _SPENT) else "",
    )


def _without_judge(spec: Spec, reason: str) -> JudgeTour:
    steps = [Step(name=NAMES[0], state="does not", said=reason)]
    steps += [Step(name=name, state="not tried", said="it cannot be reached") for name in NAMES[1:]]
    return JudgeTour(
        judge=spec.name,
        kind=spec.kind,
        model=without_keys(spec.what),
        at="a server of one's own" if "base_url" in spec.options else "the provider",
        steps=tuple(steps),
        calls=0,
        spent_usd=0.0,
    )


# --- the report -------------------------------------------------------------------------------------------------------


class _Hidden:
    """What no report may hold: the judges' keys, and addresses of servers that are not a provider's."""

    def __init__(self) -> None:
        self._secrets: list[Secrets] = [secrets_of()]
        self._places: dict[str, None] = {}

    def know(self, judge: VLM) -> None:
        if not isinstance(judge, HttpVLM):
            return
        self._secrets.append(judge.secrets)
        if judge.own_server:
            parts = urlsplit(judge.base_url)
            names = [judge.base_url, parts.netloc, *([parts.hostname] if parts.hostname else [])]
            self._places |= dict.fromkeys(sorted(names, key=len, reverse=True))

    def cut(self, said: Any) -> Any:
        """All texts in a JSON value without them; names of fields are ours."""
        if isinstance(said, dict):
            return {name: self.cut(value) for name, value in said.items()}
        if isinstance(said, list):
            return [self.cut(value) for value in said]
        if not isinstance(said, str):
            return said
        for secrets in self._secrets:
            said = secrets.cut(said)
        for place in self._places:
            said = said.replace(place, _OWN)
        return said


def _report(request: TourRequest, purse: Purse, found: Sequence[JudgeTour], why: str) -> Tour:
    versions = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return Tour(
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        versions=versions,
        budget=str(request.allowance),
        calls=purse.calls,
        spent_usd=None if any(one.spent_usd is None for one in found) else purse.charged,
        stopped="interrupt" if why == _INTERRUPTED else "budget" if why == _SPENT else "",
        judges=tuple(found),
    )


def _read_back(made: Tour, hidden: _Hidden) -> Tour:
    """The report as it is written: what is printed holds no more than what is kept."""
    return Tour.model_validate(hidden.cut(made.model_dump(mode="json")))


def _write(made: Tour, out: Path, hidden: _Hidden) -> None:
    clean = _read_back(made, hidden)
    for name, text in (("report.json", clean.model_dump_json(indent=1) + "\n"), ("report.md", as_markdown(clean))):
        try:
            write_whole(out / name, text.encode())
        except OSError as error:
            raise disk_error(error, out / name) from error


def as_markdown(made: Tour) -> str:
    """The report for people; what servers say of themselves is shown as text: no link, no picture, no control."""
    spent = "" if made.spent_usd is None else f", {made.spent_usd:.4f} usd at the most"
    lines = [
        "# A tour of judges",
        "",
        f"Made {made.made}; budget {made.budget}, spent {made.calls} calls{spent}."
        + (f" Stopped by {'its budget' if made.stopped == 'budget' else 'an interrupt'}." if made.stopped else ""),
        "",
        ", ".join(f"{name} {version}" for name, version in made.versions.items()),
    ]
    for one in made.judges:
        told = "".join(f", {name} {value}" for name, value in {**one.parameters, **one.told}.items())
        lines += [
            "",
            f"## {escaped(one.judge)}",
            "",
            escaped(f"{one.kind}:{one.model} at {one.at}{told}; {one.calls} calls"),
        ]
        lines += ["", "| | state | |", "|---|---|---|"]
        lines += [f"| {step.name} | {step.state} | {escaped(step.said)} |" for step in one.steps]
    return "\n".join(lines) + "\n"
