"""A run is not continued by another state of what painted, judged or measured it."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.analysis.why.runs import why
from refbench.calls.identity import UNTOLD, identity_of
from refbench.chat.vlm import VLM, ChatRequest
from refbench.engine import Evaluation, evaluate
from refbench.evidence import Evidence
from refbench.metrics.metric import home_of, metrics, register_from
from refbench.models.model import Painted, Startable, Traits
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.specs import JUDGE_PLUG_INS, MODEL_PLUG_INS, Option, Spec, declares, whole
from support.five_criteria import FIVE


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    Image.new("RGB", (16, 16), (90, 90, 90)).save(tmp_path / "s.png")
    row = {"id": "a", "instruction": "Paint.", "source": "s.png"}
    (tmp_path / "cases.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path / "cases.jsonl"


def grey(request: Any, seed: int, n: int) -> Image.Image:
    return Image.new("RGB", (16, 16), (n, n, n))


def closure(n: int) -> Callable[..., Any]:
    return lambda request, seed: grey(request, seed, n)


def defaulted(n: int) -> Callable[..., Any]:
    def paint(request: Any, seed: int, shade: int = n) -> Image.Image:
        return grey(request, seed, shade)

    return paint


class Grey:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, request: Any, seed: int) -> Image.Image:
        return grey(request, seed, self.n)

    def paint(self, request: Any, seed: int) -> Image.Image:
        return grey(request, seed, self.n)


WAYS: dict[str, Callable[[int], Any]] = {
    "partial": lambda n: functools.partial(grey, n=n),
    "closure": closure,
    "default": defaulted,
    "object": Grey,
    "bound method": lambda n: Grey(n).paint,
    "partial of a closure": lambda n: functools.partial(closure(n)),
}


def painted(cases: Path, model: Any) -> Evaluation:
    return evaluate(str(cases), models={"G": model}, metrics="ssim", out=cases.parent / "run")


@pytest.mark.parametrize("way", WAYS)
def test_a_model_in_another_state_does_not_continue_a_run(cases: Path, way: str) -> None:
    painted(cases, WAYS[way](20))
    painted(cases, WAYS[way](20))
    with pytest.raises(RefBenchError, match="other settings"):
        painted(cases, WAYS[way](200))


@pytest.mark.parametrize("way", ["closure", "partial", "object"])
def test_a_judge_in_another_state_does_not_continue_a_run(cases: Path, way: str) -> None:
    def says(prompt: Any, n: int) -> str:
        return json.dumps(dict.fromkeys(FIVE, n))

    class Judge:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, prompt: Any) -> str:
            return says(prompt, self.n)

    ways: dict[str, Callable[[int], Any]] = {
        "closure": lambda n: lambda prompt: says(prompt, n),
        "partial": lambda n: functools.partial(says, n=n),
        "object": Judge,
    }

    def judged(n: int) -> str:
        done = evaluate(
            str(cases),
            models={"B": "baseline:copy"},
            judges={"j": ways[way](n)},
            rubric="five_criteria",
            out=cases.parent / "run",
        )
        return done.result.table.fingerprint

    assert judged(3) == judged(3)
    with pytest.raises(RefBenchError, match="--judge j is asked otherwise"):
        judged(9)


def test_what_a_function_reads_of_its_module_is_part_of_it() -> None:
    def made(shade: int) -> Any:
        there: dict[str, Any] = {"SHADE": shade}
        exec("def paint(request, seed):\n    return SHADE", there)
        return there["paint"]

    assert identity_of(made(20), "") == identity_of(made(20), "")
    assert identity_of(made(20), "") != identity_of(made(200), "")


def test_large_arrays_are_told_apart_by_every_value() -> None:
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1
    first, second = (identity_of(functools.partial(grey, n=array), "") for array in (one, other))
    assert first != second
    assert UNTOLD not in first


def test_state_that_cannot_be_told_is_said_and_a_version_decides(cases: Path) -> None:
    class Weights:
        pass

    model = Grey(20)
    model.weights = Weights()  # type: ignore[attr-defined]
    assert identity_of(model, "")[UNTOLD] == "weights"
    done = painted(cases, model)
    assert any("G: weights cannot be told" in note for note in done.result.notes)
    model.version = "1"  # type: ignore[attr-defined]
    assert identity_of(model, "") == {"what": f"{__name__}:Grey", "version": "1"}
    with pytest.raises(RefBenchError, match="other settings"):
        painted(cases, model)


# --- plug-ins -----------------------------------------------------------------------------------------------------


class Shaded(Startable):
    """A model that says nothing of its shade."""

    traits = Traits()

    def __init__(self, name: str, shade: int) -> None:
        self.name, self.shade = name, shade

    def canonical(self) -> dict[str, str]:
        return {"kind": "shaded"}

    async def generate(self, commission: Any, seed: int) -> Painted:
        return Painted(pictures=(encode(np.full((16, 16, 3), self.shade, np.uint8)),))

    async def start(self) -> None:
        if self.shade == 13:
            raise RefBenchError("there is no such shade")

    async def close(self) -> None:
        return


class Const(VLM):
    """A judge that says nothing of its mark in the form that a fingerprint is made of."""

    def __init__(self, name: str, mark: int) -> None:
        self.name, self.mark = name, mark

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        return {"judge": "const", "request": request.model_dump(mode="json"), "repeat": repeat}

    async def ask(self, request: ChatRequest, pictures: Any, repeat: int) -> Evidence:
        reply = json.dumps(dict.fromkeys(FIVE, self.mark))
        evidence = Evidence(kind="chat", request=self.canonical(request, repeat), reply=reply)
        assert evidence.id  # known, as it is to a plug-in that keeps a log
        return evidence


@declares(Option("shade", "grey level", whole(0, 255), default="128"))
def shaded(spec: Spec) -> Shaded:
    return Shaded(spec.name, int(spec.options.get("shade", "128")))


@declares(Option("mark", "the mark that it gives", whole(), default="4"))
def const(spec: Spec) -> Const:
    return Const(spec.name, int(spec.options.get("mark", "4")))


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("shaded", f"{__name__}:shaded", MODEL_PLUG_INS),
        EntryPoint("bare", f"{__name__}:closure", MODEL_PLUG_INS),
        EntryPoint("const", f"{__name__}:const", JUDGE_PLUG_INS),
    ]
    monkeypatch.setattr("refbench.specs.entry_points", lambda group: [one for one in points if one.group == group])


@pytest.mark.usefixtures("plugged")
def test_the_options_of_a_plug_in_model_are_part_of_it(cases: Path) -> None:
    painted(cases, "shaded:x?shade=20")
    painted(cases, "shaded:x?shade=20")
    with pytest.raises(RefBenchError, match="other settings"):
        painted(cases, "shaded:x?shade=90")


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_that_cannot_start_is_found_before_anybody_paints(cases: Path) -> None:
    painters = ["plain=baseline:copy", "shaded=shaded:x?shade=13"]
    with pytest.raises(RefBenchError, match="there is no such shade"):
        evaluate(cases, models=painters, judges=["const:x"], rubric="five_criteria", out=cases.parent / "run")
    assert not Run.open(cases.parent / "run").outputs()


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_that_makes_no_model_is_told_so(cases: Path) -> None:
    with pytest.raises(RefBenchError, match="gave back a function, not an ImageModel"):
        painted(cases, "bare:x")


@pytest.mark.usefixtures("plugged")
def test_options_of_a_plug_in_are_read_as_it_declares_them(cases: Path) -> None:
    with pytest.raises(RefBenchError, match=r"shaded has no option 'shad': did you mean shade\?"):
        painted(cases, "shaded:x?shad=20")
    with pytest.raises(RefBenchError, match="shade=dark: write a whole number from 0 to 255"):
        painted(cases, "shaded:x?shade=dark")
    with pytest.raises(RefBenchError, match=r"const has no option 'mrak': did you mean mark\?"):
        judged_by(cases, "const:x?mrak=8", "run")


@pytest.mark.usefixtures("plugged")
def test_the_options_of_a_plug_in_judge_are_in_the_fingerprint(cases: Path) -> None:
    four = judged_by(cases, "const:x?mark=4", "four").result
    assert {row.value for row in four.rows(level="overall") if row.metric == "visual_quality"} == {4}
    assert judged_by(cases, "const:x?mark=4", "four").result.table.fingerprint == four.table.fingerprint
    assert judged_by(cases, "const:x?mark=8", "eight").result.table.fingerprint != four.table.fingerprint
    with pytest.raises(RefBenchError, match="--judge j is asked otherwise"):
        judged_by(cases, "const:x?mark=8", "four")


def judged_by(cases: Path, judge: str, out: str) -> Evaluation:
    return evaluate(
        str(cases),
        models={"B": "baseline:copy"},
        judges={"j": judge},
        rubric="five_criteria",
        out=cases.parent / out,
    )


# --- metrics that are not shipped ---------------------------------------------------------------------------------


def registered(folder: Path, scale: int, version: int = 1) -> None:
    """A metric in a file of the user's, as an entry point would load it."""
    path = folder / "bright_of_a_user.py"
    path.write_text(
        "from refbench.metrics import metric\n"
        "from refbench.pictures import Pixels\n"
        f"@metric(better='higher', range=(0, 1), version={version})\n"
        "def bright_of_a_user(output: Pixels) -> float:\n"
        f"    return float(output.mean()) / {scale}\n"
    )
    os.utime(path, (1_000_000_000, 1_000_000_000))  # the same second and size, by which bytecode is known
    sys.modules.pop(path.stem, None)
    register_from(path.stem, str(path))


