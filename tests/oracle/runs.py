"""Whole runs, written through the real writers: models x seeds x repeats x judges, with every kind of luck.

What has a structure worth shrinking (how many of everything, what kind of run) is drawn by Hypothesis; marks and faults
follow from one number, so that a failing run shrinks to a small one quickly.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from oracle.kits import PROSE, SORRY, Kit, Random, kits
from refbench.benchmarks import trust
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.output import Output, StoredPicture
from refbench.pictures import encode, facts_of
from refbench.runs import Run, Shard, merge

MODELS = ("bear", "ant", "truth", "cat & co_1")
JUDGES = ("strict", "mild", "mean one")
OUTPUT_FAILURES = ("refused", "missing_output", "unreadable_picture", "unsupported", "api_error", "timeout", "budget")
CALL_FAILURES = ("api_error", "timeout", "refused", "budget")
METRIC_FAILURES = ("no_detection", "undefined", "worker_died")


@dataclass(frozen=True)
class Plan:
    """What a run is to be like."""

    benchmark: str
    luck: int = 0
    n_cases: int = 1
    models: int = 1
    seeds: int = 1
    judges: int = 1
    repeats: int = 1
    trouble: int = 0
    """Of ten outputs and replies, about how many go wrong."""
    killed: int = 100
    """Per cent of the records that were written before the run was killed."""
    shards: int = 1
    merged: bool = False
    limit: int | None = None
    retried: bool = False
    """Whether some of what failed was tried again, and went well."""
    imported: bool = False
    """Whether the replies were read from files: then one that is not there will not come."""
    unmeasured: int = 0
    """How many metrics cannot run, because their networks are not here."""

    @property
    def judge_names(self) -> tuple[str, ...]:
        """A benchmark that measures can do without a judge."""
        return JUDGES[: self.judges if kits()[self.benchmark].measures else max(self.judges, 1)]

    def left_out(self) -> frozenset[str]:
        parts = sorted({part for case in chosen_cases(self) for part, *_ in kits()[self.benchmark].measured(case)})
        return frozenset(random.Random(self.luck + 2).sample(parts, min(self.unmeasured, len(parts))))


plans = st.builds(
    Plan,
    benchmark=st.sampled_from(sorted(kits())),
    luck=st.integers(0, 2**32),
    n_cases=st.integers(1, 7),
    models=st.integers(1, 3),
    seeds=st.integers(1, 3),
    judges=st.integers(0, 2),
    repeats=st.integers(1, 2),
    trouble=st.integers(0, 6),
    killed=st.one_of(st.just(100), st.just(100), st.integers(10, 100)),
    shards=st.integers(1, 2),
    merged=st.booleans(),
    limit=st.one_of(st.none(), st.none(), st.integers(1, 6)),
    retried=st.booleans(),
    imported=st.sampled_from([False, False, False, True]),
    unmeasured=st.sampled_from([0, 0, 1, 3]),
)

Record = Output | tuple[Evidence, Purpose]


@dataclass(frozen=True)
class Made:
    """A run, and what it was made from."""

    plan: Plan
    kit: Kit
    run: Run
    records: tuple[Record, ...]


@cache
def pictures() -> tuple[tuple[bytes, StoredPicture], ...]:
    rng = np.random.default_rng(3)
    drawn = [encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)) for _ in range(6)]
    found = []
    for data in drawn:
        facts = facts_of(data)
        assert not isinstance(facts, Failure)
        found.append((data, StoredPicture.of(facts)))
    return tuple(found)


def chosen_cases(plan: Plan) -> list[AnyCase]:
    """Cases of the pool in its order."""
    kit = kits()[plan.benchmark]
    rng = random.Random(plan.luck)
    pool = list(kit.pool())
    places = sorted(rng.sample(range(len(pool)), min(plan.n_cases, len(pool))))
    return [pool[place] for place in places]


def records_of(plan: Plan) -> list[Record]:
    """Everything that the run records, in the order in which it would: all models on a case before the next."""
    kit = kits()[plan.benchmark]
    rng = random.Random(plan.luck + 1)
    found: list[Record] = []
    left_out = plan.left_out()
    for case in chosen_cases(plan):
        for model in MODELS[: plan.models]:
            for seed in range(plan.seeds):
                output = _output(rng, plan, case.id, model, seed)
                found.append(output)
                if output.failure is None:
                    found += _measurements(rng, plan, kit, case, output, left_out)
                    for judge in plan.judge_names:
                        for repeat in range(plan.repeats):
                            found += _judgements(rng, plan, kit, case, output, judge, repeat)
    if plan.retried:
        found += _second_tries(rng, kit, found)
    return found[: max(1, len(found) * plan.killed // 100)]


def _goes_wrong(rng: Random, plan: Plan) -> bool:
    return rng.randrange(10) < plan.trouble


def _output(rng: Random, plan: Plan, case: str, model: str, seed: int) -> Output:
    if _goes_wrong(rng, plan) and rng.random() < 0.5:
        return Output(case=case, model=model, seed=seed, failure=Failure(kind=rng.choice(OUTPUT_FAILURES)))
    several = 2 if _goes_wrong(rng, plan) and rng.random() < 0.2 else 1
    shown = tuple(rng.choice(pictures())[1] for _ in range(several))
    return Output(case=case, model=model, seed=seed, pictures=shown)


def _measurements(
    rng: Random, plan: Plan, kit: Kit, case: AnyCase, output: Output, left_out: frozenset[str]
) -> list[Record]:
    found: list[Record] = []
    for part, low, high in kit.measured(case):
        if part in left_out:
            continue
        purpose = Purpose(case=case.id, model=output.model, judge="", part=part, seed=output.seed)
        request = {
            "metric": part,
            "version": 1,
            "networks": {},
            "of": [output.case, output.model, output.seed, output.pictures[0].sha256],
        }
        if _goes_wrong(rng, plan) and rng.random() < 0.3:
            continue  # not measured yet
        said: dict[str, Any] = {"reply": json.dumps({"value": round(rng.uniform(low, high), 3)})}
        if _goes_wrong(rng, plan) and rng.random() < 0.5:
            said = {"failure": Failure(kind=rng.choice(METRIC_FAILURES))}
        found.append((Evidence(kind="measure", request=request, **said), purpose))
        if rng.random() < 0.02:
            newer = Evidence(kind="measure", request={**request, "version": 2}, reply=json.dumps({"value": high}))
            found.insert(rng.randint(0, len(found)), (newer, purpose))
    return found


def _judgements(
    rng: Random, plan: Plan, kit: Kit, case: AnyCase, output: Output, judge: str, repeat: int
) -> list[Record]:
    found: list[Record] = []
    for part, protocol in kit.asked(case):
        names: dict[str, Any] = {"case": case.id, "model": output.model, "judge": judge, "seed": output.seed}
        names |= {"repeat": repeat, "protocol": protocol}
        request = {
            "endpoint": "openai http://127.0.0.1",
            "model": f"{judge}-1",
            "parameters": {},
            "repeat": repeat,
            "parts": [{"type": "text", "text": f"{case.id} {output.model} {output.seed} {part} {protocol}"}],
            **({"imported": f"{judge}.txt"} if plan.imported else {}),
        }
        if _goes_wrong(rng, plan) and rng.random() < 0.15:
            continue  # not asked yet
        wrong = _goes_wrong(rng, plan)
        said = _said(rng, kit, case, part) if wrong else {"reply": kit.reply(rng, case, part)}
        found.append((Evidence(kind="chat", request=request, **said), Purpose(part=part, **names)))
        unread = wrong and said.get("reply") in (PROSE, "")
        if unread and rng.random() < 0.5:
            again = {**request, "again": True}
            mended = {"reply": kit.reply(rng, case, part)} if rng.random() < 0.6 else {"reply": PROSE}
            found.append((Evidence(kind="chat", request=again, **mended), Purpose(part=f"{part}+repair", **names)))
        if "failure" in said and rng.random() < 0.2:  # the judge moved to another address
            moved = {**request, "endpoint": "openai http://127.0.0.2"}
            reply = kit.reply(rng, case, part)
            found.append((Evidence(kind="chat", request=moved, reply=reply), Purpose(part=part, **names)))
    return found


def _said(rng: Random, kit: Kit, case: AnyCase, part: str) -> dict[str, Any]:
    """What goes wrong with a reply: it is odd, a refusal, prose, empty, or none came."""
    what = rng.randrange(7)
    if what < 3:
        return {"reply": kit.odd(rng, case, part)}
    if what < 6:
        return {"reply": (SORRY, PROSE, "")[what - 3]}
    return {"failure": Failure(kind=rng.choice(CALL_FAILURES))}


def _second_tries(rng: Random, kit: Kit, records: Sequence[Record]) -> list[Record]:
    """`--retry`: the same acts again, which go well this time; and outputs that are there after all."""
    cases = {case.id: case for case in kit.pool()}
    found: list[Record] = []
    for record in records:
        if isinstance(record, Output) or record[0].failure is None or record[0].kind != "chat" or rng.random() < 0.5:
            continue
        act, purpose = record
        case = cases[purpose.case]
        reply = kit.reply(rng, case, purpose.part.partition("+")[0])
        found.append((act.model_copy(update={"failure": None, "reply": reply}), purpose))
    lost = [r for r in records if isinstance(r, Output) and r.failure is not None and rng.random() < 0.3]
    return found + [r.model_copy(update={"failure": None, "pictures": (pictures()[0][1],)}) for r in lost]


def write(
    folder: Path,
    plan: Plan,
    cases: Sequence[AnyCase],
    records: Sequence[Record],
    *,
    shards: int = 1,
    settings: Mapping[str, str] | None = None,
    keep: Mapping[str, str] | None = None,
    judges: Sequence[str] | None = None,
) -> Run:
    """A run directory with these records, in one ledger or in shards."""
    kit = kits()[plan.benchmark]
    files = dict(keep or kit.keep)
    run = Run.create(folder, kit.name, cases, settings={**kit.settings, **(settings or {})}, keep=files)
    if "benchmark.py" in files:
        trust.remember(files["benchmark.py"].encode())  # as one who has run it
    place = {case.id: number for number, case in enumerate(cases)}
    for data, _ in pictures():
        run.blobs.put(data, "png")
    for index in range(shards):
        shard = Shard(index=index + 1, count=shards) if shards > 1 else None
        with run.writer(shard) as writer:
            writer.want(plan.limit)
            for judge in judges or plan.judge_names:
                writer.note(f"family of {judge}", "")
            for part in plan.left_out():
                writer.note(f"not measured {part}", "its network is not here")
            for record in records:
                case = record.case if isinstance(record, Output) else record[1].case
                if place[case] % shards == index:
                    if isinstance(record, Output):
                        writer.add_output(record)
                    else:
                        writer.add(*record)
    return run


def make(plan: Plan, folder: Path) -> Made:
    """The run of a plan: in one go, in shards, or merged from two runs that each had some of the models."""
    cases, records = chosen_cases(plan), records_of(plan)
    if not plan.merged:
        run = write(folder / "run", plan, cases, records, shards=plan.shards)
    else:
        half = _halves(records)
        parts = [write(folder / name, plan, cases, some) for name, some in zip(("a", "b"), half, strict=True) if some]
        merge([part.path for part in parts], folder / "run")
        run = Run.open(folder / "run")
    return Made(plan, kits()[plan.benchmark], run, tuple(records))


def _halves(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    def first(record: Record) -> bool:
        return (record.model if isinstance(record, Output) else record[1].model) == MODELS[0]

    return [r for r in records if first(r)], [r for r in records if not first(r)]
