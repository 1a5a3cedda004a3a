"""Whole runs against the oracle: 8 here, more by REFBENCH_ORACLE_RUNS."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from oracle import checks
from oracle.core import table
from oracle.kits import kits, scratch
from oracle.runs import Made, Plan, Record, chosen_cases, make, plans, write
from refbench.benchmarks import benchmark
from refbench.engine import evaluate
from refbench.evidence import Evidence, Purpose
from refbench.output import Output
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.report import to_json
from refbench.report.leaderboard import leaderboard
from refbench.report.site.pages import write_site
from refbench.runs import Shard
from refbench.runs.run import fair_order
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from support.judge_server import Faults, JudgeServer
from support.shown_numbers import site_numbers

SHRINK = "REFBENCH_ORACLE_UNSHRUNK" not in os.environ
"""Whether a run that fails is made smaller: for reading, not for telling whether there is one."""
RUNS = int(os.environ.get("REFBENCH_ORACLE_RUNS", "8"))


def runs(share: int = 1) -> Callable[[Any], Any]:
    """A share of the runs; the same ones every time, unless more are asked for than usual."""
    return settings(
        max_examples=max(RUNS // share, 1),
        deadline=None,
        derandomize=RUNS <= 300,  # what a change must pass is the same every time; campaigns look further
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if SHRINK else [])],
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def scored(made: Made, **options: Any) -> Result | None:
    """The table of a run, None where there is nothing to table yet."""
    try:
        return score_run(made.run.path, draws=0, **options)
    except RefBenchError as error:
        assert "there is nothing to score yet" in str(error)
        return None


@runs()
@given(plans)
def test_every_number_of_a_run_is_the_oracles(plan: Plan) -> None:
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        run = checks.exported(made, Path(name))
        assert not (lost := checks.nothing_is_lost(made, run)), checks.told(lost)
        result = scored(made)
        if result is None:
            assert not table(run, made.kit.books)
            return
        rows = checks.rows_of(result)
        problems = [
            *checks.table_is(rows, table(run, made.kit.books)),
            *checks.counts_add_up(rows.values()),
            *checks.scores_are(made.run.path, run, made.kit.books, Path(name)),
        ]
        assert not problems, checks.told(problems)


@runs(5)
@given(plans, st.sampled_from(["worst", "worst,unsupported"]))
def test_refusals_count_as_the_oracle_counts_them(plan: Plan, refusals: str) -> None:
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        result = scored(made, refusals=refusals)
        if result is not None:
            rows = checks.rows_of(result)
            expected = table(checks.exported(made, Path(name)), made.kit.books, refusals)
            problems = [*checks.table_is(rows, expected), *checks.counts_add_up(rows.values())]
            assert not problems, checks.told(problems)


@runs(5)
@given(plans)
def test_gaps_are_those_of_the_cases_that_both_models_have(plan: Plan) -> None:
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        result = scored(made)
        if result is not None:
            problems = checks.gaps_are(result, checks.exported(made, Path(name)), made.kit.books)
            assert not problems, checks.told(problems)


@runs(3)
@given(plans)
def test_what_is_printed_is_the_table(plan: Plan) -> None:
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        result = scored(made)
        if result is not None:
            problems = checks.printed_is(result)
            assert not problems, checks.told(problems)


@runs(10)
@given(plans)
def test_what_pages_show_is_the_table(plan: Plan) -> None:
    """Every row of the site's data; tests/report holds the brief against these."""
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        result = scored(made)
        if result is None:
            return
        write_site([made.run.path], Path(name) / "site", draws=20)
        shown = site_numbers(Path(name) / "site")
        rows = {(r.model, r.judge, r.protocol, r.metric, tuple(sorted(r.slice.items()))): r for r in result.table.rows}
        # Pages have levels of their own besides (the number of references), and no rows of which nothing is expected.
        assert all(row.n_expected == 0 for key, row in rows.items() if key not in shown)
        for key, row in ((key, row) for key, row in rows.items() if key in shown):
            cell = shown[key]
            assert (None if cell.text is None else float(cell.text)) == row.value, key
            assert [int(cell.scored), int(cell.expected), int(cell.not_asked or 0)] == [
                row.n_scored,
                row.n_expected,
                row.n_not_asked,
            ], key
            assert {kind: int(count) for kind, count in cell.failures} == dict(row.failures), key
            bounds = None if cell.bounds is None else (float(cell.bounds[0]), float(cell.bounds[1]))
            assert bounds == row.bounds, key


@runs(2)
@given(plans, st.integers(0, 1000))
def test_a_better_mark_never_lowers_its_models_rank(plan: Plan, which: int) -> None:
    if plan.benchmark == "ideabench":  # an opened gate shows answers that were not read
        plan = replace(plan, trouble=0)
    with TemporaryDirectory() as name:
        made = make(replace(plan, merged=False, retried=False), Path(name))
        places = improvable(made)
        if not places:
            return
        place, better = places[which % len(places)]
        records = [*made.records[:place], better, *made.records[place + 1 :]]
        first = scored(made)
        if first is None:  # killed before the first of the cases that its limit is about
            return
        cases = chosen_cases(made.plan)
        second = scored(replace(made, run=write(Path(name) / "better", made.plan, cases, records)))
        assert second is not None
        problems = worse(first, second, better[1].model)
        assert not problems, checks.told(problems)


