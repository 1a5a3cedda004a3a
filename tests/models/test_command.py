"""Commands: real processes that paint, hang, crash, print, lie and leave children behind."""

from __future__ import annotations

import asyncio
import io
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.models.model import Commission, ImageModel, Painted, Shown
from refbench.models.process.command import CommandModel
from refbench.models.process.workers import painted_of
from refbench.pictures import facts_of
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.processes import ended, late_when_written

PYTHON = shlex.quote(sys.executable)
TOOLS = """
import json, os, subprocess, sys, time
from pathlib import Path
from PIL import Image
def save(path, colour="red", size=(9, 8)): Image.new("RGB", size, colour).save(path)
"""


def script(folder: Path, body: str, name: str = "make.py") -> Path:
    path = folder / name
    path.write_text(TOOLS + textwrap.dedent(body))
    return path


def command(text: str) -> CommandModel:
    return CommandModel(Spec.parse(f"mine=command:{text}", "--model"))


def ask(model: ImageModel, *asked: Commission, seed: int = 0) -> list[Painted]:
    async def one_after_another() -> list[Painted]:
        try:
            return [await model.generate(one, seed) for one in asked]
        finally:
            await model.close()

    return asyncio.run(one_after_another())


def failure(made: Painted) -> Failure:
    assert made.failure is not None
    return made.failure


def colours(made: Painted) -> list[Any]:
    return [Image.open(io.BytesIO(data)).convert("RGB").getpixel((0, 0)) for data in made.pictures]


# One process a case.


