"""References: made once each, the same under a seed, poor ones left out by rule, and never two kinds of sketches."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.refblend.captions import named_objects
from refbench.builders.refblend.layouts import SourceLayout
from refbench.builders.refblend.references import Extractors, References, extractors_here, load_thresholds, too_poor
from refbench.builders.refblend.settings import Settings
from refbench.builders.refblend.sources import LabelledPicture, gather
from refbench.engine.workers.executor import EmbeddedExecutor
from refbench.extractors.canny import canny
from refbench.extractors.pose import draw_coco
from refbench.failure import Failure
from refbench.networks import why_not
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from support.blend import drawing, write_drawings

PLAIN = Extractors({"canny": "canny", "sketch": "sketch_dodge"}, {})
PEOPLE = tuple(tuple((8.0 + 4 * n, 10.0 + 3 * n + 20 * p, 2.0) for n in range(17)) for p in range(2))


def pictures(tmp_path: Path, count: int = 3) -> list[LabelledPicture]:
    return list(gather(write_drawings(tmp_path / "in", count), SourceLayout(), tmp_path / "work").pictures)


def make(references: References, given: list[LabelledPicture]) -> dict[str, Failure]:
    return asyncio.run(references.make(given, EmbeddedExecutor()))


def read(path: Path) -> Any:
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)


def test_references_are_lossless_and_those_of_the_extractor(tmp_path: Path) -> None:
    (picture,) = pictures(tmp_path, 1)
    references = References(tmp_path / "work", PLAIN, ("canny", "sketch"))
    assert make(references, [picture]) == {}
    found = references.candidates(picture, {})
    pixels = decode(Path(picture.path).read_bytes())
    assert not isinstance(pixels, Failure)
    assert np.array_equal(read(found["canny"][0].path), canny(pixels))
    assert found["sketch"][0].extractor == "sketch_dodge"
    share = float(np.count_nonzero(canny(pixels))) / canny(pixels).size
    assert found["canny"][0].drawn.facts["edges"] == pytest.approx(share, abs=1e-6)


def test_nothing_is_made_twice_and_what_a_power_cut_emptied_is_made_again(tmp_path: Path) -> None:
    given = pictures(tmp_path)
    make(References(tmp_path / "work", PLAIN, ("canny", "sketch")), given)
    files = sorted((tmp_path / "work/references").rglob("*.png"))
    assert len(files) == 6
    before = {path: path.stat().st_mtime_ns for path in files}
    whole = files[2].read_bytes()
    again = References(tmp_path / "work", PLAIN, ("canny", "sketch"))
    assert again.missing(given) == 0
    files[2].write_bytes(b"")
    assert again.missing(given) == 1
    make(again, given)
    assert files[2].read_bytes() == whole
    assert {p for p in files if p.stat().st_mtime_ns != before[p]} == {files[2]}


def test_the_record_is_in_the_order_of_its_keys_and_survives_half_a_line(tmp_path: Path) -> None:
    given = pictures(tmp_path)
    make(References(tmp_path / "work", PLAIN, ("canny", "sketch")), given)
    path = tmp_path / "work/references.jsonl"
    whole = path.read_bytes()
    assert whole.splitlines() == sorted(whole.splitlines())
    path.write_bytes(b'{"key":"cut o\n' + whole[: len(whole) - 40])
    resumed = References(tmp_path / "work", PLAIN, ("canny", "sketch"))
    assert resumed.missing(given) == 1
    make(resumed, given)
    assert path.read_bytes() == whole


def test_a_picture_that_changes_or_goes_while_it_is_built_fails_and_the_others_do_not(tmp_path: Path) -> None:
    given = pictures(tmp_path, 4)
    Path(given[0].path).write_bytes(encode(drawing(77)))
    Path(given[1].path).unlink()
    Path(given[2].path).write_bytes(b"rubbish")
    references = References(tmp_path / "work", PLAIN, ("canny", "sketch"))
    failed = make(references, given)
    assert set(failed) == {p.sha256 for p in given[:3]}
    assert "has changed" in failed[given[0].sha256].detail
    assert set(references.candidates(given[3], {})) == {"canny", "sketch"}


def annotated(picture: LabelledPicture) -> LabelledPicture:
    from dataclasses import replace

    return replace(picture, people=PEOPLE, boxes=((10.0, 10.0, 60.0, 50.0), (500.0, 500.0, 600.0, 600.0)))


def test_annotated_people_and_boxes_are_drawn_without_a_network(tmp_path: Path) -> None:
    picture = annotated(pictures(tmp_path, 1)[0])
    references = References(tmp_path / "work", Extractors({}, {}), ("pose", "bbox"), seed=5)
    make(references, [picture])
    found = references.candidates(picture, load_thresholds())
    assert [c.extractor for c in found["pose"]] == ["people"]
    assert [c.drawn.box for c in found["bbox"]] == [(10.0, 10.0, 60.0, 50.0)], "the other lies outside the picture"
    shape = read(Path(picture.path)).shape
    seed = references.wanted(picture)["pose"].seed
    drawn = draw_coco(np.array(PEOPLE), shape, seed)
    assert np.array_equal(read(found["pose"][0].path)[:, :, ::-1], drawn)


def test_colours_belong_to_the_seed_and_the_picture(tmp_path: Path) -> None:
    first, second = (annotated(picture) for picture in pictures(tmp_path, 2))
    seeds = [
        References(tmp_path / "work", Extractors({}, {}), ("pose",), seed=seed).wanted(picture)["pose"]
        for seed, picture in ((0, first), (0, first), (1, first), (0, second))
    ]
    assert seeds[0] == seeds[1]
    assert len({wanted.key for wanted in seeds}) == 3


def test_each_person_is_a_reference_where_several_are_wanted(tmp_path: Path) -> None:
    """Also without the network that finds people: the source says where they are."""
    picture = annotated(pictures(tmp_path, 1)[0])
    references = References(tmp_path / "work", Extractors({}, {"pose": "no network"}, each_pose=True), ("pose",))
    make(references, [picture])
    assert len(references.candidates(picture, {})["pose"]) == 2


def test_poor_references_are_left_out_by_thresholds_and_stay_on_record(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/flat.png").write_bytes(encode(np.full((96, 96, 3), 90, np.uint8)))
    (picture,) = gather(tmp_path / "in", SourceLayout(), tmp_path / "work").pictures
    references = References(tmp_path / "work", PLAIN, ("canny", "sketch"))
    make(references, [picture])
    dropped = DroppedItems()
    assert references.candidates(picture, load_thresholds(), dropped) == {}
    assert dropped.counts() == {"thresholds": {"canny: edges below 0.005": 1, "sketch: ink below 0.005": 1}}
    assert set(references.candidates(picture, {})) == {"canny", "sketch"}


def test_thresholds_of_a_user_replace_ours_fact_by_fact(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[canny.edges]\nleast = 0.3\n[sketch]\nink = {}\n")
    mine = load_thresholds(tmp_path / "mine.toml")
    assert too_poor("canny", {"edges": 0.2}, mine) == ("canny: edges below 0.3", "edges 0.2")
    assert too_poor("canny", {"edges": 0.9}, mine) is None, "the upper end is taken away with it"
    assert too_poor("sketch", {"ink": 0.0}, mine) is None
    assert too_poor("mask", {"area": 0.99}, mine) == ("mask: area above 0.95", "area 0.99")
    assert too_poor("mask", {"area": 0.95}, mine) is None, "the limits are included"


@pytest.mark.parametrize(
    "text, said",
    [
        ("[cany.edges]\nleast = 1", "did you mean canny"),
        ("[canny.edge]\nleast = 1", "canny.edge is not measured: of canny there is edges"),
        ("[canny.edges]\nmin = 1", "give least, most or both"),
        ("[canny.edges]\nleast = true", "give least, most or both"),
        ("canny = 3", "give a table of facts"),
    ],
)
def test_wrong_thresholds_are_told_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(RefBenchError, match=said):
        load_thresholds(tmp_path / "mine.toml")


def asked(*types: str) -> Settings:
    return Settings(Path("in"), out=Path("out"), types=types)


def test_the_two_kinds_of_sketches_are_never_mixed() -> None:
    assert (asked("caption,Sketch_Dodge").reference_types, dict(asked("caption,sketch_dodge").variants)) == (
        ("caption", "sketch"),
        {"sketch": "sketch_dodge"},
    )
    assert (asked("caption", "sketch").reference_types, dict(asked("caption", "sketch").variants)) == (
        ("caption", "sketch"),
        {},
    )
    with pytest.raises(RefBenchError, match="never mixed"):
        asked("sketch", "sketch_dodge")
    with pytest.raises(RefBenchError, match="did you mean canny"):
        asked("cany")


def test_maps_of_the_laxer_setting_are_a_kind_of_their_own() -> None:
    lax = asked("semantic_map_low_iou", "caption")
    assert lax.reference_types == ("semantic_map", "caption") and lax.variants == {
        "semantic_map": "semantic_map_low_iou"
    }
    with pytest.raises(RefBenchError, match="never mixed"):
        asked("semantic_map", "semantic_map_low_iou")
    here = extractors_here(lax.reference_types, lax.variants)
    assert {**here.by_type, **here.missing}.keys() == {"semantic_map"}, "offered, or said why not"


def test_a_type_whose_network_is_not_here_is_not_offered_and_the_reason_is_said() -> None:
    here = extractors_here(("canny", "sketch", "depth", "caption"))
    for kind, network in (("sketch", "informative_drawings"), ("depth", "depth_anything_v2_base")):
        reason = why_not(network)
        if reason is None:
            assert here.by_type[kind] == kind  # type: ignore[index]
        else:
            assert here.missing[kind].startswith(reason)  # type: ignore[index]
    assert here.by_type["canny"] == "canny"
    assert "caption" not in here.by_type
    assert extractors_here(("sketch",), {"sketch": "sketch_dodge"}).by_type == {"sketch": "sketch_dodge"}


@pytest.mark.parametrize(
    "labels, said",
    [
        (["dog"], "a dog"),
        (["person", "orange", "person"], "two people and an orange"),
        (["knife"] * 3 + ["bus"] * 12 + ["sandwich", "bench"], "three knives, many buses, a sandwich and a bench"),
    ],
)
def test_objects_are_named_as_people_would(labels: list[str], said: str) -> None:
    assert named_objects(labels) == said


def test_a_picture_in_which_nothing_is_seen_has_no_caption() -> None:
    assert isinstance(named_objects([]), Failure)
