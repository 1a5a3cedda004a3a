"""What a reader of one run has to know: the modules that `refbench run multibanana` imports, and those whose code it runs.

    python perf/modules_of_a_run.py [--names]

A module counts as run when one of its functions is called, decorators and the like at import time not counted. The run
is a small one: two sets of MultiBanana, a folder of outputs, a judge on loopback, the table at the end. Also the CPU
seconds of `refbench --help` and `import refbench`, user and system of whole processes. Nothing here fails a build.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from foundation import child
from refbench.pictures import encode

MOST_RUN, MOST_IMPORTED, HELP_S, IMPORT_S = 50, 130, 0.3, 0.1

# Profiles every thread from the first call on; a class body or a module is no function, and has no fast locals.
TRACED = """
import json, os, sys, threading
ROOT = os.path.join(os.path.dirname(__import__("importlib.util").util.find_spec("refbench").origin), "")
run, seen = set(), set()
def called(frame, event, argument):
    code = frame.f_code
    if event != "call" or code in seen or not code.co_flags & 1 or not code.co_filename.startswith(ROOT):
        return
    above = frame.f_back
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(ROOT):
            return  # while a module is being imported
        above = above.f_back
    seen.add(code)
    run.add(code.co_filename)
threading.setprofile(called)
sys.setprofile(called)
sys.argv = ["refbench", *sys.argv[2:]]
from refbench.cli.app import main
code = 0
try:
    main()
except SystemExit as ended:
    code = ended.code
sys.setprofile(None)
def name(path):
    return "refbench." + path.removeprefix(ROOT).removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
imported = [one for one in sys.modules if one == "refbench" or one.startswith("refbench.")]
print(json.dumps({"code": code, "run": sorted(map(name, run)), "imported": sorted(imported)}), file=sys.__stderr__)
"""

REPLY = "Reasoning: fine.\n" + "\n".join(
    f"{label}: 7."
    for label in (
        "Instruction Alignment",
        "Reference Consistency",
        "Background-Subject Match",
        "Physical Realism",
        "Visual Quality",
    )
)


class Judge(BaseHTTPRequestHandler):
    """Answers every question alike, as OpenAI would."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": REPLY}
        usage = {"prompt_tokens": 9000, "completion_tokens": 90}
        body = json.dumps({"choices": [{"finish_reason": "stop", "message": message}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def write_data(work: Path) -> None:
    """Two sets of two references, and an output of each."""
    rng = np.random.default_rng(0)
    for folder in ("data/add", "out/add"):
        (work / folder).mkdir(parents=True)
    for number in ("006", "014"):
        for index in range(2):
            picture = encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8), "jpeg")
            (work / f"data/add/{number}_{index}.jpg").write_bytes(picture)
        (work / f"data/add/{number}_prompt.txt").write_text("Put image 1 beside image 2.")
        output = encode(rng.integers(0, 255, (9, 9, 3), dtype=np.uint8))
        (work / f"out/add/{number}_generated.png").write_bytes(output)


def traced_run(work: Path, port: int) -> dict[str, list[str]]:
    judge = f"openai:gpt-4o?base_url=http://127.0.0.1:{port}/v1"
    words = ["run", "multibanana", "--data", str(work / "data"), "--model", f"m=folder:{work / 'out'}"]
    words += ["--judge", judge, "--out", str(work / "run")]
    ended = subprocess.run([sys.executable, "-c", TRACED, "-", *words], capture_output=True, text=True)
    found: dict[str, list[str]] = json.loads(ended.stderr.splitlines()[-1])
    if found["code"]:
        raise SystemExit(f"the run ended with exit code {found['code']}: {ended.stdout[-500:]}{ended.stderr[-2000:]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", action="store_true", help="print the modules too")
    given = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        found = traced_run(Path(folder), server.server_port)
    server.shutdown()
    for word, most in (("run", MOST_RUN), ("imported", MOST_IMPORTED)):
        print(f"modules {word}: {len(found[word])} (target {most})")
        if given.names:
            print("".join(f"    {name}\n" for name in found[word]), end="")
    ask = "import sys; sys.argv = ['refbench', '--help']\nfrom refbench.cli.app import main\ntry: main()\nexcept SystemExit: pass"
    print(f"refbench --help: {min(child(ask)[0] for _ in range(5)):.3f} s CPU in all (target {HELP_S} s)")
    bare = min(child("pass")[0] for _ in range(5))
    cost = min(child("import refbench")[0] for _ in range(5))
    print(
        f"import refbench: {cost - bare:.3f} s CPU over a bare interpreter, {cost:.3f} s in all (target {IMPORT_S} s)"
    )


if __name__ == "__main__":
    main()
