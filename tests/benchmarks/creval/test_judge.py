"""What is asked of the judge: order, wording, and the two settings on which paper and code disagree."""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import refbench
from refbench import RefBenchError
from refbench.benchmarks.creval.judge import judge_requests, own_wording, released_encoding, wording_of
from refbench.chat import ChatPicture, ChatText
from refbench.failure import Failure
from support.checkout import Item, write_checkout
from support.releases import CREVAL_LEAD, CREVAL_SYSTEM, creval_code


@pytest.fixture
def case(tmp_path: Path) -> refbench.Case:  # type: ignore[type-arg]
    vc = [
        ("Q1", "** Is it kept?\n**", "** Yes", 1),
        ("Q2", "", "", 1),
        ("Q3", "Is that kept?", "Yes", 1),
        ("Q3", "Is that kept?", "Yes", 1),
    ]
    return refbench.load("creval", write_checkout(tmp_path / "c", [Item("a", questions={"VC": vc})])).cases[0]


def test_the_original_comes_first_the_edit_second_the_questions_last(case: refbench.Case) -> None:  # type: ignore[type-arg]
    (request,) = judge_requests(case, "IF", ("aaa", "bbb"), own_wording())
    assert isinstance(request.parts[0], ChatPicture)
    assert isinstance(request.parts[1], ChatPicture)
    assert isinstance(request.parts[2], ChatText)
    assert [p.sha256 for p in request.parts[:2] if isinstance(p, ChatPicture)] == ["aaa", "bbb"]
    assert request.max_tokens == 2000
    text = request.parts[2].text
    for n in range(1, 6):
        assert f"Q{n}: Is part {n} of a as asked? (IF)\nChoices: Yes, No\n" in text
    assert "{Questions}" not in text
    assert case.request.instruction not in text


def test_one_question_a_call_and_the_instruction_shown_on_demand(case: refbench.Case) -> None:  # type: ignore[type-arg]
    requests = judge_requests(case, "IF", ("aaa", "bbb"), own_wording(), questions="one", show_instruction=True)
    assert len(requests) == 5
    for n, request in enumerate(requests, 1):
        assert isinstance(request.parts[2], ChatText)
        assert f"Q{n}:" in request.parts[2].text
        assert f"Q{n % 5 + 1}:" not in request.parts[2].text
        assert case.request.instruction in request.parts[2].text


def test_corrected_asks_clean_questions_and_paper_asks_them_as_released(case: refbench.Case) -> None:  # type: ignore[type-arg]
    (corrected,) = judge_requests(case, "VC", ("a", "b"), own_wording())
    (paper,) = judge_requests(case, "VC", ("a", "b"), own_wording(), protocol="paper")
    assert isinstance(corrected.parts[2], ChatText)
    assert isinstance(paper.parts[2], ChatText)
    assert "Q1: Is it kept?\n" in corrected.parts[2].text
    assert "Q2:" not in corrected.parts[2].text
    assert corrected.parts[2].text.count("Q3:") == 1
    assert "Q1: ** Is it kept?\n**" in paper.parts[2].text
    assert "Q2: \n" in paper.parts[2].text
    assert paper.parts[2].text.count("Q3:") == 2


def test_the_rubric_names_the_keys_that_the_reader_reads() -> None:
    for key in ('"Question"', '"explanation"', '"answer"', "Image A", "Image B"):
        assert key in own_wording()["answer"]


TEMPLATE = "code/prompt_templete/answer.txt"


def test_the_real_template_is_sent_as_it_is_with_the_scripts_words(creval_mini: Path, tmp_path: Path) -> None:
    creval_code(tmp_path)
    (tmp_path / TEMPLATE).write_bytes((creval_mini / TEMPLATE).read_bytes())
    official = wording_of("official", tmp_path)
    assert official["answer"] == (creval_mini / TEMPLATE).read_text()
    assert (official["system"], official["lead"]) == (CREVAL_SYSTEM, CREVAL_LEAD)
    assert official.sha256 != own_wording().sha256
    (tmp_path / "code/answer_with_gpt4o.py").unlink()
    with pytest.raises(RefBenchError, match=r"answer_with_gpt4o\.py is not there"):
        wording_of("official", tmp_path)
    with pytest.raises(RefBenchError, match=r"answer\.txt"):
        wording_of("official", tmp_path / "elsewhere")


def test_no_sentence_of_the_official_template_is_ours(creval_mini: Path) -> None:
    ours = " ".join(own_wording()["answer"].split()).casefold()
    for line in (creval_mini / TEMPLATE).read_text().splitlines():
        words = line.split()
        for start in range(len(words) - 7):
            assert " ".join(words[start : start + 8]).casefold() not in ours


def test_what_is_asked_decides_the_key_of_the_evidence(case: refbench.Case) -> None:  # type: ignore[type-arg]
    (one,) = judge_requests(case, "IF", ("aaa", "bbb"), own_wording())
    (other,) = judge_requests(case, "IF", ("aaa", "ccc"), own_wording())
    ids = {
        refbench.Evidence(kind="chat", request=request.canonical(endpoint, "gpt", repeat), reply="x").id
        for request in (one, other)
        for endpoint in ("here", "there")
        for repeat in (0, 1)
    }
    assert len(ids) == 8


@pytest.mark.parametrize("mode", ["P", "L", "CMYK", "LA", "1"])
def test_pictures_are_encoded_again_as_pillow_and_opencv_do_it(tmp_path: Path, mode: str) -> None:
    """The oracle takes the script's steps with the OpenCV that is installed; where they fail, nothing is sent."""
    file = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    rgb = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    Image.fromarray(rgb).convert(mode).save(file)
    picture, data = Image.open(file), io.BytesIO()
    try:
        array = cv2.cvtColor(np.asarray(picture), cv2.COLOR_RGB2BGR)
        Image.fromarray(cv2.cvtColor(array, cv2.COLOR_BGR2RGB)).save(data, format=picture.format)
    except cv2.error:
        assert mode in ("LA", "1")
    found = released_encoding(file)
    assert (b"" if isinstance(found, Failure) else found) == data.getvalue()
