"""What stands: of all rows for the same act, success beats failure, then the earliest wins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refbench.evidence import Evidence, Purpose
from refbench.output import Output
from refbench.runs.snapshot import open_snapshot

_RANKS = "SELECT id, failure IS NOT NULL, recorded, seq FROM evidence"
_PURPOSES = """
    SELECT p.case_id, p.model, p.judge, p.part, p.seed, p.repeat, p.protocol, p.evidence, e.seq, e.recorded, e.body
    FROM purpose p JOIN evidence e ON e.id = p.evidence ORDER BY p.seq
"""
_OUTPUTS = "SELECT case_id, model, seed, step, failure IS NOT NULL, recorded, body FROM output ORDER BY seq"


def standing_evidence(ledgers: Sequence[Path]) -> Iterator[tuple[Purpose, Evidence, float]]:
    """Each purpose once with its standing evidence and the time of its recording, one row in memory at a time."""
    best: dict[str, tuple[bool, float, int, int]] = {}
    for number, path in enumerate(ledgers):
        with open_snapshot(path) as db:
            for act, failed, recorded, seq in db.execute(_RANKS):
                rank = (bool(failed), recorded, number, seq)
                if act not in best or rank < best[act]:
                    best[act] = rank
    given: set[tuple[Any, ...]] = set()
    for number, path in enumerate(ledgers):
        with open_snapshot(path) as db:
            for *place, act, seq, recorded, body in db.execute(_PURPOSES):
                # A row written after the ranks were read has none: the next reader will see it.
                if act not in best or best[act][2:] != (number, seq) or (*place, act) in given:
                    continue
                given.add((*place, act))
                case, model, judge, part, seed, repeat, protocol = place
                purpose = Purpose(
                    case=case, model=model, judge=judge, part=part, seed=seed, repeat=repeat, protocol=protocol
                )
                yield purpose, Evidence.model_validate_json(body), recorded


def distinct_evidence(ledgers: Sequence[Path]) -> Iterator[Evidence]:
    """Every act on record, failed tries included, each as often as it was paid for."""
    for path in ledgers:
        with open_snapshot(path) as db:
            for (body,) in db.execute("SELECT body FROM evidence"):
                yield Evidence.model_validate_json(body)


def standing_outputs(ledgers: Sequence[Path]) -> list[Output]:
    """The output that stands for each (case, model, seed, step)."""
    best: dict[tuple[Any, ...], tuple[tuple[bool, float], str]] = {}
    for path in ledgers:
        with open_snapshot(path) as db:
            for *place, failed, recorded, body in db.execute(_OUTPUTS):
                rank = (bool(failed), recorded)
                if tuple(place) not in best or rank < best[tuple(place)][0]:
                    best[tuple(place)] = rank, body
    return [Output.model_validate_json(body) for _, body in best.values()]


def disagreements(ledgers: Sequence[Path]) -> int:
    """How many acts have more than one distinct success: the same request, answered differently."""
    results: dict[str, set[str]] = {}
    for path in ledgers:
        with open_snapshot(path) as db:
            for act, digest in db.execute("SELECT id, digest FROM evidence WHERE failure IS NULL"):
                results.setdefault(act, set()).add(digest)
    return sum(len(digests) > 1 for digests in results.values())
