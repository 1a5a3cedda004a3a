"""RISEBench, KRIS-Bench, MICo-Bench and EditReward-Bench in the authors' words, read from made-up checkouts with the names
of theirs: what goes over the wire, and where `paper` and `corrected` part."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from refbench import RefBenchError
from refbench.benchmarks.kit.wording import Prompts
from refbench.engine import evaluate
from support import reasoning
from support.judge_server import JudgeServer
from support.public import put

PLACES = {
    "risebench": ("instruct", "reference"),
    "krisbench": ("instruct", "explanation", "N"),
    "micobench": ("prompt",),
}


def variables(name: str, chosen: Sequence[str]) -> str:
    """A script that gives variables of these names words of ours, with the places of our texts and doubled braces."""
    own = Prompts(f"refbench.benchmarks.{name}").own
    lines = []
    for variable in chosen:
        places = "".join(f" <{{{place}}}>" for place in PLACES[name] if f"{{{place}}}" in own[variable])
        braces = '{{"a": 1}}' if places else '{"a": 1}'
        lines.append(f'{variable} = """THEIRS {variable}{places} {braces}"""')
    return "\n".join(lines) + "\n"


def caption(text: str) -> str:
    return f"content.append({{'type': 'text', 'text': {text}}})"


def checkout(root: Path, name: str) -> Path:
    own = [*Prompts(f"refbench.benchmarks.{name}").own] if name in PLACES else []
    if name == "risebench":
        put(root / "utils.py", variables(name, own))
    if name == "krisbench":
        put(root / "utils/prompts.py", variables(name, [one for one in own if one.startswith("prompt_")]))
        scripts: dict[str, Mapping[str, Sequence[str]]] = {
            "view_change": {"evaluate_with_gpt": ("'ORIGINAL'", "'EDITED'", "'TRUTH'")},
            "multi_element": {
                "evaluate_multi_element_with_gpt": ("f'REFERENCE {idx}'", "'PREDICTED'"),
                "evaluate_with_gpt": ("'ALONE'",),
            },
            "temporal_prediction": {"evaluate_temporal_with_gpt": ("f'FRAME {frame_num} {frame_type}'",)},
        }
        for script, functions in scripts.items():
            texts = [
                "\n    ".join([f"def {function}(prompt):", caption("prompt"), *map(caption, captions)])
                for function, captions in functions.items()
            ]
            put(root / f"metrics_{script}.py", "\n\n".join(texts) + "\n")
    if name == "micobench":
        put(root / "MICo-Bench/eval_score.py", variables(name, ["PQ_PROMPT", "SC_PROMPT"]))
        put(root / "MICo-Bench/compute_weights.py", variables(name, ["VLM_PROMPT"]))
    if name == "editrewardbench":
        words = {
            "_context_no_delimit_reasoning_first": 'CONTEXT of 10 {"score": []}',
            "_prompts_0shot_two_image_edit_rule": "RULE of 10",
            "_prompts_0shot_tie_rule_SC": "MARKS 0 to 10 <instruction>",
            "_prompts_0shot_rule_PQ": "QUALITY 0 to 10",
        }
        put(root / "editscore/vie_prompts.py", "".join(f'{k} = """{v}"""\n' for k, v in words.items()))
    return root


JUDGE = "openai:x?base_url=http://127.0.0.1:1/v1"
Content = list[dict[str, Any]]


def asked(name: str, work: Path, model: str = "A=baseline:copy", **more: Any) -> list[Content]:
    data = reasoning.WRITERS[name](work / "data")
    code = checkout(work / "code", name)
    with JudgeServer(reply=lambda text: "nothing", keep_bodies=True) as server:
        evaluate(
            name,
            data=data,
            models=[] if name == "editrewardbench" else [model],
            judges=[f"j=openai:x?base_url={server.url}/v1"],
            out=work / "run",
            prompts=f"official:{code}",
            repair=False,
            metrics="none",
            **more,
        )
        return [request.body["messages"][0]["content"] for request in server.requests]


def texts(content: Content) -> list[str]:
    return [part["text"] for part in content if part["type"] == "text"]


def shown(content: Content) -> list[tuple[str, tuple[int, int]]]:
    """The declared type and the size of each picture."""
    found = []
    for part in content:
        if part["type"] == "image_url":
            kind, _, data = part["image_url"]["url"].partition(";base64,")
            found.append((kind.removeprefix("data:"), Image.open(io.BytesIO(base64.b64decode(data))).size))
    return found


def test_rise_shows_puzzles_without_their_question_in_paper_alone(tmp_path: Path) -> None:
    contents = asked("risebench", tmp_path)
    said = [texts(content)[0] for content in contents]
    assert 'THEIRS prompt_reasoning <Do temporal_reasoning_1> <a moth> {"a": 1}' in said
    assert 'THEIRS prompt_generation {"a": 1}' in said
    with_question = [s for s in said if s.startswith("THEIRS prompt_logical_img <")]
    assert with_question == ['THEIRS prompt_logical_img <Do logical_reasoning_2> {"a": 1}'], "corrected, of one case"
    assert sum(s.startswith("THEIRS prompt_logical_img_wo_q") for s in said) == 3, (
        "paper of both, corrected of the other"
    )
    assert all(part.get("image_url", {}).get("detail", "high") == "high" for c in contents for part in c)


def test_rise_asks_in_paper_as_the_release_does(tmp_path: Path) -> None:
    contents = asked("risebench", tmp_path, settings={"ask": "paper"})
    assert len(contents) == 9 * 3 - 3 - 1, "three calls, no quality of puzzles, no consistency of one case"
    assert all(content[0]["type"] == "text" for content in contents)
    assert {kind for content in contents for kind, _ in shown(content)} == {"image/jpeg"}


def test_kris_asks_about_anomalies_with_their_explanation_in_corrected_alone(tmp_path: Path) -> None:
    contents = asked("krisbench", tmp_path)
    by_start = {texts(content)[0].split(" ")[1]: texts(content) for content in contents}
    special = by_start["prompt_abnormal_instruction_following"][0]
    assert (
        special
        == 'THEIRS prompt_abnormal_instruction_following <Edit anomaly_correction 1> <Because of anomaly_correction> {"a": 1}'
    )
    plain = [texts(c)[0] for c in contents if "prompt_instruction_following <Edit anomaly" in texts(c)[0]]
    assert len(plain) == 1, "paper"
    frames = by_start["prompt_consist_temporal"]
    assert frames[1:] == ["FRAME 1 Reference", "FRAME 2 Reference", "FRAME 3 Generated", "FRAME 4 Reference"]
    assert "<3>" in frames[0]
    assert by_start["prompt_consist_multi"][1:] == ["REFERENCE 1", "REFERENCE 2", "REFERENCE 3", "PREDICTED"]
    assert by_start["prompt_view_instruction_following"][1:] == ["ORIGINAL", "EDITED", "TRUTH"]
    quality = {tuple(texts(c)[1:]) for c in contents if "prompt_quality" in texts(c)[0]}
    assert quality == {("EDITED",), ("ALONE",)}


def test_mico_sends_the_composite_for_consistency_and_each_source_with_the_output(tmp_path: Path) -> None:
    contents = asked("micobench", tmp_path)
    said = [texts(content)[0].split(" ")[1] for content in contents]
    assert (said.count("PQ_PROMPT"), said.count("SC_PROMPT")) == (4, 4)
    assert said.count("VLM_PROMPT") == 2 + 3 - 1 + 4 - 1 + 5 - 1, "every source but one person each in three tasks"
    (refined,) = (texts(c)[0] for c in contents if "Compose it well" in texts(c)[0])
    assert refined == 'THEIRS SC_PROMPT <Compose it well> {"a": 1}'
    about_source = [c for c in contents if "VLM_PROMPT" in texts(c)[0]]
    assert all([part["type"] for part in c] == ["image_url", "image_url", "text"] for c in about_source)


def test_editreward_turns_the_range_to_25_and_sends_outputs_at_the_size_of_their_source(tmp_path: Path) -> None:
    contents = asked("editrewardbench", tmp_path, settings={"ask": "paper"})
    said = {text for content in contents for text in texts(content)}
    assert 'CONTEXT of 10 {"score": []}\nQUALITY 0 to 25' in said
    assert 'CONTEXT of 10 {"score": []}\nRULE of 10\nMARKS 0 to 25 Edit by compose' in said
    sizes = [shown(content) for content in contents]
    assert {size for pictures in sizes for _, size in pictures} == {(24, 16)}
    assert {kind for pictures in sizes for kind, _ in pictures} == {"image/jpeg"}


@pytest.mark.parametrize("name", reasoning.WRITERS)
def test_a_checkout_that_lacks_a_script_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "code/empty").mkdir(parents=True)
    data = reasoning.WRITERS[name](tmp_path / "data")
    models = [] if name == "editrewardbench" else ["A=baseline:copy"]
    prompts = f"official:{tmp_path / 'code'}"
    with pytest.raises(RefBenchError, match="is not there, and official wording is read from"):
        evaluate(name, data=data, models=models, judges=[JUDGE], out=tmp_path / "run", prompts=prompts)
