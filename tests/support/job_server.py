"""Black Forest Labs' API on loopback, as docs.bfl.ai describes it: it takes jobs, does them while it is asked, and gives
their pictures from another host. Run as a program, it is a command that is killed at a chosen moment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.image_server import Seen, png
from support.loopback import LoopbackServer


@dataclass
class JobServer(LoopbackServer):
    """Every job is ready after `looks` looks, unless `states` has something to say of it."""

    looks: int = 1
    cost: Any = 4.0
    states: list[Mapping[str, Any]] = field(default_factory=list)
    """Told in turn before anything else, whatever job is asked for."""
    posts: list[tuple[int, Any]] = field(default_factory=list)
    """Statuses and bodies for the next jobs, instead of taking them; status 0 takes the job and cuts the connection."""
    poll_host: str = "localhost"
    link_host: str = "localhost"
    expired: int = 0
    """How many more fetches find an expired link."""
    handed_in: list[Seen] = field(default_factory=list)
    asked: list[Seen] = field(default_factory=list)
    fetched: list[Seen] = field(default_factory=list)
    _left: dict[str, int] = field(default_factory=dict)

    def _at(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        seen = Seen(request.method, request.path_qs, dict(request.headers), json.loads(raw) if raw else {}, [])
        if request.method == "POST":
            return self._take(seen, request)
        if request.path.startswith("/results/"):
            self.fetched.append(seen)
            if self.expired:
                self.expired -= 1
                return web.Response(status=403, body=b"<Error>AuthenticationFailed</Error>")
            return web.Response(body=self.picture(request.path.removeprefix("/results/")), content_type="image/png")
        self.asked.append(seen)
        return self._tell(request.query.get("id", ""))

    def _take(self, seen: Seen, request: web.Request) -> web.StreamResponse:
        status, body = self.posts.pop(0) if self.posts else (200, None)
        if status not in (0, 200):
            return web.json_response(body, status=status)
        self.handed_in.append(seen)
        job = f"job-{len(self.handed_in)}"
        self._left[job] = self.looks
        if status == 0:
            assert request.transport is not None
            request.transport.close()
        told = {"id": job, "polling_url": self._at(self.poll_host, f"/v1/get_result?id={job}"), "cost": self.cost}
        return web.json_response(told if body is None else body)

    def _tell(self, job: str) -> web.Response:
        if self.states:
            return web.json_response({"id": job, **self.states.pop(0)})
        if job not in self._left:
            return web.json_response({"id": job, "status": "Task not found"}, status=404)
        self._left[job] -= 1
        if self._left[job] >= 0:
            return web.json_response({"id": job, "status": "Pending", "result": None, "progress": 0.5})
        link = self._at(self.link_host, f"/results/{job}")
        return web.json_response({"id": job, "status": "Ready", "result": {"sample": link, "seed": 7}})

    @staticmethod
    def picture(job: str) -> bytes:
        return png(int(job.removeprefix("job-")), (16, 16))


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(moment: str, kill: Callable[[], None] = _killed) -> None:
    """Arrange for this process to be killed: before or after a line of the journal (`before submitted`), while a job is
    asked for, or with its picture in hand."""
    from refbench.models.api.job_journal import JobJournal
    from refbench.models.api.jobs import JobModel

    when, what = moment.split()

    append, state, fetched = JobJournal._append, JobModel._state, JobModel._fetched_from

    def dying_append(journal: JobJournal, tag: str, event: str, **more: Any) -> None:
        if (when, what) == ("before", event):
            kill()
        append(journal, tag, event, **more)
        if (when, what) == ("after", event):
            kill()

    async def dying_state(model: JobModel, job: Any) -> Any:
        told = await state(model, job)
        if what == "asked":
            kill()
        return told

    async def dying_fetch(model: JobModel, *given: Any) -> Any:
        painted = await fetched(model, *given)
        if what == "fetched":
            kill()
        return painted

    JobJournal._append = dying_append  # type: ignore[method-assign, assignment]
    JobModel._state = dying_state  # type: ignore[method-assign]
    JobModel._fetched_from = dying_fetch  # type: ignore[method-assign]


if __name__ == "__main__":
    from refbench.cli.app import main

    die_at(sys.argv.pop(1))
    main()
