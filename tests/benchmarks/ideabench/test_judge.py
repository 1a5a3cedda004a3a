"""What the judge is sent: stitched in paper, picture by picture in corrected, three times each, counted by ourselves."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refbench.benchmarks.ideabench.benchmark import BENCHMARK
from refbench.benchmarks.ideabench.cases import IdeaCase
from refbench.benchmarks.ideabench.judge import count_card, judging, stitched
from refbench.benchmarks.kit.definition import Asked, Material
from refbench.chat import ChatPicture, ChatText
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.failure import Failure
from support.ideabench import Design, designs, write_checkout, write_outputs, write_picture

BOTH = {"ask": "both"}


class Bench:
    """A checkout, a model's outputs, and what is asked about them."""

    def __init__(self, root: Path, items: list[Design], missing: tuple[int, ...] = ()) -> None:
        self.root = write_checkout(root / "data", items)
        self.out = write_outputs(root / "out", items, missing=missing)
        self.dataset = BENCHMARK.data.load(self.root, None)
        self.folder = root / "sent"

    def store(self, data: bytes, name: str) -> Path:
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{len(list(self.folder.iterdir()))}.{name}"
        path.write_bytes(data)
        return path

    def sent(self, path: Path) -> SentPicture:
        picture = prepare(path, PicturePolicy(), self.store)
        assert isinstance(picture, SentPicture)
        return picture

    def material(self, case: IdeaCase) -> Material:
        inputs = tuple(self.sent(self.dataset.path(p)) for p in case.request.pictures)
        return Material(inputs, tuple(self.sent(path) for path in sorted((self.out / case.id).iterdir())))

    def asked(self, name: str, ask: str = "both") -> tuple[list[Asked], Material]:
        case = self.dataset.by_id()[name]
        how = judging(self.root, {"ask": ask})
        assert how.compose is not None
        material = how.compose(case, self.material(case), self.store)
        return how.ask(case, material), material


def one(asked: list[Asked], part: str, protocol: str) -> Asked:
    (found,) = [item for item in asked if (item.part, item.protocol) == (part, protocol)]
    return found


def test_every_question_is_asked_three_times_and_each_time_is_an_act_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1))
    asked, _ = bench.asked("poster_generation_0001")
    assert Counter(item.protocol for item in asked) == {"paper": 18, "corrected": 18}
    for question in range(1, 7):
        calls = [one(asked, f"q{question}#{call}", "paper") for call in (1, 2, 3)]
        assert len({call.request.key for call in calls}) == 1
        assert [call.draw for call in calls] == [0, 1, 2]
    assert {item.protocol for item in bench.asked("poster_generation_0001", "corrected")[0]} == {"corrected"}


def test_paper_sends_the_question_and_one_stitched_picture(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1))
    name = "three-view_generation_0001"
    asked, material = bench.asked(name)
    text, picture = one(asked, "q1#1", "paper").request.parts
    assert isinstance(text, ChatText)
    assert text.text == bench.dataset.by_id()[name].details.auto[0].text
    made = material.composed["q1"]
    assert isinstance(picture, ChatPicture)
    assert isinstance(made, SentPicture)
    assert picture.sha256 == made.sha256
    inputs = [bench.root / "dataset" / name / "0001.jpg"]
    outputs = [bench.out / name / f"{n:04d}.jpg" for n in (1, 2, 3)]
    assert made.read() == stitched(inputs, outputs)


def test_paper_makes_the_count_a_card_to_be_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1), missing=(2,))
    asked, material = bench.asked("style_group_generation_pixel_art_0001")
    card = material.composed["q2"]
    assert isinstance(card, SentPicture)
    assert card.read() == count_card(3), "three of four outputs are there"
    assert one(asked, "q2#1", "paper").settled is None


def test_corrected_sends_the_files_themselves_named_and_in_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1))
    asked, material = bench.asked("three-view_generation_0001")
    item = one(asked, "q1#1", "corrected")
    assert [p.sha256 for p in item.request.pictures] == [p.sha256 for p in (*material.inputs, *material.outputs)]
    texts = [part.text for part in item.request.parts if isinstance(part, ChatText)]
    assert texts[1:-1] == ["Reference 1:", "Result 1:", "Result 2:", "Result 3:"]
    assert "1 reference, then 3 results" in texts[0]
    assert "missing" not in texts[0]
    assert "question 1: is it as asked?" in texts[-1]
    assert item.request.json_schema is not None


