"""Small copies of public benchmarks, written on the spot as their releases have them: data, result files, code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench.benchmarks import Benchmark
from refbench.benchmarks.gedit.benchmark import CASES as GEDIT
from refbench.benchmarks.imgedit.benchmark import CASES as IMGEDIT
from refbench.benchmarks.kit import case
from refbench.benchmarks.omnicontext.benchmark import TASKS as OMNICONTEXT
from refbench.case import AnyCase
from refbench.pictures import encode
from refbench.tables.table import Columns, tabulate

Numbers = dict[tuple[Any, ...], float | None]


def picture(seed: int, width: int = 24, height: int = 16, kind: str = "png") -> bytes:
    noise = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return encode(noise, kind)  # type: ignore[arg-type]


def put(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Parquet, or Arrow as datasets keeps it."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    table = pa.Table.from_pylist([dict(row) for row in rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with ipc.new_stream(str(path), table.schema) as file:
            file.write_table(table)


def _image(seed: int) -> dict[str, Any]:
    return {"bytes": picture(seed), "path": f"{seed}.png"}


def gedit(root: Path, ending: str = "parquet") -> Path:
    """One case of each task in each language; the English ones are in the intersection."""
    rows = [
        {
            "task_type": task,
            "key": f"k{number}",
            "instruction": f"Change {task} in {language}",
            "instruction_language": language,
            "input_image": _image(number),
            "Intersection_exist": language == "en",
        }
        for number, task in enumerate(GEDIT)
        for language in ("en", "cn")
    ]
    write_table(root / f"data/train-00000-of-00001.{ending}", rows)
    return root


def imgedit(root: Path) -> Path:
    rows = {}
    for number, kind in enumerate(IMGEDIT):
        for copy in range(2):
            name = f"daily object/{number}.jpg"
            rows[str(10 * number + copy)] = {"id": name, "prompt": f"Do {kind} {copy}", "edit_type": kind}
            put(root / f"Benchmark/singleturn/{name}", picture(number, kind="jpeg"))
    put(root / "Benchmark/singleturn/singleturn.json", json.dumps(rows))
    return root


def omnicontext(root: Path, ending: str = "arrow") -> Path:
    rows = [
        {
            "task_type": task,
            "key": f"{number:03}",
            "instruction": f"Show them as {task}",
            "instruction_language": language,
            "input_images": [_image(number), _image(100 + number)][: 1 if task.startswith("single") else 2],
        }
        for number, task in enumerate(OMNICONTEXT)
        for language in ("en", "cn")
    ]
    write_table(root / f"data-00000-of-00001.{ending}", rows)
    return root


SUBJECTS = {
    "live_subject/animal": "Spider-Man Dog",
    "live_subject/human": "man",
    "object": "t-shirt",
    "style": "ukiyo-e",
}


def dreambenchplus(root: Path) -> Path:
    for number, (folder, subject) in enumerate(SUBJECTS.items()):
        lines = [subject, *(f"a {subject} of prompt {prompt}" for prompt in range(9))]
        put(root / f"data/captions/{folder}/{number:02}.txt", "\n".join(lines) + "\n")
        put(root / f"data/images/{folder}/{number:02}.jpg", picture(number, kind="jpeg"))
    return root


WRITERS: dict[str, Callable[[Path], Path]] = {
    "gedit": gedit,
    "imgedit": imgedit,
    "omnicontext": omnicontext,
    "dreambenchplus": dreambenchplus,
}


def case_of(name: str, **groups: str) -> AnyCase:
    """A case that has nothing but its groups: enough to table marks that were printed."""
    return case(name, "do", {}, groups=groups)


def tabled(bench: Benchmark, protocol: str, cases: Sequence[AnyCase], values: Mapping[str, Sequence[float]]) -> Numbers:
    """The numbers that a protocol's aggregate makes of marks by measure, one for each case; NaN does not apply."""
    aggregate = bench.scoring.protocols[protocol].aggregate
    nothing = dict.fromkeys((part for measure in aggregate.measures for part in measure.parts), [np.nan] * len(cases))
    marks = {name: np.array([each]) for name, each in {**nothing, **values}.items()}
    found = tabulate(protocol, aggregate, Columns.of_values([("A", "J")], marks), cases, draws=0)
    return {(row.metric, *row.slice.items()): row.value for row in found}


Printed = dict[tuple[Any, ...], float]


def printed(bench: Benchmark, **chosen: str) -> dict[str, Printed]:
    """The published numbers by row (label and table) and then by measure and slice, of those that are `chosen`."""
    found: dict[str, Printed] = {}
    for value in bench.reporting.published():
        if all(getattr(value, name) == wanted for name, wanted in chosen.items()):
            place = (value.metric, *value.slice.items())
            found.setdefault(f"{value.label}, {value.judge}, {value.table}", {})[place] = value.value
    return found


# --- code and result files as the releases have them, in words of ours ------------------------------------------------

VIESCORE = {
    "_context_no_delimit": "Plim { as JSON }.",
    "_prompts_0shot_two_image_edit_rule": "Two plams.",
    "_prompts_0shot_tie_rule_SC": "Plum: <instruction>",
    "_prompts_0shot_rule_PQ": "One plam.",
}
CONTEXT = "_prompts_0shot_in_context_generation_rule"
OMNIGEN = {
    "_context_no_delimit": "Plim. ",
    f"{CONTEXT}_PF_Single_and_Multiple": "Follow <instruction>",
    f"{CONTEXT}_PF_Scene": "Follow into the scene <instruction>",
    f"{CONTEXT}_SC_Single_and_Multiple": "Same <instruction>",
    f"{CONTEXT}_SC_Scene": "Same scene <instruction>",
}


def _variables(texts: Mapping[str, str]) -> str:
    return "".join(f'{name} = """{text}"""\n' for name, text in texts.items())


def gedit_code(root: Path) -> Path:
    put(root / "GEdit-Bench/viescore/vie_prompts.py", _variables(VIESCORE))
    return root


def imgedit_code(root: Path) -> Path:
    put(root / "Benchmark/Basic/prompts.json", json.dumps({kind: f"Plim {kind}: <edit_prompt>" for kind in IMGEDIT}))
    return root


def omnicontext_code(root: Path) -> Path:
    body = "".join(f'        {name} = """{text}"""\n' for name, text in OMNIGEN.items())
    put(root / "omnicontext/prompt_generator.py", f"class Prompts:\n    def make(self, instruction):\n{body}")
    return root


def dreambenchplus_code(root: Path) -> Path:
    for family in ("subject", "style", "text"):
        for who in ("user", "gpt"):
            put(root / f"dreambench_plus/prompts/{who}_prompt_{family}_full.txt", f"{who} about {family}\n")
    return root


def imgedit_results(root: Path, replies: Mapping[str, Any]) -> Path:
    put(root / "painter/result.json", json.dumps(replies))
    return root


def omnicontext_results(root: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    for row in rows:
        path = root / f"painter/gpt4dot1/{row['task_type']}/score.jsonl"
        told = path.read_text() if path.exists() else ""
        put(path, told + json.dumps(row) + "\n")
    return root


def dreambenchplus_results(root: Path, method: str, name: str, marks: Sequence[tuple[str, int, str]]) -> Path:
    """Replies to one case: the task, the number of the pass, and what was said."""
    collection, _, prompt = name.rpartition("-")
    for task, turn, content in marks:
        folder = f"{task}_full{turn if turn > 1 else ''}/{method}"
        row = {"method": method, "collection_id": collection, "prompt_index": int(prompt), "content": content}
        put(root / folder / f"{method}-{name}.json", json.dumps({**row, "score": 9}))
    return root
