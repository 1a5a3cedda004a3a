"""Files of the released data engine as they are: its matrix, its phrases, and what its selector can draw."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.benchmarks.multiref.anomalies import anomalies
from refbench.benchmarks.multiref.cases import load
from refbench.builders.refblend.instructions import load_templates
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.rules import allowed_sets
from refbench.builders.refblend.types import name_of
from refbench.pictures import encode, read_pixels
from refbench.record import RefBenchError
from support.blend import CONPA, built, drawing, tree, write_drawings, write_engine_checkout, write_judged


def test_the_released_matrix_is_a_file_of_rules(tmp_path: Path) -> None:
    rules = load_rules(write_engine_checkout(tmp_path) / "conditions/condition-conpa.csv")
    ours = load_rules("matrix-needs-any")
    assert rules.matrix == ours.matrix and rules.needs == ours.needs and rules.types == ours.types
    assert allowed_sets(rules) == allowed_sets(ours) and len(allowed_sets(rules)) == 47


def test_a_file_of_rules_may_extend_the_released_matrix(tmp_path: Path) -> None:
    write_engine_checkout(tmp_path)
    (tmp_path / "mine.toml").write_text('extends = "conditions/condition-conpa.csv"\nsizes = [2]\n')
    assert {len(types) for types in allowed_sets(load_rules(tmp_path / "mine.toml"))} == {2}


@pytest.mark.parametrize(
    "change, said",
    [
        (("bbox,-,x", "bbox,-"), "line 2: a type and a sign for each"),
        (("style,v", "stile,v"), "did you mean style"),
        (("canny,x,x,x,v,v", "canny,x,x,x,v,o"), "10 signs"),
        (("index,bbox", "index,box"), ""),
    ],
)
def test_a_damaged_matrix_is_told_by_its_place(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "condition-conpa.csv"
    path.write_text(CONPA.replace(*change))
    if not said:  # another spelling of a type is none
        assert allowed_sets(load_rules(path)) == allowed_sets(load_rules("matrix-needs-any"))
        return
    with pytest.raises(RefBenchError, match=said):
        load_rules(path)


# --- the released selector, worked out from its steps ----------------------------------------------------------------

SIGNS = {
    (row["index"], column): sign
    for row in csv.DictReader(io.StringIO(CONPA))
    for column, sign in row.items()
    if column != "index"
}
NAMES = CONPA.split("\n", 1)[0].split(",")[1:]
Chances = dict[frozenset[str], Fraction]


def _steps(chosen: list[str], left: list[str], size: int) -> Iterator[tuple[list[str], list[str]]]:
    """What the selector may go on with: a candidate brings in whatever is `-` to it, and is alone checked for `x`."""
    for candidate in left:
        added = [*(other for other in NAMES if SIGNS[candidate, other] == "-" and other not in chosen), candidate]
        larger = list(dict.fromkeys([*chosen, *added]))
        clash = any("x" in (SIGNS[candidate, other], SIGNS[other, candidate]) for other in larger)
        if len(larger) <= size and not clash and all(other in left for other in added):
            yield larger, [other for other in left if other not in larger]


def _chances(chosen: list[str], left: list[str], size: int) -> Chances:
    if len(chosen) == size:
        return {frozenset(chosen): Fraction(1)}
    return _even([one for step in _steps(chosen, left, size) if (one := _chances(*step, size))])


def _even(ways: list[Chances]) -> Chances:
    total: dict[frozenset[str], Fraction] = defaultdict(Fraction)
    for way in ways:
        for types, chance in way.items():
            total[types] += chance / len(ways)
    return dict(total)


def test_the_preset_sampler_is_what_the_released_selector_draws_and_how_often() -> None:
    drawn: dict[str, float] = defaultdict(float)
    for size, share in ((2, 0.3), (3, 0.7)):
        starts = [_chances([start], [name for name in NAMES if name != start], size) for start in NAMES]
        for types, chance in _even(starts).items():
            drawn["+".join(sorted(types))] += 10_000 * share * float(chance)
    rules = load_rules("sampler")
    matrix = {name_of(types) for types in allowed_sets(load_rules("matrix").restricted(sizes=(2, 3)))}
    ours = {name_of(types) for types in allowed_sets(rules)}
    assert ours == set(drawn) and (len(ours), len(ours & matrix)) == (52, 43)
    assert all({"pose", "subject"} <= set(name.split("+")) for name in ours - matrix)
    shares = {name_of(types): share for types, share in rules.proportions.items()}
    assert shares == pytest.approx(drawn, abs=0.005)


# --- phrases --------------------------------------------------------------------------------------------------------


def test_released_phrases_are_taken_as_they_are(tmp_path: Path) -> None:
    path = write_engine_checkout(tmp_path) / "data/condition_mapping.json"
    templates = load_templates(load_rules(), path)
    released = json.loads(path.read_text())
    assert templates["subject"].count("subject phrase 8 with {}.") == 1 and len(templates["subject"]) == 10
    for kind, phrases in templates.items():
        token = f"<{released[kind]['image_fill_key']}>"
        assert [phrase.format(token) for phrase in phrases] == released[kind]["template"]


def test_phrases_for_another_token_than_the_rules_have_are_refused(tmp_path: Path) -> None:
    path = write_engine_checkout(tmp_path) / "data/condition_mapping.json"
    said = json.loads(path.read_text())
    said["depth"]["image_fill_key"] = "far_image"
    path.write_text(json.dumps(said))
    with pytest.raises(RefBenchError, match="depth: image_fill_key is 'far_image', and 'depth_image' in the rules"):
        load_templates(load_rules(), path)


def test_a_dataset_by_the_released_matrix_and_phrases_is_one_that_multiref_reads(
    run_cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    engine = write_engine_checkout(tmp_path / "engine")
    rules, phrases = engine / "conditions/condition-conpa.csv", engine / "data/condition_mapping.json"
    built(write_drawings(tmp_path / "in", 6), tmp_path / "out", rules=rules, templates=phrases, formats=("json",))
    dataset = load(tmp_path / "out", "synthetic")
    assert dataset.cases
    for case in dataset.cases:
        kinds = [kind for kind in case.details.types if kind != "caption"]
        assert all(f"{kind} phrase " in case.request.instruction for kind in kinds)
    assert {a.kind for a in anomalies(dataset)} <= {"other_count", "missing_enhanced"}
    assert "\n47 sets: " in run_cli("blend", "combos", "--rules", rules)[1]


# --- the judged list ------------------------------------------------------------------------------------------------

TYPES = ("canny", "depth", "mask", "bbox", "style", "caption")
MARKED = {"canny": ("Canny Alignment", "Canny Quality"), "depth": ("Depth Alignment", "Depth Quality")}
MARKED |= {"mask": ("Mask Alignment",), "caption": ("Caption Alignment",)}


def blended(judged: Path, out: Path, types: tuple[str, ...] = TYPES) -> list[dict[str, Any]]:
    """The entries of a dataset with every allowed set."""
    built(judged, out, types=types, samples="all", formats=("json",), preset="sampler")
    found: list[dict[str, Any]] = json.loads((out / "benchmark.json").read_text())
    return found


def test_references_of_a_judged_list_are_taken_as_they_are_without_a_network(tmp_path: Path) -> None:
    engine, out = tmp_path / "engine", tmp_path / "out"
    made = blended(write_judged(engine), out)
    assert {kind for entry in made for kind in entry["instructions"]["conditions"]} == set(TYPES)
    for entry in made:
        name, kinds = Path(entry["source"]).name, entry["instructions"]["conditions"]
        for kind, place in {"canny": "canny", "depth": "depth", "mask": "single_mask"}.items():
            if kind in kinds:
                ours = read_pixels(out / entry["conditions"][f"{kind}_path"])
                assert np.array_equal(ours, read_pixels(engine / place / name))
        if "style" in kinds:
            shown = read_pixels(out / entry["instructions"]["image_path_mapping"]["style_image"])
            assert any(np.array_equal(shown, read_pixels(engine / f"style/{n}" / name)) for n in range(3))
        assert set(entry["judge"]) == {axis for kind in kinds for axis in MARKED.get(kind, ())}
    assert {a.kind for a in anomalies(load(out, "synthetic"))} <= {"other_count", "missing_enhanced"}


def test_what_the_judge_marked_below_three_is_left_out_and_said(tmp_path: Path) -> None:
    judged = write_judged(tmp_path / "engine")
    rows = json.loads(judged.read_text())
    for row in rows:
        row["judge"]["Canny Quality"] = 2
    rows[0]["judge"]["Caption Alignment"] = 1
    judged.write_text(json.dumps(rows))
    made = blended(judged, tmp_path / "out")
    assert not any("canny" in entry["instructions"]["conditions"] for entry in made)
    first = [entry for entry in made if Path(entry["source"]).name == "000.jpg"]
    assert first and not any("caption" in entry["instructions"]["conditions"] for entry in first)
    said = (tmp_path / "out/dropped.jsonl").read_text()
    assert said.count("Canny Quality below 3") == 4 and said.count("Caption Alignment below 3") == 1


def test_a_reference_that_does_not_lie_there_is_told_and_the_rest_of_the_row_stands(tmp_path: Path) -> None:
    judged = write_judged(tmp_path / "engine")
    (tmp_path / "engine/depth/001.jpg").unlink()
    made = blended(judged, tmp_path / "out")
    assert "depth: depth/001.jpg is not there" in (tmp_path / "out/dropped.jsonl").read_text()
    second = [entry for entry in made if Path(entry["source"]).name == "001.jpg"]
    assert second and not any("depth" in entry["instructions"]["conditions"] for entry in second)


def test_a_changed_reference_is_a_new_one(tmp_path: Path) -> None:
    judged, out = write_judged(tmp_path / "engine", 2), tmp_path / "out"
    blended(judged, out, ("canny", "caption"))
    before = tree(out / "images")
    (tmp_path / "engine/canny/000.jpg").write_bytes(encode(drawing(77), "jpeg"))
    blended(judged, out, ("canny", "caption"))
    assert tree(out / "images") != before
