"""A few cases of each benchmark, as its release has them: what its own loader reads in tests that hold for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support import checkout, icebench, ideabench, multibanana, multiref, public, reasoning

WRITERS: dict[str, Callable[[Path], object]] = {
    "creval": lambda root: checkout.write_release(root),
    "multibanana": lambda root: multibanana.write_dataset(root, multibanana.every_task(1)),
    "ideabench": lambda root: ideabench.write_checkout(root, ideabench.designs(1)),
    "multiref": lambda root: multiref.write_checkout(root, multiref.blends(), multiref.requests(1)),
    "icebench": lambda root: icebench.write_dataset(root, icebench.every_task(1)),
    **public.WRITERS,
    **reasoning.WRITERS,
}