def test_corrected_counts_the_outputs_and_asks_nobody(tmp_path: Path) -> None:
    for missing, score in (((), 1), ((2,), 0)):
        bench = Bench(tmp_path / str(score), designs(1), missing=missing)
        asked, _ = bench.asked("style_group_generation_pixel_art_0001")
        settled = one(asked, "q2#3", "corrected").settled
        assert isinstance(settled, str)
        assert json.loads(settled)["score"] == score
        assert all(item.settled is None for item in asked if not item.part.startswith("q2"))


def test_corrected_tells_the_judge_which_results_are_missing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1), missing=(2,))
    asked, material = bench.asked("style_group_generation_pixel_art_0001")
    texts = [part.text for part in one(asked, "q1#1", "corrected").request.parts if isinstance(part, ChatText)]
    assert "Of the 4 results" in texts[0]
    assert "result 2 is missing" in texts[0]
    assert texts[1:-1] == ["Result 1:", "Result 3:", "Result 4:"]
    assert len(material.outputs) == 3


def test_a_question_about_outputs_that_are_not_there_is_not_put(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1), missing=(3,))
    name = "three-view_generation_0001"
    path = bench.root / "dataset" / name / "auto_eval.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[4]["output_images"] = ["0003.jpg"]
    path.write_text("\n".join(map(json.dumps, lines)))
    bench.dataset = BENCHMARK.data.load(bench.root, None)
    asked, _ = bench.asked(name)
    for protocol in ("paper", "corrected"):
        settled = one(asked, "q5#1", protocol).settled
        assert isinstance(settled, Failure)
        assert settled.kind == "missing_output"


def test_a_reference_that_is_gone_is_left_out_in_paper_and_stops_corrected(tmp_path: Path) -> None:
    items = [Design("three-view_generation", "0044", "I(s)2Is", inputs=1, outputs=2)]
    bench = Bench(tmp_path, items)
    path = bench.root / "dataset" / items[0].name / "auto_eval.jsonl"
    lines = [json.loads(line) | {"input_images": ["0001.jpg", "0002.jpg"]} for line in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, lines)))
    bench.dataset = BENCHMARK.data.load(bench.root, None)
    asked, _ = bench.asked(items[0].name)
    assert one(asked, "q1#1", "paper").settled is None
    settled = one(asked, "q1#1", "corrected").settled
    assert isinstance(settled, Failure)
    assert settled.kind == "unreadable_picture"


def test_outputs_without_official_names_are_taken_in_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path, [Design("plant_growth", "0014", "T2Is", outputs=2)])
    folder = bench.out / "plant_growth_0001"
    for number in (1, 2):
        (folder / f"{number:04d}.jpg").unlink()
        write_picture(folder / f"{'ab'[number - 1]}.jpg", f"other {number}", (30, 30))
    asked, material = bench.asked("plant_growth_0001")
    pictures = one(asked, "q1#1", "corrected").request.pictures
    assert [p.sha256 for p in pictures] == [p.sha256 for p in material.outputs]


def test_an_output_that_cannot_be_decoded_is_shown_to_no_judge(tmp_path: Path) -> None:
    bench = Bench(tmp_path, designs(1))
    path = bench.out / "poster_generation_0001/0001.jpg"
    data = path.read_bytes()
    at = data.index(b"\xff\xda") + 2
    path.write_bytes(data[:at] + b"\x00\x02" + b"\xff\xd9")
    sent = prepare(path, PicturePolicy(), bench.store)
    assert isinstance(sent, Failure) and sent.kind == "unreadable_picture"


def test_rotation_is_not_applied_in_stitched_pictures(tmp_path: Path) -> None:
    """As the released script, whose references lie as they are stored."""
    bench = Bench(tmp_path, [Design("image_blur_motion_blur", "0063", "I2I", inputs=1)])
    path = bench.root / "dataset/image_blur_motion_blur_0001/0001.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.zeros((20, 60, 3), dtype=np.uint8)).save(path, exif=exif)
    _, material = bench.asked("image_blur_motion_blur_0001")
    made = material.composed["q1"]
    assert isinstance(made, SentPicture)
    assert Image.open(io.BytesIO(made.read())).size == (96, 32 + 20 + 32)
    assert material.inputs[0].width == 20, "to be sent by itself it is turned upright"


@pytest.mark.parametrize("ask", ["paper", "corrected"])
def test_a_case_for_people_is_not_asked_about(tmp_path: Path, ask: str) -> None:
    bench = Bench(tmp_path, [Design("poster_generation", "0024", auto=False)])
    assert bench.asked("poster_generation_0001", ask)[0] == []
