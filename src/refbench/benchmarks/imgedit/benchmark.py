"""ImgEdit-Bench, the suite Basic: 737 edits of 171 pictures in nine types, each judged in one call with three marks.

A case scores the mean of its marks, a type the mean over its cases, and the benchmark the mean over types, as the
leaderboard's caption has it; the mean over cases, which some ports print, stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from refbench.benchmarks import kit
from refbench.benchmarks.kit.aggregate import case_slice, group_slices
from refbench.benchmarks.kit.replies import no_reply, unread
from refbench.benchmarks.kit.scripts import released_file
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.tables.table import Slice
from refbench.text.files import json_file

CASES = {
    "extract": 117, "style": 100, "add": 95, "adjust": 94, "background": 94, "replace": 92, "remove": 86,
    "action": 36, "compose": 23,
}  # fmt: skip
"""The published column Hybrid is `compose`."""
MARKS = ("edit", "look", "detail")
PLACES = ("singleturn/singleturn.json", "singleturn.json", "Basic/basic_edit.json", "basic_edit.json")
"""Where the cases are: in the archive on the Hub, and in the repository of the code."""


def cases_file(root: Path) -> Path | None:
    places = (folder / place for folder in (root, root / "Benchmark") for place in PLACES)
    return next((path for path in places if path.is_file()), None)


def load(root: Path) -> Iterator[AnyCase]:
    path = cases_file(root)
    if path is None:
        raise RefBenchError(f"{root} has none of {', '.join(PLACES)}: unpack Benchmark.tar there")
    folder = path.parent.relative_to(root).as_posix()
    for key, row in json_file(path).items():
        picture, groups = f"{folder}/{row['id']}", {"type": row["edit_type"]}
        yield kit.case(key, row["prompt"], {"source": picture}, groups=groups, cluster=row["id"])


def mean(marks: Mapping[str, float]) -> float:
    return sum(marks[name] for name in MARKS) / len(MARKS)


FOLLOWS = {"capped": (kit.mean_capped(*MARKS), (1, 5)), "score": (mean, (1, 5))}


@kit.asks("marks", reads=kit.mark_lines(MARKS, 1, 5), follows=FOLLOWS, released=kit.Sent(mime="image/png"))
def marks(case: AnyCase, shown: kit.Material) -> kit.Parts:
    """The released words announce three pictures for `style` and one for `extract`; two are sent in both."""
    text = shown.text(case.groups["type"], edit=case.request.instruction)
    return [text, shown.inputs[0], shown.output]


def read_paper(case: AnyCase, part: str, reply: str) -> Mapping[str, float | Failure] | Failure:
    """The mean of all lines that end in `: ` and digits, be they one, three or twelve, in two decimals."""
    if failure := no_reply(reply):
        return failure
    ends = [line.strip().split(": ") for line in reply.splitlines()]
    found = [float(end[1]) for end in ends if len(end) == 2 and end[1].isdecimal() and len(end[1]) < 16]
    if not found:
        return unread("no line ends in a colon, a blank and digits")
    wrong = unread(f"{len(found)} lines with a number where three are asked for")
    each = dict(zip(MARKS, found, strict=True)) if len(found) == len(MARKS) else {}
    capped = kit.mean_capped(*MARKS)(each) if each else wrong
    return {**(each or dict.fromkeys(MARKS, wrong)), "capped": capped, "score": round(sum(found) / len(found), 2)}


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    return [*group_slices(cases, macro=("type",)), case_slice(cases)]


def official(checkout: Path) -> dict[str, str]:
    texts = json_file(released_file(checkout, "Benchmark/Basic/prompts.json"))
    return {name: texts[name].replace("<edit_prompt>", "{edit}") for name in CASES}


def given(dataset: kit.Dataset, folder: Path) -> Iterator[kit.Given]:
    """`result.json`: the reply to each key, or the error in its place."""
    for path in sorted(folder.rglob("result.json")):
        model = path.parent.name
        for key, said in json_file(path).items():
            reply = said if isinstance(said, str) else Failure(kind="api_error", detail=str(said)[:300])
            yield kit.Given(key, "marks", reply, path.name, model=model)


BENCHMARK = kit.benchmark(
    name="imgedit",
    title="ImgEdit-Bench",
    paper="arXiv 2505.20275",
    load=load,
    layout=f"neither {' nor '.join(PLACES)} is in it; Benchmark.tar of the Hub's dataset holds the first",
    judge=[marks],
    slices=slices,
    protocols={"paper": kit.Variant(read=read_paper)},
    abilities={"edit": "IA", "look": "VQ", "detail": "PR"},
    release=kit.Release(
        __package__,
        sources=(kit.Source("sysuyy/ImgEdit", code="PKU-YuanGroup/ImgEdit", only=("Benchmark.tar",)),),
        prompts=kit.Prompts(__package__, official, "Benchmark/Basic/prompts.json of the authors' code"),
        counts={"type": CASES},
        landmark="Basic/basic_edit.json",
        is_checkout=cases_file,
        given=given,
        published_on={None: 737},
    ),
)
