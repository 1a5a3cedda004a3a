"""MultiBanana judged live on loopback: every reference is shown, in the official order, and judges are averaged."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import numpy as np
import pytest

from refbench.engine import evaluate
from refbench.pictures import encode
from support.judge_server import LABELS, JudgeServer


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Three tasks with four sets each, every picture different, and one model's outputs in the official layout."""
    rng = np.random.default_rng(0)
    for task, count in (("single", 1), ("add", 2), ("3_object", 3)):
        (tmp_path / f"data/{task}").mkdir(parents=True)
        (tmp_path / f"out/{task}").mkdir(parents=True)
        for number in ("006", "014", "020", "033"):
            for index in range(count):
                picture = encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8), "jpeg")
                (tmp_path / f"data/{task}/{number}_{index}.jpg").write_bytes(picture)
            (tmp_path / f"data/{task}/{number}_prompt.txt").write_text(
                f"Put image 1 into a garden, set {task} {number}."
            )
            (tmp_path / f"out/{task}/{number}_generated.png").write_bytes(
                encode(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8))
            )
    return tmp_path


def test_of_two_formats_of_an_output_the_judge_sees_that_of_the_released_scripts(work: Path) -> None:
    """.jpg comes before .png there; upper case is not looked for at all."""
    black = encode(np.zeros((9, 9, 3), np.uint8), "jpeg")
    for name in ("006_generated.jpg", "014_generated.JPG"):
        (work / "out/single" / name).write_bytes(black)
    with JudgeServer() as judge:
        evaluate(
            "multibanana",
            data=work / "data",
            models=[f"m=folder:{work / 'out'}"],
            judges=[f"gpt=openai:gpt-5?base_url={judge.url}/v1"],
            out=work / "run",
        )
        seen = [str(request.body["messages"]) for request in judge.requests]
    assert ["single 006" in text for text in seen if base64.b64encode(black).decode() in text] == [True]


def test_reference_zero_is_shown_and_the_order_is_the_official_one(work: Path) -> None:
    with JudgeServer() as judge:
        evaluate(
            "multibanana",
            data=work / "data",
            models=[f"m=folder:{work / 'out'}"],
            judges=[f"gpt=openai:gpt-5?base_url={judge.url}/v1"],
            out=work / "run",
        )
        seen = [request.body["messages"][0]["content"] for request in judge.requests]
    assert len(seen) == 12
    for content in seen:
        kinds = [part["type"] for part in content]
        references = kinds.count("image_url") - 1
        assert kinds == ["text", *["image_url"] * references, "text", "image_url", "text"]
        instruction = content[1 + references]["text"]
        task, number = instruction.split("set ")[1].split(".")[0].split()
        files = [work / f"data/{task}/{number}_{i}.jpg" for i in range(references)] + [
            work / f"out/{task}/{number}_generated.png"
        ]
        sent = [
            base64.b64decode(part["image_url"]["url"].split(",")[1]) for part in content if part["type"] == "image_url"
        ]
        assert [hashlib.sha256(s).hexdigest() for s in sent] == [
            hashlib.sha256(f.read_bytes()).hexdigest() for f in files
        ]
        mimes = [part["image_url"]["url"].split(";")[0] for part in content if part["type"] == "image_url"]
        assert mimes == ["data:image/jpeg"] * references + ["data:image/png"], (
            "the released script calls everything a JPEG"
        )
        assert all(f"{label}: " in content[-1]["text"] for label in LABELS)


def test_two_judges_give_each_their_rows_and_a_mean(work: Path) -> None:
    def strict(text: str) -> str:
        return "Reasoning: no.\n" + "\n".join(f"{label}: 3." for label in LABELS)

    def kind(text: str) -> str:
        return "Reasoning: yes.\n" + "\n".join(f"{label}: 8." for label in LABELS)

    with JudgeServer(reply=strict) as one, JudgeServer(reply=kind) as other:
        judges = [
            f"gpt=openai:gpt-5?base_url={one.url}/v1",
            f"gemini=gemini:gemini-2.5-flash?base_url={other.url}/v1beta",
        ]
        found = evaluate(
            "multibanana", data=work / "data", models=[f"m=folder:{work / 'out'}"], judges=judges, out=work / "run"
        )
    totals = {row.judge: row.value for row in found.result.rows(level="overall", metric="total", protocol="corrected")}
    assert totals == {"gpt": 3.0, "gemini": 8.0, "mean": 5.5}
    levels = {row.slice["level"] for row in found.result.table.rows}
    assert {"overall", "group", "task", "n_refs"} <= levels
    assert {row.slice["group"] for row in found.result.rows(level="group")} == {"single", "two", "object"}


def test_a_set_that_one_judge_refused_is_not_in_the_mean(work: Path) -> None:
    def moody(text: str) -> str:
        if "006" in text:
            return "I'm sorry, I can't help with that."
        return "Reasoning: fine.\n" + "\n".join(f"{label}: 6." for label in LABELS)

    with JudgeServer(reply=moody) as one, JudgeServer() as other:
        judges = [f"a=openai:x?base_url={one.url}/v1", f"b=openai:y?base_url={other.url}/v1"]
        found = evaluate(
            "multibanana", data=work / "data", models=[f"m=folder:{work / 'out'}"], judges=judges, out=work / "run"
        )
    failures = {
        row.judge: row.failures for row in found.result.rows(level="overall", metric="total", protocol="corrected")
    }
    assert failures == {"a": {"refused": 3}, "b": {}, "mean": {"refused": 3}}
