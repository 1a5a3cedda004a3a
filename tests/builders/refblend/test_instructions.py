"""Instructions: ten phrases a type, the official form, the caption last and once, captions that would mislead refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refbench.benchmarks.multiref.cases import Entry, read_entry, spoken_caption, type_of_token
from refbench.builders.refblend.instructions import CAPTION_LEAD, LEAD, TOKEN, compose, load_templates
from refbench.builders.refblend.plan import Offer, PlannedSample, plan
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.rewriting import load_personas, persona_for
from refbench.builders.refblend.samples import Sample
from refbench.builders.refblend.types import TYPES, Type, set_of
from refbench.failure import Failure
from refbench.record import RefBenchError

RULES = load_rules("table7")
TEMPLATES = load_templates(RULES)
PICTURED = sorted(set(TYPES) - {"caption"})


def path_of(kind: Type, number: int) -> str:
    return f"references/{kind}/{number}.png"


def composed(planned: PlannedSample, caption: str | None = "A red cup on a table", seed: int = 0) -> Sample:
    made = compose(planned, RULES, TEMPLATES, path_of, caption, seed=seed)
    assert isinstance(made, Sample)
    return made


PAIR = PlannedSample("a.png", ("canny", "caption"), ((0,), (0,)))
BARE = PlannedSample("a.png", ("canny", "style"), ((0,), (2,)))
CROWD = PlannedSample("a.png", ("caption", "pose", "subject"), ((0,), (1, 3), (0, 2, 4)))


def test_every_type_but_the_caption_has_ten_different_templates_with_its_own_placeholder() -> None:
    assert sorted(TEMPLATES) == PICTURED
    for kind, phrases in TEMPLATES.items():
        assert len(phrases) == 10 == len({phrase.casefold().rstrip(".") for phrase in phrases}), kind
        assert all(phrase.count("{}") == 1 and "caption" not in phrase for phrase in phrases)


def test_the_shipped_file_uses_the_placeholders_of_the_specification() -> None:
    import refbench.builders.refblend.instructions as module

    text = (Path(module.__file__).with_name("data") / "templates.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = Counter(TOKEN.findall("\n".join(lines)))
    assert found == dict.fromkeys([f"<{RULES.types[kind].placeholder}>" for kind in PICTURED], 10)
    tokens = (
        "style_image subject_1 sketch_image depth_image canny_image semantic_image bbox_image mask_image pose_image"
    )
    assert {token.strip("<>") for token in found} == set(tokens.split())


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 5),
    st.dictionaries(st.sampled_from(TYPES), st.integers(1, 4), min_size=6),
    st.text(st.characters(exclude_categories=["Cc"]), min_size=1).filter(lambda text: bool(text.split())),
)
def test_every_instruction_names_its_references_once_and_its_caption_last(
    seed: int, counts: dict[Type, int], caption: str
) -> None:
    for planned in plan([Offer("a.png", counts)], RULES, several={"pose": 2, "subject": 3}, seed=seed):
        made = compose(planned, RULES, TEMPLATES, path_of, caption, seed=seed)
        if isinstance(made, Failure):
            assert "caption" in planned.types and TOKEN.search(" ".join(caption.split()))
            continue
        text = made.instruction
        assert text.startswith(f"{LEAD} ") and "\n" not in text
        head = text if made.caption is None else text[: text.index(CAPTION_LEAD)]
        assert [token.strip("<>") for token in TOKEN.findall(head)] == list(made.image_path_mapping)
        assert set_of(made.types) == planned.types and all(map(type_of_token, made.image_path_mapping))
        taken = {kind: tuple(given.instance for given in made.of_type(kind)) for kind in planned.types}
        assert taken == dict(zip(planned.types, planned.instances, strict=True))
        assert made.caption is None or text[text.index(CAPTION_LEAD) :].startswith(CAPTION_LEAD + made.caption)


def test_the_form_is_lead_phrases_and_caption() -> None:
    phrase = TEMPLATES["canny"]
    expected = {
        f"Generate an image {each.format('<canny_image>')} following the caption: A red cup on a table."
        for each in phrase
    }
    found = {composed(PAIR, seed=seed).instruction for seed in range(200)}
    assert found == expected, "every template is drawn sooner or later"


@pytest.mark.parametrize(
    "caption, end",
    [
        ("A cup", "caption: A cup."),
        ("A cup.", "caption: A cup."),
        ("A cup!", "caption: A cup!"),
        ("一只杯子。", "caption: 一只杯子。"),
        ("A sign says “Stop.”", "caption: A sign says “Stop.”"),
        ("  two\n lines ", "caption: two lines."),
        ("a\x00b\x1b[31m c", "caption: a b [31m c."),
        ("its caption: none", "caption: its caption: none."),
    ],
)
def test_the_caption_ends_in_one_full_stop(caption: str, end: str) -> None:
    assert composed(PAIR, caption).instruction.endswith(f"following the {end}")


def test_without_a_caption_the_instruction_ends_in_a_full_stop_too() -> None:
    made = composed(BARE, None)
    assert re.search(r"[^.]\.$", made.instruction)
    assert made.caption is None and "caption:" not in made.instruction


def test_several_references_of_a_type_have_numbered_placeholders() -> None:
    made = composed(CROWD)
    assert set(made.image_path_mapping) == {"pose_1", "pose_2", "subject_1", "subject_2", "subject_3"}
    assert "<pose_1> and <pose_2>" in made.instruction
    assert "<subject_1>, <subject_2> and <subject_3>" in made.instruction
    assert made.image_path_mapping["pose_2"] == "references/pose/3.png"
    assert made.image_path_mapping["subject_3"] == "references/subject/4.png"


def test_order_and_wording_belong_to_the_seed_and_the_sample() -> None:
    assert composed(BARE) == composed(BARE)
    others = {composed(BARE, seed=seed).instruction for seed in range(100)}
    assert len(others) > 60
    assert {composed(BARE, seed=seed).types for seed in range(20)} == {("canny", "style"), ("style", "canny")}


@pytest.mark.parametrize(
    "caption, kind", [(None, "undefined"), (" \n", "undefined"), ("a <style_image> of it", "unparsable")]
)
def test_a_caption_that_is_missing_or_would_read_as_a_reference_is_a_failure(caption: str | None, kind: str) -> None:
    made = compose(PAIR, RULES, TEMPLATES, path_of, caption)
    assert isinstance(made, Failure) and made.kind == kind


def test_multiref_bench_reads_the_sample_as_it_is_meant() -> None:
    for planned in (PAIR, BARE, CROWD):
        made = composed(planned)
        told = {
            "conditions": list(made.types),
            "image_path_mapping": dict(made.image_path_mapping),
            "original_prompts": made.instruction,
        }
        entry = read_entry({"id": made.id, "original_image_path": made.picture, "instructions": told}, 0)
        assert isinstance(entry, Entry) and entry.types == made.types and entry.caption == made.caption
        assert entry.mapping == made.image_path_mapping and not entry.unknown_types
        assert spoken_caption(made.instruction) == made.caption


@pytest.mark.parametrize(
    "text, told",
    [
        ("of <style_image>", "line 1: a line \\[type\\] has to come"),
        ("[stile]", "line 1: \\[stile\\] is no type"),
        ("[caption]\nof it", "line 1: \\[caption\\] is no type"),
        ("[style]\nin a style", "line 2: a template names its reference once"),
        ("[style]\nof <style_image> or <style_image>", "line 2: a template names"),
        ("[style]\nof <canny_image>", "line 2: a template names"),
        ("[style]\nof {x} <style_image>", "line 2: a template names"),
        ("[style]\nwith the caption: <style_image>", "line 2: 'caption:'"),
        ("[style]\nlike <style_image>\n# no\nLike <style_image>.", "line 4: the same template stands above"),
        ("[style]\nlike <style_image>", "has no template for bbox"),
    ],
)
def test_a_wrong_file_of_templates_is_told_by_its_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(RefBenchError, match=told):
        load_templates(RULES, path)


def test_templates_of_ones_own_need_only_the_types_in_use(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("[canny]\nnach den Kanten von <canny_image>\n", "utf-8")
    templates = load_templates(RULES.restricted(types=("canny", "caption")), path)
    made = compose(PAIR, RULES, templates, path_of, "Eine Tasse")
    assert isinstance(made, Sample)
    assert made.instruction == "Generate an image nach den Kanten von <canny_image> following the caption: Eine Tasse."


def test_our_personas_are_a_few_dozen_different_roles() -> None:
    personas = load_personas()
    assert 24 <= len(personas) == len({persona.casefold() for persona in personas})
    assert all(re.match(r"an? [a-z]", persona) for persona in personas), "roles, not names"


@pytest.mark.parametrize(
    "text",
    [
        "# mine\na cook\n\n  a   baker \na cook\n",
        '{"persona": "a cook"}\n{"persona": "a baker", "id": 3}\n',
        '[{"persona": "a cook"}, {"persona": "a baker"}]',
        '["a cook", "a baker"]',
        "\ufeffa cook\na baker",
    ],
)
def test_personas_are_read_from_lines_and_json(text: str, tmp_path: Path) -> None:
    path = tmp_path / "personas"
    path.write_text(text, "utf-8")
    assert load_personas(path) == ("a cook", "a baker")


@pytest.mark.parametrize(
    "data, told",
    [
        (b"", "holds no persona"),
        (b"# only\n\n", "holds no persona"),
        (b'{"person": "a cook"}', 'line 1: give a text, or an object with a text under "persona"'),
        (b'a cook\n{"persona": 3}', "line 2: give a text"),
        (b'{"persona": "a cook"', "line 1 is not valid JSON"),
        (b'["a cook"', "is not valid JSON"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"x" * 1001, "line 1: a persona has at most 1000 characters"),
    ],
)
def test_a_wrong_file_of_personas_is_told(data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "personas"
    path.write_bytes(data)
    with pytest.raises(RefBenchError, match=told):
        load_personas(path)


def test_a_sample_has_the_same_persona_for_the_same_seed_and_all_are_used() -> None:
    personas = load_personas()
    drawn = Counter(persona_for(personas, f"sample-{number}", seed=4) for number in range(4000))
    assert set(drawn) == set(personas)
    assert persona_for(personas, "sample-7", seed=4) == persona_for(personas, "sample-7", seed=4)
