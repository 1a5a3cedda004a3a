"""Specs: in one line, as a table, wrong, wrapped and built."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from refbench.calls.transport import Transport
from refbench.chat.presets import judge_presets
from refbench.chat.vlm import VLM, make_vlm
from refbench.models.build import ModelSetup, make_painter
from refbench.models.model import Commission, ImageModel, Traits
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import JUDGES, MODELS, WRAPPERS, Spec, judge_options, model_options, read_options
from support.planner import saying, with_vlm
from support.recording_model import RecordingModel, write_pictures

Refbench = Callable[..., tuple[int, str, str]]


def built(spec: Spec, innermost: ImageModel, vlm: VLM, folder: Path) -> ImageModel:
    setup = ModelSetup(Transport(), lambda asked: vlm, folder, placed=lambda placed, make: innermost)
    return make_painter(spec, setup)


def test_a_plain_spec_stays_a_plain_spec() -> None:
    for text in (
        "A=openai:gpt-image-1?quality=high",
        "folder:out/A (1)",
        "folder:out/{id}.png",
        "command:sh run(1).sh",
    ):
        spec = Spec.parse(text)
        assert spec.model is None and spec.innermost == spec and f"{spec.kind}:{spec.what}" in text


def test_an_agent_in_one_line() -> None:
    tree = Spec.parse("A=ipr(planner=openai:gpt-5?seed=1&price=1,2; model=gemini:nano?x=(a;b); steps=2)")
    assert (tree.name, tree.kind, tree.what, tree.options) == ("A", "ipr", "gemini:nano", {"steps": "2"})
    assert tree.vlm == Spec(name="gpt-5", kind="openai", what="gpt-5", options={"seed": "1", "price": "1,2"})
    assert tree.model == Spec(name="nano", kind="gemini", what="nano", options={"x": "(a;b)"})


def test_wrappers_nest_and_a_model_may_stand_first_without_its_key() -> None:
    tree = Spec.parse("ablate(cafg(truncate(openai:img); planner=gemini:g); drop=role; role=style)")
    assert tree.options == {"drop": "role", "role": "style"} and tree.kind == "ablate"
    assert tree.model is not None and tree.model.kind == "cafg"
    assert tree.model.model is not None and tree.model.model.options == {"policy": "truncate"}
    assert tree.innermost == Spec.parse("openai:img")


@pytest.mark.parametrize(
    "text, name",
    [
        ("ipr(openai:img; planner=openai:gpt-5)", "ipr+img"),
        ("truncate(A=openai:img)", "truncate+A"),
        ("truncate(nano=openai:img)", "truncate+nano"),
        ("truncate(model=A=openai:img)", "truncate+A"),
        ("overflow(openai:img; policy=collage)", "collage+img"),
        ("turns(collage(openai:org/img))", "turns+collage+img"),
        ("mine=turns(openai:img)", "mine"),
    ],
)
def test_a_name_says_what_is_wrapped(text: str, name: str) -> None:
    assert Spec.parse(text).name == name


def test_quotes_keep_semicolons_brackets_and_blanks() -> None:
    tree = Spec.parse('suffix(openai:img; text="Sharp; no ) text, \\"none\\" ")')
    assert tree.options["text"] == 'Sharp; no ) text, "none" '
    tree = Spec.parse('suffix("command:make.sh ; ( x"; text=a "b;c" d)')
    assert tree.innermost.what == "make.sh ; ( x" and tree.options["text"] == 'a "b;c" d'


@pytest.mark.parametrize(
    "text, said",
    [
        ("irp(openai:img; planner=openai:g)", "no wrapper is called 'irp': did you mean ipr"),
        ("xyz(openai:img)", "there are overflow"),
        ("ipr(openai:img)", "ipr asks a VLM: give planner="),
        ("rephrase(openai:img; planner=openai:g)", "give vlm="),
        ("ipr(planner=openai:g)", "ipr wraps a model"),
        ("turns()", "turns wraps a model"),
        ("turns(openai:img; steps=2)", "turns has no steps=, it has model"),
        ("truncate(openai:img; openai:img2)", "model is given twice"),
        ("truncate(openai:img", "a bracket is not closed"),
        ("A=ipr(planner=openai:g; model=openai:img; stpes=2)", "ipr has no stpes=, it has model, planner, steps"),
        ("truncate(turns(openai:img)", "a bracket is not closed"),
        ('suffix(openai:img; text="a)', "a quotation mark is not closed"),
        ("truncate(img)", "kind:what"),
        ("a/b=truncate(openai:img)", "the name 'a/b'"),
        ("ipr(openai:img; planner=truncate(openai:g))", "planner is a VLM and cannot be wrapped"),
    ],
)
def test_a_wrong_spec_is_one_sentence_with_the_option(text: str, said: str) -> None:
    with pytest.raises(RefBenchError) as error:
        Spec.parse(text)
    assert said in str(error.value) and str(error.value).startswith("--model")


TOML = """
[models.A]
kind = "ipr"
planner = "openai:gpt-5"
model = "gemini:nano"
steps = 3

