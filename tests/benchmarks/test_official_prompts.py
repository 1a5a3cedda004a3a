"""Official wording from a user's checkout: what goes over the wire is what the released scripts would send, assembled
here by itself from what they are known to do; what is recorded tells these words from all others.
"""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from refbench import RefBenchError, load
from refbench.benchmarks import benchmark
from refbench.engine import evaluate
from refbench.pictures import encode
from support import checkout, icebench, ideabench, multiref
from support.judge_server import JudgeServer
from support.releases import (
    BANANA_A,
    BANANA_B,
    BANANA_C,
    COMMIT,
    CREVAL_LEAD,
    CREVAL_SYSTEM,
    CREVAL_TEMPLATE,
    ICE_TEXTS,
    committed,
    creval_code,
    icebench_code,
    multibanana_code,
)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def picture(data: bytes, mime: str, **more: str) -> dict[str, Any]:
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url, **more}}


def bodies(server: JudgeServer) -> list[dict[str, Any]]:
    return [request.body for request in server.requests if request.body]


@pytest.fixture
def banana(tmp_path: Path) -> Path:
    """A set with one reference and one with three, JPEG and PNG, and a PNG as output; the code beside the data."""
    rng = np.random.default_rng(3)
    for task, count in (("single", 1), ("3_object", 3)):
        (tmp_path / f"data/{task}").mkdir(parents=True)
        (tmp_path / f"data/{task}/006_prompt.txt").write_text(f"  Put {{braces}} into {task}.\n")
        for index in range(count):
            kind = "jpeg" if index != 1 else "png"
            data = encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8), kind)  # type: ignore[arg-type]
            (tmp_path / f"data/{task}/006_{index}.{'jpg' if kind == 'jpeg' else 'png'}").write_bytes(data)
        (tmp_path / f"out/{task}").mkdir(parents=True)
        output = encode(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8))
        (tmp_path / f"out/{task}/006_generated.png").write_bytes(output)
    committed(multibanana_code(tmp_path / "code"))
    return tmp_path


def banana_run(work: Path, judge: str, **more: Any) -> Any:
    return evaluate(
        "multibanana",
        data=work / "data",
        models=[f"m=folder:{work / 'out'}"],
        judges=[judge],
        out=work / "run",
        prompts=f"official:{work / 'code'}",
        **more,
    )


def banana_content(work: Path, task: str, first: int, *, honest: bool = False) -> list[dict[str, Any]]:
    """Text, references from an index on, text, output, text; all pictures declared JPEG, unless honestly."""
    folder = work / f"data/{task}"
    files = [next(folder.glob(f"006_{index}.*")) for index in range(len(list(folder.glob("006_[0-9].*"))))]
    shown = [
        picture(file.read_bytes(), "image/png" if honest and file.suffix == ".png" else "image/jpeg")
        for file in [*files[first:], work / f"out/{task}/006_generated.png"]
    ]
    told = BANANA_B.replace("{instruction}", f"Put {{braces}} into {task}.")
    return [text(BANANA_A), *shown[:-1], text(told), shown[-1], text(BANANA_C)]


def test_multibanana_asks_gpt_as_judge_py_does_and_corrected_shows_all(banana: Path) -> None:
    with JudgeServer() as server:
        name = f"gpt=openai:gpt-5-2025-08-07?base_url={server.url}/v1&tokens_field=max_completion_tokens"
        result = banana_run(banana, name).result
    sent = bodies(server)
    released = {
        "model": "gpt-5-2025-08-07",
        "messages": [{"role": "user", "content": banana_content(banana, "3_object", 1)}],
        "max_completion_tokens": 8192,
    }
    assert released in sent
    corrected = [
        {**released, "messages": [{"role": "user", "content": banana_content(banana, task, 0, honest=True)}]}
        for task in ("single", "3_object")
    ]
    assert all(body in sent for body in corrected)
    assert len(sent) == 3, "the released script finds no reference of a single set, and asks nobody"
    rows = {row.protocol: row for row in result.rows(level="overall", metric="total")}
    assert rows["paper"].failures == {"undefined": 1}
    assert rows["corrected"].n_scored == 2


