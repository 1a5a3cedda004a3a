"""What the CREval builder refuses to ship, part by part, without a model."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from refbench.benchmarks.creval.cases import DIMENSIONS
from refbench.builders.creval.asking import (
    instruction_fault,
    question_fault,
    read_audit,
    read_instruction,
    read_questions,
    read_screening,
    tidy,
)
from refbench.builders.creval.build import read_edit
from refbench.builders.creval.dimensions import Splits, deal, dimensions
from refbench.builders.creval.item import ItemQuestion
from refbench.builders.kit.draws import quotas
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.pictures import distinct_pictures, plain_picture, stems
from refbench.builders.kit.replies import alike
from refbench.builders.kit.review import Decision
from refbench.failure import Failure
from refbench.pictures import decode, encode, read_facts
from refbench.pictures.collection import collect
from refbench.record import RefBenchError

# --- machine checks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "blank"),
        ("Is the lid {{brand}} shown on top?", "braces"),
        ("What colour does the dog have?", "unanswerable"),
        ("The dog's collar being red?", "unanswerable"),
        ("Is the dog drawn as described in the text?", "unanswerable"),
        ("Does the result follow the instruction closely?", "unanswerable"),
        ("Is the dog made of glass, right?", "leaking answer"),
        ("Is the dog made of glass (answer is Yes)?", "leaking answer"),
        ("The dog is made of glass, isn't it?", "leaking answer"),
        ("Is the dog red? Is the cat blue?", "not one question"),
        ("Is the dog made of glass.", "not one question"),
        ("Is the dog made of glass, and are the trees made of paper?", "two in one"),
        ("Is it?", "length"),
        ("Is the dog\x07 made of glass?", "unprintable"),
    ],
)
def test_a_question_that_a_judge_cannot_use_is_named(text: str, kind: str) -> None:
    fault = question_fault(text)
    assert fault is not None
    assert fault[0] == kind


@pytest.mark.parametrize(
    "text",
    [
        "Is the dog's head turned slightly to the right?",
        "In the lower left corner, does a red seal appear?",
        "Are the black and white tiles still in the same order?",
        "Is there a glowing furnace in the background to the upper right?",
    ],
)
def test_a_plain_question_passes(text: str) -> None:
    assert question_fault(text) is None


def test_of_the_released_questions_the_checks_turn_down_few_and_the_known_ones(creval_mini: Path) -> None:
    kinds: Counter[str] = Counter()
    for path in sorted((creval_mini / "bench/questions_all").rglob("*.json")):
        for entry in json.loads(path.read_bytes())["quality_check_questions"]:
            fault = question_fault(tidy(" ".join(entry["question"].split())))
            kinds[fault[0] if fault else ""] += 1
    assert kinds["blank"] == 1  # spec B2: 1718672694.31025 Q6
    assert kinds["braces"] == 1  # spec B2: v2v_521 Q5
    assert kinds["leaking answer"] == 0
    assert kinds[""] / kinds.total() > 0.96


def test_released_instructions_pass_and_no_two_are_alike(creval_mini: Path) -> None:
    prompts = [
        " ".join(i["input_prompt"].split()) for i in json.loads((creval_mini / "bench/instruction.json").read_bytes())
    ]
    assert [fault for fault in map(instruction_fault, prompts) if fault] == ["the instruction has braces"]
    assert max(alike(a, b) for a, b in itertools.combinations(prompts, 2)) < 0.3


def test_questions_lose_their_dress_and_no_word() -> None:
    assert tidy('**Q3: Is the word "open" on the `sign`?**') == "Is the word 'open' on the sign?"


def test_our_examples_pass_our_own_checks_and_repeat_nobody(creval_mini: Path) -> None:
    mine = [example for dimension in dimensions().values() for example in dimension.examples]
    assert len(mine) == 27
    assert [instruction_fault(example) for example in mine] == [""] * 27
    released = [item["input_prompt"] for item in json.loads((creval_mini / "bench/instruction.json").read_bytes())]
    assert max(alike(a, b) for a in mine for b in released) < 0.3


# --- replies -------------------------------------------------------------------------------------------------


def entry(text: str, **changes: object) -> dict[str, object]:
    return {"thinking": "It is seen.", "question": text, "answer": "Yes", "weight": 2, **changes}


GOOD = [entry(f"Is the {thing} of the house unchanged?") for thing in ("roof", "door", "wall", "path", "light")]


def reply(questions: list[dict[str, object]], key: str = "may_change") -> str:
    return json.dumps({key: ["the sky"], "questions": questions})


def test_questions_that_fail_a_check_are_left_out_and_counted() -> None:
    bad = [
        entry("Is the roof of this house still unchanged?"),
        entry("Is the fence kept as it was?", answer="No"),
        entry("Is the gate kept as it was?", weight=7),
        entry("Is the well kept as it was?", weight=True),
        entry("Is the tree kept as it was?", thinking=""),
    ]
    written = read_questions(reply([*GOOD, *bad]), "VC")
    assert not isinstance(written, Failure)
    assert [one.weight for one in written.questions] == [2] * 5
    assert [kind for _, kind, _ in written.faults] == ["duplicate", "reference", "weight", "weight", "no reason"]


def test_too_few_questions_are_a_complaint_that_says_what_is_wrong() -> None:
    failure = read_questions(reply([*GOOD[:4], entry("What is on the roof?")]), "VC")
    assert isinstance(failure, Failure)
    assert "4 questions can be used, at least 5" in failure.detail
    assert "Yes or No does not answer it" in failure.detail


def test_there_are_never_ten_questions() -> None:
    """The released reader takes Q10 for Q1 where Q1 is missing."""
    many = [
        entry(f"Is the {thing} kept as it was?")
        for thing in ["ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay", "kite"]
    ]
    written = read_questions(reply(many), "VC")
    assert not isinstance(written, Failure)
    assert len(written.questions) == 9
    assert [kind for _, kind, _ in written.faults] == ["surplus"] * 2


def test_weights_are_asked_of_consistency_only() -> None:
    written = read_questions(reply([entry(str(one["question"]), weight=3) for one in GOOD], "requirements"), "IF")
    assert not isinstance(written, Failure)
    assert {one.weight for one in written.questions} == {1}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty_reply"),
        ("I'm sorry, I can't help with that.", "refused"),
        ('{"thinking": "a", "instruction": "Turn the dog into a statue of clay that', "unparsable"),
        ('{"instruction": "Turn the dog into a statue of clay that stands in a park."}', "unparsable"),
        (json.dumps({"thinking": "a", "instruction": "Turn it."}), "unparsable"),
        (json.dumps({"thinking": "a", "instruction": ["Turn"]}), "unparsable"),
        (
            json.dumps(
                {
                    "thinking": "",
                    "instruction": "As an AI I cannot edit pictures of people in this way, sorry about that.",
                }
            ),
            "unparsable",
        ),
        ("{" * 5000, "unparsable"),
    ],
)
def test_a_reply_that_is_not_whole_is_never_an_instruction(text: str, kind: str) -> None:
    failure = read_instruction(text, ())
    assert isinstance(failure, Failure)
    assert failure.kind == kind


def test_an_instruction_that_copies_an_example_is_none() -> None:
    example = dimensions()[4].examples[0]
    failure = read_instruction(json.dumps({"thinking": "a", "instruction": example}), (example,))
    assert isinstance(failure, Failure)
    assert "repeats one of the examples" in failure.detail


def test_thoughts_are_not_the_reply() -> None:
    draft = json.dumps({"thinking": "a", "instruction": "one two three four five six seven eight draft"})
    final = draft.replace("draft", "final")
    assert read_instruction(f"<think>{draft}</think>{final}", ()) == "one two three four five six seven eight final"
    both = read_instruction(draft + final, ())
    assert isinstance(both, Failure)
    assert "differ" in both.detail


@pytest.mark.parametrize("suits", [[0], [10], ["1"], [True], "1", [[1]]])
def test_a_screening_names_dimensions_by_their_numbers(suits: object) -> None:
    said = {"seen": "a dog", "usable": "Yes", "reason": "sharp", "suits": suits}
    assert isinstance(read_screening(json.dumps(said)), Failure)


def test_the_audit_flags_what_cannot_tell_an_edit_from_none() -> None:
    questions = [ItemQuestion(question=f"Is {thing} there?") for thing in ("a bell", "a coat", "a drum")]
    said = "\n".join(
        json.dumps({"Question": f"Q{n}: ?", "explanation": "", "answer": answer})
        for n, answer in enumerate(("Yes", "No", "Not applicable"), 1)
    )
    assert read_audit(said, "IF", questions) == (True, False, False)
    assert read_audit(said, "VC", questions) == (False, True, True)
    assert isinstance(read_audit(said.splitlines()[0], "IF", questions), Failure)


# --- the plan ------------------------------------------------------------------------------------------------


def test_items_are_balanced_over_nine_dimensions() -> None:
    for size in (9, 10, 44, 904):
        found = quotas(size, tuple(DIMENSIONS), 3)
        assert sum(found.values()) == size
        assert max(found.values()) - min(found.values()) <= 1


def test_dealing_reaches_the_largest_matching() -> None:
    """Against SciPy's maximum bipartite matching, with a column for each place."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    rng = np.random.default_rng(5)
    for _ in range(60):
        places = {d: int(rng.integers(0, 4)) for d in DIMENSIONS}
        suits = {f"p{n}": [d for d in DIMENSIONS if rng.random() < 0.2] for n in range(14)}
        dealt = deal(suits, places)
        assert all(number in suits[picture] for picture, number in dealt.items())
        assert all(many <= places[number] for number, many in Counter(dealt.values()).items())
        columns = [d for d, many in places.items() for _ in range(many)]
        if columns:
            fits = csr_matrix([[int(d in suits[p]) for d in columns] for p in suits])
            assert len(dealt) == int((maximum_bipartite_matching(fits, perm_type="column") >= 0).sum())


