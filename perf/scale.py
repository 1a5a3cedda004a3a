"""What commands cost on large runs that are there already, cold and when nothing has changed since.

    python perf/scale.py [FOLDER] [--large]

Writes a run of CREval's size (904 cases x 8 models, one judge, three calls each) through the real writers, without any
judge, and with `--large` one of 20,000 own cases x 3 models; then runs commands on them in processes of their own. CPU
seconds are of the whole process (user and system), memory is its peak resident size. `cold` is without what the run
keeps of earlier commands, `again` with it. With FOLDER the runs are kept there and used again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from foundation import MODELS, write_release
from refbench.benchmarks.creval.cases import METRICS
from refbench.benchmarks.creval.judge import judge_requests, own_wording
from refbench.evidence import Evidence, Purpose
from refbench.output import Output, StoredPicture
from refbench.pictures import encode
from refbench.runs import Run
from refbench.tables.scoring import load
from view_site import make_run

PICTURES = 64
ENDPOINT = "openai http://127.0.0.1:8000/v1"


def write_creval(folder: Path) -> Path:
    """A finished run: an output and three replies for each case and model, asked in our own words."""
    write_release(folder / "data")
    dataset = load("creval", folder / "data")
    settings = {"prompts": "own", "questions": "all", "show_instruction": "no"}
    run = Run.create(folder / "run", "creval", dataset.cases, settings=settings)
    rng = np.random.default_rng(0)
    data = [encode(rng.integers(0, 255, (48, 64, 3), dtype=np.uint8), "jpeg") for _ in range(PICTURES)]
    stored = [StoredPicture(sha256=run.blobs.put(one, "jpeg"), format="jpeg", width=64, height=48) for one in data]
    wording = own_wording()
    with run.writer() as writer:
        writer.want(None)
        for n, case in enumerate(dataset.cases):
            for m in range(MODELS):
                picture = stored[(n * MODELS + m) % PICTURES]
                output = Output(case=case.id, model=f"model-{m}", pictures=(picture,), seconds=1.0 + m)
                writer.add_output(output)
                for metric in METRICS:
                    shown = (stored[n % PICTURES].sha256, picture.sha256)
                    (request,) = judge_requests(case, metric, shown, wording)
                    asked = request.canonical(ENDPOINT, "judge")
                    reply = (folder / f"data/answer_gpt/{metric}/model-{m}/{case.id}.txt").read_text()
                    said = {"reply": reply, "input_tokens": 2000, "output_tokens": 700, "cost_usd": 0.001}
                    purpose = Purpose(case=case.id, model=f"model-{m}", judge="judge", part=metric)
                    purpose = purpose.model_copy(update={"output": output.content})
                    writer.add(Evidence(kind="chat", request=asked, **said), purpose)
            if n % 50 == 0:
                writer.commit()
    return folder / "run"


def cost(folder: Path, *words: str) -> tuple[float, float]:
    """CPU seconds and peak MB of a command in a process of its own."""
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "refbench", *words],
        {**os.environ, "XDG_DATA_HOME": str(folder / "home"), "REFBENCH_CACHE": str(folder / "cache")},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"refbench {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(folder: Path, run: Path) -> None:
    for words in (["table", str(run)], ["compare", str(run)], ["view", str(run), "--out", str(folder / "site")]):
        shutil.rmtree(run / "derived", ignore_errors=True)
        found = []
        for _ in range(3):
            shutil.rmtree(folder / "site", ignore_errors=True)
            found.append(cost(folder, *words))
        (cold, cold_peak), again = found[0], min(found[1:])
        print(
            f"{words[0]}: cold {cold:.2f} s CPU, {cold_peak:.0f} MB; again {again[0]:.2f} s, {again[1]:.0f} MB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder or Path(temporary)
        for name, make in (("creval", write_creval), ("large", lambda folder: make_run(folder, 20_000, 3))):
            if name == "large" and not given.large:
                continue
            folder = root / name
            if not (folder / "run/run.json").exists():
                folder.mkdir(parents=True, exist_ok=True)
                make(folder)
            size = (folder / "run/ledger.sqlite").stat().st_size
            print(f"{name}: ledger of {size / 1e6:.0f} MB", flush=True)
            measure(folder, folder / "run")


if __name__ == "__main__":
    main()