def improvable(made: Made) -> list[tuple[int, tuple[Evidence, Purpose]]]:
    """Records with a mark that can move in its good direction, and what they are then."""
    cases = {case.id: case for case in chosen_cases(made.plan)}
    lower = next(iter(made.kit.books.values())).lower
    found = []
    for place, record in enumerate(made.records):
        if isinstance(record, Output) or record[0].reply is None or record[1].part == "inception_mean":
            continue
        act, purpose = record
        if act.kind == "measure":
            value = json.loads(act.reply or "")["value"]
            reply: str | None = json.dumps({"value": value - 0.01 if purpose.part in lower else value + 0.01})
        else:
            reply = made.kit.better(cases[purpose.case], purpose.part.partition("+")[0], act.reply or "")
        if reply is not None:
            found.append((place, (act.model_copy(update={"reply": reply}), purpose)))
    return found


def worse(first: Result, second: Result, model: str) -> list[str]:
    """Where a model does worse in the second of two tables that differ in one of its marks, moved for the better."""
    found = []
    lower = first.bench.scoring.lower
    rows = {checks.key(row.model_dump()): row for row in second.table.rows}
    for row in first.table.rows:
        after = rows[checks.key(row.model_dump())]
        if dict(row.failures) != dict(after.failures):
            return []
        if row.model == model and row.value is not None and after.value is not None and " / truth" not in row.metric:
            change = after.value - row.value
            if row.metric != "fid" and (change > 1e-9 if row.metric in lower else change < -1e-9):
                found.append(f"{checks.key(row.model_dump())}: {row.value}, then {after.value}")
    if any(row.slice["level"] == "overall" for row in first.table.rows):
        before, then = (
            [(line.judge, line.model) for line in leaderboard(result, {"level": "overall"})]
            for result in (first, second)
        )
        for judge in {judge for judge, _ in before}:
            places = [[m for j, m in order if j == judge] for order in (before, then)]
            if model in places[0] and places[1].index(model) > places[0].index(model):
                found.append(f"{model} under {judge}: {places[0]}, then {places[1]}")
    return found


NAMES = {"bear": "zebra", "ant": "b ear", "truth": "ant", "strict": "z", "mild": "a judge", "mean one": "third"}


@runs(5)
@given(plans, st.randoms(use_true_random=False))
def test_order_shards_and_names_change_nothing(plan: Plan, rng: Random) -> None:
    plan = replace(plan, limit=None, merged=False)
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        first = scored(made)
        if first is None:
            return
        cases, blocks = chosen_cases(plan), blocks_of(made.records)
        rng.shuffle(cases)
        rng.shuffle(blocks)
        names = {**NAMES, **{case.id: f"renamed {number}" for number, case in enumerate(cases)}}
        renamed = [case.model_copy(update={"id": names[case.id]}) for case in cases]
        records = [called(record, names) for block in blocks for record in block]
        judges = [names[judge] for judge in plan.judge_names]
        run = write(Path(name) / "other", plan, renamed, records, shards=3 - plan.shards, judges=judges)
        second = scored(replace(made, run=run))
        assert second is not None
        problems = checks.differing(checks.numbers_of(first, names), checks.numbers_of(second))
        assert not problems, checks.told(problems)
        shuffled = [record for block in blocks for record in block]
        third = scored(replace(made, run=write(Path(name) / "third", plan, chosen_cases(plan), shuffled)))
        assert third is not None
        assert third.table == first.table


