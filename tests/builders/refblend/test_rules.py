"""The rules of RefBlend: every reading of the paper gives the sets it should, and a wrong file is told by its key."""

from __future__ import annotations

import csv
import json
import textwrap
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench.builders.refblend.presets import load_rules, presets
from refbench.builders.refblend.rules import allowed_sets, explain, verdict
from refbench.builders.refblend.types import TYPES, name_of, read_set, set_of
from refbench.record import RefBenchError

PUBLISHED = Path(__file__).resolve().parents[4] / "shared/published"
shared = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published tables are not beside this checkout")

TABLE7 = "multiref_table7_combinations.csv"


def names(preset: str, sizes: tuple[int, ...] = (2, 3, 4)) -> set[str]:
    return {name_of(types) for types in allowed_sets(load_rules(preset).restricted(sizes=sizes))}


def table7() -> dict[str, int]:
    with (PUBLISHED / TABLE7).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "count" and row["slice"] != "Total"]
    return {
        "+".join(sorted(row["slice"].replace(" ", "_").split("+"))): int(row["value"].replace(",", "")) for row in rows
    }


@shared
def test_table7_is_exactly_the_32_sets_of_the_paper() -> None:
    assert len(table7()) == 32 and names("table7") == set(table7())


@shared
def test_the_default_proportions_are_the_counts_of_table_7() -> None:
    rules = load_rules()
    assert {name_of(types): share for types, share in rules.proportions.items()} == table7()
    assert sum(rules.proportions.values()) == 100_728


@shared
def test_the_matrix_is_the_printed_one() -> None:
    rules, heeding = load_rules("matrix"), load_rules("matrix-needs-any")
    printed: dict[str, dict[str, str]] = json.loads((PUBLISHED / "refblend_matrix.json").read_text())["matrix"]
    for kind in TYPES:
        for other in TYPES:
            cell = printed[kind][other]
            assert rules.matrix[kind][other] == ("possible" if cell == "depends" else cell), (kind, other)
        depends = set_of(other for other in TYPES if printed[kind][other] == "depends")
        assert (heeding.needs[kind].of if kind in heeding.needs else ()) == depends


