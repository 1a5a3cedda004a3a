"""Damaged run directories: whatever happens to their files, no command breaks down, and none gives another number than
before without saying so, and without `refbench check` naming the damage."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refbench
from refbench.cli.app import main
from refbench.pictures import encode
from refbench.runs import Run, ledger
from refbench.runs.annotations import Annotation, annotate
from refbench.runs.run import RunInfo
from support.campaigns import size
from support.checkout import plain_items, write_checkout, write_replies
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

TRIALS = size(200, 5000)
BY_PROCESS = 25
"""One of so many trials is made by processes of their own, where nothing of this process can help."""
SECONDS = 120

MINE = '''"""A benchmark in a file, which its runs keep."""
from refbench.benchmarks.kit import Measured, benchmark
from refbench.case import Case, Picture, Request

def load(root):
    for n in range(6):
        pictures = (Picture(name=f"pics/{n}.png", role="source"),)
        yield Case[dict](id=f"{n}", request=Request(instruction="Do.", pictures=pictures), cluster=f"c{n}", details={})

BENCHMARK = benchmark(
    name="mine", load=load, measure=lambda case: [Measured("l1", "l1", {"source": case.request.pictures[0]})],
    measured={"l1": (0, 1)},
)
'''


@dataclass(frozen=True)
class Whole:
    """A run as it was written, and what each command says of it."""

    path: Path
    commands: dict[str, list[str]]
    said: dict[str, str]


Said = tuple[int, str, str]


def call(words: list[str]) -> Said:
    """The command in this process: exit code, standard output and error."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["refbench", *words]

    def late(*_: object) -> None:
        raise TimeoutError(f"{words} has not ended after {SECONDS} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
        sys.argv = before
    return int(ended.value.code or 0), out.getvalue(), err.getvalue()


def call_process(words: list[str]) -> Said:
    command = [sys.executable, "-m", "refbench", *words]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=4 * SECONDS)
    return done.returncode, done.stdout, done.stderr


def commands_of(models: str, *more: list[str]) -> dict[str, list[str]]:
    """Each command as words, in which RUN and OUT stand for places."""
    a, b = models
    given = [
        ["table", "RUN", "--json"],
        ["check", "RUN", "--json"],
        ["compare", f"RUN:{a}", f"RUN:{b}", "--json"],
        ["view", "RUN", "--out", "OUT/site"],
        ["export", "RUN", "--out", "OUT/scores.csv"],
        ["export", "RUN", "--what", "evidence", "--out", "OUT/evidence.jsonl"],
        ["export", "RUN", "--what", "outputs", "--out", "OUT/outputs.jsonl"],
        ["export", "RUN", "--what", "cases", "--out", "OUT/cases.jsonl"],
        ["merge", "RUN", "--out", "OUT/merged"],
        ["precision", "RUN", "--json"],
        ["items", "RUN", "--json"],
        ["failures", "RUN", "--json"],
        ["profile", "RUN", "--json", "--draws", "100"],
        ["track", f"RUN:{a}", "--baseline", f"RUN:{b}", "--gate", "-100", "--json"],
        ["sample", "RUN", "--for-humans", "10", "--out", "OUT/people.csv", "--json"],
        ["figure", "models", "RUN", "--out", "OUT/models.csv", "--json"],
        ["publish", "RUN", "--to", "OUT/published"],
        *more,
    ]
    return {" ".join(words): words for words in given}


