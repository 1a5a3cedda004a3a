"""Fixtures: real data beside the checkout where it is, and small data made on the spot."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from refbench.cli.app import main
from support.checkout import plain_items, write_checkout, write_replies

# What a change must pass is the same every time; elsewhere each run looks at other examples. No test asserts a time.
settings.register_profile("refbench", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("refbench")

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
