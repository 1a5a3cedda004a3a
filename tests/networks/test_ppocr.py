"""Reading: boxes and decoding without weights, rendered text with the real network."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from refbench.failure import Failure
from refbench.networks.small.ppocr import clockwise, crop, decoded, quads_of, reading_order
from refbench.pictures import Pixels, decode, resize
from support.campaigns import slow

Load = Callable[[str], Any]
# Where distributions keep fonts that have Chinese and Japanese; the index picks the face in a collection.
CJK = [
    (Path("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"), {"zh": 2, "ja": 0}),
    (Path("/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc"), {"zh": 2, "ja": 0}),
    (Path("/System/Library/Fonts/PingFang.ttc"), {"zh": 0, "ja": 0}),
]


def rendered(lines: list[str], font: Any, size: tuple[int, int] = (640, 360)) -> Pixels:
    page = Image.new("RGB", size, (245, 242, 230))
    for number, line in enumerate(lines):
        ImageDraw.Draw(page).text((30, 25 + 80 * number), line, font=font, fill=(30, 20, 80))
    return np.asarray(page)


def english(lines: list[str], size: tuple[int, int] = (640, 360)) -> Pixels:
    return rendered(lines, ImageFont.load_default(size=42), size)


def read(network: Any, pixels: Pixels) -> list[str]:
    (found,) = network([pixels])
    return [str(line) for line, score in zip(found["lines"], found["scores"], strict=True) if score >= 0.85]


def test_a_marked_core_grows_by_area_times_ratio_by_perimeter() -> None:
    probability = np.zeros((100, 200), np.float32)
    probability[40:60, 50:150] = 0.9
    (quad,) = quads_of(probability, (200, 100))
    sides = 100.0, 20.0  # with the dilation by one pixel, measured between pixel centres
    grow = sides[0] * sides[1] * 1.6 / (2 * sum(sides))
    assert quad[0] == pytest.approx([49 - grow, 39 - grow], abs=1.5)
    assert quad[2] == pytest.approx([149 + grow, 59 + grow], abs=1.5)


def test_faint_and_tiny_marks_are_no_text() -> None:
    probability = np.zeros((100, 200), np.float32)
    probability[40:60, 50:150] = 0.4
    probability[5:7, 5:7] = 1.0
    assert quads_of(probability, (200, 100)) == []


def test_corners_go_clockwise_from_the_top_left() -> None:
    shuffled = np.array([[9, 8], [1, 2], [1, 8], [9, 2]], np.float32)
    assert clockwise(shuffled).tolist() == [[1, 2], [9, 2], [9, 8], [1, 8]]


def test_a_tall_crop_is_laid_on_its_side() -> None:
    quad = np.array([[10, 10], [30, 10], [30, 90], [10, 90]], np.float32)
    assert crop(np.zeros((100, 100, 3), np.uint8), quad).shape == (20, 80, 3)


def test_rows_are_read_from_the_top_and_each_from_the_left() -> None:
    def at(x: float, y: float) -> Any:
        return np.array([[x, y], [x + 30, y], [x + 30, y + 10], [x, y + 10]], np.float32)

    assert reading_order([at(50, 3), at(0, 0), at(0, 40), at(50, 38)]) == [1, 0, 2, 3]
    assert reading_order([]) == []


def test_repeats_and_blanks_vanish_and_a_blank_between_keeps_a_double_letter() -> None:
    steps = np.full((6, 3), 0.1, np.float32)
    for row, best in enumerate((1, 1, 0, 1, 2, 0)):
        steps[row, best] = 0.8
    assert decoded(steps, ["", "o", "k"]) == ("ook", pytest.approx(0.8))
    assert decoded(steps[2:3], ["", "o", "k"]) == ("", 0.0)


def test_rendered_english_is_read_back(local_weights: Load) -> None:
    wanted = ["Grand Opening", "Fresh bread 2026", "Call 555-0199 now!"]
    assert read(local_weights("ppocr"), english(wanted)) == wanted


@pytest.mark.parametrize(
    ("language", "wanted"),
    [
        ("zh", ["春天来了，花都开了", "欢迎光临", "新鲜水果"]),
        ("ja", ["桜の花が咲きました", "東京タワーへようこそ", "ありがとう"]),
    ],
)
def test_rendered_chinese_and_japanese_are_read_back(local_weights: Load, language: str, wanted: list[str]) -> None:
    for path, faces in CJK:
        if path.exists():
            font = ImageFont.truetype(str(path), 44, index=faces[language])
            assert read(local_weights("ppocr"), rendered(wanted, font)) == wanted
            return
    pytest.skip("no font with Chinese and Japanese is installed")


@pytest.mark.slow
def test_text_is_read_on_its_head_on_its_side_and_slanted(local_weights: Load) -> None:
    network = local_weights("ppocr")
    page = english(["Grand Opening", "Fresh bread"])
    assert sorted(read(network, np.ascontiguousarray(page[::-1, ::-1]))) == ["Fresh bread", "Grand Opening"]
    assert sorted(read(network, np.ascontiguousarray(np.rot90(page)))) == ["Fresh bread", "Grand Opening"]
    turn = cv2.getRotationMatrix2D((320, 180), 8, 1)
    slanted = np.asarray(cv2.warpAffine(page, turn, (640, 360), borderValue=(245, 242, 230)), np.uint8)
    assert sorted(read(network, slanted)) == ["Fresh bread", "Grand Opening"]


def test_a_strip_that_is_all_text_is_read(local_weights: Load) -> None:
    strip = np.ascontiguousarray(english(["Grand Opening"])[25:75, 20:330])
    assert read(local_weights("ppocr"), strip) == ["Grand Opening"]
    assert read(local_weights("ppocr"), resize(strip, (186, 30))) == ["Grand Opening"]


@pytest.mark.parametrize("scale", [slow(1), 4])  # at four times the size it is read reduced
def test_boxes_lie_around_the_text_in_the_pictures_own_pixels(local_weights: Load, scale: int) -> None:
    page = english(["Grand Opening"], (640, 230))
    (found,) = local_weights("ppocr")([resize(page, (640 * scale, 230 * scale))])
    (quad,) = found["boxes"] / scale
    dark = np.argwhere(page[:, :, 0] < 100)
    top, left = dark.min(axis=0)
    bottom, right = dark.max(axis=0)
    assert quad[0] == pytest.approx([left, top], abs=26)
    assert quad[2] == pytest.approx([right, bottom], abs=26)


def test_a_picture_without_text_gives_no_lines(local_weights: Load) -> None:
    for pixels in (np.full((60, 80, 3), 255, np.uint8), np.zeros((1, 1, 3), np.uint8), np.zeros((2, 600, 3), np.uint8)):
        (found,) = local_weights("ppocr")([pixels])
        assert found["lines"].shape == (0,)
        assert found["boxes"].shape == (0, 4, 2)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        slow("v2v_741.png", {"XML", "Application", "Platform", "xfy"}),
        (
            "laion_1957767742736269735.jpg",
            {"FUTURE HOME OF THE", "NATIONAL", "ARMOR & CAVALRY", "MUSEUM", "WWW.ARMORCAVALRYMUSEUM.ORG"},
        ),
    ],
)
def test_real_photographs_read_as_rapidocr_reads_them(
    local_weights: Load, creval_mini: Path, name: str, lines: set[str]
) -> None:
    """What rapidocr 3.10.0 gives for the same models at a score of 0.85 and more."""
    pixels = decode((creval_mini / "bench/image" / name).read_bytes())
    assert not isinstance(pixels, Failure)
    assert set(read(local_weights("ppocr"), pixels)) == lines


@pytest.mark.slow
def test_batch_order_and_threads_change_nothing(local_weights: Load) -> None:
    network = local_weights("ppocr")
    pictures = [english(["Grand Opening"]), english(["Fresh", "bread"], (400, 500)), np.zeros((50, 50, 3), np.uint8)]
    together = network(pictures)
    backwards = network(pictures[::-1])[::-1]
    with ThreadPoolExecutor(3) as pool:
        alone = [found for (found,) in pool.map(lambda p: network([p]), pictures)]
    for a, b, c in zip(together, backwards, alone, strict=True):
        assert a["lines"].tolist() == b["lines"].tolist() == c["lines"].tolist()
        assert a["scores"] == pytest.approx(b["scores"], abs=1e-5)
        assert a["scores"] == pytest.approx(c["scores"], abs=1e-5)