def test_multibanana_asks_qwen_as_its_own_script_does(banana: Path) -> None:
    with JudgeServer() as server:
        judge = f"open=openai:Qwen/Qwen3-VL-8B-Instruct?base_url={server.url}/v1"
        result = banana_run(banana, judge, settings={"ask": "paper"}).result
    expected = [
        {
            "model": "Qwen/Qwen3-VL-8B-Instruct",
            "messages": [{"role": "user", "content": banana_content(banana, task, 0)}],
            "max_tokens": 1024,
        }
        for task in ("single", "3_object")
    ]
    sent = bodies(server)
    assert len(sent) == 2
    assert all(body in sent for body in expected)
    assert result.wording == "official wording"


def test_multibanana_sends_turned_pictures_as_the_released_scripts_do(banana: Path) -> None:
    """GPT gets the file, Gemini's client what Pillow decodes, as it is stored; `corrected` what a viewer would see."""
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = np.random.default_rng(4).integers(0, 255, (8, 12, 3), dtype=np.uint8)
    jpeg, png = banana / "data/3_object/006_2.jpg", banana / "out/3_object/006_generated.png"
    for path in (jpeg, png):
        Image.fromarray(stored).save(path, exif=exif)
    decoded = {}
    for path, options in ((jpeg, {"format": "JPEG", "quality": "keep"}), (png, {"format": "PNG"})):
        data = io.BytesIO()
        Image.open(path).save(data, **options)  # type: ignore[arg-type]
        assert Image.open(data).size == (12, 8)
        decoded[path] = base64.b64encode(data.getvalue()).decode()
    with JudgeServer() as server:
        judges = [
            f"gpt=openai:gpt-5?base_url={server.url}/v1",
            f"gemini=gemini:gemini-2.5-flash?base_url={server.url}/v1beta",
        ]
        for judge in judges:
            banana_run(banana, judge, settings={"ask": "paper"})
    sent = bodies(server)
    (gpt,) = [body for body in sent if "messages" in body]
    assert gpt["messages"][0]["content"] == banana_content(banana, "3_object", 1), "the files' own bytes"
    (gemini,) = [body for body in sent if "contents" in body]
    shown = [part["inline_data"] for part in gemini["contents"][0]["parts"] if "text" not in part]
    assert [(one["mime_type"], one["data"]) for one in shown[1:]] == [
        ("image/jpeg", decoded[jpeg]),
        ("image/png", decoded[png]),
    ]


def test_multibanana_asks_gemini_without_a_limit(banana: Path) -> None:
    with JudgeServer() as server:
        judge = f"gemini=gemini:gemini-2.5-flash?base_url={server.url}/v1beta"
        banana_run(banana, judge, settings={"ask": "paper"})
    (body,) = bodies(server)
    (message,) = body["contents"]
    shown = [part for part in message["parts"] if "text" not in part]
    assert message["parts"][0] == {"text": BANANA_A}
    assert len(shown) == 3, "references 1 and 2, and the output"
    assert list(body) == ["contents"], "no parameter at all"


def test_a_checkout_in_which_the_authors_corrected_something_is_followed(banana: Path) -> None:
    multibanana_code(banana / "code", first=0, limit=4000)
    with JudgeServer() as server:
        banana_run(banana, f"gpt=openai:gpt-5?base_url={server.url}/v1", settings={"ask": "paper"})
    sent = bodies(server)
    assert {body["max_tokens"] for body in sent} == {4000}
    assert sorted(len(body["messages"][0]["content"]) for body in sent) == [5, 7], "reference 0 is shown"


def test_words_and_commit_are_in_the_record_and_the_fingerprint(banana: Path) -> None:
    with JudgeServer() as server:
        judge = f"gpt=openai:gpt-5?base_url={server.url}/v1"
        first = banana_run(banana, judge).result.table
        info = json.loads((banana / "run/run.json").read_text())
        assert (info["settings"]["prompts"], info["settings"]["commit"]) == ("official", COMMIT)
        assert str(banana) not in json.dumps(info), "where the checkout lies is nobody's business"
        asked = len(server.requests)
        banana_run(banana, judge)
        assert len(server.requests) == asked
        file = banana / "code/judge.py"
        file.write_text(file.read_text().replace("Plip is", "Plup is"))
        with pytest.raises(RefBenchError, match=r"other settings \(wording: "):
            banana_run(banana, judge)
        assert len(server.requests) == asked, "nothing is paid for"
    assert first.parts["settings"]["wording"] == info["settings"]["wording"]


