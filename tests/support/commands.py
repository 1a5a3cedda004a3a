"""The command in the test's own process."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from refbench.cli.app import main


def called(*words: object) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["refbench", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0), out.getvalue(), err.getvalue()
