"""Settings that the benchmarks' papers give for the models they tested, keyed by paper and model, as data."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from refbench.record import Record, RefBenchError

_TABLE = Path(__file__).with_name("presets.toml")


class Preset(Record):
    """One model as one paper ran it. `settings` are options of a spec; the rest is for reading."""

    paper: str
    model: str
    source: str
    """Where the paper says so."""
    runs: Literal["diffusers", "recipe", "api", "vlm"]
    """What runs it: a pipeline, a worker of your own, an image API, or it only looks and writes."""
    settings: Mapping[str, str] = {}
    repository: str = ""
    """Ours, not the paper's, where it does not name one: weights that fit what it says."""
    route: Literal["direct", "turns", "rephrase"] = "direct"
    """How several references reach it: as they are, one a turn, or as words of a vision-language model."""
    seed: int | None = None
    """As printed. Seeds come from the run (--seeds), not from here."""
    note: str = Field(default="", max_length=300)

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.model}"


@lru_cache(maxsize=1)
def presets() -> Mapping[str, Preset]:
    """All presets by `paper/model`."""
    tables = tomllib.loads(_TABLE.read_text("utf-8"))
    chosen = [
        Preset.model_validate({"paper": paper, "model": model, **table})
        for paper, models in tables.items()
        for model, table in models.items()
    ]
    return {preset.name: preset for preset in chosen}


def preset(name: str, where: str) -> Preset:
    """The preset `paper/model`, in any case of letters; `where` is the option to name when there is none."""
    named = {key.casefold(): one for key, one in presets().items()}
    if name.casefold() in named:
        return named[name.casefold()]
    near = difflib.get_close_matches(name.casefold(), named, n=3, cutoff=0.4) or list(named)[:3]
    raise RefBenchError(
        f"{where}: there is no preset {name!r}, near it are {', '.join(named[key].name for key in near)}"
    )


def preset_options(options: Mapping[str, str], runs: str, where: str) -> dict[str, str]:
    """The options of a spec with those of its `preset=` under them: what the spec says itself comes first."""
    own = {key: value for key, value in options.items() if key != "preset"}
    if "preset" not in options:
        return own
    chosen = preset(options["preset"], where)
    if chosen.runs != runs:
        raise RefBenchError(
            f"{where}: {chosen.name} is not run by {runs}: {chosen.note or f'it is of kind {chosen.runs}'}"
        )
    return {**chosen.settings, **own}