[models.B]
kind = "ablate"
drop = "reference"
shuffle = true
[models.B.model]
kind = "truncate"
model = { kind = "diffusers", what = "org/repo", steps = 20, guidance = 3.5 }

[models.C]
kind = "openai"
what = "gpt-image-1"
quality = "high"

[models.D]
kind = "rephrase"
when = "always"
vlm = { kind = "gemini", what = "g" }
model = "suffix(openai:img; text=Please.)"
"""


def test_toml_tables_say_the_same_as_one_line() -> None:
    tables = tomllib.loads(TOML)["models"]
    trees = {name: Spec.from_table(table, name) for name, table in tables.items()}
    assert trees["A"] == Spec.parse("A=ipr(gemini:nano; planner=openai:gpt-5; steps=3)")
    assert trees["B"] == Spec.parse(
        "B=ablate(truncate(diffusers:org/repo?steps=20&guidance=3.5); drop=reference; shuffle=yes)"
    )
    assert trees["C"] == Spec.parse("C=openai:gpt-image-1?quality=high")
    assert trees["D"] == Spec.parse("D=rephrase(suffix(openai:img; text=Please.); vlm=gemini:g; when=always)")


@pytest.mark.parametrize(
    "table, said",
    [
        ({}, "[models.X]: give a table with kind"),
        ({"kind": 3}, "give a table with kind"),
        ({"kind": "openai"}, "openai needs what"),
        ({"kind": "openai", "what": "x", "bad": [1]}, "[1] is no text and no number"),
        ({"kind": "ipr", "model": "openai:x"}, "give planner="),
        ({"kind": "ipp", "model": "openai:x"}, "did you mean ipr"),
        ({"kind": "turns", "model": {"what": "x"}}, "give a table with kind"),
    ],
)
def test_a_wrong_table_is_one_sentence_with_its_name(table: dict[str, object], said: str) -> None:
    with pytest.raises(RefBenchError) as error:
        Spec.from_table(table, "X")
    assert said in str(error.value) and "[models.X]" in str(error.value)


def test_a_tree_is_built_from_the_inside_and_runs(tmp_path: Path) -> None:
    leaf = RecordingModel(traits=Traits(max_references=3))
    tree = Spec.parse("A=suffix(cafg(truncate(openai:img); planner=openai:tiny; steps=2); text=Nicely.)")

    async def work(vlm: VLM) -> None:
        model: ImageModel = built(tree, leaf, vlm, tmp_path / "work")
        assert model.name == "A"
        painted = await model.generate(Commission("Mix.", write_pictures(tmp_path, *["style"] * 4)), 0)
        assert painted.failure is None and len(painted.steps) == 1
        await model.close()

    with saying("P one") as server:
        with_vlm(server, work)
        assert len(server.requests) == 1
    assert [ask.commission.instruction.split("\n\n")[0] for ask in leaf.asks] == ["Mix. Nicely.", "P one"]
    assert [ask.roles for ask in leaf.asks] == [["style"] * 3, ["style", "style", "previous"]]
    assert leaf.closed


@pytest.mark.parametrize(
    "text",
    [
        "error(openai:img)",
        "skip(openai:img)",
        "collage(openai:img)",
        "rephrase(openai:img; vlm=openai:tiny)",
        "turns(openai:img)",
        "ipr(openai:img; planner=openai:tiny)",
        "sra(openai:img; planner=openai:tiny)",
        "ablate(openai:img; drop=text)",
        "suffix(openai:img; text=x)",
    ],
)
def test_every_wrapper_is_an_image_model_that_closes_the_one_inside(text: str, tmp_path: Path) -> None:
    leaf = RecordingModel()

    async def work(vlm: VLM) -> ImageModel:
        return built(Spec.parse(text), leaf, vlm, tmp_path)

    with saying("") as server:
        model = with_vlm(server, work)
    assert isinstance(model, ImageModel)
    assert all(isinstance(value, str) for value in model.canonical().values())
    assert model.canonical()["model.kind"] == "recording"
    asyncio.run(model.close())
    assert leaf.closed


PAINTER = """
from refbench.pictures import encode
import numpy as np

def make():
    return lambda request, seed: encode(np.full((8, 8, 3), seed, dtype=np.uint8))
