"""The judges of the benchmarks' papers by short names, as data: `paper:multibanana/gpt-5`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from refbench.record import Record, RefBenchError
from refbench.specs import Spec, nearest

KIND = "paper"


class JudgePreset(Record):
    """A judge as one paper asked it. `printed` is what its tables call it, "" where they are of another judge."""

    benchmark: str
    name: str
    spec: str
    printed: str = ""
    server: bool = False
    note: str = ""

    @property
    def what(self) -> str:
        return f"{self.benchmark}/{self.name}"


@lru_cache(maxsize=1)
def judge_presets() -> Mapping[str, JudgePreset]:
    """All of them by `benchmark/name`."""
    tables = tomllib.loads(Path(__file__).with_name("presets.toml").read_text("utf-8"))
    found = [
        JudgePreset(benchmark=benchmark, name=name, **table)
        for benchmark, judges in tables.items()
        for name, table in judges.items()
    ]
    return {preset.what: preset for preset in found}


def preset_spec(spec: Spec) -> Spec:
    """What `paper:BENCHMARK/NAME` stands for, with the options that it was given on top."""
    preset = judge_presets().get(spec.what)
    if preset is None:
        raise RefBenchError(
            f"judge {spec.name}: no paper's judge is called {spec.what}: {nearest(spec.what, judge_presets())}"
        )
    meant = Spec.parse(preset.spec, "--judge")
    if preset.server and "base_url" not in spec.options and not os.environ.get("OPENAI_BASE_URL"):
        raise RefBenchError(
            f"judge {spec.name}: {spec.what} is {meant.what} on a server of yours: add ?base_url=http://host:8000/v1"
        )
    return meant.model_copy(update={"name": spec.name, "options": {**meant.options, **spec.options}})


def printed_as(model: str, benchmark: str) -> list[str]:
    """What the tables of a benchmark's paper call the judge that is asked under this id."""
    mine = [preset for preset in judge_presets().values() if preset.benchmark == benchmark and preset.printed]
    return [preset.printed for preset in mine if Spec.parse(preset.spec).what == model]