def result_of(words: list[str], run: Path, out: Path, how: Callable[[list[str]], Said]) -> tuple[int, str, str]:
    """Exit code, what came out (of a merge: its table), and what was said on standard error."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    code, said, err = how([word.replace("RUN", str(run)).replace("OUT", str(out)) for word in words])
    if code == 0 and words[0] == "export":
        said = "".join(path.read_text() for path in sorted(out.iterdir()))
    if code == 0 and words[0] == "merge":
        _, said, _ = call(["table", str(out / "merged"), "--json"])
    elif words[0] in ("view", "merge"):
        said = ""
    return code, said.replace(str(run), "RUN").replace(str(out), "OUT"), err


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Whole]]:
    root = tmp_path_factory.mktemp("whole")
    picture = [encode(np.full((16, 16, 3), 9 * n, np.uint8)) for n in range(24)]
    for folder, first in (("pics", 0), ("A", 6), ("B", 12)):
        (root / folder).mkdir()
        for n in range(6):
            (root / folder / f"{n}.png").write_bytes(picture[first + n])
    rows = [{"id": str(n), "instruction": f"Do {n}.", "source": f"pics/{n}.png"} for n in range(6)]
    (root / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / "mine.py").write_text(MINE)
    models = [f"{name}=folder:{root / name}" for name in "AB"]
    with JudgeServer(reply=lambda text: json.dumps(dict.fromkeys(FIVE, len(text) % 9))) as server:
        refbench.evaluate(
            root / "cases.jsonl", rubric="five_criteria", metrics=["ssim"], models=models, out=root / "judged",
            judges=f"j=openai:gpt-4o?base_url={server.url}/v1",
        )  # fmt: skip
    annotate(Run.open(root / "judged"), Annotation(case="1", star=True))
    for shard in ("1/2", "2/2"):
        refbench.evaluate(str(root / "mine.py"), data=root, models=models, out=root / "shards", shard=shard)
    items = plain_items(6)
    data = write_checkout(root / "creval", items, pictures=False)
    for name in "ab":
        write_replies(data / "answer_gpt", name, items)
    refbench.rescore("creval", data=data, replies=data / "answer_gpt", out=root / "imported", draws=0)
    again = ["rescore", "creval", "--data", str(data), "--replies", str(data / "answer_gpt"), "--out", "RUN", "--json"]
    found = []
    for name, commands in (
        ("judged", commands_of("AB")),
        ("shards", commands_of("AB")),
        ("imported", commands_of("ab", again)),
    ):
        said = {}
        for key, words in commands.items():
            code, said[key], err = result_of(words, root / name, root / "out", call)
            assert code == 0, (key, err)
        found.append(Whole(root / name, commands, said))
    yield found


# --- the damages -----------------------------------------------------------------------------------------------------

Damage = Callable[[Path, random.Random], str]


def _file(run: Path, rng: random.Random) -> Path:
    """Any file of the run, of each kind as often: there are many pictures, and one run.json."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.name.endswith((".lock", "-shm"))]
    kinds = sorted(
        {path.suffix + path.parent.name[:5] for path in files if path.parent.parent != run / "blobs"} | {"blob"}
    )
    kind = rng.choice(kinds)
    chosen = [
        p for p in files if ("blob" if p.parent.parent == run / "blobs" else p.suffix + p.parent.name[:5]) == kind
    ]
    return rng.choice(chosen or files)


def truncated(run: Path, rng: random.Random) -> str:
    path = _file(run, rng)
    data = path.read_bytes()
    kept = rng.choice((0, 1, rng.randrange(len(data) + 1), max(0, len(data) - rng.randint(1, 40))))
    path.write_bytes(data[:kept])
    return f"{path.name} cut to {kept} of {len(data)} bytes"


def flipped(run: Path, rng: random.Random) -> str:
    path = _file(run, rng)
    data = bytearray(path.read_bytes())
    places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 1, 3, 30)))] if data else []
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))
    return f"{path.name} flipped at {places[:3]}"


def overwritten(run: Path, rng: random.Random) -> str:
    path = _file(run, rng)
    data = path.read_bytes()
    start = rng.randrange(len(data) + 1)
    length = rng.choice((1, 16, 512, 4096))
    filling = rng.choice((bytes(length), rng.randbytes(length), b"", data[:length]))
    path.write_bytes(data[:start] + filling + data[start + length :])
    return f"{path.name} overwritten at {start} by {len(filling)} for {length}"


def deleted(run: Path, rng: random.Random) -> str:
    path = _file(run, rng)
    path.unlink()
    return f"{path.name} deleted"


def renamed(run: Path, rng: random.Random) -> str:
    path = _file(run, rng)
    path.rename(path.with_name(rng.choice(("x", f"{path.name}.bak", f"2{path.name}", "run.json", "3-of-2.sqlite"))))
    return f"{path.name} renamed"


def swapped(run: Path, rng: random.Random) -> str:
    a, b = _file(run, rng), _file(run, rng)
    one, other = a.read_bytes(), b.read_bytes()
    a.write_bytes(other)
    b.write_bytes(one)
    return f"{a.name} and {b.name} swapped"


def no_plain_file(run: Path, rng: random.Random) -> str:
    path = _file(run, rng)
    path.unlink()
    what = rng.choice(("folder", "pipe", "null", "nowhere", "loop"))
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"null": "/dev/null", "nowhere": "/nonexistent/x", "loop": path}[what])
    return f"{path.name} made a {what}"


_VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    3,
    1e99,
    "",
    "x",
    [],
    {},
    True,
    "../../x",
    "creval",
    "own",
    "mine.py",
    {"a": 1},
)


def edited_json(run: Path, rng: random.Random) -> str:
    name = rng.choice(("run.json", "cases.jsonl"))
    path = run / name
    lines = path.read_text().splitlines() if name == "cases.jsonl" else [path.read_text()]
    number = rng.randrange(len(lines))
    entry = json.loads(lines[number])
    key, value = rng.choice(sorted(entry)), rng.choice(_VALUES)
    if rng.random() < 0.2:
        del entry[key]
    else:
        entry[key] = value
    lines[number] = json.dumps(entry)
    path.write_text("\n".join(lines) + "\n")
    return f"{name}: {key} = {value!r}"


