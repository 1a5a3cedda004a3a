"""Compiling LaTeX for tests, where it is installed; `REFBENCH_LATEX=required` makes its absence a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(folder: Path, tables: str, program: str = "pdflatex", preamble: str = "") -> str:
    """The text of the PDF that a plain document with these tables gives; a LaTeX error fails the test."""
    if shutil.which(program) is None:
        if os.environ.get("REFBENCH_LATEX") == "required" and program == "pdflatex":
            pytest.fail(f"{program} is not installed, and REFBENCH_LATEX says that it must be")
        pytest.skip(f"{program} is not installed")
    source = folder / "paper.tex"
    head = "\\documentclass{article}\n\\usepackage{booktabs}\n" + preamble
    source.write_text(f"{head}\n\\begin{{document}}\n{tables}\n\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", source.name],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
    )
    problems = [
        line for line in done.stdout.splitlines() if line.startswith(("!", "l.")) or "Missing character" in line
    ]
    assert done.returncode == 0, "\n".join(problems) or done.stdout[-2000:]
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed: it compiles, but what it shows cannot be read back")
    return subprocess.run(
        ["pdftotext", "-layout", "paper.pdf", "-"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
