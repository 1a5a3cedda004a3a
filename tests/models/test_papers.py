"""Every row of the papers' tables has a route that can be typed, or says what a user would have to do."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import refbench.benchmarks
from refbench.models.papers import gone, known_models, models_of
from refbench.models.presets import presets
from refbench.record import RefBenchError
from refbench.specs import Spec, model_options

PAPERS = ("multibanana", "creval", "ideabench", "icebench", "multiref")
Refbench = Callable[..., tuple[int, str, str]]
NO_MODEL = {"Total", "Ground Truth"}
HOME = Path(refbench.benchmarks.__file__).parent


def _printed(paper: str) -> set[str]:
    """The rows of a paper's tables; marks of how a row was made are no part of its name."""
    rows = csv.DictReader((HOME / paper / "published.csv").read_text("utf-8").splitlines())
    labels = {re.sub(r"†|-T2I|( \+ GPT-4o$)", "", row.get("label") or row["model"]) for row in rows}
    return {label.replace("Stable Diffusion 3", "SD3") for label in labels} - NO_MODEL


@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_of_a_papers_tables_is_listed_and_no_other(paper: str) -> None:
    assert set(models_of(paper)) == _printed(paper)


@pytest.mark.parametrize("paper", [*PAPERS, "today"])
def test_every_route_is_a_spec_that_can_be_typed_and_asks_for_nothing_that_is_gone(paper: str) -> None:
    for label, model in models_of(paper).items():
        assert (model.route == "") == (model.state == "not provided"), label
        assert model.route or model.note, f"{label}: what would a user have to do?"
        assert (model.usd is None) == (model.priced == ""), label
        if not model.route:
            continue
        inside = Spec.parse(model.route).innermost
        model_options(inside)
        ended = gone(inside.kind, inside.what)
        assert ended is None or ended.announced, label
        if "preset" in inside.options:
            known = presets()[inside.options["preset"]]
            assert (known.paper, known.repository or inside.what) == (paper, inside.what), label


def test_no_fact_is_written_for_nobody() -> None:
    used = {model.name for paper in (*PAPERS, "today") for model in models_of(paper).values()}
    assert used == {model.name for model in known_models().values()}


def test_what_is_gone_is_said_with_its_date() -> None:
    assert models_of("creval")["GPT-Image-1"].gone == "gpt-image-1 was shut down on 23 October 2026"
    assert models_of("multiref")["Claude + SD 2.1"].gone.endswith("stable-diffusion-2-1 was deleted in November 2025")
    assert models_of("icebench")["FLUX"].gone == ""


def test_the_command_shows_a_route_on_one_line(run_cli: Refbench) -> None:
    shown = run_cli("list", "models", "--of", "multibanana")[1].splitlines()
    route = models_of("multibanana")["Nano Banana + Agent (IPR)"].route
    assert shown[shown.index("Nano Banana + Agent (IPR): wire format tested") + 1] == f"  {route}"
    rows = json.loads(run_cli("list", "models", "--of", "creval", "--json")[1])["models"]
    assert {row["label"]: row["state"] for row in rows}["GPT-Image-1"] == "shut down"


def test_a_paper_that_is_not_known_is_said_with_those_that_are(run_cli: Refbench) -> None:
    with pytest.raises(RefBenchError, match=r"--of multibanan: .*multibanana"):
        models_of("multibanan")
    code, _, err = run_cli("list", "metrics", "--of", "creval")
    assert code == 2 and "refbench list models --of creval" in err
