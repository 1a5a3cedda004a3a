"""The parts of the MultiBanana builder: filters and their figures, replies and what they may say, sets and their order,
tags, prompts of paintings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench.benchmarks.multibanana.cases import TAGS, TASKS
from refbench.builders.kit.draws import quotas
from refbench.builders.multibanana.classify import (
    CATEGORIES,
    HARMS,
    LOOK,
    SCREEN,
    UNSUITABLE,
    Look,
    look_prompt,
    read_look,
    read_screen,
    screen_prompt,
    tags_of,
)
from refbench.builders.multibanana.filters import (
    Filter,
    FilterNetworks,
    Filters,
    ObjectFigures,
    PictureFigures,
    choose_networks,
    load_filters,
    measure,
    picture_fault,
)
from refbench.builders.multibanana.pictures import PoolPicture, grids, wishes
from refbench.builders.multibanana.tasks import Candidate, Member, candidates, recipe_of, recipes, why_not
from refbench.builders.multibanana.writing import instruction_fault, read_check, read_written, write_request
from refbench.failure import Failure
from refbench.judges.prompts import placeholders
from refbench.pictures import Pixels, encode
from refbench.record import RefBenchError

PLAIN = Look(
    shows="a thing",
    people=0,
    objects="one",
    object_kind="thing",
    background=False,
    tone=False,
    light=False,
    rendering="photo",
    close_up=False,
    rare=False,
)


def member(number: int, *categories: str, look: Look = PLAIN) -> Member:
    picture = PoolPicture(f"p{number}.png", "p", Path(f"p{number}.png"), ".png", (600, 600), f"{number:064x}", number)
    return Member(picture, look, frozenset(categories))


def subjects(count: int) -> list[Member]:
    return [member(n, "object", "thing") for n in range(count)]


# --- filters -------------------------------------------------------------------------------------------------


def test_the_shipped_filters_are_the_papers_numbers() -> None:
    """Spec A9: aesthetic 6.25, 512 px, box 2 %, 30 % of the box, CLIP 20."""
    limits = {name: one.least for name, one in load_filters().items()}
    assert limits["aesthetic"] == 6.25
    assert limits["size"] == 512
    assert (limits["object_box"], limits["object_mask"], limits["object_name"]) == (0.02, 0.3, 20)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"size": 511}, "size below 512"),
        ({"size": 512}, None),
        ({"aesthetic": 6.2}, "aesthetic below 6.25"),
        ({"unsafe": 0.81}, "unsafe above 0.8"),
        ({"objects": ()}, None),
        ({"objects": [("cat", 0.019, None, None)]}, "object box below 0.02"),
        ({"objects": [("cat", 0.02, 0.29, None)]}, "object mask below 0.3"),
        ({"objects": [("cat", 0.5, 0.3, 19.9)]}, "object name below 20"),
        ({"objects": [("cat", 0.01, None, None), ("dog", 0.5, 0.5, 20.0)]}, None),
        ({"objects": [("cat", 0.01, None, None), ("dog", 0.5, 0.1, None)]}, "object mask below 0.3"),
        ({"unmeasured": {"object": "undefined"}}, "object could not be measured"),
    ],
)
def test_a_picture_is_left_out_for_the_figure_that_is_outside(seen: dict[str, Any], said: str | None) -> None:
    told = dict(seen)
    if "objects" in told:
        told["objects"] = tuple(
            ObjectFigures(label=n, sure=0.9, box=b, mask=m, name=c) for n, b, m, c in seen["objects"]
        )
    fault = picture_fault(PictureFigures.model_validate({"size": 1024, **told}), load_filters())
    assert (fault[0] if fault else None) == said


def test_a_users_filters_stand_in_place_of_ours_field_by_field(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text("[size]\nleast = 64\n[unsafe]\nuse = false\n")
    found = load_filters(path)
    assert (found["size"].least, found["unsafe"].use, found["unsafe"].most) == (64, False, 0.8)
    assert picture_fault(PictureFigures(size=100, unsafe=1.0), found) is None
    for text, said in [
        ("[colour]\nleast = 1", "colour is no table of a filter"),
        ("[size]\nleast = 'x'", "size.least"),
        ("[size]\nlowest = 1", "size.lowest"),
        ("[unsafe]\npredictor = ['nobody']", "no network is called nobody"),
        ("[", "not valid TOML"),
    ]:
        path.write_text(text)
        with pytest.raises(RefBenchError, match=said):
            load_filters(path)
    with pytest.raises(RefBenchError, match="is not there"):
        load_filters(tmp_path / "nothing.toml")


class Drawing:
    """Networks whose answers are known: boxes by hand, masks by brightness, vectors by angle."""

    def __init__(self, boxes: Sequence[tuple[float, float, float, float]], degrees: float = 60.0) -> None:
        self.boxes, self.degrees = boxes, degrees
        self.asked: list[str] = []

    def load(self, name: str, device: str) -> Any:
        return lambda given: [self._say(name, one) for one in given]

    def _say(self, name: str, one: Pixels | str) -> Mapping[str, Any]:
        self.asked.append(name)
        if name == "detector":
            found = np.array(self.boxes, np.float32).reshape(-1, 4)
            return {"boxes": found, "scores": np.full(len(found), 0.9), "labels": np.array(["cat"] * len(found))}
        if name == "mask":
            assert not isinstance(one, str)
            return {"mask": np.where(one[:, :, 0] > 128, 255, 0).astype(np.uint8)}
        angle = np.radians(self.degrees if isinstance(one, str) else 0.0)
        return {"vector": np.array([np.cos(angle), np.sin(angle)]) * (3.0 if isinstance(one, str) else 1.0)}

    def predictors(self, **more: Filter) -> FilterNetworks:
        chosen = {"object": "detector", "object_mask": "mask", "object_name": "clip"}
        return FilterNetworks({**load_filters(), **more}, chosen, {}, load=self.load)


def drawn(tmp_path: Path) -> PoolPicture:
    """200 x 100, black, with a white block of 20 x 50 at (10, 25)."""
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[25:75, 10:30] = 255
    (tmp_path / "drawn.png").write_bytes(encode(pixels))
    return PoolPicture("drawn.png", "drawn", tmp_path / "drawn.png", ".png", (200, 100), "0" * 64, 0)


def test_the_figures_of_an_object_are_shares_of_picture_and_box_and_a_cosine(tmp_path: Path) -> None:
    predictors = Drawing([(10.0, 25.0, 50.0, 75.0)]).predictors()
    (seen,) = measure(drawn(tmp_path), predictors).objects or ()
    assert seen.box == pytest.approx(40 * 50 / (200 * 100))
    assert seen.mask == pytest.approx(0.5)
    assert seen.name == pytest.approx(100 * np.cos(np.radians(60)))
    assert seen.fault(predictors.filters)[1] == ""
    (crossed,) = measure(drawn(tmp_path), Drawing([(10.0, 25.0, 50.0, 75.0)], degrees=80).predictors()).objects or ()
    assert crossed.fault(predictors.filters)[1] == "object name below 20"


def test_a_small_box_is_not_looked_at_closely_and_the_first_that_passes_is_enough(tmp_path: Path) -> None:
    networks = Drawing([(0, 0, 5, 5), (100, 0, 150, 100), (10, 25, 30, 75), (10, 25, 30, 75)])
    seen = measure(drawn(tmp_path), networks.predictors()).objects or ()
    assert [one.mask for one in seen] == [None, 0.0, 1.0]
    assert networks.asked.count("mask") == 2
    assert picture_fault(PictureFigures(size=1024, objects=seen), load_filters()) is None
    none = measure(drawn(tmp_path), Drawing([]).predictors())
    assert none.scenery_only
    assert not PictureFigures(size=1024).scenery_only, "without a detector nobody says that there is nothing"


def test_filters_without_a_network_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    predictors = choose_networks(load_filters())
    assert set(predictors.missing) >= {"unsafe", "object"}
    assert "refbench fetch" in predictors.missing["unsafe"] or "pip install" in predictors.missing["unsafe"]
    assert not {"object_mask", "object_name"} & set(predictors.chosen), "nothing is found whose mask could be looked at"
    assert measure(drawn(tmp_path), FilterNetworks(predictors.filters, {}, {})) == PictureFigures(size=200)


# --- replies -------------------------------------------------------------------------------------------------


def look_reply(**more: Any) -> str:
    said = {c.name: "No" for c in LOOK.criteria}
    said |= {"shows": "a cat", "people": 0, "gender": None, "objects": "one", "object_kind": "animal"}
    return json.dumps({**said, "rendering": "photo", "text": "none", **more})


def test_categories_follow_from_the_levels_of_the_classification() -> None:
    def categories(**more: Any) -> set[str]:
        found = read_look(look_reply(**more))
        assert not isinstance(found, Failure), found
        return set(found.categories())

    assert categories() == {"object", "animal"}
    assert categories(objects="many", object_kind=None) == set()
    person = {"people": 1, "gender": "Female", "makeup": "Yes", "pose": "Yes", "objects": "none", "object_kind": None}
    assert categories(**person) == {"person", "female", "makeup", "pose"}
    assert categories(**{**person, "people": 2}) == set(), "what is asked of one person counts for one only"
    assert categories(rendering="sketch", text="english, japanese", tone="Yes", light="Yes", background="Yes") == {
        *("object", "animal", "style", "text", "tone", "light", "background")
    }
    assert categories(rendering="other") == {"object", "animal"}
    full = read_look(look_reply(**person, rendering="anime", background="Yes"))
    assert not isinstance(full, Failure)
    assert full.categories(scenery_only=True) == {"style", "background"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"people": 1}, "it shows one person, but gender is null"),
        ({"people": 1, "gender": "dog"}, "gender is 'dog'"),
        ({"objects": "two"}, "objects is 'two'"),
        ({"object_kind": "toy"}, "object_kind is 'toy'"),
        ({"rendering": "a photo of a cat"}, "rendering is"),
        ({"text": "english and klingon"}, "text names"),
        ({"tone": "maybe"}, "tone: "),
        ({"people": -1}, "people: "),
    ],
)
def test_a_classification_that_says_something_else_is_asked_for_again(more: dict[str, Any], said: str) -> None:
    found = read_look(look_reply(**more))
    assert isinstance(found, Failure)
    assert found.detail.startswith(said)


def test_half_a_reply_is_no_reply() -> None:
    """Cut anywhere before the last answer, there is no look, no screening and no mark."""
    whole = look_reply()
    for end in range(0, len(whole) - 3, 7):
        assert isinstance(read_look(whole[:end]), Failure)
    assert isinstance(read_look("I'm sorry, I cannot look at this."), Failure)
    assert isinstance(read_check('{"reason": "x", "sensible": "Yes", "needed": "Yes", "breakdown": 2'), Failure)
    out_of_range = read_check('{"reason": "x", "sensible": "Yes", "needed": "Yes", "breakdown": 0, "difficulty": 3}')
    assert isinstance(out_of_range, Failure)


def test_the_screen_asks_for_all_that_the_paper_rules_out() -> None:
    good = {c.name: "No" for c in SCREEN.criteria} | {"reason": "a cat"}
    assert read_screen(json.dumps(good)) == ("", "a cat")
    for name in (*HARMS, *UNSUITABLE):
        assert read_screen(json.dumps({**good, name: "Yes"})) == (name.replace("_", " "), "a cat")
        missing = {key: value for key, value in good.items() if key != name}
        assert isinstance(read_screen(json.dumps(missing)), Failure)
    for text in (screen_prompt(), look_prompt()):
        assert not placeholders(text)


# --- instructions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Put the cat of Image 1 on the sofa of Image 2.", ""),
        ("put the cat of image 1 on image 2's sofa", ""),
        ("", "empty"),
        ("Put the cat on the sofa of Image 2.", "does not mention Image 1"),
        ("Put Image 1 on Image 2 and Image 3.", "mentions Image 3"),
        ("Put Image 1 on Image 12.", "does not mention Image 2"),
        ("Put what is in Images 1 and 2 together.", "each with its own name"),
        ("Put Image 1 on Image 2 {style}.", "template"),
        ("Put <Image 1> on Image 2.", "template"),
        ("Put Image 1 on Image 2 (sofa.jpg).", "names a file"),
        ("Put Image 1 on Image 2.\x07", "cannot be shown"),
        ("Put Image 1 on Image 2" + " very" * 200, "words"),
        ("I'm sorry, I cannot put Image 1 on Image 2.", "refusal"),
        ("Put the reimage 1 on Image 2.", "does not mention Image 1"),
    ],
)
def test_an_instruction_mentions_every_reference_and_no_other(text: str, said: str) -> None:
    fault = instruction_fault(text, tuple(subjects(2)))
    assert said in fault
    assert bool(said) == bool(fault)


def test_the_writer_decides_only_what_the_pictures_allow() -> None:
    hair = member(1, "person", "hairstyle")
    bald = member(2, "person")
    candidate = Candidate(TASKS["hair"], (bald, hair))
    text = "Give the man of Image 1 the hair of Image 2."

    def told(**more: Any) -> Any:
        return read_written(
            json.dumps({"thinking": "x", "modified": 1, "giver": 2, "instruction": text, **more}), candidate
        )

    assert (told().modified, told().giver) == (1, 2)
    assert told(giver="Image 2").giver == 2
    for more, said in [
        ({"giver": 1, "modified": 2}, '"giver" is Image 1'),
        ({"giver": 3}, "not the number"),
        ({"giver": True}, "not the number"),
        ({"modified": 2}, "same reference"),
        ({"modified": "the man"}, "not the number"),
    ]:
        assert said in told(**more).detail
    missing = read_written(json.dumps({"thinking": "x", "instruction": text}), candidate)
    assert isinstance(missing, Failure)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_every_task_has_words_examples_and_a_whole_prompt(task: Any) -> None:
    recipe = recipe_of(task)
    assert set(recipe.base) | set(recipe.giver) <= set(CATEGORIES)
    for example in recipe.examples:
        count = {"single": 1, "two": 2}.get(task.group, 3)
        assert instruction_fault(example, tuple(subjects(count))) == ""
    pool = tuple(member(n, *CATEGORIES) for n in range(task.n_refs))
    *shown, text = write_request(Candidate(task, pool))
    assert len(shown) == 2 * task.n_refs
    assert not placeholders(str(text))
    assert f"Image {task.n_refs}" in str(text)


# --- sets ----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.frozensets(st.sampled_from(["person", "object", "background", "hairstyle", "tone"])), max_size=6),
    st.sampled_from(["single", "add", "hair", "tone", "3_object", "4_back", "5_global"]),
)
def test_a_task_is_possible_just_when_some_choice_of_pictures_fits(shown: list[frozenset[str]], name: str) -> None:
    task, recipe = TASKS[name], recipe_of(TASKS[name])
    pool = [member(n, *categories) for n, categories in enumerate(shown)]

    def fits(chosen: tuple[Member, ...]) -> bool:
        if not recipe.giver:
            return all(one.fits(recipe.base) for one in chosen)
        return any(
            giver.fits(recipe.giver) and all(one.fits(recipe.base) for one in chosen if one is not giver)
            for giver in chosen
        )

    found = any(fits(chosen) for chosen in combinations(pool, task.n_refs))
    assert (why_not(task, pool) == "") == found
    drawn_sets = list(islice(candidates(task, pool, 0), 20))
    assert bool(drawn_sets) == found
    for one in drawn_sets:
        assert len(set(one.references)) == task.n_refs
        assert fits(one.references)
    contents = [frozenset(one.references) for one in drawn_sets]
    assert len(set(contents)) == len(contents), "no set is there twice"


def test_a_picture_more_changes_only_sets_that_it_is_in() -> None:
    pool = [*subjects(20), *(member(n, "background") for n in range(20, 24))]
    more = [*pool, member(99, "object", "thing")]
    before = {one.id: one for one in islice(candidates(TASKS["4_back"], pool, 3), 12)}
    after = {one.id: one for one in islice(candidates(TASKS["4_back"], more, 3), 12)}
    changed = [one for name, one in after.items() if name not in before]
    assert all(more[-1] in one.references for one in changed)
    assert len(changed) < 6
    assert [one.id for one in candidates(TASKS["single"], pool, 3)] != [
        one.id for one in candidates(TASKS["single"], pool, 4)
    ]


def test_the_giver_stands_at_any_place() -> None:
    pool = [*subjects(9), member(50, "background")]
    places = {
        [one.fits(["background"]) for one in candidate.references].index(True)
        for candidate in islice(candidates(TASKS["3_back"], pool, 0), 30)
    }
    assert places == {0, 1, 2}


def test_counts_are_balanced_to_one_set() -> None:
    tasks = list(TASKS.values())
    found = quotas(100, [task.name for task in tasks], 7)
    assert sum(found.values()) == 100
    assert set(found.values()) == {2, 3}
    assert quotas(5, [], 0) == {}
    assert len(recipes()) == 16


def test_tags_are_the_papers_axes() -> None:
    photo = PLAIN
    drawing = PLAIN.model_copy(update={"rendering": "anime", "close_up": True})
    english = PLAIN.model_copy(update={"languages": ("english",)})
    both = PLAIN.model_copy(update={"languages": ("chinese",), "rare": True})
    assert tags_of([photo, photo]) == ()
    assert tags_of([photo, drawing]) == ("domain", "scale")
    assert tags_of([english]) == ("font",)
    assert tags_of([english, both]) == ("rare", "ling")
    assert tags_of([photo, PLAIN.model_copy(update={"rendering": "other"})]) == ()
    assert set(tags_of([photo, drawing, english, both])) < set(TAGS)


# --- paintings -----------------------------------------------------------------------------------------------


def test_wishes_bring_every_category_to_the_number_and_never_say_the_same_twice() -> None:
    counts = dict.fromkeys(grids(), 5) | {"makeup": 2, "text": 9}
    found = wishes(counts, 5, 0)
    assert [one.category for one in found] == ["makeup"] * 3
    every = wishes({}, 6, 0)
    assert len({one.prompt for one in every}) == len(every) == 6 * len(grids())
    assert not any(placeholders(one.prompt) for one in every)
    assert set(grids()) == set(CATEGORIES) - {"person", "object"}
    assert wishes({}, 6, 0) == every != wishes({}, 6, 1)
    used_up = [one for one in wishes({}, 500, 0) if one.category == "light"]
    assert len(used_up) <= len(grids()["light"]["light"]) * len(grids()["light"]["scene"])


def test_limits_are_told_in_words() -> None:
    limits: Filters = {"a": Filter(least=1, most=2.5), "b": Filter(use=False), "c": Filter()}
    assert [one.words() for one in limits.values()] == ["at least 1, at most 2.5", "off", "no limit"]
