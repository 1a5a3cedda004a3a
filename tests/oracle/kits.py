"""What a generated run is made of, benchmark by benchmark: cases in the official layout, replies good and bad, metrics.

Replies come in shapes that the plain readers of the oracle know: what a judge may write beyond them is fuzzed where
readers are tested.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from oracle import creval, icebench, ideabench, marks, multibanana, multiref
from oracle.core import Book
from refbench import load
from refbench.benchmarks.own.benchmark import own_benchmark
from refbench.benchmarks.own.cases import load_cases
from refbench.case import AnyCase, Case, Picture, Request
from refbench.judges.rubric import rubric_source
from support import checkout
from support import icebench as ice
from support import ideabench as ideas
from support import multiref as blends
from support.multibanana import every_task as multibanana_sets
from support.multibanana import write_dataset as write_multibanana

Random = random.Random
SORRY = "I'm sorry, but I cannot look at this picture."
PROSE = "The picture is nice; I would say it is all right."


@dataclass(frozen=True)
class Kit:
    """How to make a run of one benchmark."""

    name: str
    pool: Callable[[], Sequence[AnyCase]]
    books: Mapping[str, Book]
    asked: Callable[[AnyCase], list[tuple[str, str]]]
    """Parts that a judge is asked for, each with the protocol that asks so (empty for all)."""
    reply: Callable[[Random, AnyCase, str], str]
    better: Callable[[AnyCase, str, str], str | None]
    """A reply with one mark moved in its good direction; None where there is no room."""
    odd: Callable[[Random, AnyCase, str], str]
    """A reply with something amiss that is still a reply: a mark missing, out of range, said twice."""
    measured: Callable[[AnyCase], list[tuple[str, float, float]]] = lambda case: []
    settings: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    measures: bool = False
    """Whether there is something to measure: then a run may have no judge."""


@cache
def scratch() -> Path:
    return Path(mkdtemp(prefix="refbench-oracle-"))


# --- CREval --------------------------------------------------------------------------------------------------


@cache
def creval_pool() -> Sequence[AnyCase]:
    rng = Random(7)
    items = []
    for number in range(18):
        item = checkout.Item(f"item_{number:03d}.{number % 7}", class_id=(1, 1, 2, 4, 4, 7, 8, 3, 9)[number % 9])
        for metric in checkout.METRICS:
            questions = [
                (
                    f"Q{n}",
                    f"Is part {n} of {item.stem} as asked? ({metric})",
                    rng.choice(["Yes", "Yes", "Yes", "No"]),
                    w,
                )
                for n in range(1, rng.randint(2, 4))
                for w in [rng.randint(1, 3) if metric == "VC" else 1]
            ]
            if metric == "VC" and number % 4 == 1:
                questions[0] = (*questions[0][:2], "** Yes", 1)
            if metric == "VC" and number % 5 == 2:
                questions.append(("Q9", "", "", 1))
            if metric == "VC" and number % 6 == 3:
                questions.append(questions[0])
            if metric == "IF" and number % 7 == 4:
                questions[-1] = (*questions[-1][:2], "No (unless asked)", 1)
            item.questions[metric] = questions
        items.append(item)
    return load("creval", checkout.write_checkout(scratch() / "creval", items)).cases


def creval_reply(rng: Random, case: AnyCase, part: str) -> str:
    ids = dict.fromkeys(question.id for question in case.details.questions[part])
    return checkout.reply_text([(name, rng.choice(["Yes", "Yes", "No"])) for name in ids])


def creval_odd(rng: Random, case: AnyCase, part: str) -> str:
    ids = list(dict.fromkeys(question.id for question in case.details.questions[part]))
    answers = [(name, rng.choice(["Yes", "No"])) for name in ids]
    what = rng.randrange(4)
    if what == 0:  # contradicting
        answers.append((ids[0], "No" if answers[0][1] == "Yes" else "Yes"))
    elif what == 1:
        answers[0] = (ids[0], "Not applicable")
    elif what == 2:
        return checkout.reply_text(answers, keys=("Question", "Explanation", "Answer"))
    else:
        answers = answers[1:]
    return checkout.reply_text(answers)


def creval_better(case: AnyCase, part: str, reply: str) -> str | None:
    """One answer that is not the reference's becomes it."""
    for question in case.details.questions[part]:
        wanted = creval.yes_or_no(question.reference)
        for entry in creval.objects(reply):
            named = str(entry.get("Question", "")).startswith(f"{question.id}:")
            said = creval.yes_or_no(str(entry.get("answer", "")))
            if named and said and wanted and said != wanted and reply.count(f'"{question.id}:') == 1:
                before = json.dumps(entry, indent=4)
                return reply.replace(before, json.dumps({**entry, "answer": wanted.capitalize()}, indent=4))
    return None


