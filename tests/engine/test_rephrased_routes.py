"""The papers' routes of a language model and a text-to-image model, run whole: MultiRef's compositional rows and
IDEA-Bench's "-T2I" rows. A VLM on loopback sees the request and its pictures, a painter on loopback only its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refbench.benchmarks.multiref.cases import load
from refbench.engine import evaluate
from refbench.engine.evaluation import Evaluation
from refbench.record import RefBenchError
from support.ideabench import Design
from support.ideabench import write_checkout as write_ideas
from support.image_server import ImageServer
from support.judge_server import JudgeServer
from support.multiref import Blend, requests, write_checkout, write_hub_release
from support.painters import Painter
from support.planner import pictures, texts

MARKS = '{"reason": "So.", "image_quality": 4, "instruction_following": 3, "source_fidelity": 5}'


def seer(asked: str) -> str:
    """One prompt for each picture that is wanted, numbered."""
    count = int(asked.partition("Pictures to be made: ")[2].partition(".")[0])
    return json.dumps({"prompts": [f"words for picture {n}" for n in range(1, count + 1)]})


def run(name: str, data: Path, vlm: JudgeServer, judge: JudgeServer, painter: ImageServer) -> Evaluation:
    model = f"sd=rephrase(http:{painter.url}/paint; vlm=openai:gemini?base_url={vlm.url}/v1&preset=multiref/Gemini; when=always)"
    judges, metrics = [f"j=openai:j?base_url={judge.url}/v1"], ["canny"] if name == "multiref" else []
    return evaluate(name, data=data, models=[model], judges=judges, metrics=metrics, out=data.parent / "run")


def test_multiref_s_compositional_route_shows_the_vlm_all_and_the_painter_words(tmp_path: Path) -> None:
    data = write_checkout(tmp_path / "data", [Blend("a", ("canny", "style", "caption"))], requests(1))
    by_prompt = {case.request.instruction: case for case in load(data).cases}
    with JudgeServer(reply=seer) as vlm, JudgeServer(reply=lambda text: MARKS) as judge, ImageServer() as painter:
        done = run("multiref", data, vlm, judge, painter)
        assert len(vlm.requests) == len(painter.requests) == len(judge.requests) == 2
        for seen in vlm.requests:
            assert (seen.body["temperature"], seen.body["top_p"]) == (1, 0.95) and "preset" not in seen.body
            (case,) = (case for prompt, case in by_prompt.items() if prompt in texts(seen))
            assert len(pictures(seen)) == len(case.request.pictures), "every reference, before a word is written"
        assert {seen.body["instruction"] for seen in painter.requests} == {"words for picture 1"}
        assert not any(seen.body["pictures"] for seen in painter.requests)
        judged = "\n".join(texts(seen) for seen in judge.requests)
        assert all(prompt in judged for prompt in by_prompt), "the judge goes by the request, not by the VLM's words"
        assert "words for picture" not in judged
    (note,) = [note for note in done.result.notes if "rewritten" in note]
    assert note == "sd† was given rewritten prompts (always): cases by split synthetic 1, real-world 1"


def test_ideabench_s_route_writes_a_prompt_for_every_picture(tmp_path: Path) -> None:
    view = Design("three-view_generation", "0044", "I(s)2Is", inputs=1, outputs=3)
    data = write_ideas(tmp_path / "data", [view])
    yes = JudgeServer(reply=lambda text: "{'score': 1}")
    with JudgeServer(reply=seer) as vlm, yes as judge, ImageServer() as painter:
        done = run("ideabench", data, vlm, judge, painter)
        assert len(vlm.requests) == 1 and len(pictures(vlm.requests[0])) == 1
        prompts = [seen.body["instruction"] for seen in painter.requests]
        assert prompts == [f"words for picture {n}" for n in (1, 2, 3)]
    assert any("sd† was given rewritten prompts (always): cases by category I(s)2Is 1" in n for n in done.result.notes)


@pytest.mark.parametrize("kind", ["structured", "enhanced"])
def test_the_kind_of_prompt_that_a_run_records_is_the_one_that_models_are_given(kind: str, tmp_path: Path) -> None:
    data = write_checkout(tmp_path / "data", [Blend("a", ("canny", "style", "caption"))], requests(1))
    painter = Painter()
    with JudgeServer(reply=lambda text: MARKS) as judge:
        evaluate(
            "multiref",
            data=data,
            models=[painter],
            judges=[f"j=openai:j?base_url={judge.url}/v1"],
            metrics=["canny"],
            settings={"prompt": kind},
            out=tmp_path / "run",
        )
        told = {commission.instruction for commission, _ in painter.asked}
        details = next(case.details for case in load(data, "synthetic").cases)
        wanted = details.structured if kind == "structured" else details.enhanced[0]
        assert wanted in told and len(told) == 2
        assert sum(wanted in texts(seen) for seen in judge.requests) == 1


def test_enhanced_prompts_that_the_data_has_not_are_refused_before_anything_is_painted(tmp_path: Path) -> None:
    data = write_hub_release(tmp_path / "data", [Blend("a", ("canny", "style"))], requests(1))
    painter = Painter()
    with pytest.raises(RefBenchError, match="prompt=enhanced: no case has such a prompt"):
        evaluate(
            "multiref",
            data=data,
            subset="synthetic",
            models=[painter],
            settings={"prompt": "enhanced"},
            metrics=["canny"],
            out=tmp_path / "run",
        )
    assert not painter.asked
