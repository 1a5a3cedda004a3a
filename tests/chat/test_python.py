"""Judges that users write: a function in a file, by the front door; functions and objects from Python; plug-ins."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refbench
from refbench.calls.prices import FREE
from refbench.calls.transport import Transport
from refbench.chat import ChatRequest, ChatText
from refbench.chat.python import FunctionVLM, Prompt, python_vlm
from refbench.chat.vlm import VLM, Pictures, Reply, make_vlm
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.models.build import ModelSetup, make_model
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import JUDGE_PLUG_INS, JUDGES, Option, Spec, declares, kinds, whole

NAMES = ("instruction_alignment", "reference_consistency", "background_subject_match", "physical_realism", "visual_quality")  # fmt: skip
MARKS = json.dumps(dict.fromkeys(NAMES, 5))
QUESTION = ChatRequest(parts=(ChatText(text="How good?"),), system="Be fair.", max_tokens=50)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    (tmp_path / "ref.png").write_bytes(encode(np.zeros((8, 8, 3), dtype=np.uint8)))
    row = {"instruction": "Paint.", "references": [{"path": "ref.png", "role": "style"}]}
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(json.dumps({"id": f"c{n}", **row}) for n in range(3)))
    return path


def ask(vlm: VLM, repeat: int = 0) -> Evidence:
    async def work() -> Evidence:
        try:
            return await vlm.ask(QUESTION, {}, repeat)
        finally:
            await vlm.close()

    return asyncio.run(work())


def test_the_judge_of_the_docs_judges(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    page = (Path(__file__).parents[2] / "docs/judging.md").read_text("utf-8")
    example = re.search(r"```python\n# judge\.py\n(.*?)```", page, re.DOTALL)
    assert example is not None
    (tmp_path / "judge.py").write_text(example[1])
    monkeypatch.chdir(tmp_path)
    words = (
        "run",
        cases,
        "--rubric",
        "five_criteria",
        "--model",
        "baseline:copy",
        "--judge",
        "mine=python:judge.py:judge",
    )
    code, out, err = run_cli(*words, "--budget", "1usd", "--out", "run", "--json")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert {(row["judge"], row["n_scored"]) for row in rows} == {("mine", 3)}
    evidence = [act for _, act in Run.open(tmp_path / "run").evidence()]
    assert len(evidence) == 3 and {act.cost_usd for act in evidence} == {0.0}
    assert {act.request["model"] for act in evidence} == {"judge.py:judge"}
    (tmp_path / "judge.py").write_text(example[1].replace("7", "8"))
    assert run_cli(*words, "--out", "run")[0] == 2, "another content is another judge"


def test_functions_and_objects_judge_from_python(cases: Path, tmp_path: Path) -> None:
    class Mine(VLM):
        name = "object"
        price = FREE
        closed = False

        def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
            return request.canonical("mine", "object", repeat)

        async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
            return Evidence(kind="chat", request=self.canonical(request, repeat), reply=MARKS)

        async def close(self) -> None:
            self.closed = True

    mine = Mine()
    arguments: dict[str, Any] = {"rubric": "five_criteria", "models": ["baseline:copy"]}
    by_name = refbench.evaluate(
        str(cases), judges={"object": mine, "function": lambda prompt: MARKS}, out=tmp_path / "both", **arguments
    )
    assert {row.judge for row in by_name.result.table.rows} == {"object", "function"}
    assert mine.closed
    listed = refbench.evaluate(str(cases), judges=[Mine()], out=tmp_path / "one", **arguments)
    assert {row.n_scored for row in listed.result.table.rows} == {3}
    alone = refbench.evaluate(
        str(cases), rubric="five_criteria", models="baseline:copy", judges=Mine(), out=tmp_path / "alone"
    )
    assert alone.rows() == alone.result.rows() and alone.table.rows == listed.table.rows
    assert alone.flat() == alone.result.flat() and alone.failures() == []
    metric = alone.rows()[0].metric
    row = alone.rows(level="overall", metric=metric)[0]
    assert alone.value(level="overall", metric=metric, protocol=row.protocol) == row.value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"judges": [lambda prompt: MARKS]}, 'judges: the function <lambda> needs a name: write judges={"NAME": '),
        ({"judges": lambda prompt: MARKS}, 'judges: the function <lambda> needs a name: write judges={"NAME": '),
        ({"models": [lambda request, seed: b""]}, 'models: the function <lambda> needs a name: write models={"NAME": '),
        ({"judges": [7]}, "judges: 7 is neither a spec such as 'NAME=KIND:WHAT' nor a function"),
        ({"models": "A"}, "--model A: write it as [name=]kind:what, for example mine=folder:outputs"),
        ({"judges": "gpt-4o"}, "--judge gpt-4o: write it as [name=]kind:what, for example judge=openai:gpt-4o"),
    ],
)
def test_what_is_no_judge_or_model_is_refused_in_a_sentence(
    cases: Path, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    arguments: dict[str, Any] = {"models": ["baseline:copy"], "judges": {"mine": lambda prompt: MARKS}, **given}
    with pytest.raises(RefBenchError, match=re.escape(said)):
        refbench.evaluate(str(cases), rubric="five_criteria", out=tmp_path / "run", **arguments)


def test_a_function_is_told_the_prompt_and_the_repeat() -> None:
    told: list[tuple[Prompt, int]] = []

    async def judge(prompt: Prompt, repeat: int) -> str:
        told.append((prompt, repeat))
        return "fine"

    assert ask(FunctionVLM("j", judge), 2).reply == "fine"
    assert told == [(Prompt(("How good?",), "Be fair.", 50), 2)]
    assert told[0][0].text == "How good?" and told[0][0].pictures == ()


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (Failure(kind="refused", detail="not this"), "refused", "not this"),
        ("  ", "empty_reply", "no text"),
        ({"score": 3}, "api_error", "returned a dict: return the reply as text"),
        (ValueError("no weights"), "api_error", "the function raised ValueError: no weights"),
    ],
)
def test_what_is_no_reply_is_a_failure_of_that_call(value: object, kind: str, said: str) -> None:
    def judge(prompt: Prompt) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    failure = ask(FunctionVLM("j", judge)).failure
    assert failure is not None and (failure.kind, said in failure.detail) == (kind, True)


def test_a_judge_that_raises_says_where_in_its_own_file() -> None:
    def weights() -> str:
        raise KeyError("vision")

    failure = ask(FunctionVLM("j", lambda prompt: weights())).failure
    assert failure is not None
    assert "raised KeyError: 'vision' (test_python.py:" in failure.detail
    assert failure.detail.count("in weights: raise KeyError") == 1
    assert "from test_python.py:" in failure.detail, "and who called it"
    assert "site-packages" not in failure.detail and "functions.py" not in failure.detail


def test_a_judge_that_hangs_is_given_up() -> None:
    hang = threading.Event()
    failure = ask(FunctionVLM("j", lambda prompt: hang.wait(), timeout=0.05)).failure
    hang.set()
    assert failure is not None and failure.kind == "timeout"


def test_tokens_of_a_reply_are_paid_at_the_price_of_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "paid.py"
    path.write_text(
        "from refbench.chat.vlm import Reply\n"
        "def make(mood: str):\n    return lambda prompt: Reply(mood, input_tokens=1000, output_tokens=10)\n"
    )
    vlm = python_vlm(Spec.parse(f"j=python:{path}:make?mood=kind&price=1,100", "--judge"))
    evidence = ask(vlm)
    assert (evidence.reply, evidence.cost_usd) == ("kind", pytest.approx(0.002))
    assert evidence.request["parameters"]["mood"] == "kind"
    assert (vlm.worst_cost(QUESTION, {}) or 0) > 0


def test_an_installed_package_adds_a_kind_of_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("oracle", "chat_plug_in:make", JUDGE_PLUG_INS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: _oracle)
    found = lambda group: [point] if group == JUDGE_PLUG_INS else []  # noqa: E731
    monkeypatch.setattr("refbench.specs.entry_points", found)
    vlm = make_vlm(Spec.parse("oracle:delphi", "--judge"), Transport())
    assert ask(vlm).reply == "delphi says yes"
    kind = kinds(JUDGES, JUDGE_PLUG_INS)["oracle"]
    assert (kind.usage, kind.help, [option.name for option in kind.options]) == (
        "oracle:PLACE",
        "Asks an oracle.",
        ["doubt"],
    )

    def broken(self: EntryPoint) -> None:
        raise ImportError("no crystal ball")

    with pytest.raises(RefBenchError, match=r"did you mean oracle:delphi\?"):
        make_vlm(Spec.parse("oracles:delphi", "--judge"), Transport())
    monkeypatch.setattr(EntryPoint, "load", broken)
    with pytest.raises(RefBenchError, match="oracle: the plug-in chat_plug_in:make cannot be loaded: no crystal ball"):
        make_vlm(Spec.parse("oracle:delphi", "--judge"), Transport())
    assert "cannot be loaded" in kinds(JUDGES, JUDGE_PLUG_INS)["oracle"].help


@declares(Option("doubt", "how much", whole()), what="PLACE")
def _oracle(spec: Spec) -> VLM:
    """Asks an oracle."""
    return FunctionVLM(spec.name, lambda prompt: Reply(f"{spec.what} says yes"))


@pytest.mark.parametrize("made", [None, lambda prompt: "yes"])
def test_a_plug_in_that_makes_no_judge_or_model_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda self: lambda spec: made)
    monkeypatch.setattr("refbench.specs.entry_points", lambda group: [EntryPoint("oracle", "chat_plug_in:make", group)])
    gave = "gave back None" if made is None else "gave back a function"
    with pytest.raises(RefBenchError, match=f"judge delphi: the plug-in chat_plug_in:make {gave}, not a VLM"):
        make_vlm(Spec.parse("oracle:delphi", "--judge"), Transport())
    with pytest.raises(RefBenchError, match=f"--model delphi: the plug-in chat_plug_in:make {gave}, not an ImageModel"):
        make_model(Spec.parse("oracle:delphi"), ModelSetup(Transport(), lambda spec: None, Path()))  # type: ignore[arg-type, return-value]
