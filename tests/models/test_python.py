"""Python functions: whatever people give back, wherever their function runs, and whatever becomes of it."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import io
import json
import os
import select
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.models.model import Commission, ImageModel, Painted, Shown, Step
from refbench.models.process.python import FunctionModel, PythonModel
from refbench.models.returned import encoded, painted
from refbench.pictures import decode, encode, facts_of
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.processes import ended, late_when_written

PIXELS = np.random.default_rng(7).integers(0, 256, (20, 30, 3), dtype=np.uint8)
PNG = encode(PIXELS)
ASKED = Commission("Paint a boat.")


class Images:
    """The result of a pipeline of diffusers, as far as it is read."""

    def __init__(self, images: Any, flagged: list[bool] | None = None) -> None:
        self.images = images
        self.nsfw_content_detected = flagged


def seen(data: bytes | Failure) -> Any:
    """The pixels as another library reads them."""
    assert isinstance(data, bytes), data
    return np.asarray(Image.open(io.BytesIO(data)))


def ask(model: ImageModel, *asked: Commission, seed: int = 0) -> list[Painted]:
    async def all_of_them() -> list[Painted]:
        try:
            return await asyncio.gather(*(model.generate(one, seed) for one in asked))
        finally:
            await model.close()

    return asyncio.run(all_of_them())


def script(folder: Path, body: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(
        "import os, sys, time, pathlib\nimport numpy as np\n"
        "def noise(seed=0): return np.random.default_rng(seed).integers(0, 256, (8, 9, 3), dtype=np.uint8)\n"
        + textwrap.dedent(body)
    )
    return path


def python(what: str) -> PythonModel:
    return PythonModel(Spec.parse(f"mine=python:{what}", "--model"))


# What may be given back.


def test_bytes_and_files_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(PNG)
    for value in (PNG, bytearray(PNG), memoryview(PNG), io.BytesIO(PNG), path, str(path)):
        assert encoded(value) == PNG


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "1", "P"])
def test_pillow_images_keep_their_pixels(mode: str) -> None:
    image = Image.fromarray(PIXELS).convert(mode)
    expected = np.asarray(image.convert("RGBA").convert("RGB"))
    assert np.array_equal(np.asarray(Image.fromarray(seen(encoded(image))).convert("RGB")), expected)


def test_a_pillow_image_that_lies_on_its_side_still_does_and_says_so() -> None:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(PIXELS).save(file, "JPEG", exif=exif, quality=100)
    given = encoded(Image.open(io.BytesIO(file.getvalue())))
    assert isinstance(given, bytes)
    assert facts_of(given).orientation == 6  # type: ignore[union-attr]
    assert np.array_equal(decode(given), decode(file.getvalue()))


@pytest.mark.parametrize("mode", ["F", "I", "I;16", "HSV", "LAB"])
def test_pillow_modes_without_an_agreed_range_are_named(mode: str) -> None:
    failure = encoded(Image.new(mode, (4, 4)))
    assert isinstance(failure, Failure)
    assert failure.kind == "unreadable_picture"
    assert f"mode {mode}" in failure.detail


def test_a_pillow_image_of_a_file_that_is_cut_off_is_unreadable() -> None:
    failure = encoded(Image.open(io.BytesIO(PNG[:-300])))
    assert isinstance(failure, Failure)
    assert failure.kind == "unreadable_picture"


def test_arrays_of_uint8_have_one_meaning() -> None:
    alpha = np.dstack([PIXELS, np.full((20, 30), 128, np.uint8)])
    assert np.array_equal(seen(encoded(PIXELS)), PIXELS)
    assert np.array_equal(seen(encoded(alpha)), alpha)
    assert np.array_equal(seen(encoded(PIXELS[:, :, 0])), PIXELS[:, :, 0])
    assert np.array_equal(seen(encoded(PIXELS[:, :, :1])), PIXELS[:, :, 0])
    assert np.array_equal(seen(encoded(PIXELS.transpose(2, 0, 1))), PIXELS)
    assert np.array_equal(seen(encoded(PIXELS[None])), PIXELS)
    assert np.array_equal(seen(encoded(PIXELS[::2, ::-1])), PIXELS[::2, ::-1])
    assert np.array_equal(seen(encoded(np.zeros((4, 4, 3), np.uint8))), np.zeros((4, 4, 3)))  # black is black


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_from_0_to_1_are_scaled(dtype: type) -> None:
    assert np.array_equal(seen(encoded((PIXELS / 255).astype(dtype))), PIXELS)


def test_floats_that_are_all_0_are_black_either_way() -> None:
    assert not seen(encoded(np.zeros((4, 5, 3)))).any()


def test_true_and_false_are_white_and_black() -> None:
    mask = PIXELS[:, :, 0] > 100
    assert np.array_equal(seen(encoded(mask)), mask * 255)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (PIXELS.astype(np.float32), "from 0 to 255"),
        (PIXELS / 127.5 - 1, "from -1 to 1"),
        (np.full((4, 4, 3), np.nan), "48 values that are no numbers"),
        (np.eye(6)[:, :, None].repeat(3, 2), "only the values 0 and 1"),
        (np.eye(6, dtype=np.uint8), "only the values 0 and 1"),
        (PIXELS.astype(np.int64), "give uint8"),
        (PIXELS.astype(np.uint16), "give uint8"),
        (np.zeros((5, 6, 7), np.uint8), "no axis of 1, 3 or 4 channels"),
        (np.zeros((0, 6, 3), np.uint8), "no picture"),
        (np.zeros((2, 5, 6, 3), np.uint8), "no picture"),
        (np.zeros(9, np.uint8), "no picture"),
        ({"image": PNG}, "a dict with the keys image"),
        (42, "a int"),
        (PNG[:-40], "cut off"),
        (b"", "empty"),
        (b"<html>", "not a picture"),
    ],
)
def test_what_is_ambiguous_or_no_picture_is_named(value: Any, said: str) -> None:
    failure = encoded(value)
    assert isinstance(failure, Failure)
    assert failure.kind == "unreadable_picture"
    assert said in failure.detail


@pytest.mark.parametrize("value", [None, [], "no/such/file.png", "a\0b", Path("no/such")])
def test_nothing_is_a_missing_output(value: Any) -> None:
    made = painted(value)
    assert made.pictures == ()
    assert made.failure is not None
    assert made.failure.kind == "missing_output"


def test_a_set_of_the_wrong_size_is_kept_and_counted() -> None:
    for value, came in (([PNG, PNG], 2), ([PNG] * 4, 4), (PNG, 1)):
        made = painted(value, 3)
        assert len(made.pictures) == came
        assert made.failure is not None
        assert made.failure.kind == "missing_output"
        assert f"{came} picture" in made.failure.detail
        assert "3 were asked for" in made.failure.detail
    assert painted((PNG, PIXELS, Image.fromarray(PIXELS)), 3).failure is None


def test_pictures_before_one_that_is_cut_off_are_kept() -> None:
    made = painted([PNG, PNG[:-40], PNG], 3)
    assert made.pictures == (PNG,)
    assert made.failure is not None
    assert made.failure.detail.startswith("picture 2 of 3: the png is cut off")


def test_batches_and_pipeline_results_are_several_pictures() -> None:
    assert len(painted(np.stack([PIXELS, PIXELS]), 2).pictures) == 2
    assert painted(Images([Image.fromarray(PIXELS)])).failure is None
    assert painted({"images": np.stack([PIXELS / 255])}).failure is None


def test_a_picture_that_a_safety_checker_blanked_is_refused() -> None:
    made = painted(Images([Image.new("RGB", (4, 4))], [True]))
    assert made.pictures == ()
    assert made.failure is not None
    assert made.failure.kind == "refused"


def test_failures_and_painted_pass_through() -> None:
    refused = Failure(kind="refused", detail="not this")
    assert painted(refused).failure == refused
    given = Painted((PNG,), cost_usd=0.5, steps=(Step("first", (PNG,)),))
    assert painted(given) == given
    assert painted(Painted()).failure is not None
    assert painted(Painted((PNG[:-40],))).failure is not None


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_tensors_are_channels_first_or_last_where_that_is_clear() -> None:
    import torch

    tensor = torch.from_numpy(PIXELS.copy())
    for value in (
        tensor,
        tensor.permute(2, 0, 1),
        tensor.permute(2, 0, 1)[None],
        tensor.permute(2, 0, 1) / 255,
        (tensor / 255).double().requires_grad_(),
    ):
        assert np.array_equal(seen(encoded(value)), PIXELS)
    half = seen(encoded((tensor / 255).bfloat16()))
    assert np.abs(half.astype(int) - PIXELS).max() <= 1
    assert len(painted(torch.stack([tensor, tensor]), 2).pictures) == 2
    for bad in (torch.zeros(3, 8, 3, dtype=torch.uint8), tensor / 127.5 - 1, torch.zeros(5, 6, 7)):
        assert isinstance(encoded(bad), Failure)


# Callables of this process.


class Painter:
    def __call__(self, request: Commission, seed: int) -> Any:
        return PIXELS


class AsyncPainter:
    async def generate(self, request: Commission, seed: int) -> Any:
        await asyncio.sleep(0)
        return PIXELS


async def only_request(request: Commission) -> Any:
    return PIXELS


def keyword_seed(request: Commission, *, seed: int) -> Any:
    return PIXELS


def with_strength(strength: float, request: Commission, seed: int) -> Any:
    return PIXELS


@pytest.mark.parametrize(
    "call",
    [
        Painter(),
        AsyncPainter(),
        only_request,
        keyword_seed,
        lambda request, seed: PIXELS,
        functools.partial(with_strength, 0.5),
    ],
)
def test_any_callable_paints(call: Any) -> None:
    model = FunctionModel("mine", call)
    (made,) = ask(model, ASKED)
    assert np.array_equal(seen(made.pictures[0]), PIXELS)
    assert made.failure is None
    assert made.seconds is not None
    assert isinstance(model, ImageModel)


def test_a_model_serves_one_event_loop_after_another() -> None:
    model = FunctionModel("mine", Painter())
    for _ in range(2):
        assert ask(model, ASKED)[0].failure is None


def test_what_cannot_be_called_with_a_request_is_refused_at_once() -> None:
    for bad in (lambda: PIXELS, lambda a, b, c: PIXELS, 42):
        with pytest.raises(RefBenchError, match="cannot be called with"):
            FunctionModel("mine", bad)  # type: ignore[arg-type]


def test_a_function_sees_the_request_and_the_seed() -> None:
    heard: list[Any] = []
    request = Commission("Blue.", (Shown(Path("a.png"), "subject"),), (64, 32), 2)
    ask(FunctionModel("mine", lambda request, seed: heard.append((request, seed))), request, seed=5)
    assert heard == [(request, 5)]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_a_function_raises_is_that_case_s_failure(kind: str) -> None:
    def sync(request: Commission, seed: int) -> Any:
        raise {"a": ValueError("no boats"), "b": SystemExit(3), "c": MemoryError()}[request.instruction]

    async def not_sync(request: Commission, seed: int) -> Any:
        return sync(request, seed)

    model = FunctionModel("mine", sync if kind == "sync" else not_sync)
    first, third = ask(model, Commission("a"), Commission("c"))
    assert first.failure is not None
    assert first.failure.kind == "missing_output"
    assert first.failure.detail.startswith("the function raised ValueError: no boats (test_python.py:"), "and where"
    assert third.failure is not None
    assert third.failure.kind == "worker_died"
    if kind == "sync":
        (second,) = ask(model, Commission("b"))
        assert second.failure is not None
        assert "SystemExit" in second.failure.detail


def test_an_error_for_the_user_ends_the_run() -> None:
    def call(request: Commission, seed: int) -> Any:
        raise RefBenchError("the weights are not here")

    with pytest.raises(RefBenchError, match="the weights are not here"):
        ask(FunctionModel("mine", call), ASKED)


def test_a_function_that_hangs_is_left_behind_and_the_next_case_is_painted() -> None:
    release = threading.Event()

    def call(request: Commission, seed: int) -> Any:
        if request.instruction == "hang":
            release.wait()
        return PIXELS

    async def both() -> tuple[Painted, Painted]:
        model = FunctionModel("mine", call, timeout=0.05)
        try:
            hung = await model.generate(Commission("hang"), 0)
            model._timeout = 600.0  # the other one is in time, however busy the machine is
            return hung, await model.generate(ASKED, 0)
        finally:
            release.set()
            await model.close()

    hung, painted_one = asyncio.run(both())
    assert hung.failure is not None
    assert hung.failure.kind == "timeout"
    assert painted_one.failure is None


def test_an_async_function_that_hangs_is_cancelled() -> None:
    async def call(request: Commission, seed: int) -> Any:
        await asyncio.Event().wait()

    (made,) = ask(FunctionModel("mine", call, timeout=0.05), ASKED)
    assert made.failure is not None
    assert made.failure.kind == "timeout"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_batch_function_gets_lists_and_only_the_guilty_request_fails(kind: str) -> None:
    sizes: list[int] = []

    def call(requests: Sequence[Commission], seeds: Sequence[int]) -> Any:
        sizes.append(len(requests))
        if any(request.instruction == "4" for request in requests):
            raise ValueError("four")
        return [PIXELS] * len(requests)

    async def not_sync(requests: Sequence[Commission], seeds: Sequence[int]) -> Any:
        return call(requests, seeds)

    model = FunctionModel("mine", call if kind == "sync" else not_sync, batch=8)
    made = ask(model, *(Commission(str(n)) for n in range(8)))
    assert [one.failure is None for one in made] == [n != 4 for n in range(8)]
    assert max(sizes) == 8


def test_a_batch_function_that_loses_results_fails_each_request() -> None:
    made = ask(FunctionModel("mine", lambda requests, seeds: [PIXELS, PIXELS, PIXELS], batch=2), ASKED, ASKED)
    assert all(one.failure and "3 results came back for 1 requests" in one.failure.detail for one in made)


def test_the_identity_changes_with_the_source_or_with_what_its_author_says() -> None:
    first = FunctionModel("mine", lambda request, seed: PIXELS).canonical()
    other = FunctionModel("mine", lambda request, seed: PNG).canonical()
    assert first != other
    assert FunctionModel("mine", Painter(), version="2").canonical()["version"] == "2"


# Worker processes.

MAKE = """
    def make():
        loads = []
        loads.append(1)
        def paint(request, seed):
            if request.instruction == "None": return None
            if request.instruction == "path":
                from PIL import Image
                Image.fromarray(noise(seed)).save("here.jpg"); return pathlib.Path("here.jpg").absolute()
            if request.instruction == "print": print("{noise", flush=True); os.write(1, b'{"id": "1", "pictures": []}\\n')
            if request.instruction == "crash": os.kill(os.getpid(), 9)
            if request.instruction == "exit": os._exit(3)
            if request.instruction == "cuda": raise RuntimeError("CUDA error: an illegal memory access")
            if request.instruction == "raise": raise ValueError("no boats today")
            if request.instruction == "hang": time.sleep(3600)
            if request.instruction == "read": sys.stdin.read()
            return noise(seed)
        return paint