def creval_run(root: Path, work: Path, server: JudgeServer, prompts: str, **more: Any) -> Any:
    return evaluate(
        "creval",
        data=root,
        models=[f"m=folder:{work / 'out'}"],
        judges=[f"gpt=openai:gpt-4o?base_url={server.url}/v1"],
        out=work / "run",
        prompts=prompts,
        **more,
    )


@pytest.mark.parametrize("elsewhere", [False, True])
def test_creval_sends_the_scripts_own_words_and_pictures_encoded_again(tmp_path: Path, elsewhere: bool) -> None:
    item = checkout.Item("a.1", questions={"VC": [("Q1", "** Kept?\n**", "** Yes", 1), ("Q2", "", "", 1)]})
    root = checkout.write_checkout(tmp_path / "creval", [item])
    creval_code(tmp_path / "code" if elsewhere else root)
    (tmp_path / "out").mkdir()
    rgba = np.random.default_rng(0).integers(0, 255, (8, 9, 4), dtype=np.uint8)
    Image.fromarray(rgba).save(tmp_path / "out/a.1.png")
    with JudgeServer() as server:
        prompts = f"official:{tmp_path / 'code'}" if elsewhere else "official"
        result = creval_run(root, tmp_path, server, prompts, settings={"ask": "paper"}).result
    shown = []
    for file in (root / "bench/image/a.1.png", tmp_path / "out/a.1.png"):
        array = cv2.cvtColor(np.asarray(Image.open(file)), cv2.COLOR_RGB2BGR)
        data = io.BytesIO()
        Image.fromarray(cv2.cvtColor(array, cv2.COLOR_BGR2RGB)).save(data, format="PNG")
        shown.append(picture(data.getvalue(), "image/png", detail="high"))
    expected = []
    for metric in ("IF", "VC", "VQ"):
        block = CREVAL_LEAD + "".join(
            f"{name}: {question}\nChoices: {'Yes, No' if question else ''}\n\n"
            for name, question, _, _ in item.of(metric)
        )
        words = CREVAL_TEMPLATE.replace("{Questions}", block)
        expected.append(
            {
                "model": "gpt-4o",
                "messages": [
                    {"role": "system", "content": [text(CREVAL_SYSTEM)]},
                    {"role": "user", "content": [*shown, text(words)]},
                ],
                "max_tokens": 2000,
            }
        )
    sent = bodies(server)
    assert len(sent) == 3
    assert all(body in sent for body in expected)
    assert result.wording == "official wording"


def test_creval_corrected_asks_official_words_about_the_files_themselves(tmp_path: Path) -> None:
    root = creval_code(checkout.write_checkout(tmp_path / "creval", [checkout.Item("a")]))
    (tmp_path / "out").mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (8, 9, 2), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "out/a.png")  # two channels: the released script cannot convert it
    with JudgeServer() as server:
        result = creval_run(root, tmp_path, server, "official").result
    sent = bodies(server)
    assert len(sent) == 3
    assert all(picture((tmp_path / "out/a.png").read_bytes(), "image/png", detail="high")
               in body["messages"][1]["content"] for body in sent)  # fmt: skip
    assert {score.failure.kind for score in result.scores if score.protocol == "paper" and score.failure} == {
        "unreadable_picture"
    }


