"""Fixtures of the diffusers models: small pipelines of the real classes, and pictures of noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from refbench.models.model import Shown
from support.tiny_diffusers import Pipelines, noise_picture


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Pipelines:
    return Pipelines(tmp_path_factory.mktemp("pipelines"))


@pytest.fixture
def picture(tmp_path: Path) -> Callable[..., Shown]:
    return partial(noise_picture, tmp_path)