"""


def test_a_factory_in_a_worker_process_paints_whatever_becomes_of_others(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    model = python(f"{script(tmp_path, MAKE)}:make")
    words = ("boat", "None", "path", "print", "crash", "exit", "cuda", "raise", "read", "boat")
    made = dict(zip(words, ask(model, *map(Commission, words), seed=3), strict=True))
    expected = np.random.default_rng(3).integers(0, 256, (8, 9, 3), dtype=np.uint8)
    for word in ("boat", "print", "read"):
        assert np.array_equal(seen(made[word].pictures[0]), expected), word
    assert facts_of(made["path"].pictures[0]).format == "jpeg"  # type: ignore[union-attr]
    failures = {word: one.failure for word, one in made.items() if one.failure is not None}
    kinds = {word: failure.kind for word, failure in failures.items()}
    assert kinds == {
        "None": "missing_output",
        "crash": "worker_died",
        "exit": "worker_died",
        "cuda": "worker_died",
        "raise": "missing_output",
    }
    assert "signal 9" in failures["crash"].detail
    assert "exit status 3" in failures["exit"].detail
    assert "illegal memory access" in failures["cuda"].detail
    assert "ValueError: no boats today" in failures["raise"].detail
    assert made["boat"].seconds is not None


def test_a_worker_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late_when_written(monkeypatch, tmp_path / "pids")
    path = script(
        tmp_path,
        """
        import subprocess
        def make():
            def paint(request, seed):
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
                pathlib.Path(request.instruction).write_text(f"{os.getpid()} {child.pid}\\n")
                child.wait()
            return paint
        """,
    )
    (made,) = ask(python(f"{path}:make?timeout=600"), Commission(str(tmp_path / "pids")))
    assert made.failure is not None
    assert made.failure.kind == "timeout"
    for pid in (tmp_path / "pids").read_text().split():
        assert ended(int(pid))


def test_a_module_is_found_in_the_current_directory_and_takes_options(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").touch()
    script(
        tmp_path / "pack",
        """
        class Model:
            def __init__(self, steps: int, guidance: float = 1.0, fast: bool = False):
                self.given = steps, guidance, fast
            async def generate(self, request, seed):
                assert self.given == (30, 2.5, True), self.given
                return noise()
        """,
        "models.py",
    )
    monkeypatch.chdir(tmp_path)
    model = python("pack.models:Model?steps=30&guidance=2.5&fast=yes&max_references=2&roles=subject,style&family=us")
    (made,) = ask(model, ASKED)
    assert made.failure is None, made.failure
    assert (model.traits.max_references, model.traits.roles) == (2, ("subject", "style"))
    assert model.traits.family == "us"
    assert dict(model.canonical()).items() >= {"kind": "python", "steps": "30", "guidance": "2.5"}.items()
    assert "max_references" not in model.canonical()


def test_one_worker_for_each_gpu_and_the_factory_is_called_once_in_each(tmp_path: Path, monkeypatch: Any) -> None:
    path = script(
        tmp_path,
        """
        def make():
            made = pathlib.Path(os.environ["MADE"]) / str(os.getpid())
            made.write_text(os.environ["CUDA_VISIBLE_DEVICES"])
            def paint(request, seed):
                while len(list(made.parent.iterdir())) < 2: time.sleep(0.01)  # until the other one is there too
                return noise()
            return paint
        """,
    )
    (tmp_path / "made").mkdir()
    monkeypatch.setenv("MADE", str(tmp_path / "made"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    made = ask(python(f"{path}:make?gpus=2"), *[ASKED] * 6)
    assert all(one.failure is None for one in made)
    assert sorted(file.read_text() for file in (tmp_path / "made").iterdir()) == ["4", "6"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("gpus=9", "CUDA_VISIBLE_DEVICES has 2"),
        ("gpus=all", "must be how many"),
        ("workers=0", "whole number from 1"),
        ("timeout=soon", "number above 0"),
        ("size=big", "width x height"),
        ("log=no/such/dir/log", "no directory"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, monkeypatch: Any, options: str, said: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(RefBenchError, match=said):
        python(f"{script(tmp_path, MAKE)}:make?{options}")


def test_which_gpus_can_be_said(tmp_path: Path) -> None:
    from refbench.models.process.workers import environments

    def devices(text: str) -> list[str]:
        spec = Spec.parse(f"m=python:a:b?gpus={text}", "--model")
        return [env["CUDA_VISIBLE_DEVICES"] for env in environments(spec)]

    assert devices("0,2") == ["0", "2"]
    assert devices("3,") == ["3"]
    assert devices("2&workers=2") == ["0", "0", "1", "1"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nomodule", "write it as python:package.module:factory"),
        ("./none.py:make", "there is no file none.py"),
        ("no_such_package.models:make", "there is no module no_such_package"),
        ("refbench.no_such:make", "there is no module refbench.no_such"),
    ],
)
def test_a_model_that_is_not_there_is_refused_before_anything_starts(what: str, said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        python(what)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", "has no missing"),
        ("number", "is not a function: it is of type int"),
        ("broken", "RuntimeError: no weights in ./w"),
        ("nothing", "gives a NoneType, which cannot be called"),
        ("three", "cannot be called with nothing"),
        ("stubborn?steps=4", "cannot be called with"),
        ("Editor", "Editor needs checkpoint=: add"),
        ("paint?steps=4", "takes no options: leave out steps="),
        ("dies", "not said .*exit status 9; its last words: out of luck"),
    ],
)
def test_a_factory_that_makes_nothing_ends_the_run_with_the_reason(tmp_path: Path, name: str, said: str) -> None:
    path = script(
        tmp_path,
        """
        number = 3
        def broken(): raise RuntimeError("no weights in ./w")
        def nothing(): pass
        def three(a, b, c): pass
        def stubborn(): pass
        class Editor:
            def __init__(self, checkpoint): pass
            def generate(self, request, seed): pass
        def paint(request, seed): pass
        def dies(): print("out of luck"); sys.stdout.flush(); os._exit(9)
        """,
    )
    with pytest.raises(RefBenchError, match=said):
        ask(python(f"{path}:{name}"), ASKED)


def test_a_function_named_in_place_of_a_factory_is_the_model(tmp_path: Path) -> None:
    path = script(tmp_path, "def generate(request, seed): return noise(seed)")
    assert ask(python(f"{path}:generate"), ASKED)[0].failure is None


def test_a_batch_that_its_worker_does_not_survive_is_tried_one_by_one(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        def make():
            def paint(requests, seeds):
                if any(r.instruction == "crash" for r in requests): os._exit(1)
                return [noise(s) for s in seeds]
            return paint
        """,
    )
    made = ask(python(f"{path}:make?batch=4"), *map(Commission, ("a", "b", "crash", "d")))
    assert [one.failure.kind if one.failure else "" for one in made] == ["", "", "worker_died", ""]