def test_where_everything_suits_everything_dealing_is_even() -> None:
    dealt = deal({f"p{n}": tuple(DIMENSIONS) for n in range(18)}, quotas(90, tuple(DIMENSIONS), 0))
    assert set(Counter(dealt.values()).values()) == {2}


@pytest.mark.parametrize("share", [0.2, 1 / 3, 0.5])
def test_each_dimension_gives_its_share_to_the_test_split(share: float) -> None:
    splits = Splits(share, 1)
    dealt = [(d, splits.of_next(d)) for _ in range(30) for d in DIMENSIONS]
    for dimension in DIMENSIONS:
        count = sum(split == "test" for d, split in dealt if d == dimension)
        assert abs(count - 30 * share) < 1.001
    assert abs(sum(split == "test" for _, split in dealt[:27]) - 27 * share) <= 3


# --- pictures ------------------------------------------------------------------------------------------------


def photograph(seed: int, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """Smooth patches of colour: something with looks of its own."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def test_of_lookalikes_the_largest_is_used_and_the_others_are_on_record(tmp_path: Path) -> None:
    photograph(1, (96, 80)).save(tmp_path / "a.png")
    photograph(1, (192, 160)).save(tmp_path / "b.jpg", quality=80)
    photograph(2).save(tmp_path / "c.png")
    (tmp_path / "d.png").write_bytes(b"no picture")
    dropped = DroppedItems()
    kept = distinct_pictures(tmp_path, dropped)
    assert [one.name for one in kept] == ["b.jpg", "c.png"]
    assert {(one.id, one.reason) for one in dropped} == {("a.png", "near-duplicate"), ("d.png", "unreadable")}


def test_names_in_the_dataset_are_unlike_and_fit_any_file_system(tmp_path: Path) -> None:
    names = [
        "x/1.png",
        "y/1.jpg",
        "y/A b:c.png",
        "y/plain.v2.png",
        "Cat.png",
        "cat.jpg",
        f"{'long' * 50}.png",
        "é.png",
        "e\u0301.png",
    ]
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        photograph(number).save(tmp_path / name)
    found = stems(collect(tmp_path).found)
    assert found["y/plain.v2.png"] == "plain.v2"
    assert len({stem.casefold() for stem in found.values()}) == len(names)
    assert all(len(stem.encode()) <= 200 and not set(stem) & set('/\\:*?"<>| ') for stem in found.values())


@pytest.mark.parametrize("odd", ["palette", "grey", "alpha", "turned", "bmp", "profile", "liar"])
def test_odd_pictures_are_shipped_plain(tmp_path: Path, odd: str) -> None:
    picture, name, more = photograph(4), "p.png", {}
    if odd == "palette":
        picture = picture.convert("P")
    elif odd == "grey":
        picture = picture.convert("L")
    elif odd == "alpha":
        picture.putalpha(128)
    elif odd == "turned":
        exif = Image.Exif()
        exif[0x0112] = 6
        name, more = "p.jpg", {"exif": exif}
    elif odd == "bmp":
        name = "p.bmp"
    elif odd == "profile":
        more = {"icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()}
    else:
        name = "p.jpg"
    data = io.BytesIO()
    picture.save(data, {"turned": "JPEG", "bmp": "BMP"}.get(odd, "PNG"), **more)
    (tmp_path / name).write_bytes(data.getvalue())
    plain = plain_picture(tmp_path, collect(tmp_path).found[0], "p", tmp_path / "copies")
    assert not isinstance(plain, Failure)
    facts = read_facts(plain.path)
    assert not isinstance(facts, Failure)
    assert (facts.mode, facts.orientation, facts.icc) == ("RGB", 1, False)
    assert plain.size == (facts.width, facts.height) == ((80, 96) if odd == "turned" else (96, 80))
    assert plain.extension == {"jpeg": ".jpg", "png": ".png"}[facts.format]
    shown, expected = decode(plain.path.read_bytes()), decode(data.getvalue())
    assert not isinstance(shown, Failure)
    assert not isinstance(expected, Failure)
    assert np.abs(shown.astype(int) - expected).mean() < 3


def test_a_plain_picture_is_shipped_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(encode(np.asarray(photograph(3))))
    plain = plain_picture(tmp_path, collect(tmp_path).found[0], "p", tmp_path / "copies")
    assert not isinstance(plain, Failure)
    assert plain.path == tmp_path / "p.png"
    assert not plain.copied


# --- what people say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"class_id": 3}, "class_id cannot be edited"),
        ({"instruction": "Too short."}, "2 words"),
        ({"IF": "[broken"}, "JSON list"),
        ({"IF": ["Is one question enough for a metric?"]}, "give 5 to 9 questions"),
        ({"VQ": [{"question": "Is it as sharp as it was?", "weight": 3}]}, "weight is 1"),
        ({"VC": [{"question": "Why is it so sharp now?"}]}, "question 1: Yes or No does not answer it"),
    ],
)
def test_an_edit_that_cannot_be_shipped_is_the_users_to_mend(edit: dict[str, object], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        read_edit(Decision(id="a", decision="edit", edit=edit))


def test_examples_of_a_user_come_first_and_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"class_id": 2, "input_prompt": "Mine one."}\n{"dimension": "surreal fantasy", "input_prompt": "Mine two."}\n'
    )
    known = dimensions(path)
    assert known[2].shown(0, "x")[0] == "Mine one."
    assert known[3].theirs == ("Mine two.",)
    for text in ('[{"class_id": 12, "input_prompt": "x"}]', '[{"class_id": 1}]', '[{"class_id": [1]}]', "[1]", "{"):
        path.write_text(text)
        with pytest.raises(RefBenchError, match=r"mine.*--examples|--examples .*mine"):
            dimensions(path)