def measured_in(cases: Path, out: str, model: str = "B") -> Evaluation:
    return evaluate(str(cases), models={model: "baseline:copy"}, metrics="bright_of_a_user", out=cases.parent / out)


@pytest.fixture
def user_metric(cases: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    registry = sys.modules["refbench.metrics.metric"]
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return cases.parent


def test_an_edited_metric_is_refused_and_has_another_fingerprint(cases: Path, user_metric: Path) -> None:
    registered(user_metric, 255)
    first = measured_in(cases, "first").result
    assert measured_in(cases, "first").result.table.fingerprint == first.table.fingerprint
    registered(user_metric, 510)
    for model in ("B", "another"):
        with pytest.raises(RefBenchError, match="the file of the metric bright_of_a_user changed"):
            measured_in(cases, "first", model)
    assert measured_in(cases, "second").result.table.fingerprint != first.table.fingerprint
    (answer,) = why(str(cases.parent / "first"), str(cases.parent / "second"))
    assert any("bright_of_a_user" in line and "code" in line for line in answer.differences)


def test_a_newer_version_of_an_edited_metric_is_measured_anew(cases: Path, user_metric: Path) -> None:
    registered(user_metric, 255)
    measured_in(cases, "run")
    registered(user_metric, 510, version=2)
    rows = measured_in(cases, "run").result.rows(level="overall")
    assert [row.value for row in rows if row.protocol == "corrected"] == [pytest.approx(90 / 510)]


def test_shipped_metrics_have_no_code_in_their_identity() -> None:
    assert all(not metric.code for metric in metrics() if home_of(metric) is None)
