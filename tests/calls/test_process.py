"""Processes of others: whatever becomes of RefBench, nothing that they have started is left."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refbench.calls import guard
from refbench.calls.process import Process

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has adoption and pidfd")

PAINTER = """
import os, sys, time
def alone():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    stay("daemon")
def stay(name):
    open(sys.argv[1], "w").write(f"{name} {os.getpid()}\\n")
    time.sleep(3600)
if os.fork() == 0:
    alone()
if os.fork() == 0:
    stay("child")
stay("painter")
"""
"""A painter, a child of it, and one that has gone through two forks into a session of its own."""

RUN = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # where the tests run under nohup, it is ignored
from refbench.calls.process import Process
Process(sys.argv[1:], {}, asked=False).exchange(b"", lambda line: False, 3600, lambda: False)
"""


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[list[str], int]]:
    """A shell script that starts the painter in the background, and where those that live tell their numbers."""
    (tmp_path / "painter.py").write_text(PAINTER)
    told = tmp_path / "told"
    os.mkfifo(told)
    painter = shlex.join([sys.executable, str(tmp_path / "painter.py"), str(told)])
    reader = os.open(told, os.O_RDWR)
    yield ["sh", "-c", f"{painter} & wait"], reader
    os.close(reader)


def started(reader: int) -> dict[str, int]:
    """The three of the family as file descriptors that become readable when they end."""
    lines = ""
    while lines.count("\n") < 3:
        lines += os.read(reader, 1000).decode()
    return {name: os.pidfd_open(int(pid)) for name, pid in (line.split() for line in lines.splitlines())}


def survivors(family: dict[str, int], patience: float = 600.0) -> set[str]:
    left = dict(family)
    while left and (gone := select.select([*left.values()], [], [], patience)[0]):
        left = {name: watched for name, watched in left.items() if watched not in gone}
    for watched in left.values():
        signal.pidfd_send_signal(watched, signal.SIGKILL)
    for watched in family.values():
        os.close(watched)
    return set(left)


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_a_run_that_is_killed(family: tuple[list[str], int], number: int) -> None:
    argv, told = family
    with subprocess.Popen([sys.executable, "-c", RUN, *argv]) as run:
        people = started(told)
        run.send_signal(number)
    assert survivors(people) == set()


@linux
def test_ending_a_command_ends_also_who_left_its_session(family: tuple[list[str], int]) -> None:
    argv, told = family
    process = Process(argv, {}, asked=False)
    people = started(told)
    assert process.end().code is None
    assert survivors(people) == set()


@linux
def test_a_command_that_ends_takes_those_along_that_it_has_left_behind(family: tuple[list[str], int]) -> None:
    (*shell, line), told = family
    process = Process([*shell, line.replace("wait", "read _; exit 3")], {}, asked=True)
    people = started(told)
    assert process.exchange(b"\n", lambda line: False, 60, lambda: False) == "ended"
    assert str(process.end()) == "ended with exit status 3"
    assert survivors(people) == set()


@linux
def test_where_orphans_are_not_adopted_the_group_ends_with_the_run(family: tuple[list[str], int]) -> None:
    """As on macOS: who has left the session and lost its parent stays, and docs say so."""
    argv, told = family
    elsewhere = f"import runpy, sys; sys.platform = 'other'; sys.argv = sys.argv[1:]; runpy.run_path({guard.__file__!r}, run_name='__main__')"
    ended, alive = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", elsewhere, "guard.py", str(ended), str(os.getpid()), *argv], pass_fds=(ended,)
    ):
        people = started(told)
        os.close(ended)
        os.close(alive)
    assert survivors({name: watched for name, watched in people.items() if name != "daemon"}) == set()
    assert survivors({"daemon": people["daemon"]}, 0.0) == {"daemon"}