def test_every_place_is_filled_and_no_shell_sees_it(tmp_path: Path) -> None:
    make = script(
        tmp_path,
        """
        json.dump(sys.argv[1:], open(os.environ["HEARD"], "w"))
        save(sys.argv[2])
        """,
    )
    heard = tmp_path / "heard.json"
    evil = "Don't; rm -rf \"$HOME\" `id` {output} \\ \n'x' --é\0"
    asked = Commission(evil, (Shown(tmp_path / "a b.png", "subject"), Shown(Path("c.png"), "style")), (640, 480))
    model = command(
        f"{PYTHON} {make} {{instruction}} {{output}} --seed={{seed}} {{width}}x{{height}} {{n_pictures}} "
        "-r {pictures} --first {picture1} 'a  b'"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEARD", str(heard))
        (made,) = ask(model, asked, seed=17)
    assert made.failure is None
    import json

    instruction, output, *rest = json.loads(heard.read_text())
    assert instruction == evil.replace("\0", "")
    assert output.endswith("output.png")
    pictures = [str(tmp_path / "a b.png"), str(Path("c.png").absolute())]
    assert rest == ["--seed=17", "640x480", "1", "-r", *pictures, "--first", pictures[0], "a  b"]
    assert not Path(output).parent.exists()  # nothing is left lying about


def test_a_request_file_tells_roles_and_count(tmp_path: Path) -> None:
    make = script(
        tmp_path,
        """
        request = json.load(open(sys.argv[1]))
        assert request["pictures"][0]["role"] == "subject", request
        assert (request["width"], request["seed"], request["instruction"]) == (None, 4, "Blue."), request
        for n in range(request["n_pictures"]): save(f"{request['folder']}/page_{n + 1}.png", (n, 0, 0))
        """,
    )
    asked = Commission("Blue.", (Shown(tmp_path / "a.png", "subject"),), n_pictures=11)
    (made,) = ask(command(f"{PYTHON} {make} {{request}} {{folder}}"), asked, seed=4)
    assert made.failure is None
    assert colours(made) == [(n, 0, 0) for n in range(11)]  # page_10 behind page_9, not behind page_1


def test_the_named_file_is_the_picture_whatever_lies_beside_it(tmp_path: Path) -> None:
    make = script(tmp_path, "save(sys.argv[2]); save(Path(sys.argv[2]).with_name('a_grid.png'), 'blue')")
    (made,) = ask(command(f"{PYTHON} {make} {{instruction}} {{output}}"), Commission("x"))
    assert made.failure is None
    assert colours(made) == [(255, 0, 0)]


def test_the_content_decides_about_the_format(tmp_path: Path) -> None:
    make = script(tmp_path, "Image.new('RGB', (9, 8)).save(sys.argv[2][:-4] + '.jpeg')")
    (made,) = ask(command(f"{PYTHON} {make} {{instruction}} {{output}}"), Commission("x"))
    facts = facts_of(made.pictures[0])
    assert not isinstance(facts, Failure)
    assert facts.format == "jpeg"


BAD = """
    word, output = sys.argv[1:]
    if word == "status": print("why it failed"); sys.exit(3)
    if word == "raise": raise RuntimeError("no boats today")
    if word == "crash": os.kill(os.getpid(), 9)
    if word == "nothing": print("all done!"); sys.exit()
    if word == "text": Path(output).write_text("<html>"); sys.exit()
    if word == "empty": Path(output).touch(); sys.exit()
    save(output, size=(300, 200))
    if word == "cut": os.truncate(output, 100)
    if word == "two": save(output.replace("output", "output_2"))
    if word == "refuse": os.remove(output); print(json.dumps({"error": "not this", "kind": "refused"}))
    if word == "noise": print("{" * 100000); sys.stdout.buffer.write(bytes(range(256)) * 4000)
    if word == "named": os.rename(output, output + ".x"); print('{"pictures": ["output.png.x"], "cost_usd": 0.5}')
"""


@pytest.mark.parametrize(
    ("word", "n", "kind", "said"),
    [
        ("status", 1, "missing_output", "ended with exit status 3; its last words: why it failed"),
        ("raise", 1, "missing_output", "RuntimeError: no boats today"),
        ("crash", 1, "worker_died", "signal 9"),
        ("nothing", 1, "missing_output", "wrote no picture; its last words: all done!"),
        ("text", 1, "unreadable_picture", "not a picture"),
        ("empty", 1, "unreadable_picture", "empty"),
        ("cut", 1, "unreadable_picture", "cut off after 100 bytes"),
        ("fine", 2, "missing_output", "1 picture came, 2 were asked for"),
        ("two", 3, "missing_output", "2 pictures came, 3 were asked for"),
        ("refuse", 1, "refused", "not this"),
    ],
)
def test_what_goes_wrong_is_said(tmp_path: Path, word: str, n: int, kind: str, said: str) -> None:
    model = command(f"{PYTHON} {script(tmp_path, BAD)} {{instruction}} {{output}}")
    (made,) = ask(model, Commission(word, n_pictures=n))
    assert failure(made).kind == kind
    assert said in failure(made).detail
    assert len(made.pictures) == {"fine": 1, "two": 2}.get(word, 0)


def test_noise_on_stdout_is_no_harm_and_a_reply_there_is_read(tmp_path: Path) -> None:
    model = command(f"{PYTHON} {script(tmp_path, BAD)} {{instruction}} {{output}}")
    noise, named = ask(model, Commission("noise"), Commission("named"))
    assert noise.failure is None
    assert named.failure is None
    assert named.cost_usd == 0.5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full for every writer")
def test_a_log_that_cannot_grow_costs_no_picture(tmp_path: Path) -> None:
    make = script(tmp_path, "print('noise'); save(sys.argv[2])")
    (made,) = ask(command(f"{PYTHON} {make} {{instruction}} {{output}}?log=/dev/full"), Commission("x"))
    assert made.failure is None


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = script(
        tmp_path,
        """
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}\\n")
        child.wait()
        """,
    )
    pids = tmp_path / "pids"
    late_when_written(monkeypatch, pids)
    (made,) = ask(command(f"{PYTHON} {make} {{instruction}} {{output}}?timeout=600"), Commission(str(pids)))
    assert failure(made).kind == "timeout"
    assert "within 600 s" in failure(made).detail
    assert all(ended(int(pid)) for pid in pids.read_text().split())


def test_children_that_hold_the_pipes_do_not_hold_the_case(tmp_path: Path) -> None:
    make = script(
        tmp_path,
        """
        child = subprocess.Popen([sys.executable, "-c", "while True: print('still here' * 100)"])
        Path(sys.argv[1]).write_text(str(child.pid))
        save(sys.argv[2])
        """,
    )
    pid = tmp_path / "pid"
    (made,) = ask(command(f"{PYTHON} {make} {{instruction}} {{output}}?timeout=600"), Commission(str(pid)))
    assert made.failure is None
    assert ended(int(pid.read_text()))


def test_a_place_that_the_case_has_nothing_for_is_said_and_nothing_is_started(tmp_path: Path) -> None:
    make = script(tmp_path, "save(sys.argv[2])")
    line = f"{PYTHON} {make} {{instruction}} {{output}}"
    assert (
        "wants {picture2}, but this case shows 0"
        in failure(ask(command(line + " {picture2}"), Commission("x"))[0]).detail
    )
    assert "names no size" in failure(ask(command(line + " {width}"), Commission("x"))[0]).detail
    assert ask(command(line + " {width}?size=64x32"), Commission("x"))[0].failure is None


def test_an_instruction_that_no_argument_can_hold_is_that_case_s_failure(tmp_path: Path) -> None:
    make = script(tmp_path, "save(sys.argv[2])")
    long, short = ask(
        command(f"{PYTHON} {make} {{instruction}} {{output}}"), Commission("x" * 3_000_000), Commission("x")
    )
    assert failure(long).kind == "missing_output"
    assert short.failure is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no-such-program {instruction} {output}", "no program no-such-program"),
        ("cat {instruction} {output} {prompt}", r"\{prompt\}, there are \{instruction\}"),
        ("cat {instruction} {output} {picture}", r"has \{picture\}"),
        ("cat {instruction}", r"no \{output\}"),
        ("cat {output}", r"no \{instruction\}"),
        ("cat {instruction} {output} --refs={pictures}", "must stand alone"),
        ("cat 'it {output}", "cannot be split"),
        ("cat {instruction} {output}?mode=server", "mode=server: write case or worker"),
        ("cat {instruction} {output}?format=bmp", "format=bmp: write png, jpg or webp"),
        ("cat {instruction} {output}?tiemout=3", "no option 'tiemout': did you mean timeout"),
        ("cat {instruction}?mode=worker", "has no meaning"),
    ],
)
def test_a_command_that_cannot_work_is_refused_at_once(text: str, said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        command(text)


def test_braces_that_are_no_places_stay_as_they_are(tmp_path: Path) -> None:
    make = script(tmp_path, "assert sys.argv[3] == '{\"a\": 1} ${HOME}', sys.argv; save(sys.argv[2])")
    line = f"{PYTHON} {make} {{instruction}} {{output}} " + "'{\"a\": 1} ${HOME}'"
    assert ask(command(line), Commission("x"))[0].failure is None


def test_the_identity_holds_the_scripts_and_not_the_machine_s_settings(tmp_path: Path) -> None:
    make = script(tmp_path, "pass")
    line = f"{PYTHON} {make} {{instruction}} {{output}}"
    before = command(line).canonical()
    assert command(f"{line}?timeout=5&workers=2&gpus=0,1").canonical() == before
    assert command(f"{line}?size=64x64").canonical() != before
    stated = command(f"{line}?version=1").canonical()
    make.write_text("edited")
    assert command(line).canonical() != before
    assert command(f"{line}?version=1").canonical() == stated


def test_several_at_once_each_on_its_gpu(tmp_path: Path) -> None:
    make = script(
        tmp_path,
        """
        (Path(sys.argv[1]) / os.environ["CUDA_VISIBLE_DEVICES"]).touch()
        while len(list(Path(sys.argv[1]).iterdir())) < 2: time.sleep(0.01)  # until the other one is there too
        save(sys.argv[2])
        """,
    )
    seen = tmp_path / "seen"
    seen.mkdir()
    model = command(f"{PYTHON} {make} {{instruction}} {{output}}?gpus=1,3")

    async def both() -> list[Painted]:
        made = await asyncio.gather(*(model.generate(Commission(str(seen)), n) for n in range(2)))
        await model.close()
        return made

    assert all(made.failure is None for made in asyncio.run(both()))
    assert sorted(path.name for path in seen.iterdir()) == ["1", "3"]


# A worker.

WORKER = """
    print("loading...")
    def hang():
        print("hangs", file=open(Path(__file__).with_name("hangs"), "a"), flush=True)
        time.sleep(3600)
    if "late" in sys.argv: hang()
    if "dies" in sys.argv: print("no weights"); sys.exit(7)
    if "stops" in sys.argv: print(json.dumps({"stop": "the weights are not here: run fetch.sh"})); sys.exit()
    print(json.dumps({"ready": True, "model": "stand-in", "steps": 8}))
    count = 0
    for line in sys.stdin:
        request = json.loads(line)
        count += 1
        word, folder = request["instruction"], Path(request["folder"])
        if word == "hang": hang()
        if word == "crash": os.kill(os.getpid(), 11)
        if word == "silence": os.close(1); time.sleep(3600)
        if word == "refuse": print(json.dumps({"id": request["id"], "error": "not this", "kind": "refused"})); continue
        if word == "neither": print(json.dumps({"id": request["id"]})); continue
        if word == "odd": print(json.dumps({"id": request["id"], "error": "e", "kind": "bad luck"})); continue
        if word == "stop": print(json.dumps({"id": request["id"], "stop": "the disk is full"})); continue
        if word == "noise": print("x" * 300000); print('{"level": "info", "error": "none"}'); print('{"id": "999", "pictures": []}')
        if word == "glued": sys.stdout.write("step 1 of 8")
        save(folder / "a.png", (count, 0, 0), (300, 200))
        if word == "cut": os.truncate(folder / "a.png", 100)
        reply = {"id": request["id"], "pictures": ["a.png"] * (2 if word == "two" else 1), "provenance": {"n": 1}}
        if word == "base64":
            import base64
            reply["pictures"] = [{"base64": base64.b64encode((folder / "a.png").read_bytes()).decode()}]
        if word == "garbage": reply["pictures"] = [{"base64": "***"}]
        if word == "absent": reply["pictures"] = ["b.png"]
        if word == "one": reply["pictures"] = "a.png"
        if word == "no id": del reply["id"]
        print(json.dumps(reply))
        if word == "last": sys.exit()
"""


def worker(folder: Path, options: str = "", *arguments: str) -> CommandModel:
    path = script(folder, WORKER, "worker.py")
    return command(f"{PYTHON} {path} {' '.join(arguments)}?mode=worker{options}")


def test_one_worker_serves_all_cases_and_tells_of_itself(tmp_path: Path) -> None:
    made = ask(worker(tmp_path), *map(Commission, ("boat", "noise", "glued", "base64", "one", "no id")))
    assert [one.failure for one in made] == [None] * 6
    assert [colours(one) for one in made] == [[(n, 0, 0)] for n in range(1, 7)]  # the same process all along
    assert made[0].provenance == {"model": "stand-in", "steps": "8", "n": "1"}
    assert made[0].seconds is not None


@pytest.mark.parametrize(
    ("word", "kind", "said"),
    [
        ("crash", "worker_died", "signal 11"),
        ("silence", "worker_died", "closed its output"),
        ("refuse", "refused", "not this"),
        ("neither", "missing_output", "no pictures and no error"),
        ("odd", "missing_output", "e"),
        ("cut", "unreadable_picture", "cut off"),
        ("two", "missing_output", "2 pictures came, 1 were asked for"),
        ("garbage", "unreadable_picture", "no base64"),
        ("absent", "missing_output", "b.png"),
    ],
)
def test_a_case_that_goes_wrong_leaves_the_next_one_alone(tmp_path: Path, word: str, kind: str, said: str) -> None:
    first, second = ask(worker(tmp_path), Commission(word), Commission("boat"))
    assert failure(first).kind == kind
    assert said in failure(first).detail
    assert len(first.pictures) == (2 if word == "two" else 0)
    assert second.failure is None


def test_a_worker_that_hangs_is_killed_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late_when_written(monkeypatch, tmp_path / "hangs")
    first, second = ask(worker(tmp_path, "&timeout=600"), Commission("hang"), Commission("boat"))
    assert failure(first).kind == "timeout"
    assert colours(second) == [(1, 0, 0)]


def test_a_worker_that_ended_while_idle_is_nobody_s_fault(tmp_path: Path) -> None:
    first, second = ask(worker(tmp_path), Commission("last"), Commission("boat"))
    assert first.failure is None
    assert second.failure is None


@pytest.mark.parametrize(
    ("argument", "options", "said"),
    [
        ("dies", "", "not said .*exit status 7; its last words: loading... no weights"),
        ("late", "&load_timeout=600", "not ready within 600 s; its last words: loading..."),
        ("stops", "", "the weights are not here: run fetch.sh"),
    ],
)
def test_a_worker_that_never_gets_ready_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, options: str, said: str
) -> None:
    late_when_written(monkeypatch, tmp_path / "hangs")
    with pytest.raises(RefBenchError, match=said):
        ask(worker(tmp_path, options, argument), Commission("boat"))