def test_icebench_leaves_tokens_as_they_are_and_allows_512_tokens(tmp_path: Path) -> None:
    tasks = {
        "plain": "Color Editing",
        "mask": "Inpainting",
        "reference": "Face Swap",
        "mask_reference": "Virtual Try On",
    }
    items = [icebench.Item(task) for task in tasks.values()]
    icebench.write_dataset(tmp_path / "data", items)
    icebench.write_outputs(tmp_path / "out", items)
    icebench_code(tmp_path / "code")
    with JudgeServer(reply=lambda words: "1") as server:
        evaluate(
            "icebench",
            data=tmp_path / "data",
            models=[f"m=folder:{tmp_path / 'out'}"],
            judges=[f"q=openai:Qwen2.5-VL-72B-Instruct?base_url={server.url}/v1"],
            metrics="none",
            out=tmp_path / "run",
            prompts=f"official:{tmp_path / 'code'}",
        )
    dataset = load("icebench", tmp_path / "data")
    sent = bodies(server)
    assert len(sent) == 4
    for way, task in tasks.items():
        (case,) = [case for case in dataset.cases if case.groups["task"] == task]
        by_role = {one.role: dataset.path(one).read_bytes() for one in case.request.pictures}
        (output,) = [path for path in (tmp_path / "out").rglob("*") if case.id in path.name]
        order = [by_role["source"], output.read_bytes(), *(by_role[r] for r in ("mask", "reference") if r in by_role)]
        words = ICE_TEXTS[way].replace("{instruction}", case.request.instruction)
        assert "<SOURCE>" in words
        content = [*(picture(data, "image/png") for data in order), text(words)]
        body = {
            "model": "Qwen2.5-VL-72B-Instruct",
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 512,
        }
        assert body in sent


def test_icebench_shows_turned_pictures_as_they_are_stored_in_paper_and_upright_in_corrected(tmp_path: Path) -> None:
    items = [icebench.Item("Inpainting"), icebench.Item("Inpainting", 1)]
    icebench.write_dataset(tmp_path / "data", items)
    icebench.write_outputs(tmp_path / "out", items)
    icebench_code(tmp_path / "code")
    turned = sorted((tmp_path / "out").rglob("*.png"))[0]
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = np.random.default_rng(4).integers(0, 255, (8, 12, 3), dtype=np.uint8)
    Image.fromarray(stored).save(turned, exif=exif)
    with JudgeServer(reply=lambda words: "1") as server:
        result = evaluate(
            "icebench",
            data=tmp_path / "data",
            models=[f"m=folder:{tmp_path / 'out'}"],
            judges=[f"q=openai:Qwen2.5-VL-72B-Instruct?base_url={server.url}/v1"],
            metrics="none",
            out=tmp_path / "run",
            prompts=f"official:{tmp_path / 'code'}",
        ).result
    outputs = [body["messages"][0]["content"][1]["image_url"]["url"] for body in bodies(server)]
    pixels = [np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1])))) for url in outputs]
    shown = [one for one in pixels if one.shape in ((8, 12, 3), (12, 8, 3))]
    assert sorted(one.shape for one in shown) == [(8, 12, 3), (12, 8, 3)]
    assert any(np.array_equal(one, stored) for one in shown)
    assert len(pixels) == 3, "the other output goes as its file, and one call serves both protocols"
    assert {row.n_scored for row in result.rows(level="overall", metric="qa")} == {2}


def test_ideabench_asks_the_question_and_one_picture_and_nothing_else(tmp_path: Path) -> None:
    items = ideabench.designs(1)[:1]
    ideabench.write_checkout(tmp_path / "data", items)
    ideabench.write_outputs(tmp_path / "m", items)
    committed(tmp_path / "data")
    with JudgeServer(reply=lambda words: '{"score": 1, "reason": "seen"}') as server:
        found = evaluate(
            "ideabench",
            data=tmp_path / "data",
            models=[f"m=folder:{tmp_path / 'm'}"],
            judges=[f"g=gemini:gemini-1.5-pro?base_url={server.url}/v1beta"],
            out=tmp_path / "run",
            prompts="official",
            settings={"ask": "paper"},
        )
    questions = [entry["question"] for entry in items[0].questions()]
    for body in bodies(server):
        assert list(body) == ["contents"]
        words, shown = body["contents"][0]["parts"]
        assert words["text"] in questions
        assert shown["inline_data"]["mime_type"] == "image/jpeg"
    assert len(bodies(server)) == 3 * len(questions)
    assert found.result.wording == "official wording"
    assert found.result.table.parts["settings"]["commit"] == COMMIT
    assert not found.result.published(), "the leaderboard is about 51 cases"
    apart = {what for what, value in found.result.published_apart() if value.judge == "Gemini 1.5 pro"}
    assert apart == {"all cases (1 of 51 here)"}


