"""Gold items from the judge audit's variants: what is shown is what the audit made, and what is right is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from refbench.builders.audit.variants import read_variants
from refbench.pictures import encode
from refbench.studies.items import Item
from refbench.studies.study import Study
from support.commands import called
from support.study_raters import answer_all, marks_by

CASES = 13


def mosaic(rng: np.random.Generator) -> np.ndarray:
    """Blocks of colour, of a size of its own: unlike every other one, also to a network."""
    side = int(rng.choice([4, 8, 16, 32]))
    blocks = rng.integers(0, 255, (64 // side, 64 // side, 3), dtype=np.uint8)
    return np.repeat(np.repeat(blocks, side, 0), side, 1)


def made_run(root: Path, seed: int = 5) -> Path:
    """Cases with two references, and an output of two models for each, on record and judged by nobody."""
    rng = np.random.default_rng(seed)
    rows, marks = [], ["case,model,score"]
    for n in range(CASES):
        for file in (f"{n}_a.png", f"{n}_b.png", f"A/case{n:02d}.png", f"B/case{n:02d}.png"):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_bytes(encode(mosaic(rng)))
        references = [{"path": f"{n}_{which}.png", "role": "subject"} for which in "ab"]
        rows.append({"id": f"case{n:02d}", "instruction": f"Put both side by side, {n}.", "references": references})
        marks += [f"case{n:02d},A,9", f"case{n:02d},B,2"]
    (root / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / "marks.csv").write_text("\n".join(marks))
    return root / "cases.jsonl"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and the variants of its good outputs."""
    root = tmp_path_factory.mktemp("gold")
    cases = made_run(root / "mine")
    models = [f"--model={model}=folder:{root / 'mine' / model}" for model in "AB"]
    assert called("generate", cases, *models, "--rubric", "five_criteria", "--out", root / "run")[0] == 0
    for name, n in (("variants", CASES), ("few", 3)):
        made = ("--people", root / "mine/marks.csv", "--preset", "quick", "--cases", n, "--out", root / name)
        assert called("audit", "make", root / "run", *made)[0] == 0
    return root


def extra(study: Study, use: str) -> list[Item]:
    return [item for item in study.items.values() if item.use == use]


def test_gold_is_made_of_the_audits_exchanges_and_has_their_answer(root: Path, tmp_path: Path) -> None:
    new = ("study", "new", tmp_path / "s", "--from", root / "run", "--screen", "rate")
    code, said, _ = called(*new, "--variants", root / "variants")
    assert code == 0 and "13 of 13 gold or training items are variants" in said
    study, variants = Study.open(tmp_path / "s"), read_variants(root / "variants")
    kinds, due = [], []
    for place, item in enumerate(extra(study, "gold")):
        output = variants.rows[item.case, "1:other_output"]
        references = variants.rows[item.case, "2:other_references"]
        due.append(2 if place % 3 == 2 and references.state == "made" else 1)
        shown = [Path(picture.file).name for picture in item.outputs[0].pictures]
        if set(item.allowed) == {"instruction_alignment", "reference_consistency"}:
            kinds.append(1)
            assert shown == list(output.outputs) != list(variants.rows[item.case, "clean"].outputs)
            assert item.inputs == next(one for one in extra(study, "item") if one.case == item.case).inputs
        else:  # it is a good output; only that it keeps these references can be known to be wrong
            kinds.append(2)
            assert set(item.allowed) == {"reference_consistency"}
            assert shown == list(variants.rows[item.case, "clean"].outputs)
            assert [Path(picture.file).name for picture in item.inputs] == [*references.inputs.values()]
        assert all(allowed.high == 3 and allowed.low is None for allowed in item.allowed.values())
    assert kinds == due and set(kinds) == {1, 2}
    assert not {item.case for item in extra(study, "gold")} & {item.case for item in extra(study, "training")}
    honest = study.raters.add()
    answer_all(study, honest, marks_by(lambda item: 0.7))
    told = study.status()
    assert [(row.gold_right, row.gold_seen) for row in told.raters if row.rater == honest.id] == [(8, 8)]


def test_a_set_and_a_pair_take_the_other_output(root: Path, tmp_path: Path) -> None:
    variants = read_variants(root / "variants")
    for screen in ("set", "pair"):
        new = ("study", "new", tmp_path / screen, "--from", root / "run", "--screen", screen)
        assert called(*new, "--variants", root / "variants")[0] == 0
        for item in extra(Study.open(tmp_path / screen), "gold"):
            place = 0 if screen == "set" else 1
            names = [Path(picture.file).name for picture in item.outputs[place].pictures]
            assert names == list(variants.rows[item.case, "1:other_output"].outputs)
            assert item.models == ("A", "B")


def test_variants_that_go_only_so_far_are_filled_up_and_those_of_another_run_refused(
    root: Path, tmp_path: Path
) -> None:
    new = ("study", "new", tmp_path / "s", "--from", root / "run", "--screen", "rate", "--variants", root / "few")
    code, said, _ = called(*new)
    study = Study.open(tmp_path / "s")
    assert code == 0 and "3 of 13 gold or training items are variants" in said
    assert len(extra(study, "gold")) == 8 and len({item.case for item in extra(study, "gold")}) == 8
    cases, out = made_run(tmp_path / "others", seed=6), tmp_path / "other-run"
    assert called("generate", cases, "--model", f"A=folder:{cases.parent / 'A'}", "--out", out)[0] == 0
    new = ("study", "new", tmp_path / "t", "--from", out, "--screen", "rate", "--rubric", "five_criteria")
    code, _, err = called(*new, "--variants", root / "few")
    assert code == 2 and "are of another run" in err and not (tmp_path / "t").exists()


def test_training_shows_no_gold_picture_and_all_models_serve(root: Path, tmp_path: Path) -> None:
    assert called("study", "new", tmp_path / "s", "--from", root / "run", "--screen", "rate", "--items", 8)[0] == 0
    study = Study.open(tmp_path / "s")
    gold, training = extra(study, "gold"), extra(study, "training")
    assert len(gold) >= 4 and len(training) == 5
    shown = [tuple(picture.sha256 for picture in item.pictures) for item in (*gold, *training)]
    assert len(set(shown)) == len(shown)
    assert {item.outputs[0].model for item in gold} == {"A", "B"}
