"""Small copies of RISEBench, KRIS-Bench, MICo-Bench and EditReward-Bench, written as their releases have them: data,
result files, and scripts with the names of theirs and words of ours."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from refbench.benchmarks.editrewardbench.benchmark import DIMENSIONS, GROUP_OF
from refbench.benchmarks.krisbench.benchmark import CATEGORIES
from refbench.benchmarks.micobench.benchmark import TASKS
from support.public import picture, put, write_table

RISE_CASES: list[dict[str, Any]] = [
    {"index": "temporal_reasoning_1", "category": "temporal_reasoning", "subtask": "Life Progression",
     "reference": "a moth"},
    {"index": "temporal_reasoning_2", "category": "temporal_reasoning", "subtask": "Material Progression",
     "reference": "rust", "consistency_free": True},
    {"index": "causal_reasoning_1", "category": "causal_reasoning", "subtask": "State Transition",
     "reference": "a puddle", "reasoning_img": "yes"},
    {"index": "spatial_reasoning_1", "category": "spatial_reasoning", "subtask": "Component Assembly",
     "reference": "a chair"},
    {"index": "spatial_reasoning_3", "category": "spatial_reasoning", "subtask": "Viewpoint Generation",
     "reference": "from above", "reasoning_img": "yes"},
    {"index": "spatial_reasoning_2", "category": "spatial_reasoning", "subtask": "Layout Reasoning",
     "reference_img": "answers/s2.png"},
    {"index": "logical_reasoning_1", "category": "logical_reasoning", "subtask": "Puzzle Solving",
     "reference_txt": "seven"},
    {"index": "logical_reasoning_2", "category": "logical_reasoning", "subtask": "Pattern Prediction",
     "reference_img": "answers/l2.png"},
    {"index": "logical_reasoning_3", "category": "logical_reasoning", "subtask": "Pattern Prediction",
     "reference_img": "answers/l3.png", "reasoning_wo_ins": True},
]  # fmt: skip


def risebench(root: Path) -> Path:
    rows = []
    for number, row in enumerate(RISE_CASES):
        image = f"{row['category']}_images/{number}.png"
        put(root / "data" / image, picture(number))
        if "reference_img" in row:
            put(root / "data" / row["reference_img"], picture(50 + number))
        rows.append({**row, "instruction": f"Do {row['index']}", "image": image, "reasoning_img_op": None})
    put(root / "datav2_total_w_subtask.json", json.dumps(rows))
    return root


def krisbench(root: Path, each: int = 1) -> Path:
    """So many cases of every category; three frames of four, and two or three pictures to compose."""
    for number, (name, known) in enumerate(CATEGORIES.items()):
        folder, notes = root / "KRIS_Bench" / name, {}
        for at in range(1, each + 1):
            files: Any = f"{at}.jpg"
            if known["kind"] == "temporal":
                files = [f"{at}-{frame}.jpg" for frame in (1, 2, 4)]
            elif known["kind"] == "multi":
                files = [f"{at}-{n}.jpg" for n in range(1, 3 + at % 2)]
            for seed, file in enumerate([files] if isinstance(files, str) else files):
                put(folder / file, picture(100 * number + 10 * at + seed, kind="jpeg"))
            truth = put(folder / f"gt_{at}.jpg", picture(900 + number, kind="jpeg")).name
            explained = "" if name == "rule-based_reasoning" else f"Because of {name}"
            notes[str(at)] = {"ori_img": files, "gt_img": truth, "ins_en": f"Edit {name} {at}", "explain_en": explained}
        put(folder / "annotation.json", json.dumps(notes))
    return root


def micobench(root: Path) -> Path:
    """One case of each task, with people in all but one; the last has a refined prompt and another name of its number."""
    for number, task in enumerate(TASKS):
        name, count = f"mico_bench_{task}", 2 + number
        inputs = [f"{name}/{number}/{n}.png" for n in range(count)]
        for seed, file in enumerate([*inputs, f"{name}/{number}/reference.jpg"]):
            put(root / file, picture(20 * number + seed, kind="jpeg" if file.endswith("jpg") else "png"))
        row = {"input": inputs, "reference": f"{name}/{number}/reference.jpg", "prompt": f"Compose {task}"}
        row |= {"ed_idx": 2623, "refined_prompt": "Compose it well"} if task == "dere" else {"idx": number}
        row |= {"human_indices": [] if task == "object_centric" else [1]}
        put(root / f"{name}.jsonl", json.dumps(row) + "\n")
    return root


def editrewardbench(root: Path, ending: str = "arrow") -> Path:
    """A pair of every task in every dimension; those of a task are about the same two edits."""
    rows = [
        {
            "key": [f"{task}-a", f"{task}-b"],
            "instruction": f"Edit by {task}",
            "input_image": {"bytes": picture(number), "path": "in.png"},
            "output_images": [
                {"bytes": picture(100 + 2 * number + n, width=30 + n), "path": f"{n}.png"} for n in range(2)
            ],
            "task_type": task,
            "dimension": dimension,
        }
        for number, task in enumerate(GROUP_OF)
        for dimension in DIMENSIONS
    ]
    write_table(root / f"data-00000-of-00001.{ending}", rows)
    return root


WRITERS: dict[str, Callable[[Path], Path]] = {
    "risebench": risebench,
    "krisbench": krisbench,
    "micobench": micobench,
    "editrewardbench": editrewardbench,
}


def write_sheet(path: Path, rows: Sequence[Mapping[str, str | None]], *, shared: bool = True) -> Path:
    """A spreadsheet of texts, with a table of shared strings as pandas writes it, or with the texts in their cells."""
    titles = list(rows[0])
    strings: dict[str, int] = {}
    lines = []
    for number, row in enumerate([dict(zip(titles, titles, strict=True)), *rows], 1):
        cells = []
        for column, title in enumerate(titles):
            place, text = f"{chr(ord('A') + column)}{number}", row.get(title)
            if text is None:
                continue
            at = strings.setdefault(text, len(strings))
            inline = f'<c r="{place}" t="inlineStr"><is><t>{escape(text)}</t></is></c>'
            cells.append(f'<c r="{place}" t="s"><v>{at}</v></c>' if shared else inline)
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet {space}><sheetData>{''.join(lines)}</sheetData></worksheet>"
        )
        if shared:
            texts = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
            book.writestr("xl/sharedStrings.xml", f"<sst {space}>{texts}</sst>")
    return path


def written_outputs(root: Path, names: Sequence[str]) -> Path:
    for number, name in enumerate(names):
        put(root / f"{name}.png", picture(500 + number))
    return root
