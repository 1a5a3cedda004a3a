"""A run of one's own cases with an audit of two judges whose faults are known: one marks the words and never looks; the
other sees every damage, believes what is written on pictures, knows the first reference only, and dislikes mirrors."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from refbench.analysis.audit.marks import Variant, perturbations
from refbench.builders.audit.make import MakeOptions, make_variants
from refbench.builders.audit.run import AuditRequest, audit
from refbench.builders.audit.variants import Variants
from refbench.chat.python import Prompt
from refbench.engine import evaluate
from refbench.failure import Failure
from refbench.pictures import encode
from refbench.runs import Run
from support.five_criteria import FIVE

N_CASES = 44
"""Twice as many as a number takes, and some: half of them have the first reference swapped, half the second."""
LONG = "a-very-long-name-of-a-judge/that-no-column-was-made-for/checkpoint-000123"
ARABIC = "قاضي الصور"
_ABILITIES = dict(zip(FIVE, ("IA", "RC", "BM", "PR", "VQ"), strict=True))
Judge = Callable[[Prompt, int], str | Failure]


def judged_run(root: Path, n_cases: int) -> Path:
    """Cases with two references and one output each, judged once by somebody; `marks.csv` says that all are good."""
    rng = np.random.default_rng(5)
    lines, marks = [], ["case,model,score"]
    for n in range(n_cases):
        name = f"{n:02d} حالة" if n == 1 else f"{n:02d}-{'long-' * 20}case" if n == 2 else f"{n:02d} case"
        for file in (f"{n}_a.png", f"{n}_b.png", f"A/{name}.png"):
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(rng.integers(0, 255, (64, 256, 3), dtype=np.uint8)))
        references = [{"path": f"{n}_{which}.png", "role": "subject"} for which in "ab"]
        said = f"Put the thing of image 1 beside the one in the second image, number {n} <b>at once</b>."
        lines.append(json.dumps({"id": name, "instruction": said, "references": references}))
        marks.append(f"{name},A,9")
    (root / "cases.jsonl").write_text("\n".join(lines))
    (root / "marks.csv").write_text("\n".join(marks))
    evaluate(
        str(root / "cases.jsonl"),
        models=[f"A=folder:{root / 'A'}"],
        judges={"other": lambda prompt: json.dumps(dict.fromkeys(FIVE, 7))},
        out=root / "run",
        rubric="five_criteria",
    )
    return root / "run"


def planted_audit(
    root: Path, judges: tuple[str, ...] = (LONG, ARABIC), *, n_cases: int = N_CASES, shard: str = ""
) -> Path:
    """An audit of the core preset without networks, by judges that are known by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_WEIGHTS", str(root / "no-weights"))
        run = judged_run(root, n_cases)
        make = MakeOptions("core", n_cases, people=root / "marks.csv")
        variants = make_variants(Run.open(run), root / "variants", make)
        known = {LONG: reads_words, ARABIC: believes(variants, root), "refuses": refuses}
        options = {"shard": shard} if shard else {}
        asked = {name: known[name] for name in judges}
        request = AuditRequest(run, root / "audit", asked, make, root / "variants", options=options)
        with ThreadPoolExecutor(1) as beside:  # a browser of the test has a loop of its own in this thread
            beside.submit(lambda: asyncio.run(audit(request))).result()
    return root / "audit"


def reads_words(prompt: Prompt, repeat: int) -> str | Failure:
    """The same marks for the same instruction, whatever the pictures are."""
    number = re.search(r"number (\d+) <b>", prompt.text)
    assert number is not None
    luck = hashlib.sha256(number[1].encode()).digest()
    return json.dumps({name: 4 + luck[n] % 6 for n, name in enumerate(FIVE)})


def refuses(prompt: Prompt, repeat: int) -> str | Failure:
    return Failure(kind="refused", detail="no")


def believes(variants: Variants, root: Path) -> Judge:
    """A judge that knows every variant by its pictures, and has the faults that are said above."""
    places = {_key(shas): place for place, shas in _shown(variants, root)}

    def judge(prompt: Prompt, repeat: int) -> str | Failure:
        shas = [hashlib.sha256(path.read_bytes()).hexdigest() for path in prompt.pictures]
        case, name = places[_key(shas)]
        variant = Variant.of(name)
        about = perturbations().get(variant.number)
        if variant.number == 1 and case.startswith("03"):
            return Failure(kind="refused", detail="I do not look at this.")
        luck = hashlib.sha256(f"{case}{name}{repeat}".encode()).digest()
        marks = {one: 9 - luck[n] % 2 for n, one in enumerate(FIVE)}
        for one, ability in _ABILITIES.items():
            falls = about is not None and ability in about.falls and not (variant.number == 3 and variant.at != "1")
            marks[one] -= 2 + int(variant.strength) if falls else 2 * (variant.number == 22)
            if about is not None and about.kind == "attack":  # made on the output of another case
                marks[one] -= 3 * (ability in perturbations()[1].falls) - 3 * (variant.number in (27, 28))
        marks = {one: min(10, max(1, mark)) for one, mark in marks.items()}
        return "I looked closely <i>at all of it</i>.\n" + json.dumps(marks)

    return judge


def _key(shas: list[str]) -> tuple[str, ...]:
    return tuple(sorted(shas))


def _shown(variants: Variants, root: Path) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Every variant with the hashes of the pictures that the judge is shown; of those that are alike the first."""
    seen: set[tuple[str, ...]] = set()
    for (case, name), row in variants.rows.items():
        if row.state != "made":
            continue
        own = [root / f"{int(case[:2])}_{which}.png" for which in "ab"]
        inputs = [
            row.inputs[n].partition(".")[0] if n in row.inputs else hashlib.sha256(path.read_bytes()).hexdigest()
            for n, path in enumerate(own)
        ]
        shas = [*inputs, *(picture.partition(".")[0] for picture in row.outputs)]
        if _key(shas) not in seen:
            seen.add(_key(shas))
            yield (case, name), shas