"""


@pytest.mark.parametrize("kind", ["python", "command"])
def test_the_option_that_a_budget_asks_for_works(kind: str, tmp_path: Path, run_cli: Refbench) -> None:
    (tmp_path / "paint.py").write_text(PAINTER)
    program = tmp_path / "paint.sh"
    program.write_text(f'cp {write_pictures(tmp_path, "style")[0].path} "$2"\n')
    what = f"{tmp_path / 'paint.py'}:make" if kind == "python" else f"sh {program} {{instruction}} {{output}}"
    cases = tmp_path / "cases.jsonl"
    cases.write_text("\n".join(json.dumps({"id": f"c{n}", "instruction": "Paint."}) for n in range(3)))
    words = (
        "generate",
        cases,
        "--rubric",
        "five_criteria",
        "--out",
        tmp_path / "run",
        "--budget",
        "0.25usd",
        "--model",
    )
    code, _, err = run_cli(*words, f"m={kind}:{what}")
    assert code == 2 and "add ?price=USD" in err
    code, _, err = run_cli(*words, f"m={kind}:{what}?usd_a_picture=0.1")
    assert code == 2 and "usd_a_picture= is called price= now: write price=0.1" in err
    code, _, err = run_cli(*words, f"m={kind}:{what}?price=0.1")
    assert code == 3, err
    outputs = Run.open(tmp_path / "run").outputs()
    assert [output.cost_usd for output in outputs if output.failure is None] == [0.1, 0.1], "the third does not fit"


def test_every_declared_option_is_listed_with_what_may_be_written(run_cli: Refbench) -> None:
    for what, declared in (("models", {**MODELS, **WRAPPERS}), ("judges", JUDGES)):
        code, out, _ = run_cli("list", what, "--json")
        listed = {row["kind"]: row for row in json.loads(out)[what]}
        presets = [f"paper:{name}" for name in judge_presets()] if what == "judges" else []
        assert code == 0 and list(listed) == [*(kind.usage for kind in declared.values()), *presets]
        for kind in declared.values():
            assert [option["name"] for option in listed[kind.usage]["options"]] == [o.name for o in kind.options]
    assert "open_weights=" in run_cli("list", "models")[1]


def test_the_advice_for_an_option_of_another_name_can_be_followed() -> None:
    with pytest.raises(RefBenchError, match=r"price= now, and 1 does not serve: write dollars .* 0\.4,1\.6"):
        judge_options(Spec.parse("j=openai:gpt-4o?usd_a_picture=1", "--judge"))
    with pytest.raises(RefBenchError, match="folder has no option 'open': there is only family"):
        model_options(Spec.parse("m=folder:pics?open=yes"))


def test_wrappers_without_end_are_refused() -> None:
    with pytest.raises(RefBenchError, match="more than 100 brackets"):
        Spec.parse("truncate(" * 900 + "baseline:copy" + ")" * 900)
    assert Spec.parse("truncate(" * 20 + "baseline:copy" + ")" * 20).innermost.kind == "baseline"


SECRET_NAMES = (
    *(
        "api_key",
        "apikey",
        "apiKey",
        "key",
        "x-api-key",
        "openai_api_key",
        "token",
        "access_token",
        "hf_token",
        "auth_tokens",
    ),
    *("Authorization", "password", "client_secret", "aws_access_key_id", "credentials", "extra_headers", "headers"),
)
COUNTS = (
    "max_completion_tokens",
    "tokens_field",
    "maxOutputTokens",
    "stop_token_ids",
    "eos_token_id",
    "prompt_cache_key",
)


@pytest.mark.parametrize("read", [judge_options, model_options])
def test_an_option_that_would_record_a_secret_is_refused_by_its_name(read: Callable[[Spec], object]) -> None:
    for name in SECRET_NAMES:
        with pytest.raises(RefBenchError, match="key_env=") as raised:
            read(Spec.parse(f"j=openai:x?temperature=0&{name}=hunter2"))
        assert "hunter2" not in str(raised.value), name
    assert read(Spec.parse("j=openai:x?" + "&".join(f"{name}=9" for name in COUNTS)))


@pytest.mark.parametrize(
    "key", ["sk-abcdefgh12345678", "AIzaSyA1234567890abcdefghijklm", "3f9c0b5e7a1d4c2f8e6b3f9c0b5e7a1d"]
)
@pytest.mark.parametrize(
    "wrong",
    ["{}", "openai:", "a b=openai:{}", "j=openai:x?price={}", "ipr(openai:x; {}", "nope(openai:{})", "{}:gpt-4o"],
)
def test_no_sentence_about_a_wrong_spec_shows_a_key(wrong: str, key: str) -> None:
    with pytest.raises(RefBenchError) as raised:
        judge_options(spec) if (spec := Spec.parse(wrong.format(key), "--judge")).kind == "openai" else make_vlm(
            spec, Transport()
        )
    assert key not in str(raised.value)


@pytest.mark.parametrize(("typo", "meant"), [("base_ur", "base_url"), ("max_tokns", "max_tokens")])
def test_a_misspelt_option_of_a_judge_is_not_sent_to_its_server(typo: str, meant: str) -> None:
    with pytest.raises(RefBenchError, match=f"has no option '{typo}': .*{meant}"):
        read_options(Spec.parse(f"openai:m?{typo}=1"), JUDGES["openai"], "--judge")
    for other in ("top_k", "min_tokens", "min_pixels", "repetition_penalty"):
        read_options(Spec.parse(f"openai:m?{other}=1"), JUDGES["openai"], "--judge")