def blocks_of(records: Sequence[Record]) -> list[list[Record]]:
    """What belongs to one case and model, in its order."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        about = record if isinstance(record, Output) else record[1]
        found.setdefault((about.case, about.model), []).append(record)
    return list(found.values())


def called(record: Record, names: Mapping[str, str]) -> Record:
    about = record if isinstance(record, Output) else record[1]
    update = {"case": names[about.case], "model": names.get(about.model, about.model)}
    if isinstance(record, Output):
        return record.model_copy(update=update)
    act, purpose = record
    return act, purpose.model_copy(update={**update, "judge": names.get(purpose.judge, purpose.judge)})


TABLES: dict[tuple[str, str], Any] = {}
"""The numbers under each fingerprint and digest that any run of this session had."""


@runs(3)
@given(plans)
def test_a_fingerprint_tells_how_and_a_digest_what_was_scored(plan: Plan) -> None:
    plan = replace(plan, merged=False)
    with TemporaryDirectory() as name:
        made = make(plan, Path(name))
        first = scored(made)
        if first is None:
            return
        again = scored(made)
        assert again is not None
        assert to_json(first) == to_json(again)
        told = first.table.fingerprint, first.table.digest
        numbers = checks.numbers_of(first)
        assert not checks.differing(TABLES.setdefault(told, numbers), numbers)
        for what, other in changed(made, Path(name)):
            second = scored(other)
            assert second is not None
            assert second.table.fingerprint != first.table.fingerprint, f"{what} changed, and the fingerprint did not"
        worst = scored(made, refusals="worst")
        assert worst is not None
        assert worst.table.fingerprint != first.table.fingerprint
        places = improvable(made)
        if places:
            place, better = places[0]
            records = [*made.records[:place], better, *made.records[place + 1 :]]
            second = scored(replace(made, run=write(Path(name) / "mark", plan, chosen_cases(plan), records)))
            assert second is not None
            moved = checks.differing(checks.numbers_of(first), checks.numbers_of(second))
            assert not moved or second.table.digest != first.table.digest


def changed(made: Made, folder: Path) -> Iterator[tuple[str, Made]]:
    """The run as it would be with another parameter, judge, metric, wording, reader or case."""
    plan, cases = made.plan, chosen_cases(made.plan)
    there = {case.id for case in cases[: plan.limit]}

    def other(what: str, records: Sequence[Record], **options: Any) -> tuple[str, Made]:
        of = options.pop("cases", cases)
        return what, replace(made, run=write(folder / what, plan, of, records, **options))

    def asked_with(kind: str, **update: Any) -> list[Record]:
        return [
            r
            if isinstance(r, Output) or r[0].kind != kind
            else (r[0].model_copy(update={"request": {**r[0].request, **update}}), r[1])
            for r in made.records
        ]

    kinds = {
        r[0].kind for r in made.records if not isinstance(r, Output) and (plan.limit is None or r[1].case in there)
    }
    if plan.limit is None and "chat" in kinds and not plan.imported:
        yield other("parameters", asked_with("chat", parameters={"temperature": 0}))
        yield other("judge", asked_with("chat", model="another"))
    if plan.limit is None and "measure" in kinds:
        yield other("metric", asked_with("measure", version=7))
        yield other("weights", asked_with("measure", networks={"net": "abc"}))
    yield other("wording", made.records, settings={"wording": "another"})
    if plan.limit is None:
        request = cases[0].request.model_copy(update={"instruction": "Do something else."})
        changed_case = cases[0].model_copy(update={"request": request})
        yield other("instruction", made.records, cases=[changed_case, *cases[1:]])
    if "benchmark.py" in made.kit.keep:
        text = made.kit.keep["benchmark.py"].replace("CONTRACTS[part].read(reply)", "dict(CONTRACTS[part].read(reply))")
        yield other("reader", made.records, keep={"benchmark.py": text})


@runs(10)
@given(
    name=st.sampled_from(["creval", "multibanana"]),
    luck=st.integers(0, 2**32),
    limits=st.sampled_from([(2,), (1, 4), (3, 3)]),
    repeats=st.integers(1, 2),
    shards=st.sampled_from([None, 2]),
)
def test_a_live_run_is_the_oracles_and_pays_nothing_twice(
    name: str, luck: int, limits: tuple[int, ...], repeats: int, shards: int | None
) -> None:
    rng, kit = Random(luck), kits()[name]
    faults = Faults(failing=0.05, malformed=0.1, refused=0.1)
    with TemporaryDirectory() as text, JudgeServer(faults=faults) as server:
        folder, cases = Path(text), fair_order(kit.pool())[: max(limits)]
        models = ["bear", "ant"][: rng.randint(1, 2)]
        for model in models:
            for number, case in enumerate(cases):
                paint(rng if number else None, folder / model / f"{benchmark(name).data.output_names(case)[0]}.png")
        arguments: dict[str, Any] = {
            "data": scratch() / name,
            "models": [f"{model}=folder:{folder / model}" for model in models],
            "judges": [f"strict=openai:gpt-4o?base_url={server.url}/v1"],
            "out": folder / "run",
            "repeats": repeats,
        }
        writers = [Shard(index=index + 1, count=shards) for index in range(shards)] if shards else [None]
        for limit in limits:
            for shard in writers:
                evaluate(name, **arguments, limit=limit, shard=shard)
        asked = len(server.requests)
        done = evaluate(name, **arguments, limit=limits[-1], shard=writers[-1])
        assert len(server.requests) == asked, "the same command asked again"
        assert to_json(done.result) == to_json(score_run(folder / "run"))
        run = checks.exported_run(folder / "run", folder, judges=("strict",))
        rows = checks.rows_of(done.result)
        problems = [*checks.table_is(rows, table(run, kit.books)), *checks.counts_add_up(rows.values())]
        assert not problems, checks.told(problems)


def paint(rng: Random | None, path: Path) -> None:
    """A picture of its own, or by bad luck a broken one, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    luck = rng.random() if rng else 0.0
    if luck < 0.8:
        colour = hashlib.sha256(str(path).encode()).digest()[:3]
        path.write_bytes(encode(np.full((8, 8, 3), list(colour), dtype=np.uint8)))
    elif luck < 0.9:
        path.write_bytes(b"no picture")