def test_multiref_takes_a_rubric_of_the_users_and_has_no_official_one(tmp_path: Path) -> None:
    root = multiref.write_synthetic(tmp_path / "data", multiref.blends()[:1])
    (tmp_path / "words").mkdir()
    (tmp_path / "words/overall.txt").write_text("\n Rate {instruction} by {fidelity}\n{format} \n")
    dataset = load("multiref", root)
    for case, path in multiref.truth_outputs(dataset):
        place = tmp_path / f"out/{case}{path.suffix}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    options: dict[str, Any] = {"data": root, "models": [f"m=folder:{tmp_path / 'out'}"], "metrics": "none"}
    reply = '{"reason": "x", "image_quality": 4, "instruction_following": 3, "source_fidelity": 5}'
    with JudgeServer(reply=lambda words: reply) as server:
        options["judges"] = [f"j=openai:x?base_url={server.url}/v1"]
        result = evaluate("multiref", out=tmp_path / "run", prompts=tmp_path / "words", **options).result
        with pytest.raises(RefBenchError, match="no wording was released"):
            evaluate("multiref", out=tmp_path / "other", prompts=f"official:{tmp_path}", **options)
    (body,) = bodies(server)
    words = body["messages"][0]["content"][-1]["text"]
    assert words.startswith(f"\n Rate {dataset.cases[0].request.instruction} by ")
    assert words.endswith(" \n"), "edges stay as the file has them"
    assert result.wording == "the user's wording"


@pytest.mark.parametrize(
    ("name", "accepts"),
    [
        ("multibanana", ("own", "official:CHECKOUT", "judge.py and qwenvl_judge.py", "a directory with a.txt")),
        ("creval", ("own", "official", "official:CHECKOUT", "a directory with system.txt and answer.txt")),
        ("icebench", ("own", "official:CHECKOUT", "evaluators/vllm.py", "a directory with plain.txt")),
        ("ideabench", ("questions", "official", "official:CHECKOUT", "auto_eval.jsonl")),
        ("multiref", ("own", "a directory with overall.txt, none was released")),
    ],
)
def test_help_names_what_each_benchmark_accepts(name: str, accepts: tuple[str, ...]) -> None:
    (setting,) = [one for one in benchmark(name).asking.settings if one.name == "prompts"]
    for words in accepts:
        assert words in setting.values
    assert setting.choices[0] == accepts[0]


def test_the_command_line_shows_it(run_cli: Any) -> None:
    code, shown, _ = run_cli("run", "icebench", "--help")
    words = " ".join(shown.replace("│", " ").split())
    assert code == 0 and "official:CHECKOUT (evaluators/vllm.py of the authors' code)" in words


def test_a_plan_takes_the_settings_of_the_benchmark_as_the_run_does(banana: Path, run_cli: Any) -> None:
    """The words of `run` behind `plan`: official wording asks each protocol apart, and so costs more."""
    judge = "openai:x?base_url=http://x&price=1,1"
    words = ("multibanana", "--data", banana / "data", "--model", f"m=folder:{banana / 'out'}", "--judge", judge)

    def calls(*more: str) -> int:
        code, out, err = run_cli("plan", *words, *more, "--json")
        assert code == 0, err
        return int(json.loads(out)["calls"])

    official = f"official:{banana / 'code'}"
    assert (calls(), calls("--prompts", official), calls("--set", f"prompts={official}")) == (2, 3, 3)
    assert calls("--prompts", official, "--ask", "paper") == 1


