"""A folder in which the commands of the documentation run as they stand: small data of every benchmark, outputs, runs,
and servers on loopback in the place of the providers."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from aiohttp import web

from refbench.benchmarks import benchmark
from refbench.pictures import encode
from refbench.studies.study import Study
from support import checkout, icebench, ideabench, multibanana, multiref
from support.blend import drawing, write_drawings
from support.five_criteria import FIVE
from support.image_server import ImageServer
from support.judge_server import answer, text_of, wire
from support.pages import ROOT, Block
from support.study_raters import answer_all, marks_by

BENCHMARKS = ("creval", "multibanana", "icebench", "ideabench", "multiref")
MODELS = ("A", "B", "mine", "theirs", "new", "old")
RUNS = ("x", "y", "pilot", "creval", "anchor")
"""What pages speak of as there: runs of CREval with four models."""
SERIES = {"base": "base", "old": "baseline", "step1000": "m", "step2000": "m", "step3000": "m"}

NOT_HERE = {
    "pip": "installs",
    "hf": "downloads",
    "fetch": "downloads; tests/networks/test_fetch.py and tests/benchmarks/test_fetch_data.py have an index on loopback",
    "make": "what .ci/run and people run",
    "demo": "tests/cli/test_cli.py runs it whole",
    "view": "serves until it is stopped; tests/report/test_view_server.py",
    "bash": "tests/examples/test_cluster.py runs the scripts",
    "build": "asks for marks of a writer; tests/builders run it against one that knows the form",
    "filter": "starts from people's marks; tests/builders/filter_judge makes some",
    "calibrate": "the same",
}
"""Commands that no block runs here, and why."""

STAND_INS = {
    ("agree", "runs/x"): "runs/two",
    ("--calls", "14%"): "90%",
    ("--ids", "ids.txt"): "my-ids.txt",
    ("--cases", "1,2"): "item_000.0,item_001.1",
    ("new", "creval:seedream4-0"): "runs/base:base",
    ("runs/x", "creval:Bagel"): "runs/y",
}
"""What is too much for nine cases and one judge, by the command or option before it."""

_NEEDS = re.compile(r"needs (torch|an extra)")
"""What a command says in an environment without the package that it is about."""

PAINTER = """from PIL import Image

def make():
    def paint(request, seed):
        return Image.new("RGB", request.size or (32, 32), (seed, 80, len(request.instruction) % 256))
    return paint
"""


class Providers(ImageServer):
    """Chat and pictures at one address, as providers have them."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET" or "/images/" in request.path or "paint" in request.path:
            return await super()._handle(request)
        body = await request.json()
        if "IMAGE" in json.dumps(body.get("generationConfig", {})):
            return await super()._handle(request)
        # Other pictures are other requests, and get other marks.
        said = reply(f"{text_of(body)}\n{hashlib.sha256(await request.read()).hexdigest()}")
        return web.json_response(wire(request.path, said, refused=False))


def reply(text: str) -> str:
    """Marks in the form that is asked for, as far as it is one of those that pages use."""
    names = [name for name in (*FIVE, "edit_success", "preservation", "naturalness", "no_artifacts",
                               "instruction_success") if name in text]  # fmt: skip
    if names:
        return json.dumps({name: 4 + len(name) % 5 for name in names})
    return answer(text)


