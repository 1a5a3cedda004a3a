"""Presets hold what the papers print, for each paper apart."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from refbench.models.presets import preset, preset_options, presets
from refbench.record import RefBenchError

SHARED = Path(__file__).resolve().parents[3] / "shared"


def test_the_same_model_has_the_settings_of_each_paper() -> None:
    first, second = (preset(f"{paper}/OmniGen", "--model m").settings for paper in ("multiref", "ideabench"))
    assert first == {"width": "1024", "height": "1024", "guidance": "2.5", "image_guidance": "1.6"}
    assert second == {"guidance": "3.0", "image_guidance": "1.6", "steps": "50"}


def test_ideabench_s_presets_are_its_table_9() -> None:
    path = SHARED / "published/idea_bench.csv"
    if not path.exists():
        pytest.skip("the published tables are not beside this checkout")
    names = {"text_guidance": "guidance", "image_guidance": "image_guidance", "steps": "steps"}
    printed: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        if row["table"] == "9":
            said = printed.setdefault(row["model"].replace(" ", "").replace("-", "").casefold(), {})
            if row["metric"] in names and row["value"] != "-":
                said[names[row["metric"]]] = row["value"]
    ours = {
        one.model.replace("-", "").casefold(): one.settings for one in presets().values() if one.paper == "ideabench"
    }
    assert ours == printed and len(ours) == 9


def test_what_a_spec_says_comes_before_its_preset() -> None:
    options = {"preset": "MULTIREF/flux-DEV", "steps": "4", "device": "cpu"}
    assert preset_options(options, "diffusers", "--model m") == {"guidance": "3.5", "steps": "4", "device": "cpu"}
    assert preset_options({"steps": "4"}, "diffusers", "--model m") == {"steps": "4"}


def test_a_preset_of_another_kind_is_told_how_it_runs() -> None:
    with pytest.raises(
        RefBenchError, match="multiref/Gemini is not run by diffusers: a perceiver of the compositional route"
    ):
        preset_options({"preset": "multiref/Gemini"}, "diffusers", "--model m")
    with pytest.raises(
        RefBenchError, match=r"^--model m: there is no preset 'ideabench/flux', near it are ideabench/FLUX-1"
    ):
        preset("ideabench/flux", "--model m")


def test_every_preset_that_is_not_of_diffusers_has_a_note() -> None:
    assert all(one.note for one in presets().values() if one.runs != "diffusers")