def test_a_worker_may_say_that_no_case_can_succeed(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="the disk is full"):
        ask(worker(tmp_path), Commission("stop"))


def test_close_ends_the_worker_and_a_later_request_starts_another(tmp_path: Path) -> None:
    model = worker(tmp_path)
    for _ in range(2):
        assert colours(ask(model, Commission("boat"))[0]) == [(1, 0, 0)]


def test_noise_is_kept_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    ask(worker(tmp_path, f"&log={log}"), Commission("noise"))
    assert "loading..." in log.read_text()
    assert "x" * 300000 in log.read_text()


def test_pixels_survive_the_way_through_a_worker(tmp_path: Path) -> None:
    (made,) = ask(worker(tmp_path), Commission("boat"))
    assert np.asarray(Image.open(io.BytesIO(made.pictures[0]))).shape == (200, 300, 3)


@pytest.mark.parametrize(
    "reply",
    [{"pictures": [{"base64": "aé="}]}, {"error": "no", "kind": {"a": 1}}, {"error": "no", "kind": ["refused"]}],
)
def test_an_odd_reply_of_a_worker_is_a_failure_of_the_picture(tmp_path: Path, reply: dict[str, Any]) -> None:
    made = painted_of(reply, tmp_path, 1, {})
    assert made.failure is not None
    assert made.failure.kind in ("unreadable_picture", "missing_output")