@shared
def test_the_matrix_agrees_with_table_2_as_printed() -> None:
    spoken = {"Bounding box": "bbox", "Semantic map": "semantic_map", "Art style": "style"}
    with (PUBLISHED / "multiref_table2_compatibility.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 100
    matrix: Any = load_rules("matrix").matrix
    for row in rows:
        first, second = (spoken.get(word, word.lower()) for word in row["slice"].split(" | "))
        assert matrix[first][second] == row["value"].replace("depends", "possible")


@shared
@pytest.mark.parametrize(
    "preset, sizes, count, shared_with_table7",
    [
        ("matrix", (2, 3), 43, 32),
        ("matrix", (2, 3, 4), 49, 32),
        ("matrix-needs-any", (2, 3, 4), 47, 31),
        ("matrix-needs-all", (2, 3, 4), 39, 25),
        ("sources", (2, 3, 4), 35, 32),
        ("sources-needs-any", (2, 3, 4), 33, 31),
        ("sources-no-bare-style", (2, 3, 4), 32, 31),
        ("r31", (2, 3, 4), 31, 31),
        ("table7", (2, 3, 4), 32, 32),
    ],
)
def test_every_reading_of_the_paper_has_its_count(
    preset: str, sizes: tuple[int, ...], count: int, shared_with_table7: int
) -> None:
    found = names(preset, sizes)
    assert (len(found), len(found & set(table7()))) == (count, shared_with_table7)


def test_what_each_reading_has_beyond_table_7_and_lacks() -> None:
    table = names("table7")
    assert names("sources") - table == {"bbox+style", "caption+style", "pose+style"}
    assert names("sources-needs-any") - table == {"caption+style", "pose+style"}
    assert names("sources-no-bare-style") - table == {"pose+style"}
    for preset in ("matrix-needs-any", "sources-needs-any", "sources-no-bare-style", "r31"):
        assert table - names(preset) == {"mask+style"}


def test_the_printed_rules_taken_literally_give_68_sets_and_50_of_two_or_three_types() -> None:
    assert (len(names("paper-rules")), len(names("paper-rules", (2, 3)))) == (68, 50)


def test_the_printed_rules_are_the_three_sentences() -> None:
    """Written down again as the sentences say them, without matrix or tables."""
    whole, part = {"semantic_map", "depth", "canny", "sketch"}, {"bbox", "mask", "pose"}
    told = set()
    for size in (2, 3, 4):
        for types in map(set, combinations(sorted(TYPES), size)):
            exclusive = len(types & whole) > 1 or (types & whole and types & part)
            needy = types & {"bbox", "mask"} and not types & {"caption", "subject"}
            if not exclusive and not needy:
                told.add("+".join(sorted(types)))
    assert names("paper-rules") == told


def test_what_the_sources_offer_is_that_subject_and_style_never_meet() -> None:
    assert names("sources") == {name for name in names("matrix") if not {"subject", "style"} <= set(name.split("+"))}


def test_every_preset_says_what_it_is_and_has_pairs() -> None:
    assert {"table7", "matrix", "paper-rules"} <= set(presets())
    for preset in presets():
        rules = load_rules(preset)
        assert rules.about and rules.name == preset and allowed_sets(rules)
        assert [kind for kind in TYPES if rules.several(kind)] == ["pose", "subject"]


@given(st.sampled_from(presets()), st.sets(st.sampled_from(TYPES), min_size=1, max_size=6))
def test_a_set_is_listed_if_and_only_if_it_is_explained_as_allowed(preset: str, types: set[Any]) -> None:
    rules = load_rules(preset)
    allowed, sentences = explain(rules, sorted(types))
    assert allowed == (set_of(types) in allowed_sets(rules))
    assert len(sentences) > 1, "a verdict has reasons"
    assert (" is allowed by " in sentences[0]) == allowed


@pytest.mark.parametrize(
    "combination, preset, said",
    [
        ("canny+sketch", "table7", "canny and sketch exclude each other: each fixes the structure of the whole picture."),
        ("canny+mask", "table7", "one fixes a part and the other the whole structure"),
        ("bbox+mask+caption", "matrix", "bbox and mask exclude each other"),
        ("bbox+style", "table7", "bbox needs caption or subject beside it"),
        ("bbox+caption", "matrix-needs-all", "bbox needs caption and subject beside it"),
        ("pose+subject", "matrix", "pose with subject is undefined in the matrix"),
        ("caption+style", "table7", "caption+style is on the list of sets that are denied."),
        ("subject+style", "table7", "No source of pictures offers all of it: style comes from wikiart, stylebooth, human-art; subject comes from dreambooth"),
        ("mask+style", "table7", "The list of exceptions of table7 allows it, although:"),
        ("caption+mask+subject", "table7", "Its proportion is 8808 of 100728."),
        ("canny", "table7", "It has 1 type; samples have 2, 3 or 4."),
        ("canny+canny+caption", "table7", "A sample may have one canny reference only."),
        ("subject+subject+caption", "table7", "A sample may have several subject references"),
    ],
)  # fmt: skip
def test_explanations_name_the_rule(combination: str, preset: str, said: str) -> None:
    allowed, sentences = explain(load_rules(preset), read_set(combination, "test"))
    assert any(said in sentence for sentence in sentences), sentences
    assert allowed == (combination in ("mask+style", "caption+mask+subject", "subject+subject+caption"))


def test_fewer_types_leave_the_sets_that_need_no_other() -> None:
    rules = load_rules("table7").restricted(types=("canny", "sketch", "caption"))
    assert allowed_sets(rules) == (("canny", "caption"), ("caption", "sketch"))
    assert not verdict(rules, ("caption", "depth")).allowed


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_file_changes_what_it_names_and_inherits_the_rest(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
extends = "table7"
sizes = [2]
deny = [["canny", "caption"], ["mask", "style"]]
allow = [["style", "caption"], ["canny", "sketch"]]
[needs]
pose = { any = [] }
[proportions]
"caption+depth" = 3
"pose+style" = 1
""",
    )
    rules = load_rules(path)
    expected = names("table7", (2,)) - {"canny+caption", "mask+style"} | {"caption+style", "canny+sketch", "pose+style"}
    assert {name_of(types) for types in allowed_sets(rules)} == expected
    assert rules.proportions == {("caption", "depth"): 3.0, ("pose", "style"): 1.0}
    assert rules.types == load_rules("table7").types


def test_the_example_in_the_docs_is_a_file_of_rules(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/refblend.md").read_text("utf-8")
    block = page[page.index('    extends = "table7"') : page.index("`[matrix]` and `[types]`")]
    rules = load_rules(write(tmp_path, textwrap.dedent(block)))
    assert rules.proportions == {("caption", "sketch"): 3.0, ("caption", "style"): 1.0}
    assert ("caption", "style") in allowed_sets(rules) and ("canny", "subject") not in allowed_sets(rules)
    assert ("sketch", "style") not in allowed_sets(rules), "a sketch needs a caption or a subject there"


def test_a_file_may_extend_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('extends = "matrix"\nuse = ["canny", "caption", "style"]\n')
    assert allowed_sets(load_rules(write(tmp_path, 'extends = "base.toml"\nsizes = [3]\n'))) == (
        ("canny", "caption", "style"),
    )
    (tmp_path / "base.toml").write_text('extends = "mine.toml"\n')
    with pytest.raises(RefBenchError, match="circle"):
        load_rules(tmp_path / "mine.toml")


ROWS = "\n".join(f'{kind} = "{" ".join("v" * 10)}"' for kind in TYPES)


@pytest.mark.parametrize(
    "text, key",
    [
        ("sizes = [2", "not valid TOML"),
        ('extends = "table7"\nsize = [2]', "size: no such key, did you mean sizes?"),
        ('extends = "table8"', "extends: 'table8' is neither"),
        ("extends = 3", "extends: give"),
        ("sizes = [2]", "types.bbox: is missing"),
        ('extends = "matrix"\nsizes = [1]', "sizes: give"),
        ('extends = "matrix"\nsizes = 2', "sizes: give"),
        ('extends = "matrix"\nsizes = [true]', "sizes: give"),
        ('extends = "matrix"\nuse = ["cany"]', "use: 'cany' is no reference type: did you mean canny?"),
        ('extends = "matrix"\ndeny = [["canny"]]', "deny: canny is no set"),
        ('extends = "matrix"\ndeny = [["canny", "canny"]]', "deny: canny\\+canny is no set"),
        ('extends = "matrix"\ndeny = ["canny+mask"]', "deny: give a list"),
        ('extends = "matrix"\nallow = [["canny", 3]]', "allow: give a list"),
        ('extends = "matrix"\nallow = [["canny", "style"]]\ndeny = [["style", "canny"]]', "canny\\+style is on both lists"),
        ('extends = "matrix"\n[needs]\nbbox = ["caption"]', "needs.bbox: give"),
        ('extends = "matrix"\n[needs]\nbbox = { any = ["bbox"] }', "needs.bbox: a type cannot need itself"),
        ('extends = "matrix"\n[needs]\nbbox = { any = ["box office"] }', "needs.bbox: 'box office' is no"),
        ('extends = "matrix"\n[needs]\nbbox = { most = ["caption"] }', "needs.bbox: give"),
        ('extends = "matrix"\nneeds = 3', "needs: give a table"),
        ('extends = "matrix"\n[sources]\nmine = "canny"', "sources.mine: give a list"),
        ('extends = "matrix"\n[matrix]\nbbox = "v"', "matrix.columns: name each of the ten types"),
        (f'extends = "matrix"\n[matrix]\ncolumns = "{" ".join(TYPES)}"\nbbox = "v v"', "matrix.bbox: give 10 signs"),
        (f'extends = "matrix"\n[matrix]\ncolumns = "{" ".join(TYPES)}"\nbbox = "{" ".join("v" * 10)}"', "matrix.semantic_map: the row is missing"),
        (f'extends = "matrix"\n[matrix]\ncolumns = "{" ".join(TYPES)}"\n{ROWS}', "matrix.bbox: several bbox references need types.bbox.numbered"),
        (f'extends = "matrix"\n[matrix]\ncolumns = "{" ".join(TYPES)}"\n{ROWS.replace("v v", "v x", 1)}', "matrix.bbox: the pair with semantic_map is impossible here and possible"),
        ('extends = "matrix"\n[types]\ncanny = { group = "odd" }', "types.canny.group: give one of"),
        ('extends = "matrix"\n[types]\ncanny = { colour = "red" }', "types.canny.colour: no such key"),
        ('extends = "matrix"\n[types]\ncanny = { placeholder = "edges_of_it" }', "types.canny.placeholder: 'edges_of_it' does not read as a canny"),
        ('extends = "matrix"\n[types]\ncaption = { placeholder = "text_image" }', "types.caption.placeholder"),
        ('extends = "matrix"\n[types]\npose = { numbered = "pose_1" }', "types.pose.numbered: has no"),
        ('extends = "matrix"\n[types]\nnormals = { group = "global" }', "types: 'normals' is no reference type"),
        ('extends = "matrix"\n[proportions]\n"canny+sketch" = 1', 'proportions."canny\\+sketch": the rules forbid this set'),
        ('extends = "matrix"\n[proportions]\n"canny+style" = -1', "give a number, 0 or more"),
        ('extends = "matrix"\n[proportions]\n"canny+style" = inf', "give a number, 0 or more"),
        ('extends = "matrix"\n[proportions]\n"canny+style" = 0', "proportions: all are 0"),
        ('extends = "matrix"\n[proportions]\n"canny+style" = 1\n"style+canny" = 1', "the set is named twice"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_by_its_name_and_key(text: str, key: str, tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=key) as told:
        load_rules(write(tmp_path, text))
    assert "mine.toml" in str(told.value)


def test_what_is_neither_preset_nor_file_is_told_with_the_nearest_preset() -> None:
    with pytest.raises(RefBenchError, match="did you mean table7"):
        load_rules("tabel7")
