"""What a dataset holds and what it does not, in numbers: for `blend stats` and the data card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from refbench.record import RefBenchError
from refbench.refblend.plan import Quota
from refbench.refblend.sources import Sources
from refbench.refblend.types import TYPES, name_of
from refbench.version import __version__
from refbench.workshop import DroppedItems

FILE = "stats.json"


def statistics(
    entries: Iterable[Mapping[str, Any]],
    sources: Sources,
    quotas: Sequence[Quota],
    dropped: DroppedItems,
    failed: int,
    build: Mapping[str, Any],
) -> dict[str, Any]:
    """One JSON object; counts alone, so that two builds can be compared line by line."""
    types: Counter[str] = Counter()
    sets: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    references: Counter[str] = Counter()
    rewritten = needs_review = total = 0
    targets: dict[str, set[str]] = {"train": set(), "test": set()}
    for entry in entries:
        told = entry["instructions"]
        total += 1
        types.update(told["conditions"])
        sets[name_of(told["conditions"])] += 1
        sizes[str(len(told["conditions"]))] += 1
        splits[entry["split"]] += 1
        references[str(len(told["image_path_mapping"]) + ("caption" in told["conditions"]))] += 1
        rewritten += bool(told["enhance_prompts"])
        needs_review += entry["review"] == "needed"
        targets[entry["split"]].add(entry["original_image_path"])
    skipped = Counter(one.kind for one in sources.skipped)
    return {
        "version": __version__,
        "samples": total,
        "pictures": {
            "given": len(sources.pictures) + len(sources.skipped),
            "usable": len(sources.pictures),
            "targets": sum(map(len, targets.values())),
            "failed": failed,
            "skipped": dict(sorted(skipped.items())),
        },
        "splits": {name: {"samples": splits[name], "targets": len(targets[name])} for name in ("train", "test")},
        "types": {name: types[name] for name in TYPES if types[name]},
        "sizes": dict(sorted(sizes.items())),
        "references": dict(sorted(references.items())),
        "sets": {
            name_of(quota.types): {
                "asked": quota.asked,
                "possible": quota.possible,
                "planned": quota.planned,
                "kept": sets[name_of(quota.types)],
            }
            for quota in quotas
        },
        "rewritten": rewritten,
        "needs_review": needs_review,
        "dropped": dropped.counts(),
        "build": dict(build),
    }


def read_statistics(folder: Path) -> dict[str, Any]:
    """The statistics that a build has written."""
    path = folder / FILE
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        raise RefBenchError(f"{folder} holds no {FILE}: give the --out of refbench blend build") from error
    except orjson.JSONDecodeError as error:
        raise RefBenchError(f"{path} is damaged ({error}): run the build again") from error
    if not isinstance(found, dict):
        raise RefBenchError(f"{path} is damaged: run the build again")
    return found