def test_an_experiment_file_names_the_prompts(tmp_path: Path) -> None:
    from refbench.engine.options import RunOptions

    file = tmp_path / "x.toml"
    file.write_text('benchmark = "multibanana"\nprompts = "official:code"\n')
    assert RunOptions.from_file(file, {}).settings == {"prompts": "official:code"}
    assert RunOptions.from_file(file, {"settings": {"prompts": "own"}}).settings == {"prompts": "own"}
    with pytest.raises(RefBenchError, match="prompts is a and among the settings b"):
        RunOptions.of({"benchmark": "multibanana", "prompts": "a", "settings": {"prompts": "b"}})


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("prompt_a, prompt_b, prompt_c\n\n\ndef find", "prompt_a, prompt_b\n\n\ndef find"), "found 2 texts"),
        (("{instruction}", "{task}"), "found task"),
        (("    i = 1\n", "    i = START\n"), "a number for i in find_reference_images"),
        (("max_completion_tokens=8192", "**limits"), "max_completion_tokens = ... in judge_image_with_gpt"),
        (("def create_evaluation_prompts", "def prompts"), "one function create_evaluation_prompts"),
    ],
)
def test_a_script_that_does_not_look_as_expected_is_named_with_what_was_found(
    tmp_path: Path, edit: tuple[str, str], said: str
) -> None:
    from refbench.benchmarks.multibanana.judge import wording_of

    file = multibanana_code(tmp_path) / "judge.py"
    before = file.read_text()
    assert edit[0] in before
    file.write_text(before.replace(*edit))
    with pytest.raises(RefBenchError, match=said.replace("(", r"\(")) as error:
        wording_of(f"official:{tmp_path}")
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ICE-Bench/evaluators", "did you mean official:{}/ICE-Bench?"),
        (".", "did you mean official:{}/ICE-Bench?"),
        ("elsewhere", "name the folder of its checkout"),
        ("gone", "there is no such folder"),
        ("ICE-Bench/evaluators/vllm.py", "this is a file: name the folder of the checkout"),
        ("ICE-Bench.zip", "this is an archive: unpack it"),
    ],
)
def test_a_wrong_folder_is_told_from_the_right_one_nearby(tmp_path: Path, given: str, said: str) -> None:
    """A folder inside the checkout too: its words would be there, and the commit would not."""
    from refbench.benchmarks.icebench.judge import wording_of

    icebench_code(tmp_path / "ICE-Bench")
    (tmp_path / "elsewhere/below/deep").mkdir(parents=True)
    (tmp_path / "ICE-Bench.zip").touch()
    with pytest.raises(RefBenchError, match=re.escape(said.format(tmp_path))) as error:
        wording_of(f"official:{tmp_path / given}")
    assert "evaluators/vllm.py" in str(error.value)


def test_the_authors_code_without_the_word_official_is_known(tmp_path: Path) -> None:
    from refbench.benchmarks.multibanana.judge import wording_of

    multibanana_code(tmp_path)
    with pytest.raises(RefBenchError, match=re.escape(f"say --prompts official:{tmp_path}")):
        wording_of(str(tmp_path))
    assert wording_of(f"Official:{tmp_path}").official


def test_a_branch_of_icebench_that_is_gone_is_told(tmp_path: Path) -> None:
    from refbench.benchmarks.icebench.judge import wording_of

    file = icebench_code(tmp_path) / "evaluators/vllm.py"
    file.write_text(file.read_text().replace("elif src_mask is not None", "elif src_img is not None"))
    with pytest.raises(RefBenchError, match="found texts for ref_img and src_mask, ref_img, src_img, neither"):
        wording_of(f"official:{tmp_path}")


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("multibanana", {"prompts": "own", "wording": "52d9d11ce238cc70"}),
        (
            "creval",
            {"prompts": "own", "questions": "all", "show_instruction": "no", "wording": "bbdd3a0decc9971c"},
        ),
        ("icebench", {"prompts": "own", "wording": "cb88084d43784b03"}),
        ("ideabench", {"ask": "both", "prompts": "questions of the official files", "wording": "2e6843c9d173c6e0"}),
        (
            "multiref",
            {"prompt": "structured", "prompts": "own", "reference_axis": "no", "wording": "b07808b8331ce41f"},
        ),
    ],
)
def test_what_is_recorded_of_our_own_words_is_what_runs_were_begun_with(name: str, recorded: dict[str, str]) -> None:
    """Runs that are paid for go on, and tables keep their fingerprints."""
    bench = benchmark(name)
    assert bench.asking.judging is not None
    now = dict(bench.asking.judging(Path(), bench.asking.chosen({}, bench.title)).recorded)
    assert {**now, "wording": now["wording"][:16]} == recorded
