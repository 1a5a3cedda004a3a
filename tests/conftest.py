"""Fixtures: real data beside the checkout where it is, and small data made on the spot."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.checkout import plain_items, write_checkout, write_replies

SHARED = Path(__file__).resolve().parents[2] / "shared"


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
