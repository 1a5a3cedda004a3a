"""What the oracle has found, each as the smallest run that shows it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from oracle import checks
from oracle.kits import five, kits, verdict
from oracle.runs import Plan, Record, pictures, write
from refbench.case import AnyCase
from refbench.cli.export import export_command
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.output import Output
from refbench.tables.result import Result
from refbench.tables.scoring import score_run

PICTURE = pictures()[0][1]


def output(case: AnyCase, model: str = "bear", seed: int = 0, failure: Any = None) -> Output:
    state = {"failure": Failure(kind=failure)} if failure else {"pictures": (PICTURE,)}
    return Output(case=case.id, model=model, seed=seed, **state)


def judged(case: AnyCase, part: str, reply: str, model: str = "bear", protocol: str = "") -> Record:
    request = {
        "endpoint": "openai http://127.0.0.1",
        "model": "j",
        "parameters": {},
        "of": [case.id, model, part, protocol],
    }
    purpose = Purpose(case=case.id, model=model, judge="strict", part=part, protocol=protocol)
    return Evidence(kind="chat", request=request, reply=reply), purpose


def measured(case: AnyCase, part: str, value: float, model: str = "bear", version: int = 1) -> Record:
    request = {"metric": part, "version": version, "networks": {}, "of": [case.id, model]}
    purpose = Purpose(case=case.id, model=model, judge="", part=part)
    return Evidence(kind="measure", request=request, reply=json.dumps({"value": value})), purpose


def tabled(folder: Path, name: str, cases: list[AnyCase], records: list[Record]) -> Result:
    return score_run(write(folder, Plan(name), cases, records).path, draws=0)


def row(result: Result, **wanted: str) -> dict[str, Any]:
    (found,) = result.rows(**{"level": "overall", **wanted})
    return found.model_dump()


def test_a_model_that_gave_no_picture_at_all_stays_in_the_table(tmp_path: Path) -> None:
    cases = list(kits()["multibanana"].pool()[:2])
    good = [
        output(cases[0]),
        judged(cases[0], "all", five([7] * 5)),
        output(cases[1]),
        judged(cases[1], "all", five([7] * 5)),
    ]
    refused = [output(case, "ant", failure="refused") for case in cases]
    result = tabled(tmp_path / "run", "multibanana", cases, [*good, *refused])
    found = row(result, model="ant", metric="total", protocol="corrected")
    assert (found["value"], found["n_expected"], found["failures"]) == (None, 2, {"refused": 2})


def test_following_the_prompt_needs_no_imaging_quality_where_it_is_no_term_of_it(tmp_path: Path) -> None:
    case = next(case for case in kits()["icebench"].pool() if case.groups["task"] == "Color Editing")
    records = [output(case), measured(case, "clip_cap", 0.3), judged(case, "qa", "1")]
    found = row(tabled(tmp_path / "run", "icebench", [case], records), metric="prompt_following", protocol="corrected")
    assert found["value"] == pytest.approx((2 * 0.3 + 1) / 2)
    assert (found["n_scored"], found["n_not_asked"]) == (1, 0)


def test_a_dimension_without_a_whole_picture_is_named(tmp_path: Path) -> None:
    """Two pictures, each with another part lost: every part has values, their average has none."""
    kit, metrics = kits()["creval"], ("IF", "VC", "VQ")
    whole, *_ = (case for case in kit.pool() if case.details.class_id == 1)
    first, second, *_ = (case for case in kit.pool() if case.details.class_id == 2)
    lost = {first.id: "IF", second.id: "VQ"}
    records: list[Record] = [output(case) for case in (whole, first, second)]
    for case in (whole, first, second):
        for metric in metrics:
            said = "Nice." if lost.get(case.id) == metric else kit.reply(_always(0), case, metric)
            records.append(judged(case, metric, said))
    result = tabled(tmp_path / "run", "creval", [whole, first, second], records)
    (found,) = result.rows(level="category", metric="avg", protocol="corrected")
    assert f"nothing scored in {second.groups['dimension']}" in (found.remark or "")


def _always(place: int) -> Any:
    class Same:
        def choice(self, choices: list[str]) -> str:
            return choices[place]

    return Same()


def test_what_is_not_asked_and_what_does_not_concern_a_model_have_two_digests(tmp_path: Path) -> None:
    cases = list(kits()["multibanana"].pool()[:2])
    one = [output(cases[0]), judged(cases[0], "all", five([7] * 5))]
    waiting = tabled(tmp_path / "a", "multibanana", cases, [*one, output(cases[1])])
    unable = tabled(tmp_path / "b", "multibanana", cases, [*one, output(cases[1], failure="unsupported")])
    assert waiting.table.fingerprint == unable.table.fingerprint
    assert checks.numbers_of(waiting) != checks.numbers_of(unable)
    assert waiting.table.digest != unable.table.digest


def test_scores_in_every_state_are_exported_as_csv(tmp_path: Path) -> None:
    cases = list(kits()["multibanana"].pool()[:3])
    records = [
        output(cases[0]),
        judged(cases[0], "all", five([7] * 5)),
        output(cases[1], failure="unsupported"),
        output(cases[2]),
    ]
    run = write(tmp_path / "run", Plan("multibanana"), cases, records)
    assert export_command(run.path, out=tmp_path / "scores.csv") == 0
    with (tmp_path / "scores.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] == "visual_quality" and r["protocol"] == "corrected"]
    assert [(r["score"], r["not_asked"], bool(r["not_applicable"]), r["total"], r["task"]) for r in rows] == [
        ("7.0", "False", False, "7.0", cases[0].groups["task"]),
        ("", "False", True, "", cases[1].groups["task"]),
        ("", "True", False, "", cases[2].groups["task"]),
    ]


def test_a_gap_is_not_about_tasks_that_the_overall_number_leaves_out(tmp_path: Path) -> None:
    """The released scorer of IDEA-Bench knows 16 tasks; others are tabled and in no mean."""
    pool = [case for case in kits()["ideabench"].pool() if case.details.judged]
    listed = [case for case in pool if case.details.uid == "0024"][:2]
    unlisted = [case for case in pool if case.details.uid == "0099"][:1]
    records: list[Record] = []
    for model in ("bear", "ant"):
        for case in (*listed, *unlisted):
            records.append(output(case, model))
            asked = kits()["ideabench"].asked(case)
            records += [judged(case, part, verdict(1), model, protocol) for part, protocol in asked]
    result = tabled(tmp_path / "run", "ideabench", [*listed, *unlisted], records)
    (pair,) = result.compare(protocol="paper", metric="score", draws=20).pairs
    assert pair.n_cases == 2


def test_the_order_of_records_does_not_choose_the_fingerprint(tmp_path: Path) -> None:
    case = next(case for case in kits()["icebench"].pool() if case.groups["task"] == "Image Deblurring")
    records = [output(case), measured(case, "ssim", 0.5), measured(case, "ssim", 0.6, version=2)]
    first = tabled(tmp_path / "a", "icebench", [case], records)
    second = tabled(tmp_path / "b", "icebench", [case], [records[0], records[2], records[1]])
    assert first.value(metric="ssim", protocol="paper", level="overall") == 0.6
    assert first.table == second.table


def test_two_ways_of_asking_one_judge_are_both_in_the_fingerprint(tmp_path: Path) -> None:
    cases = list(kits()["multibanana"].pool()[:2])
    asked = [judged(case, "all", five([7] * 5)) for case in cases]
    act, purpose = asked[1]
    warm = replace_parameters(act, {"temperature": 1}), purpose
    first = tabled(tmp_path / "a", "multibanana", cases, [*map(output, cases), *asked])
    second = tabled(tmp_path / "b", "multibanana", cases, [*map(output, cases), asked[0], warm])
    assert first.table.fingerprint != second.table.fingerprint


def replace_parameters(act: Evidence, parameters: dict[str, Any]) -> Evidence:
    return act.model_copy(update={"request": {**act.request, "parameters": parameters}})
