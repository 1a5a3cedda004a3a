"""Captions through a VLM on loopback: what is asked, what is read, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.calls.transport import Transport
from refbench.chat.vlm import make_vlm
from refbench.extractors.caption import caption, caption_request, read_caption
from refbench.failure import Failure
from refbench.pictures import encode
from refbench.specs import Spec
from support.judge_server import Faults, JudgeServer, text_of


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "cup.png"
    path.write_bytes(encode(np.full((20, 30, 3), 128, np.uint8)))
    return path


def ask(server: JudgeServer, picture: Path, subject: str | bool = False) -> str | Failure:
    async def go() -> str | Failure:
        async with Transport() as transport:
            vlm = make_vlm(Spec.parse(f"v=openai:tiny?base_url={server.url}/v1", "--vlm"), transport)
            return await caption(vlm, picture, subject=subject)

    return asyncio.run(go())


def saying(text: str) -> Callable[[str], str]:
    return lambda _: text


def test_a_caption_comes_back_clean(picture: Path) -> None:
    with JudgeServer(reply=saying('Caption: "A red cup on a wooden table."\n')) as server:
        assert ask(server, picture) == "A red cup on a wooden table."
        body = server.requests[0].body
    assert "at most 20 words" in text_of(body)
    assert sum(part["type"] == "image_url" for part in body["messages"][0]["content"]) == 1


def test_a_subject_is_asked_for_by_name_or_as_the_main_one(picture: Path) -> None:
    with JudgeServer(reply=saying("A cup.")) as server:
        for subject in (False, True, "old teapot"):
            ask(server, picture, subject)
        plain, main, named = (text_of(seen.body) for seen in server.requests)
    assert "subject" not in plain
    assert "main subject and little else" in main
    assert "main subject, the old teapot, and little else" in named


def test_a_caption_that_is_too_long_is_a_failure_and_is_not_cut(picture: Path) -> None:
    with JudgeServer(reply=saying("very " * 20 + "long")) as server:
        failure = ask(server, picture)
    assert isinstance(failure, Failure) and failure.kind == "out_of_range"
    assert "21 words" in failure.detail


def test_a_refusal_is_a_refusal(picture: Path) -> None:
    with JudgeServer(faults=Faults(refused=1.0)) as server:
        failure = ask(server, picture)
    assert isinstance(failure, Failure) and failure.kind == "refused"


def test_a_file_that_is_no_picture_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "cup.png"
    path.write_bytes(b"not a picture")
    with JudgeServer() as server:
        failure = ask(server, path)
        assert not server.requests
    assert isinstance(failure, Failure) and failure.kind == "unreadable_picture"


@pytest.mark.parametrize(
    "reply, text",
    [
        ("A dog runs.", "A dog runs."),
        ("  “A dog runs.”  ", "A dog runs."),
        ("**A dog runs.**", "A dog runs."),
        ("Here is a caption for this image: A dog runs.", "A dog runs."),
        ("Here is the caption:\n\nA dog runs.", "A dog runs."),
        ("Here's what I would write:\nA dog runs.", "A dog runs."),
        ("A sign: the caption reads caption: yes", "A sign: the caption reads caption: yes"),
        ("一只狗在草地上奔跑", "一只狗在草地上奔跑"),
    ],
)
def test_replies_are_cleaned(reply: str, text: str) -> None:
    assert read_caption(reply) == text


@pytest.mark.parametrize("reply", ["", "  \n", '""', "Caption:"])
def test_an_empty_caption_is_a_failure(reply: str) -> None:
    failure = read_caption(reply)
    assert isinstance(failure, Failure) and failure.kind == "empty_reply"


def test_twenty_words_are_not_too_many() -> None:
    assert isinstance(read_caption(" ".join(["word"] * 20)), str)
    assert isinstance(read_caption("字" * 40), str)
    assert isinstance(read_caption("字" * 41), Failure)


def test_the_request_is_fixed_by_the_picture_and_the_focus() -> None:
    requests: list[Any] = [caption_request("ab" * 32), caption_request("ab" * 32), caption_request("ab" * 32, True)]
    assert requests[0] == requests[1] != requests[2]
