"""Whatever is built from replies is built again from the record: nothing is asked twice, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from refbench.builders.kit.recorded_chat import Interviews
from refbench.calls.transport import Transport
from refbench.chat.vlm import make_vlm
from refbench.failure import Failure
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.judge_server import Faults, JudgeServer


def caption(reply: str) -> str | Failure:
    try:
        return str(json.loads(reply)["caption"])
    except (ValueError, KeyError):
        return Failure(kind="unparsable", detail='no "caption" in the reply')


def interview(
    server: JudgeServer,
    folder: Path,
    about: list[str],
    *,
    picture: Path | None = None,
    budget: str | None = None,
    price: str = "1,1",
    read: Callable[[str], str | Failure] = caption,
) -> tuple[list[str | Failure], int]:
    async def all_of_it() -> tuple[list[str | Failure], int]:
        async with Transport(concurrency=4, timeout=60.0) as transport:
            spec = (
                f"writer=openai:tiny?base_url={server.url}/v1&price={price}"
                if price
                else f"writer=openai:tiny?base_url={server.url}/v1"
            )
            vlm = make_vlm(Spec.parse(spec, "--writer"), transport)
            async with Interviews(folder, transport, budget=budget) as interviews:
                said: list[list[str | Path]] = [[f"Caption {name}.", *([picture] if picture else [])] for name in about]
                found = await asyncio.gather(
                    *(
                        interviews.ask(vlm, name, "caption", parts, read, max_tokens=100)
                        for name, parts in zip(about, said, strict=True)
                    )
                )
                return list(found), interviews.asked

    return asyncio.run(all_of_it())


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def good(text: str) -> str:
    return json.dumps({"caption": f"a reply of {len(text)} letters"})


def test_a_question_that_is_on_record_is_not_asked_again(tmp_path: Path) -> None:
    with JudgeServer(reply=good) as server:
        first, asked = interview(server, tmp_path, ["a", "b", "a"])
        assert asked == len(server.requests) == 2
        again, asked = interview(server, tmp_path, ["b", "a", "a"])
        assert asked == 0
        assert len(server.requests) == 2
    assert first[0] == first[2] == again[1]


def test_an_unusable_reply_is_asked_for_once_more_with_the_complaint(tmp_path: Path) -> None:
    def stubborn(text: str) -> str:
        return good(text) if "could not be used" in text else "I would rather not use JSON."

    with JudgeServer(reply=stubborn) as server:
        found, asked = interview(server, tmp_path, ["a"])
        assert asked == 2
        assert 'no "caption" in the reply' in str(server.requests[1].body)
    assert not isinstance(found[0], Failure)


def test_what_stays_unusable_is_a_failure_and_no_third_call(tmp_path: Path) -> None:
    with JudgeServer(reply=lambda text: "never") as server:
        found, asked = interview(server, tmp_path, ["a"])
        assert asked == 2
        again, asked = interview(server, tmp_path, ["a"])
        assert asked == 0
    assert found == again
    assert isinstance(found[0], Failure)
    assert found[0].kind == "unparsable"


def test_a_refusal_is_final_and_a_broken_server_is_tried_again(tmp_path: Path) -> None:
    with JudgeServer(reply=good, faults=Faults(refused=1.0)) as server:
        refused, asked = interview(server, tmp_path / "r", ["a"])
        assert asked == 1
        assert interview(server, tmp_path / "r", ["a"])[1] == 0
    assert isinstance(refused[0], Failure)
    assert refused[0].kind == "refused"
    with JudgeServer(reply=good, status=400, error={"error": {"message": "bad"}}) as server:
        broken, _ = interview(server, tmp_path / "b", ["a"])
        server.status = None
        mended, asked = interview(server, tmp_path / "b", ["a"])
        assert asked == 1
    assert isinstance(broken[0], Failure)
    assert broken[0].kind == "api_error"
    assert not isinstance(mended[0], Failure)


def test_the_budget_holds_and_says_so(tmp_path: Path) -> None:
    with JudgeServer(reply=good) as server:
        found, asked = interview(server, tmp_path, ["a", "b", "c"], budget="0.0002usd")
    kinds = [f.kind for f in found if isinstance(f, Failure)]
    assert asked < 3
    assert set(kinds) == {"budget"}
    assert len(kinds) == 3 - asked


def test_a_budget_without_a_price_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with JudgeServer(reply=good) as server:
        with pytest.raises(RefBenchError, match="price of writer"):
            interview(server, tmp_path, ["a"], budget="1usd", price="")
        assert not server.requests


def test_a_picture_that_cannot_be_read_costs_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    fine = tmp_path / "fine.png"
    fine.write_bytes(encode(np.zeros((8, 8, 3), np.uint8)))
    with JudgeServer(reply=good) as server:
        found, asked = interview(server, tmp_path / "x", ["a"], picture=broken)
        assert asked == 0
        assert isinstance(found[0], Failure)
        assert found[0].kind == "unreadable_picture"
        assert not isinstance(interview(server, tmp_path / "x", ["a"], picture=fine)[0][0], Failure)
