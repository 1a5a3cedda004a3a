"""Who is left out: a state of its own when it is everybody, and of pairs never for a correlation."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.record import RefBenchError
from refbench.studies.adjudication import disputed
from refbench.studies.design import StudyDesign, write_design
from refbench.studies.evidence import _told
from refbench.studies.exclusion import LEAST_SHARED
from refbench.studies.items import Item, ItemOutput
from refbench.studies.pack import pack
from refbench.studies.reading import read
from refbench.studies.room import room_of
from refbench.studies.shown import Shown
from refbench.studies.study import Study
from support.studies import picture, rate_items, study
from support.study_raters import Answer, answer_all, answer_one, marks_by

MODELS = ("apple", "birch", "cedar")
CASES = 12
"""36 pairs: the rule of one and the same mark speaks from 30 on."""


def pair_study(folder: Path, **design: Any) -> Study:
    shown = {model: picture(folder, f"{model}.png", n) for n, model in enumerate(MODELS)}
    items = [
        Item(
            id=f"case{case:02d} {first} {second}",
            case=f"case{case:02d}",
            screen="pair",
            outputs=tuple(ItemOutput(model=name, pictures=(shown[name],)) for name in (first, second)),
        )
        for case in range(CASES)
        for first, second in combinations(MODELS, 2)
    ]
    made = study(folder, items, screen="pair", criteria=(), gold=0, **design)
    for number in range(3):
        rng = np.random.default_rng(20 + number)

        def at_random(item: Item, shown: Shown, rng: np.random.Generator = rng) -> dict[str, str]:
            return {"preference": str(rng.integers(2))}

        answer_all(made, made.raters.add(), at_random)
    return made


def test_raters_who_prefer_nothing_in_common_are_not_left_out(tmp_path: Path) -> None:
    """Where models are equally good, correlations of preferences lie around 0: some of three are below."""
    reading = read(pair_study(tmp_path))
    known = [one.correlation for one in reading.facts if one.marks >= LEAST_SHARED]
    assert any(one is not None and one < 0 for one in known)
    assert reading.fallen == () and not reading.nobody_left


def test_where_everybody_is_left_out_export_says_so(tmp_path: Path, run_cli: Any) -> None:
    folder = tmp_path / "s"
    # Of two marks one is always as frequent as this: nobody can pass.
    assert read(pair_study(folder, exclusion={"same": 0.01})).nobody_left
    code, said, _ = run_cli("study", "export", folder)
    assert code == 0 and "every rater is left out" in " ".join(said.split()) and "strength" not in said
    code, said, _ = run_cli("study", "export", folder, "--json")
    told = json.loads(said)
    assert code == 0 and told["arena"] is None and told["raters"] == len(told["left_out"]) == 3
    code, _, err = run_cli("study", "export", folder, "--into", tmp_path)
    assert code == 2 and "every rater is left out" in " ".join(err.split())
    assert run_cli("study", "export", folder, "--out", tmp_path / "kept.csv")[0] == 0
    assert len((tmp_path / "kept.csv").read_text().splitlines()) == 1
    code, said, _ = run_cli("study", "export", folder, "--everybody", "--json", "--out", tmp_path / "all.csv")
    told = json.loads(said)
    assert code == 0 and told["arena"]["pairs"] == 108 and told["arena"]["models"] == list(MODELS)
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 1 + 108


def sees(made: Study) -> Answer:
    """A rater who marks what there is to see."""
    quality = dict(zip(made.items, np.random.default_rng(1).random(len(made.items)), strict=True))
    return marks_by(lambda item: float(quality[item.id]))


def one_mark_for_all(folder: Path, **design: Any) -> Study:
    """Two raters who mark what they see, and one who gives the lowest mark to everything."""
    made = study(folder, rate_items(folder, 20), **{"overlap": 3, "gold": 0, **design})
    for _ in range(2):
        answer_all(made, made.raters.add(), sees(made))
    answer_all(made, made.raters.add(), marks_by(lambda item: 0))
    return made


def test_items_of_raters_who_are_left_out_or_withdrawn_are_given_to_others(tmp_path: Path) -> None:
    made = one_mark_for_all(tmp_path)
    assert read(made).left_out == {"r03"}
    made = Study.open(tmp_path)
    told = made.status()
    assert told.covered == {2: 20} and any("2 of 3 raters count" in note for note in told.notes)
    assert disputed(made) == []  # they disagree with one who is left out, and with nobody else
    assert answer_all(made, made.raters.add(), sees(made)) == 20
    made.raters.change("r01", revoked=True)
    made = Study.open(tmp_path)
    assert room_of(made, "r05").free == 20
    # Who is only forgotten has marked what was marked.
    made.raters.change("r01", forgotten=True)
    assert room_of(Study.open(tmp_path), "r05").full == 20


def test_rules_that_were_changed_after_the_marks_are_not_called_fixed_beforehand(tmp_path: Path) -> None:
    made = one_mark_for_all(tmp_path)
    assert "1 left out by rules fixed beforehand" in _told(made, read(made), "IQ")
    changed = made.design.exclusion.model_copy(update={"same": 0.9})
    write_design(tmp_path, StudyDesign(**{**dict(made.design), "exclusion": changed}))
    made = Study.open(tmp_path)
    told = _told(made, read(made), "IQ")
    assert "1 left out by rules that were changed after these marks were given" in told and "beforehand" not in told


def test_gold_comes_in_proportion_to_items_and_a_package_needs_one(tmp_path: Path, run_cli: Any) -> None:
    items = rate_items(tmp_path, 16)
    gold = [item.model_copy(update={"id": f"gold {item.id}", "use": "gold"}) for item in items[:8]]
    made = study(tmp_path, [*items, *gold], overlap=1, gold=8)
    first, second, third, late = (made.raters.add() for _ in range(4))
    answer = marks_by(lambda item: 0.5)
    for _ in range(3 * 6):
        answer_one(made, first, answer)
    answer_all(made, second, answer)

    def given(rater: str, use: str) -> int:
        return sum(made.items[mark.item].use == use for mark in made.marks.of(rater))

    assert given(first.id, "item") == 12 and given(first.id, "gold") == 6
    assert given(second.id, "item") in (1, 2, 3, 4) and given(second.id, "gold") <= 2
    assert made.next_items(third) == [] and made.progress(third).total == 0
    with pytest.raises(RefBenchError, match="0 items free"):
        pack(made, late, tmp_path / "packed")
    assert not (tmp_path / "packed").exists()
    assert run_cli("study", "pack", tmp_path, "--rater", late.id, "--out", tmp_path / "packed")[0] == 2
