"""Results with made-up marks on cases in the official layouts, for figures: models by a skill of their own, one that
failed nearly everywhere, one that is not asked everywhere, one that failed everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench import Failure, Score
from refbench.benchmarks import benchmark
from refbench.case import AnyCase
from refbench.tables.result import Result
from refbench.tables.scoring import result_of
from support import icebench, ideabench, multiref
from support.multibanana import every_task, write_dataset

MODELS = (
    "Nano Banana", "gpt-image-1", "Qwen-Image-Edit-2509", "نموذج الصور العربي", "即梦图像生成模型四点零版",
    "checkpoints/flux-kontext-multiref-lora/run_2026-11/step-000500.safetensors",
    "checkpoints/flux-kontext-multiref-lora/run_2026-11/step-001000.safetensors",
)  # fmt: skip
NEARLY_NONE, NOT_EVERYWHERE, NONE = 2, 3, 6
"""Places of the models above that failed nearly everywhere, were not asked everywhere, failed everywhere."""

WRITERS: dict[str, Callable[[Path], object]] = {
    "ideabench": lambda root: ideabench.write_checkout(root, ideabench.designs(2)),
    "multiref": lambda root: multiref.write_checkout(root, multiref.blends(), multiref.requests(3)),
    "icebench": lambda root: icebench.write_dataset(root, icebench.every_task(2)),
    "multibanana": lambda root: write_dataset(root, _sets()),
}


def _sets() -> list[Any]:
    sets = every_task(2)
    for n, one in enumerate(sets):
        one.source = ("real", "gpt-image-1", "nano banana")[n % 3]
    return sets


def names(count: int) -> list[str]:
    """So many names: of several scripts, then checkpoints that differ in a number."""
    more = [MODELS[-1].replace("001000", f"{n:06d}") for n in range(1500, 500 * count + 1500, 500)]
    return [*MODELS, *more][:count]


def made_result(
    name: str, root: Path, models: Sequence[str], *, judges: Sequence[str] = ("j",), draws: int = 0
) -> Result:
    """A result of the corrected protocol."""
    WRITERS[name](root)
    bench = benchmark(name)
    cases: Sequence[AnyCase] = bench.data.load(root, None).cases
    aggregate = bench.scoring.protocols["corrected"].aggregate
    low, high = aggregate.ends("low"), aggregate.ends("high")
    rng = np.random.default_rng(3)
    metrics = [metric for those in bench.asking.parts.values() for metric in those]
    scores = []
    for place, model in enumerate(models):
        skill = 0.75 - 0.4 * place / max(len(models), 4)
        for c, case in enumerate(cases):
            absent = bench.asking.not_applicable(case)
            for judge in judges:
                for metric in metrics:
                    ends = low.get(metric, 0.0), high.get(metric, 1.0)
                    least, most = ends if np.isfinite(ends).all() else (0.0, 1.0)
                    state: dict[str, Any] = {
                        "value": float(least + (most - least) * np.clip(rng.normal(skill, 0.2), 0, 1))
                    }
                    if metric in absent:
                        state = {"not_applicable": absent[metric]}
                    elif place == NONE or (place == NEARLY_NONE and c > len(cases) // 4):
                        state = {"failure": Failure(kind="refused")}
                    elif place == NOT_EVERYWHERE and c % 3 == 0:
                        state = {"not_asked": True}
                    who = {"case": case.id, "model": model, "judge": judge, "metric": metric}
                    scores.append(Score(**who, protocol="corrected", **state))
    return result_of(bench, cases, scores, draws=draws)
