"""Runs: directories that hold what was paid for. Append-only, resumable, shardable, mergeable.

RUN/run.json              schema version, benchmark, fingerprint of the cases
RUN/cases.jsonl           the cases, so that a run can be scored again without the dataset
RUN/ledger.sqlite         outputs and evidence of an unsharded writer
RUN/shards/3-of-8.sqlite  the same of one shard; readers merge them
RUN/ledgers/              which ledgers there must be
RUN/blobs/ab/<sha256>.ext pictures, once each
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refbench.runs.disk import Blobs
    from refbench.runs.export import case_rows, write_rows
    from refbench.runs.ledger import SCHEMA, LedgerWriter
    from refbench.runs.merging import MergeReport, merge
    from refbench.runs.run import Run, Shard

_HOMES = {
    "Blobs": "disk",
    "LedgerWriter": "ledger",
    "MergeReport": "merging",
    "Run": "run",
    "SCHEMA": "ledger",
    "Shard": "run",
    "case_rows": "export",
    "merge": "merging",
    "write_rows": "export",
}

__all__ = ["SCHEMA", "Blobs", "LedgerWriter", "MergeReport", "Run", "Shard", "case_rows", "merge", "write_rows"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'refbench.runs' has no attribute {name!r}")
    return getattr(importlib.import_module(f"refbench.runs.{_HOMES[name]}"), name)