def test_steps_and_costs_come_out_of_a_worker(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        from refbench.models.model import Painted, Step
        from refbench.pictures import encode
        def generate(request, seed):
            return Painted((encode(noise(1)),), cost_usd=0.25, steps=(Step("sketch", (encode(noise(2)),)),))
        """,
    )
    (made,) = ask(python(f"{path}:generate"), ASKED)
    assert made.cost_usd == 0.25
    assert made.steps[0].instruction == "sketch"
    assert len(made.steps[0].pictures) == 1


def test_what_a_worker_prints_goes_to_the_log(tmp_path: Path) -> None:
    path = script(tmp_path, "def generate(request, seed): print('on the way'); return noise()")
    log = tmp_path / "log.txt"
    assert ask(python(f"{path}:generate?log={log}"), ASKED)[0].failure is None
    assert "on the way" in log.read_text()


def test_an_edited_file_is_another_model_unless_its_version_says_otherwise(tmp_path: Path) -> None:
    path = script(tmp_path, MAKE)
    before = python(f"{path}:make").canonical(), python(f"{path}:make?version=1").canonical()
    path.write_text(path.read_text() + "\n# faster")
    after = python(f"{path}:make").canonical(), python(f"{path}:make?version=1").canonical()
    assert before[0] != after[0]
    assert before[1] == after[1]
    assert python(f"{path}:make?gpus=2&timeout=9&batch=4").canonical() == after[0]


def test_a_cancelled_request_frees_its_worker_and_close_ends_it(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        def make():
            def paint(request, seed):
                if request.instruction != "boat":
                    pathlib.Path(request.instruction).write_text(str(os.getpid()))
                    time.sleep(3600)
                return noise()
            return paint
        """,
    )

    async def cancel() -> Painted:
        model = python(f"{path}:make")
        started = tmp_path / "started"
        task = asyncio.create_task(model.generate(Commission(str(started)), 0))
        while not started.exists() or not started.read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        made = await model.generate(Commission("boat"), 0)
        assert ended(int(started.read_text()))
        await model.close()
        return made

    assert asyncio.run(cancel()).failure is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker ends when it is done with its request")
def test_a_worker_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        def make():
            def paint(request, seed):
                print(os.getpid(), file=open(request.instruction, "w"), flush=True)
                time.sleep(3600)
            return paint
        """,
    )
    started = tmp_path / "started"
    os.mkfifo(started)
    parent = (
        "import asyncio; from refbench.specs import Spec; from refbench.models.process.python import PythonModel; "
        "from refbench.models.model import Commission; "
        f"asyncio.run(PythonModel(Spec.parse('m=python:{path}:make', '')).generate(Commission('{started}'), 0))"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed parent cannot clean up
    with subprocess.Popen([sys.executable, "-c", parent], env=env) as running:
        worker = os.pidfd_open(int(started.read_text()))
        running.kill()
    try:
        readable, _, _ = select.select([worker], [], [], 600)
        assert readable
    finally:
        os.close(worker)


def test_the_worker_s_own_lines_are_json(tmp_path: Path) -> None:
    """The protocol of `python:` workers is the documented one, with pictures in a folder of ours."""
    from refbench.models.process.workers import read

    assert read(b'step 3{"id": "7", "done": true}') == {"id": "7", "done": True}
    assert read(b"{not json} at all {") is None
    assert read(json.dumps([1]).encode()) is None