# --- MultiBanana ---------------------------------------------------------------------------------------------


@cache
def multibanana_pool() -> Sequence[AnyCase]:
    tasks = ("single", "add", "pose", "3_object", "4_object", "3_back", "5_local")
    sets = [s for s in multibanana_sets(3) if s.task_dir in tasks]
    return load("multibanana", write_multibanana(scratch() / "multibanana", sets)).cases


def five(marks_: Sequence[Any], reasoning: str = "Looked at it.") -> str:
    lines = [f"{label}: {mark}." for label, mark in zip(multibanana.LABELS.values(), marks_, strict=True) if mark != ""]
    return "\n".join([f"Reasoning: {reasoning}", "", *lines])


def multibanana_odd(rng: Random, case: AnyCase, part: str) -> str:
    given: list[Any] = [rng.randint(1, 10) for _ in range(5)]
    place = rng.randrange(5)
    what = rng.randrange(4)
    if what == 0:
        given[place] = ""
    elif what == 1:
        given[place] = rng.choice([0, 12, 100])
    elif what == 2:
        given[place] = 7.5
    else:
        label = list(multibanana.LABELS.values())[place]
        return five(given, f"as to the rest,\n{label}: 2 of 3 subjects are there.")
    return five(given)


def multibanana_better(case: AnyCase, part: str, reply: str) -> str | None:
    head, _, block = reply.rpartition("\n\n")
    for mark in range(1, 10):
        if head and f": {mark}.\n" in block:
            return head + "\n\n" + block.replace(f": {mark}.\n", f": {mark + 1}.\n", 1)
    return None


# --- IDEA-Bench ----------------------------------------------------------------------------------------------


@cache
def ideabench_pool() -> Sequence[AnyCase]:
    designs = [
        *ideas.designs(3),
        ideas.Design("ticket_generation", "0099", "T2I"),
        ideas.Design("ticket_generation", "0099", "T2I", number=2),
        ideas.Design("painting_generation", "0027", "T2I", auto=False),
    ]
    return load("ideabench", ideas.write_checkout(scratch() / "ideabench", designs)).cases


def verdict(score: Any) -> str:
    return json.dumps({"score": score, "reason": "Seen."})


def ideabench_asked(case: AnyCase) -> list[tuple[str, str]]:
    return [(part, protocol) for protocol in ("corrected", "paper") for part in ideabench.PARTS if case.details.judged]


# --- ICE-Bench -----------------------------------------------------------------------------------------------


@cache
def icebench_pool() -> Sequence[AnyCase]:
    return load("icebench", ice.write_dataset(scratch() / "icebench", ice.every_task(2))).cases


def icebench_measured(case: AnyCase) -> list[tuple[str, float, float]]:
    number = icebench.NAMES.index(case.groups["task"]) + 1
    ends = {"aes": (1.0, 10.0), "img": (0.0, 100.0)}
    here = sorted(icebench.metrics_of(number) - {"qa"} - (set() if case.details.wanted_text else {"text@ppocr"}))
    return [(metric, *ends.get(metric, (-1.0 if "ref" in metric or "clip" in metric else 0.0, 1.0))) for metric in here]


# --- MultiRef ------------------------------------------------------------------------------------------------


@cache
def multiref_pool() -> Sequence[AnyCase]:
    requests = [*blends.requests(8), blends.Request(900, category="something else")]
    return load("multiref", blends.write_checkout(scratch() / "multiref", blends.blends(2), requests)).cases


def axes(marks_: Sequence[Any]) -> dict[str, Any]:
    return {label: mark for label, mark in zip(multiref.AXES.values(), marks_, strict=True) if mark is not None}


def multiref_odd(rng: Random, case: AnyCase, part: str) -> str:
    given: list[Any] = [rng.randint(1, 5) for _ in range(3)]
    place, what = rng.randrange(3), rng.randrange(3)
    if what == 0:
        given[place] = None
    elif what == 1:
        given[place] = rng.choice([0, 6, 3.5])
    else:
        other = list(given)
        other[place] = 1 + given[place] % 5
        return json.dumps(axes(given)) + "\n" + json.dumps(axes(other))
    return json.dumps(axes(given))


def multiref_measured(case: AnyCase) -> list[tuple[str, float, float]]:
    plain = case.model_dump(mode="json")
    gone = multiref.away(plain)
    ends = {"caption": (0.0, 100.0), "aesthetics": (1.0, 10.0)}
    return [
        (part, *ends.get(part, (-1.0 if multiref.TYPE_OF.get(part) in ("subject", "style") else 0.0, 1.0)))
        for part in multiref.MEASURED
        if part not in gone
    ]