def edited_lines(run: Path, rng: random.Random) -> str:
    path = run / "cases.jsonl"
    lines = path.read_text().splitlines()
    number = rng.randrange(len(lines))
    way = rng.choice(("dropped", "doubled", "halved", "moved"))
    line = lines.pop(number)
    if way != "dropped":
        lines[number:number] = {"doubled": [line, line], "halved": [line[: len(line) // 2]], "moved": []}[way]
    if way == "moved":
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    return f"line {number} of cases.jsonl {way}"


_SQL = (
    "UPDATE evidence SET body = replace(body, '7', '3')",
    'UPDATE evidence SET body = replace(body, \'"reply":"\', \'"reply":"0\') WHERE seq = 2',
    "UPDATE evidence SET body = '{}' WHERE seq = 1",
    "UPDATE evidence SET failure = 'timeout' WHERE seq = 1",
    "UPDATE evidence SET recorded = recorded + 9 WHERE seq = 1",
    "UPDATE evidence SET seq = seq + 1000 WHERE seq = 2",
    "DELETE FROM evidence WHERE seq = (SELECT max(seq) FROM evidence)",
    "DELETE FROM evidence WHERE seq = 1",
    "INSERT INTO evidence SELECT NULL, id, failure, digest, recorded - 9, replace(body, '7', '2') FROM evidence",
    "DELETE FROM purpose WHERE seq % 2",
    "UPDATE purpose SET model = 'A' WHERE model = 'B'",
    "UPDATE purpose SET case_id = '1' WHERE case_id = '0'",
    "UPDATE OR IGNORE purpose SET part = 'x' WHERE seq = 3",
    "UPDATE OR IGNORE purpose SET seed = 1 WHERE seq = 3",
    "UPDATE output SET body = replace(body, 'png', '../x') WHERE seq = 1",
    "UPDATE output SET failure = 'refused' WHERE seq = 1",
    "DELETE FROM output",
    "UPDATE meta SET value = '2' WHERE name = 'wanted'",
    "UPDATE meta SET value = 'x' WHERE name LIKE 'seeds%'",
    "UPDATE meta SET value = '5' WHERE name LIKE 'seeds%'",
    "DELETE FROM meta",
    "DELETE FROM meta WHERE name LIKE 'sum of %'",
    "INSERT INTO retired SELECT NULL, id, digest, recorded + 99, 'x' FROM evidence",
    "DELETE FROM picture",
    "UPDATE meta SET value = '{' WHERE name LIKE 'model %'",
    "UPDATE meta SET value = '[1]' WHERE name LIKE 'model %'",
    "INSERT OR REPLACE INTO meta VALUES ('wanted', 'x')",
    "INSERT OR REPLACE INTO meta VALUES ('measures ssim#x', '')",
    "INSERT OR REPLACE INTO meta VALUES ('measures nothing', '')",
    "INSERT OR REPLACE INTO meta VALUES ('pictures', char(0))",
    "INSERT OR REPLACE INTO meta VALUES ('data', '/dev')",
    "UPDATE evidence SET body = replace(body, 'measure', 'chat')",
    "UPDATE evidence SET body = replace(body, 'value', 'valve')",
    "UPDATE evidence SET body = replace(body, 'endpoint', 'endpunkt')",
    "UPDATE evidence SET body = replace(body, 'parameters', 'x')",
    "UPDATE evidence SET body = json_set(body, '$.cost_usd', 'x')",
    "UPDATE evidence SET body = json_set(body, '$.request', json('{}'))",
    "UPDATE evidence SET body = json_set(body, '$.request.metric', 7, '$.request.version', 'x')",
    "UPDATE evidence SET body = json_set(body, '$.reply', '{\"value\": \"x\"}')",
    "UPDATE evidence SET body = json_set(body, '$.reply', '[]')",
    "UPDATE purpose SET case_id = 'nowhere'",
    "UPDATE purpose SET protocol = 'x'",
    "UPDATE OR IGNORE purpose SET judge = char(0) || 'x'",
    "UPDATE OR IGNORE purpose SET seed = -7",
    "UPDATE OR IGNORE purpose SET repeat = 2000000000",
    "UPDATE output SET body = json_set(body, '$.pictures[0].sha256', '../../../x')",
    "UPDATE output SET body = json_set(body, '$.pictures[0].format', 'exe')",
    "UPDATE output SET body = json_set(body, '$.pictures[0].width', -1)",
    "UPDATE output SET body = json_set(body, '$.case', 'nowhere'), case_id = 'nowhere'",
    "UPDATE output SET body = json_set(body, '$.seed', 3), seed = 3",
    "UPDATE output SET body = json_set(body, '$.provenance', json('{\"x\": \"y\"}'))",
    "DROP TABLE purpose",
    "DROP TABLE picture",
    "DROP INDEX evidence_by_id",
    "PRAGMA user_version = 2",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 0",
)


def edited_rows(run: Path, rng: random.Random) -> str:
    ledger = rng.choice(sorted(run.rglob("*.sqlite")))
    statement = rng.choice(_SQL)
    with contextlib.closing(sqlite3.connect(ledger)) as db, contextlib.suppress(sqlite3.Error):
        db.execute(statement)
        db.commit()
    return f"{ledger.name}: {statement}"


def forged(run: Path, rng: random.Random) -> str:
    """An edit by someone who has written the sums anew: numbers are theirs then, and nothing may break all the same."""
    what = rng.choice((edited_json, edited_lines, edited_rows, edited_rows, edited_rows))(run, rng)
    for path in run.rglob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(path)) as db, contextlib.suppress(sqlite3.Error):
            for table in ledger._APPENDED:
                total = "{} {}".format(*ledger._summed(db, table))
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (ledger.SUM + table, total))
            note = (f"{ledger.SUM}meta", ledger._sum_of_notes(db))
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", note)
            db.commit()
    with contextlib.suppress(ValueError, TypeError):
        data = (run / "cases.jsonl").read_bytes()
        told = json.loads((run / "run.json").read_bytes())
        told |= {"cases_file": hashlib.sha256(data).hexdigest(), "n_cases": len(data.splitlines())}
        info = RunInfo.model_validate(told)
        (run / "run.json").write_text(info.model_copy(update={"digest": info.sum}).model_dump_json())
    return f"{what}, with new sums"


def untouched(run: Path, rng: random.Random) -> str:
    return "nothing"


DAMAGES: tuple[Damage, ...] = (
    truncated,
    flipped,
    flipped,
    flipped,
    overwritten,
    deleted,
    renamed,
    swapped,
    no_plain_file,
    edited_json,
    edited_lines,
    edited_rows,
    edited_rows,
    forged,
    forged,
    untouched,
)


def trial(whole: Whole, seed: int, folder: Path, others: int = 2) -> tuple[str, list[str]]:
    """One damage, and what is wrong with what check, table and some other commands made of it."""
    rng = random.Random(seed)
    run = folder / str(seed) / whole.path.name  # some results have the name of the run
    shutil.copytree(whole.path, run)
    damage = rng.choice(DAMAGES)
    what = f"{whole.path.name}, seed {seed}, {damage(run, rng)}"
    how = call_process if seed % BY_PROCESS == 0 else call
    table, check = "table RUN --json", "check RUN --json"
    further = rng.sample(sorted(set(whole.commands) - {table, check}), others)
    wrong = []
    said = {}
    for key in (check, table, *further):
        code, said[key], err = result_of(whole.commands[key], run, folder / "out", how)
        if code not in (0, 1, 2) or "Traceback" in err:
            wrong.append(f"{what}: {key} ended with {code}: {err[-400:]}")
        if damage is untouched and (code or said[key] != whole.said[key]):
            wrong.append(f"{what}: {key} is not as it was ({code}): {err[-400:]}")
        if code != 0:
            said.pop(key) if key != check else None
    named = bool(json.loads(said[check])["problems"]) if said[check] else True
    for key, now in said.items():
        if key == check or damage is forged:
            continue
        if now != whole.said[key] and not (named and _says_so(key, now)):
            wrong.append(f"{what}: {key} gives another result, and check {'names it' if named else 'finds nothing'}")
    shutil.rmtree(run.parent, ignore_errors=True)
    return damage.__name__, wrong


def _says_so(key: str, now: str) -> bool:
    """Whether a table that is not the same says of itself that something is missing: a shard that is not there has
    not been asked, an empty ledger gives none. Of other commands it is enough that check names what is missing."""
    return (
        not now or '"n_not_asked":' in re.sub(r'"n_not_asked":0\b', "", now) or not key.startswith(("table", "merge"))
    )


def test_damage_is_refused_or_changes_nothing(wholes: list[Whole], tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    first = int(os.environ.get("REFBENCH_DAMAGE_SEED", "0"))
    for seed in range(first, first + TRIALS):
        name, found = trial(wholes[seed % len(wholes)], seed, tmp_path)
        counts[name] += 1
        wrong += found
    print(dict(counts))
    assert not wrong, f"{len(wrong)} of {TRIALS}:\n" + "\n".join(wrong[:40])