@dataclass
class Workplace:
    """Where the commands of one page run."""

    root: Path
    url: str
    run: Callable[..., tuple[int, str, str]]
    wrote: set[str] = field(default_factory=set)
    of: dict[str, str] = field(default_factory=dict)
    """Of which benchmark each run is that this page has made."""

    def execute(self, block: Block) -> list[str]:
        """What went wrong; each command must end in code 0, or in 1 or 4, which say something about the numbers."""
        if block.language == "python":
            named = self.outputs_of(block.text)
            source = block.text.replace('"DIR', f'"{self.root / "official" / named}')
            source = source.replace("seedream4-0", "alpha").replace("Bagel", "beta")
            for out in re.findall(r'out="([^"]+)"', source):
                self.make_way(out)
            exec(compile(source, str(block), "exec"), {"__name__": "documentation"})
            return []
        wrong = []
        for words in block.commands():
            if words[:2] == ["study", "serve"]:  # it serves until it is stopped; what people would do meanwhile is done
                _answer(self.root / words[2])
                continue
            if not words or (words[0] in NOT_HERE and not (words[0] == "view" and {"--out", "--brief"} & set(words))):
                continue
            code, _, said = self.run(*self.stand_ins(words))
            if words[0] == "sample" and "--out" in words:
                _rate(self.root / words[words.index("--out") + 1])
            if code not in (0, 1, 4) and not _NEEDS.search(said):
                wrong.append(f"{block}: {' '.join(words)}: code {code}: {said.strip()[-400:]}")
        return wrong

    def stand_ins(self, words: list[str]) -> list[str]:
        """The words with places of this workplace; a run that is to be written and only stood here makes way."""
        named = self.outputs_of(f"{self.of.get(words[1], '')} " + " ".join(words[1:]) if words[1:] else "")
        money = {"--budget", "--decide"} & set(words)
        found = []
        for before, word in zip(["", *words], words, strict=False):
            word = re.sub(r"http://host:\d+", self.url, word)
            if before in ("--data", "--replies"):
                word = re.sub(r"^DIR", str(self.root / "official" / named), word)
            if before == "--out" and words[0] in ("run", "rescore", "generate", "steps", "publish"):
                self.make_way(word)
                self.of[word] = named
            if before == "--judge" and money and "price=" not in word:
                word += "&price=1,1" if "?" in word else "?price=1,1"  # that of no address on loopback is known
            word = STAND_INS.get((words[0], word), STAND_INS.get((before, word), word))
            if word == "SUBSTITUTED":
                found += ["runs/step1000", "runs/step2000", "runs/step3000"]
            elif "*" in word:
                found += sorted(str(path.relative_to(self.root)) for path in self.root.glob(word))
            else:
                found.append(word)
        return found

    def make_way(self, out: str) -> None:
        """A run that was only there for pages to speak of; one that this page has made goes on."""
        if out not in self.wrote:
            shutil.rmtree(self.root / out, ignore_errors=True)
        self.wrote.add(out)

    def outputs_of(self, text: str) -> str:
        """The benchmark that a text names first, whose outputs are now those in out/."""
        text += " creval"
        named = min((text.find(name), name) for name in (*BENCHMARKS, "mybench") if name in text)[1]
        outputs = self.root / "out"
        outputs.unlink(missing_ok=True)
        outputs.symlink_to(self.root / "outputs" / ("creval" if named == "mybench" else named))
        return named


@contextmanager
def providers() -> Iterator[str]:
    with Providers() as server:
        yield server.url


def write_workplace(root: Path, run: Callable[..., tuple[int, str, str]]) -> Path:
    """Data, outputs, files of a user, and runs."""
    items = checkout.plain_items(9)
    checkout.write_checkout(root / "official/creval", items)
    for model in ("alpha", "beta"):
        checkout.write_replies(root / "official/creval/answer_gpt", model, items)
    multibanana.write_dataset(root / "official/multibanana", multibanana.every_task(1)[::6])
    icebench.write_dataset(root / "official/icebench", icebench.every_task(1)[::4])
    ideabench.write_checkout(root / "official/ideabench", ideabench.designs(1))
    multiref.write_checkout(root / "official/multiref", multiref.blends()[::12], multiref.requests(4))
    for name in BENCHMARKS:
        _write_outputs(root, name)
    _write_own(root)
    for name, place in (("creval", "x"), ("multibanana", "multibanana"), ("icebench", "icebench")):
        words = [w for model in MODELS[:4] for w in ("--model", f"{model}=folder:outputs/{name}/{model}")]
        judge = () if name == "icebench" else ("--judge", "openai:gpt-4o")
        code, _, said = run("run", name, *words, *judge, "--out", f"runs/{place}")
        assert code in (0, 1), said
    words = ["--model", "A=folder:outputs/creval/A", "--model", "B=folder:outputs/creval/B"]
    assert (
        run("run", "creval", *words, "--judge", "openai:gpt-4o", "--judge", "j=openai:x", "--out", "runs/two")[0] == 0
    )
    _write_people(root)
    for other in RUNS[1:]:
        shutil.copytree(root / "runs/x", root / "runs" / other)
    for name, model in (("creval", "gpt-image-1"), ("multibanana", "GPT-Image")):
        words = ["--model", f"{model}=folder:outputs/{name}/A", "--judge", "openai:gpt-4o"]
        assert run("run", name, *words, "--out", f"runs/{name}")[0] == 0
    for place, model in SERIES.items():
        words = ["--model", f"{model}=folder:outputs/creval/A", "--judge", "openai:gpt-4o"]
        assert run("run", "creval", *words, "--out", f"runs/{place}")[0] == 0
    return root


