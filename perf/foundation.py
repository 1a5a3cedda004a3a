"""What the foundation costs: importing and tabling a full CREval release, the bootstrap, start-up.

    python perf/foundation.py

CPU seconds are of whole child processes (user and system), memory is their peak resident size. The targets
beside the figures are the project's own; nothing here fails a build.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ITEMS, MODELS, METRICS = 904, 8, ("IF", "VC", "VQ")


def child(code: str, *arguments: str) -> tuple[float, float, str]:
    """CPU seconds, peak MB and output of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = code + "\nimport resource as r; print('peak', r.getrusage(r.RUSAGE_SELF).ru_maxrss / 1024)"
    ended = subprocess.run([sys.executable, "-c", measured, *arguments], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = ended.stdout.splitlines()
    return cpu, float(lines[-1].split()[1]), "\n".join(lines[:-1])


def write_release(root: Path) -> int:
    """A release of the real size: 904 items, 8 models, replies of about 2.5 kB."""
    rng = np.random.default_rng(0)
    words = ["the", "image", "shows", "that", "a", "tower", "near", "water", "keeps", "its", "shape", "and", "light"]
    instructions, replies = [], 0
    for metric in METRICS:
        (root / "bench/questions_all" / metric).mkdir(parents=True)
        for model in range(MODELS):
            (root / "answer_gpt" / metric / f"model-{model}").mkdir(parents=True)
    for n in range(ITEMS):
        stem = f"item_{n:04d}.{n % 10}"
        instructions.append({"id": n + 1, "input_prompt": "Make it a postcard. " * 10, "input_image": [f"image/{stem}.jpg"],
                             "input_image_resolution": [1024, 1024], "class_id": 1 + n % 9})  # fmt: skip
        for metric in METRICS:
            count = int(rng.integers(5, 8))
            questions = [{"question_id": f"Q{q}", "thinking_process": "because " * 30, "question": " ".join(rng.choice(words, 18)) + "?",
                          "choices": ["Yes", "No"], "answer": "Yes", "weight": 1} for q in range(1, count + 1)]  # fmt: skip
            (root / f"bench/questions_all/{metric}/{stem}.json").write_text(
                json.dumps({"quality_check_questions": questions})
            )
            explanations = [" ".join(rng.choice(words, 45)) for _ in questions]
            for model in range(MODELS):
                objects = [{"Question": f"{q['question_id']}: {q['question']}", "explanation": e, "answer": "Yes" if rng.random() < 0.8 else "No"}
                           for q, e in zip(questions, explanations, strict=True)]  # fmt: skip
                text = "\n\n".join(json.dumps(o, indent=4) for o in objects)
                (root / f"answer_gpt/{metric}/model-{model}/{stem}.txt").write_text(text)
                replies += 1
    (root / "bench/instruction.json").write_text(json.dumps(instructions))
    return replies


BOOTSTRAP = """
import numpy as np, time
from refbench.case import AnyCase, Request
from refbench import Score
from refbench.benchmarks.creval.table import CORRECTED
from refbench.tables.table import tabulate
cases_n, models = {cases}, {models}
names = ["Derivative Character", "Surreal Fantasy", "Commercial Design"]
cases = [AnyCase(id=str(i), request=Request(instruction=""), groups=dict(category="c", dimension=names[i % 3]), cluster=str(i), stratum=names[i % 3], details=None) for i in range(cases_n)]
rng = np.random.default_rng(0)
scores = [Score(case=c.id, model=str(m), metric=q, protocol="p", value=float(v)) for m in range(models) for q in ("IF", "VC", "VQ") for c, v in zip(cases, rng.random(cases_n))]
start = time.process_time()
tabulate("p", CORRECTED, scores, cases, draws=1000)
print(len(scores), time.process_time() - start)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "creval"
        replies = write_release(root)
        rescore = (
            "import sys, refbench; from refbench.report import to_json; "
            "r = refbench.rescore('creval', data=sys.argv[1], replies=sys.argv[1] + '/answer_gpt', out=sys.argv[2]); print(len(to_json(r)))"
        )
        cpu, peak, _ = child(rescore, str(root), f"{folder}/run")
        print(
            f"import and table {replies} replies, both protocols, 2,000 draws: {cpu:.1f} s CPU, {peak:.0f} MB (target 20 s, 500 MB)"
        )
        cpu, peak, _ = child(
            "import sys; from refbench.tables.scoring import score_run; score_run(sys.argv[1])", f"{folder}/run"
        )
        print(f"table the run again: {cpu:.1f} s CPU, {peak:.0f} MB")
        # The released way, for scale: the script's own reader, without ledger, intervals or a second protocol.
        start = time.process_time()
        import re

        for path in root.glob("answer_gpt/*/*/*.txt"):
            for block in re.findall(r"\{.*?\}", path.read_text(), re.DOTALL):
                json.loads(block.replace("\n", ""))
        plain = time.process_time() - start
        print(f"only reading and decoding the same files with json: {plain:.1f} s CPU")
    for cases, models in ((904, 37), (12_500, 3), (33_334, 1)):
        _, peak, out = child(BOOTSTRAP.format(cases=cases, models=models))
        scores, seconds = out.split()
        print(
            f"{scores} scores ({cases} cases x {models} models x 3 metrics), 1,000 draws: {float(seconds):.1f} s CPU, {peak:.0f} MB (target 5 s)"
        )
    bare = min(child("pass")[0] for _ in range(5))
    cost = min(child("import refbench")[0] for _ in range(5))
    print(f"import refbench: {cost - bare:.3f} s CPU over a bare interpreter, {cost:.3f} s in all (target 0.25 s)")
    ask = "import sys; sys.argv = ['refbench', '--help']\nfrom refbench.cli.app import main\ntry: main()\nexcept SystemExit: pass"
    print(f"refbench --help: {min(child(ask)[0] for _ in range(5)):.3f} s CPU in all (target 0.4 s)")


if __name__ == "__main__":
    main()
