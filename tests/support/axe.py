"""axe-core on a page: what it finds that is serious or critical."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


def axe_source(folder: Path) -> str:
    """axe-core from npm, put into a folder: it is under MPL-2.0, and no part of RefBench."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core comes from npm, which is not installed")
    command = [npm, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "axe-core@4.14.1"]
    if subprocess.run(command, cwd=folder, capture_output=True, timeout=300).returncode:
        pytest.skip("axe-core cannot be had from npm here")
    return (folder / "node_modules/axe-core/axe.min.js").read_text("utf-8")


def serious(page: Any, source: str) -> list[str]:
    """What is serious or critical, each with the first elements that it is about."""
    page.wait_for_timeout(150)
    page.evaluate(source)
    found = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then(all => all.violations.filter(one => ['serious', 'critical']"
        ".includes(one.impact)).map(one => `${one.id}: ${one.nodes.slice(0, 2).map(node => node.html.slice(0, 160)).join(' | ')}`))"
    )
    return [str(one) for one in found]