def _write_people(root: Path) -> None:
    """Marks of three people for what two models made for CREval."""
    cases = benchmark("creval").data.load(root / "official/creval", None).cases
    with (root / "people.csv").open("w", newline="") as file:
        marks = csv.writer(file)
        marks.writerow(["case", "model", "rater", "score"])
        for at, case in enumerate(cases):
            for model in "AB":
                for rater in range(3):
                    marks.writerow([case.id, model, f"r{rater}", 1 + (at * 3 + ord(model) + rater) % 5])


def _answer(folder: Path) -> None:
    """Everybody with a link marks all that there is."""
    study = Study.open(folder)
    for rater in list(study.raters.all.values()):
        if rater.role == "rater":
            answer_all(study, rater, marks_by(lambda item: sum(item.id.encode()) % 5 / 4))


def _rate(path: Path) -> None:
    """The list of outputs to rate, as a person gives it back."""
    if not path.is_file():
        return
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    if "score" in lines[0]:
        return
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [*line, *(("rater", "score") if at == 0 else ("r1", at * 7 % 5 / 4))] for at, line in enumerate(lines)
        )


def _write_outputs(root: Path, name: str) -> None:
    cases = benchmark(name).data.load(root / "official" / name, None).cases
    for number, model in enumerate(MODELS):
        folder = root / "outputs" / name / model
        for at, case in enumerate(cases):
            for n in range(case.request.n_pictures):
                names = [f"{case.id}.png", f"{case.id}/{n + 1:04d}.png"]
                path = folder / names[case.request.n_pictures > 1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(encode(np.full((24, 32, 3), (at * 7 % 256, 40 * number, n), dtype=np.uint8)))


def _write_own(root: Path) -> None:
    """What pages say that a reader has: cases, pictures, functions, lists of marks."""
    write_drawings(root / "pictures", 6)
    for folder, seed in (("photos", 0), ("A", 10), ("B", 20), ("real", 30)):
        (root / folder).mkdir()
        for n in range(6):
            (root / folder / f"{n}.jpg").write_bytes(encode(drawing(seed + n), "jpeg"))
    for n, name in enumerate(("in", "out", "person", "poster", "a")):
        (root / f"{name}.png").write_bytes(encode(drawing(n)))
    (root / "photo.jpg").write_bytes(encode(drawing(7), "jpeg"))
    mask = np.zeros((96, 96, 3), dtype=np.uint8)
    mask[20:60, 20:60] = 255
    (root / "mask.png").write_bytes(encode(mask))
    with (root / "cases.jsonl").open("w") as file:
        for n in range(6):
            case = {"id": f"c{n}", "instruction": f"Paint {n}.", "source": f"photos/{n}.jpg",
                    "references": [{"path": f"A/{n}.jpg", "role": "subject"}]}  # fmt: skip
            file.write(json.dumps(case) + "\n")
    (root / "official/mybench").mkdir()
    with (root / "official/mybench/cases.jsonl").open("w") as file:
        for n in range(6):
            row = {"id": f"c{n}", "instruction": f"Paint {n}.", "source": "s.png", "task": "add"}
            file.write(json.dumps(row) + "\n")
    (root / "official/mybench/s.png").write_bytes(encode(drawing(1)))
    (root / "my-ids.txt").write_text("\n".join(item.stem for item in checkout.plain_items(6)))
    for model in MODELS:
        for n in range(6):
            path = root / "outputs/creval" / model / f"c{n}.png"
            path.write_bytes(encode(drawing(50 + n)))
    page = (ROOT / "docs/own-cases.md").read_text("utf-8")
    rubric = page[page.index("    +++\n") : page.index("\n\n- `dialect` is the form")]
    (root / "RUBRIC.md").write_text(re.sub(r"^    ", "", rubric, flags=re.MULTILINE))
    (root / "reply.txt").write_text('{"reasoning": "so", "legibility": 4, "logo_present": "yes"}')
    for name in ("paint.py", "model.py"):
        (root / name).write_text(PAINTER)
    (root / "make.py").write_text("import sys, shutil\nshutil.copy('in.png', sys.argv[sys.argv.index('--out') + 1])\n")
    (root / "judge.py").write_text(
        f"import json\n\ndef judge(prompt):\n    return json.dumps(dict.fromkeys({list(FIVE)}, 7))\n"
    )
    with (root / "scores.csv").open("w", newline="") as file:
        marks = csv.writer(file)
        marks.writerow(["case", "model", "rater", "score"])
        for n in range(12):
            for model in "AB":
                for rater in ("r1", "r2"):
                    marks.writerow([f"c{n}", model, rater, 1 + (n * 7 + ord(model) + len(rater)) % 5])
    (root / "runs").mkdir(exist_ok=True)