# --- own cases, and a benchmark in one file ------------------------------------------------------------------


FIVE = dict.fromkeys(multibanana.CRITERIA, (1.0, 10.0))
PAIR = {
    "semantic_consistency": {"instruction_success": (0.0, 10.0), "preservation": (0.0, 10.0)},
    "perceptual_quality": {"naturalness": (0.0, 10.0), "no_artifacts": (0.0, 10.0)},
}


@cache
def own_pool() -> Sequence[AnyCase]:
    folder = scratch() / "own"
    folder.mkdir()
    rows = [
        {
            "id": f"own {n}",
            "instruction": f"Combine number {n}",
            "references": ["r.png"],
            "cluster": f"family {n // 3}",
            "groups": {"task": ("add", "swap")[n % 2], "place": ("in", "out", "far")[n % 3]},
            "tags": [["hard"], ["hard", "pets"], []][n % 3],
        }
        for n in range(12)
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return load_cases(folder / "cases.jsonl").cases


def higher(ends: Mapping[str, tuple[float, float]]) -> Callable[[AnyCase, str, str], str | None]:
    """One mark of a JSON object raised by one."""

    def better(case: AnyCase, part: str, reply: str) -> str | None:
        if not reply.startswith("{") or "\n" in reply:
            return None
        given = json.loads(reply)
        for name, mark in given.items():
            low, high = ends[name]
            if low <= mark <= high - 1:
                return json.dumps({**given, name: mark + 1})
        return None

    return better


def marks_reply(parts: Mapping[str, Mapping[str, tuple[float, float]]]) -> Any:
    def reply(rng: Random, case: AnyCase, part: str) -> str:
        return json.dumps({name: rng.randint(int(low), int(high)) for name, (low, high) in parts[part].items()})

    def odd(rng: Random, case: AnyCase, part: str) -> str:
        given = json.loads(reply(rng, case, part))
        name = rng.choice(list(given))
        low, high = parts[part][name]
        what = rng.randrange(3)
        if what == 0:
            del given[name]
        elif what == 1:
            given[name] = rng.choice([low - 1, high + 1])
        else:
            other = dict(given)
            other[name] = low if given[name] != low else high
            return json.dumps(given) + "\n" + json.dumps(other)
        return json.dumps(given) if given else PROSE

    return reply, odd


ONE_FILE = '''
"""A benchmark of one file, with a metric of which less is better."""

from refbench.benchmarks.kit import Call, Total, benchmark
from refbench.judges import Contract, Criterion, Scale

PARTS = {parts!r}
CONTRACTS = {{
    part: Contract("json_object", tuple(Criterion(name, Scale(*ends)) for name, ends in of_part.items()))
    for part, of_part in PARTS.items()
}}


def nothing(*args):
    raise AssertionError("a run that is there is not loaded, asked or measured again")


BENCHMARK = benchmark(
    name="onefile",
    load=nothing,
    judge=[
        Call(part, of_part, nothing, lambda case, reply, part=part: CONTRACTS[part].read(reply))
        for part, of_part in PARTS.items()
    ],
    measure=nothing,
    measured={measured!r},
    lower={{"error"}},
    not_applicable=lambda case: {{"gamma": "flat"}} if "flat" in case.tags else {{}},
    total=Total(rule={rule!r}, over={over!r}, weights={weights!r}, range={ends!r}),
)
'''

ONE_FILE_PARTS = {"first": {"alpha": (0.0, 10.0), "beta": (0.0, 10.0)}, "second": {"gamma": (1.0, 5.0)}}
ONE_FILE_MEASURED = {"error": (0.0, 1.0), "match": (-1.0, 1.0)}


@cache
def onefile_pool() -> Sequence[AnyCase]:
    return [
        Case[dict[str, Any]](
            id=f"case/{n:02d}",
            request=Request(instruction=f"Draw {n}", pictures=(Picture(name="r.png", role="reference"),)),
            groups={"task": ("add", "swap")[n % 2]},
            tags=(("flat",), (), ("odd",))[n % 3],
            cluster=f"c{n // 2}",
            stratum=f"s{n % 2}",
            details={},
        )
        for n in range(10)
    ]


def own_kit(rubric: str) -> Kit:
    text, _ = rubric_source(rubric)
    if rubric == "five_criteria":
        parts: Mapping[str, Any] = {"verdict": FIVE}
        weights = dict(zip(multibanana.CRITERIA, (3.0, 3.0, 1.0, 1.0, 1.0), strict=True))
        books = marks.book(parts, {}, "weighted_mean", weights, (1.0, 10.0))
    else:
        parts = PAIR
        over = dict.fromkeys(PAIR, 1.0)
        books = marks.book(parts, {}, "geometric_mean", over, (0.0, 10.0), minimum=True)
    reply, odd = marks_reply(parts)
    bench = own_benchmark(text, rubric)
    assert bench.asking.judging is not None
    return Kit(
        name="own",
        pool=own_pool,
        books=books,
        asked=lambda case: [(part, "") for part in parts],
        reply=reply,
        better=higher({name: ends_ for of_part in parts.values() for name, ends_ in of_part.items()}),
        odd=odd,
        settings=dict(bench.asking.judging(scratch(), {}).recorded),
        keep={"rubric.md": text},
    )


def onefile_kit(rule: str) -> Kit:
    alike = rule == "geometric_mean"
    over = ("alpha", "beta") if alike else ("alpha", "beta", "gamma")
    weights = {} if rule == "minimum" else {**dict.fromkeys(over, 1.0), "alpha": 2.0}
    ends = (0.0, 10.0)
    text = ONE_FILE.format(
        parts=ONE_FILE_PARTS,
        measured=ONE_FILE_MEASURED,
        rule=rule,
        over=over,
        weights=weights,
        ends=ends,
    )
    reply, odd = marks_reply(ONE_FILE_PARTS)
    books = marks.book(
        ONE_FILE_PARTS,
        ONE_FILE_MEASURED,
        rule,
        {m: weights.get(m, 1.0) for m in over},
        ends,
        lower=frozenset({"error"}),
        away=lambda case: {"gamma"} if "flat" in case["tags"] else set(),
    )
    return Kit(
        name="onefile",
        pool=onefile_pool,
        books=books,
        asked=lambda case: [("first", ""), *([("second", "")] if "flat" not in case.tags else [])],
        reply=reply,
        better=higher({name: ends_ for of_part in ONE_FILE_PARTS.values() for name, ends_ in of_part.items()}),
        odd=odd,
        measured=lambda case: [(name, *ends_) for name, ends_ in ONE_FILE_MEASURED.items()],
        keep={"benchmark.py": text},
        measures=True,
    )


@cache
def kits() -> dict[str, Kit]:
    return {
        "creval": Kit(
            "creval",
            creval_pool,
            creval.BOOKS,
            lambda case: [(metric, "") for metric in creval.METRICS],
            creval_reply,
            creval_better,
            creval_odd,
        ),
        "multibanana": Kit(
            "multibanana",
            multibanana_pool,
            multibanana.BOOKS,
            lambda case: [("all", "")],
            lambda rng, case, part: five([rng.randint(1, 10) for _ in range(5)]),
            multibanana_better,
            multibanana_odd,
        ),
        "ideabench": Kit(
            "ideabench",
            ideabench_pool,
            ideabench.BOOKS,
            ideabench_asked,
            lambda rng, case, part: verdict(rng.choice([1, 1, 1, 0])),
            lambda case, part, reply: verdict(1) if reply == verdict(0) else None,
            lambda rng, case, part: (
                verdict(rng.choice([2, 5, 9])) if rng.random() < 0.7 else f"{verdict(0)}\n{verdict(1)}"
            ),
        ),
        "icebench": Kit(
            "icebench",
            icebench_pool,
            icebench.BOOKS,
            lambda case: (
                [("qa", "")] if "qa" in icebench.metrics_of(icebench.NAMES.index(case.groups["task"]) + 1) else []
            ),
            lambda rng, case, part: rng.choice(["1", "0", "1\n"]),
            lambda case, part, reply: "1" if reply == "0" else None,
            lambda rng, case, part: rng.choice(["yes", "no", "10", "maybe"]),
            icebench_measured,
            measures=True,
        ),
        "multiref": Kit(
            "multiref",
            multiref_pool,
            multiref.BOOKS,
            lambda case: [("overall", "")],
            lambda rng, case, part: json.dumps(axes([rng.randint(1, 5) for _ in range(3)])),
            higher(dict.fromkeys(multiref.AXES.values(), (1.0, 5.0))),
            multiref_odd,
            multiref_measured,
            settings={"prompt": "structured", "reference_axis": "no"},
            measures=True,
        ),
        "own five_criteria": own_kit("five_criteria"),
        "own viescore_pair": own_kit("viescore_pair"),
        "onefile weighted_mean": onefile_kit("weighted_mean"),
        "onefile geometric_mean": onefile_kit("geometric_mean"),
        "onefile minimum": onefile_kit("minimum"),
    }
