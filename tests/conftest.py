"""Fixtures: real data beside the checkout where it is, and small data made on the spot."""

from __future__ import annotations

import asyncio.base_tasks
import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import disk_usage
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded; idle threads of small products spin

import pytest
from hypothesis import settings

from refbench.cli.app import main
from support.checkout import plain_items, write_checkout, write_replies

# What a change must pass is the same every time; elsewhere each run looks at other examples. No test asserts a time.
settings.register_profile("refbench", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("refbench")


MEMORY = Path("/dev/shm")


def pytest_configure() -> None:
    """In the background of a shell script interrupts are ignored, here and in every process that a test starts: tests
    of Ctrl-C would wait for ever.

    Thousands of ledgers are written and waited for until they are on the disk: a fifth of the processor's time and half of
    the clock's, the more the busier the disk is. Where memory has room for them, they are there (TMPDIR is as it was).
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # asyncio.run puts its task, with all that came of it, into the words of an error that `signal` catches itself.
    asyncio.base_tasks._task_repr_info = lambda task: [type(task).__name__, task.get_name()]
    if MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and disk_usage(MEMORY).free > 8 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay until the end: looking through them again and again for garbage
    took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for a file of tests: Playwright's loop would be in the way of those of other files."""
    from support.site_browser import start_browser

    driver, running = start_browser()
    yield running
    running.close()
    driver.stop()


SHARED = Path(__file__).resolve().parents[2] / "shared"


def _loopback(address: Any) -> bool:
    if not isinstance(address, tuple):  # a path of a local socket
        return True
    try:
        return ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        return address[0] == "localhost"


@pytest.fixture(scope="session", autouse=True)
def _only_loopback() -> Any:
    """No test reaches beyond this machine: a connection elsewhere is an error, not a slow success."""
    patch = pytest.MonkeyPatch()
    for name in ("connect", "connect_ex"):
        real = getattr(socket.socket, name)

        def guarded(self: socket.socket, address: Any, real: Any = real) -> Any:
            if not _loopback(address):
                raise AssertionError(f"a test tried to reach {address}")
            return real(self, address)

        patch.setattr(socket.socket, name, guarded)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def _patient() -> Any:
    """What a judge's server tells of itself comes in time, however busy the machine is."""
    patch = pytest.MonkeyPatch()
    patch.setattr("refbench.chat.http._PATIENCE", 60.0)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What tests have run is not noted among the files that the user trusts, and no test finds what another run of the
    tests has measured or drawn."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
    patch.setenv("REFBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def creval_mini() -> Path:
    """123 real items of CREval with the real replies of two judges."""
    path = SHARED / "creval-mini"
    if not (path / "bench/instruction.json").exists():
        pytest.skip("the real CREval excerpt is not beside this checkout")
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clean CREval checkout of 27 items with replies of two models in answer_gpt."""
    items = plain_items(27)
    root = write_checkout(tmp_path / "creval", items)
    for model in ("alpha", "beta"):
        write_replies(root / "answer_gpt", model, items)
    return root


Outcome = tuple[int, str, str]
Refbench = Callable[..., Outcome]


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refbench:
    """Run the command in this process: exit code, standard output, standard error."""

    def run(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["refbench", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run
