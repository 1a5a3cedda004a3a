"""Pages of a large run: 2,000 cases x 3 models with pictures, marks and a judge's words, made on the spot.

    python perf/view_site.py [CASES] [MODELS]

Prints CPU seconds to write the site and the most memory it took, the bytes of a first view (target: below 1 MB), and
CPU seconds of Chromium until the overview and the case browser can be used (target: 2 s each; left out where Playwright
or Chromium is missing).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from refbench.benchmarks.own.benchmark import own_benchmark
from refbench.evidence import Evidence, Purpose
from refbench.judges.rubric import rubric_source
from refbench.output import Output, StoredPicture
from refbench.pictures import encode
from refbench.report.site.contract import CASES_SIZE
from refbench.report.site.pages import write_site
from refbench.runs import Run

PICTURES = 200
WORDS = "The subject keeps its face and its coat, the light comes from the left as in the second picture. " * 6
CRITERIA = (
    "instruction_alignment",
    "reference_consistency",
    "background_subject_match",
    "physical_realism",
    "visual_quality",
)


def make_run(folder: Path, n_cases: int, n_models: int) -> Path:
    """A run of own cases: two references each, every model judged on all of them, one reply in fifty refused."""
    rng = np.random.default_rng(0)
    (folder / "pics").mkdir()
    pictures = [encode(rng.integers(0, 255, (48, 64, 3), dtype=np.uint8), "jpeg") for _ in range(PICTURES)]
    for number, data in enumerate(pictures):
        (folder / f"pics/{number}.jpg").write_bytes(data)
    rows = [
        {
            "id": f"case-{n:05d}",
            "instruction": f"Put the subject of image 1 into the scene of image 2, number {n}, and keep its colours.",
            "references": [f"pics/{n % PICTURES}.jpg", f"pics/{(n * 7 + 1) % PICTURES}.jpg"][: 1 + n % 2],
            "groups": {"kind": ("people", "objects", "scenes")[n % 3]},
            "tags": ["hard"] if n % 5 == 0 else [],
        }
        for n in range(n_cases)
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text, title = rubric_source("five_criteria")
    bench = own_benchmark(text, title)
    dataset = bench.data.load(folder / "cases.jsonl", None)
    run = Run.create(
        folder / "run", "own", dataset.cases, settings={"rubric": "five_criteria"}, keep={"rubric.md": text}
    )
    stored = [
        StoredPicture(sha256=run.blobs.put(data, "jpeg"), format="jpeg", width=64, height=48) for data in pictures
    ]
    with run.writer() as writer:
        writer.note("pictures", str(dataset.picture_root))
        for n, case in enumerate(dataset.cases):
            for m in range(n_models):
                output = stored[(n * 3 + m * 11) % PICTURES]
                writer.add_output(Output(case=case.id, model=f"model-{m}", pictures=(output,), seconds=1.0 + m))
                marks = {name: int(rng.integers(1, 11)) for name in CRITERIA}
                request = {"model": "judge", "parameters": {}, "case": case.id, "of": m}
                said: dict[str, Any] = {"reply": json.dumps({"reasoning": WORDS, **marks})}
                if rng.random() < 0.02:
                    said = {"failure": {"kind": "refused", "detail": "I cannot help with that."}}
                purpose = Purpose(case=case.id, model=f"model-{m}", judge="judge", part="verdict")
                writer.add(Evidence(kind="chat", request=request, **said), purpose)
            if n % 500 == 0:
                writer.commit()
    return folder / "run"


def first_view(site: Path) -> int:
    """Bytes of everything that the overview loads: the pages themselves and three chunks."""
    files = [path for path in site.iterdir() if path.suffix in (".html", ".js", ".css", ".svg")]
    files += [site / "data" / name for name in ("site.js", "annotations.js", "b0/board.js")]
    return sum(path.stat().st_size for path in files)


def browser_seconds(site: Path) -> dict[str, float] | str:
    """CPU seconds of the page's own thread (CDP's TaskDuration) until its rows are there; a text where none can run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return "Chromium is not installed"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "playwright is not installed"
    arguments = [
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for name, route in (("overview", "#/b0/overview"), ("cases", "#/b0/cases")):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            metrics = page.context.new_cdp_session(page)
            metrics.send("Performance.enable")
            page.goto((site / "index.html").as_uri() + route)
            page.wait_for_function(
                "document.querySelectorAll('main table tr, main [role=row], main li, main a').length > 3"
            )
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            values = {m["name"]: m["value"] for m in metrics.send("Performance.getMetrics")["metrics"]}
            found[name] = values["TaskDuration"]
            page.close()
        browser.close()
    return found


def main() -> None:
    if "OPENBLAS_NUM_THREADS" not in os.environ:  # as the command line has it, and set before numpy is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    n_cases, n_models = map(int, [*sys.argv[1:3], *("2000", "3")[len(sys.argv[1:3]) :]])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["REFBENCH_CACHE"] = str(folder / "cache")
        run = make_run(folder, n_cases, n_models)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        done = write_site([run], folder / "site")
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{n_cases} cases x {n_models} models: {seconds:.1f} CPU s to write {done.chunks} chunks, {done.bytes / 1e6:.1f} MB"
        )
        print(f"memory: {peak / 1024:.0f} MiB at most ({before / 1024:.0f} before)")
        size = first_view(folder / "site")
        print(
            f"first view: {size / 1e6:.3f} MB ({'below' if size < 1e6 else 'ABOVE'} 1 MB); a chunk of {CASES_SIZE} cases: {(folder / 'site/data/b0/cases/0.js').stat().st_size / 1e6:.3f} MB"
        )
        spent = browser_seconds(folder / "site")
        if isinstance(spent, str):
            print(f"browser: left out, {spent}")
            return
        for page, cpu in spent.items():
            print(f"browser, {page}: {cpu:.2f} CPU s until it can be used ({'within' if cpu < 2 else 'ABOVE'} 2 s)")


if __name__ == "__main__":
    main()
