"""`refbench audit` and what benchmarks and rubrics declare for it."""

from __future__ import annotations

import asyncio
import html
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from refbench.analysis.audit.card import key_of
from refbench.analysis.audit.people import PeopleMark
from refbench.analysis.audit.records import JudgeCard
from refbench.benchmarks import benchmark
from refbench.benchmarks.own.benchmark import own_benchmark
from refbench.benchmarks.registry import SHIPPED
from refbench.builders.audit.make import MakeOptions, make_variants
from refbench.builders.audit.read import audit_marks, read_audit
from refbench.builders.audit.run import AuditRequest, audit
from refbench.engine import evaluate
from refbench.judges.rubric import load_rubric, parse_rubric, rubric_source, shipped_rubrics
from refbench.report.brief.page import write_brief
from refbench.report.site.boards import open_boards
from refbench.report.site.overview import board_chunk, notes_of
from refbench.runs import Run
from refbench.runs.run import Shard
from refbench.tables.scoring import score_run
from support.five_criteria import FIVE
from support.judge_server import Faults, JudgeServer

Refbench = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "own"])
def test_a_shipped_benchmark_says_what_its_judged_criteria_are_about(name: str) -> None:
    made = benchmark(name)
    asking, measures = made.asking, {measure for part in made.asking.parts.values() for measure in part}
    # Outputs that come with the data are marked to find out about judges already.
    assert asking.abilities or made.data.outputs
    assert set(asking.abilities) <= measures - asking.measured


@pytest.mark.parametrize("name", shipped_rubrics())
def test_a_shipped_rubric_says_what_its_criteria_are_about_and_its_wording_is_the_same_without(name: str) -> None:
    rubric, (text, title) = load_rubric(name), rubric_source(name)
    measures = {measure for part in rubric.parts for measure in part.measures()}
    assert set(rubric.abilities) == measures
    assert own_benchmark(text, title).asking.abilities == rubric.abilities
    plain = "\n".join(line for line in text.split("\n") if not line.startswith("ability"))
    assert parse_rubric(plain, title).sha256 == rubric.sha256


def test_an_audit_from_the_command_line(judged: Path, tmp_path: Path, run_cli: Refbench) -> None:
    made = run_cli("audit", "make", judged, "--out", tmp_path / "v", "--preset", "quick", "--cases", 2, "--json")
    assert made[0] == 0, made
    told = orjson.loads(made[1])
    assert told["made"]["clean"] == told["cases"] == 2
    assert sum(told["left_out"]["4:subject_gone@1"].values()) == 2
    with JudgeServer(reply=lambda text: json.dumps(dict.fromkeys(FIVE, 7))) as server:
        words = ["audit", judged, "--judge", f"j=openai:gpt-4o?base_url={server.url}/v1"]
        words += ["--variants", tmp_path / "v", "--out", tmp_path / "audit", "--json"]
        plan = orjson.loads(run_cli(*words, "--plan")[1])
        assert not server.requests
        code, out, _ = run_cli(*words)
        assert code == 0
        assert len(server.requests) == plan["calls"]
        assert orjson.loads(out)["judges"] == {"j": {"marks": plan["calls"] * len(FIVE)}}
    models = {row.model for row in score_run(Run.open(tmp_path / "audit").path).table.rows}
    assert {"clean", "1:other_output", "20:references_permuted", "27:instruction_strip"} <= models


# What came of it.

JUDGES = ("j", "refuses")


@pytest.fixture(scope="module")
def audited(judged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick audit of three cases: one judge says 7 whatever it is shown, the other refuses everything. A second
    audit in `part` came half-way, `again` asked about the clean outputs again, and `run` was judged by the first."""
    root = tmp_path_factory.mktemp("audited")
    seven = JudgeServer(reply=lambda text: json.dumps(dict.fromkeys(FIVE, 7)))
    with seven, JudgeServer(faults=Faults(refused=1.0)) as refuses, pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_WEIGHTS", str(root / "no-weights"))
        judges = [f"j=openai:gpt-4o?base_url={seven.url}/v1", f"refuses=openai:gpt-5?base_url={refuses.url}/v1"]
        make = MakeOptions("quick", 3)
        asyncio.run(audit(AuditRequest(judged, root / "audit", judges, make)))
        variants = root / "audit" / "variants"
        part = {"variants": variants, "options": {"shard": "1/3"}}
        asyncio.run(audit(AuditRequest(judged, root / "part", judges[0], make, **part)))
        asyncio.run(audit(AuditRequest(root / "audit", root / "again", judges[0], variants=variants, again=True)))
        mine = judges[0].replace("j=", "mine=", 1)
        pictures = f"A=folder:{judged.parent / 'A'}"
        evaluate(
            judged.parent / "cases.jsonl", models=[pictures], judges=mine, out=root / "run", rubric="five_criteria"
        )
    return root


def test_show_has_the_card_and_keeps_it_and_names_the_pictures(audited: Path, run_cli: Refbench) -> None:
    code, out, _ = run_cli("audit", "show", audited / "audit", "--judge", "j")
    assert code == 0
    assert "Judge card: gpt-4o" in out
    assert "Method not yet validated on real judges" in out
    assert "FOOLED" not in out
    assert "1:other_output, case" in out
    assert "4:subject_gone@1 of 3 cases" in out, "what was not made is said"
    assert out.count("  shown ") <= 6
    told = orjson.loads(run_cli("audit", "show", audited / "audit", "--json")[1])["judges"]
    assert [one["name"] for one in told] == list(JUDGES)
    assert all(Path(path).is_file() for one in told[0]["pictures"] for path in one["output"] + one["shown"])
    assert {one["before"] - one["after"] for one in told[0]["pictures"]} == {0.0}
    assert JudgeCard.model_validate_json(Path(told[0]["kept"]).read_text()) == JudgeCard.model_validate(told[0]["card"])


def test_of_a_judge_that_refused_everything_nothing_is_claimed(audited: Path, run_cli: Refbench) -> None:
    code, out, _ = run_cli("audit", "show", audited / "audit", "--judge", "refuses")
    assert code == 0
    for sentence in (
        "instruction_alignment: it gave no marks.",
        "Nothing could be tested",
        "gave too few marks for any figure",
        "No mark under 1 (output of another case): 3 refused.",
    ):
        assert sentence in out
    assert "No fault was found" not in out


def test_an_unfinished_audit_says_so_on_its_card(audited: Path, run_cli: Refbench) -> None:
    code, out, _ = run_cli("audit", "show", audited / "part")
    assert code == 0
    waiting = orjson.loads(run_cli("audit", "show", audited / "part", "--json")[1])["judges"][0]["card"]["n_waiting"]
    whole = len({(mark.case, mark.variant, mark.repeat) for mark in audit_marks(audited / "audit", "j")})
    asked = len({(mark.case, mark.variant, mark.repeat) for mark in audit_marks(audited / "part")})
    assert waiting == whole - asked > 0
    assert f"Not finished: it was not asked about {waiting} outputs yet" in out


def test_variants_are_found_where_they_were_and_missed_where_they_are_gone(
    audited: Path, judged: Path, tmp_path: Path, run_cli: Refbench
) -> None:
    assert "Not made" in run_cli("audit", "show", audited / "part")[1], "they lie in the folder of another audit"
    gone, others = tmp_path / "part", tmp_path / "others"
    make_variants(Run.open(judged), others, MakeOptions("quick", 2))
    shutil.copytree(audited / "part", gone)
    for away in (tmp_path / "away", others):
        with Run.open(gone).writer(Shard(index=1, count=3)) as writer:
            writer.note("variants", str(away))
        code, out, said = run_cli("audit", "show", gone)
        assert (code, "The variants are not in" in out) == (0, True), said
    marks = tmp_path / "people.csv"
    marks.write_text("case,model,metric,score\ncase0,A,visual_quality,9")
    assert "give --variants" in run_cli("audit", "show", gone, "--people", marks)[2]


def test_criteria_that_nobody_says_the_ability_of_are_left_out_by_name(
    audited: Path, tmp_path: Path, run_cli: Refbench
) -> None:
    text = rubric_source("five_criteria")[0]
    lines = [line for line in text.split("\n") if not line.startswith("ability") or '"VQ"' in line]
    (tmp_path / "one.md").write_text("\n".join(lines))
    (tmp_path / "none.md").write_text("\n".join(line for line in lines if not line.startswith("ability")))
    code, out, _ = run_cli("audit", "show", audited / "part", "--benchmark", tmp_path / "one.md", "--json")
    told = orjson.loads(out)["judges"][0]
    assert code == 0
    assert [one["name"] for one in told["card"]["criteria"]] == ["visual_quality"]
    assert told["without_ability"] == sorted(set(FIVE) - {"visual_quality"})
    code, _, said = run_cli("audit", "show", audited / "part", "--benchmark", tmp_path / "none.md")
    assert code == 2
    assert "ability" in said


def test_clean_outputs_asked_about_again_are_compared_and_are_no_card(audited: Path, run_cli: Refbench) -> None:
    code, out, _ = run_cli("audit", "drift", audited / "again", audited / "audit")
    assert code == 4, "three cases tell nothing"
    assert "visual_quality: cannot be compared, fewer than 20 cases" in out
    rows = orjson.loads(run_cli("audit", "drift", audited / "again", audited / "audit", "--json")[1])["judges"]["j"]
    assert {(row["criterion"], row["then"], row["now"]) for row in rows} == {(name, 7.0, 7.0) for name in FIVE}
    assert len(audit_marks(audited / "again")) == 3 * 2 * len(FIVE), "clean outputs and nothing else, twice each"
    code, _, said = run_cli("audit", "show", audited / "again")
    assert (code, "refbench audit drift" in said) == (2, True)


def test_peoples_marks_are_taken_of_clean_outputs_alone(audited: Path, tmp_path: Path, run_cli: Refbench) -> None:
    found = read_audit(audited / "audit", "j")
    assert found.variants is not None
    outputs = found.variants.info.outputs
    lines = [
        f"{case},{model},visual_quality,{9 if outputs.get(case) == model else 2}" for case in outputs for model in "AB"
    ]
    marks = tmp_path / "people.csv"
    marks.write_text("\n".join(["case,model,metric,score", *lines]))
    assert list(found.people_marks(marks)) == [PeopleMark(case, "visual_quality", 9.0) for case in outputs]
    assert run_cli("audit", "show", audited / "audit", "--judge", "j", "--people", marks)[0] == 0
    marks.write_text("\n".join(["case,model,metric,score", *lines]).replace("visual_quality", "beauty"))
    assert "no mark is of a clean output" in run_cli("audit", "show", audited / "audit", "--people", marks)[2]


def test_only_a_judge_of_the_older_audit_in_its_words_is_asked_again(
    audited: Path, tmp_path: Path, run_cli: Refbench
) -> None:
    words = ["audit", "--again", audited / "audit", "--out", tmp_path / "new", "--judge"]
    assert "an audit of j, refuses" in run_cli(*words, "other=openai:gpt-4o")[2]
    with JudgeServer() as server:
        assert "asked otherwise" in run_cli(*words, f"j=openai:gpt-5?base_url={server.url}/v1")[2]
        assert not server.requests
    assert "one of the two" in run_cli("audit", "--judge", "j=openai:x", "--out", tmp_path / "new")[2]


def test_panels_are_of_judges_of_the_same_variants(audited: Path, tmp_path: Path, run_cli: Refbench) -> None:
    code, out, _ = run_cli("audit", "panel", audited / "audit", "--of", "j", "--json")
    assert code == 0
    found = orjson.loads(out)
    assert found["instead_of"] == "j"
    assert [(row["judges"], row["verdict"]) for row in found["panels"]] == [(["refuses"], "too few cases")]
    assert "price of" in run_cli("audit", "panel", audited / "audit")[2]
    assert "the judges of these audits are" in run_cli("audit", "panel", audited / "audit", "--of", "x")[2]
    assert "same name" in run_cli("audit", "panel", audited / "audit", audited / "part", "--of", "j")[2]
    assert "of one judge" in run_cli("audit", "panel", audited / "part")[2]


def test_a_judges_card_stands_beside_its_numbers_and_its_verdicts_stay_out_of_papers(
    audited: Path, tmp_path: Path, run_cli: Refbench
) -> None:
    kept = orjson.loads(run_cli("audit", "show", audited / "audit", "--json")[1])["judges"][0]["kept"]
    code, out, _ = run_cli("table", audited / "run")
    assert code == 0
    said = " ".join(out.split())
    assert "Judge card of mine: instruction_alignment cannot tell;" in said, "found by the model, not by the name"
    assert "audited on 3 cases; method not yet validated on real judges" in said
    cards = orjson.loads(run_cli("table", audited / "run", "--json")[1])["cards"]
    assert [card["judge"] for card in cards] == ["mine"]
    assert Path(cards[0]["path"]).resolve() == Path(kept).resolve()
    latex = run_cli("table", audited / "run", "--latex")[1]
    assert "Judge card of mine: kept in" in latex
    assert "cannot tell" not in latex
    (board,) = open_boards([audited / "run"], draws=0)
    assert any(note.startswith("judge card of mine: instruction") for note in notes_of(board)), "on the overview"
    assert [card["judge"] for card in board_chunk(board, {})["cards"]] == ["mine"], "on the methods page"
    brief = html.unescape(write_brief([audited / "run"], tmp_path / "brief.html").path.read_text())
    counted = "of 5 criteria 5 cannot tell; audited on 3 cases; method not yet validated on real judges"
    assert f"not of people. Judge card of mine: {counted}." in " ".join(brief.split())


def test_a_card_of_other_words_or_another_judge_is_not_found(audited: Path, tmp_path: Path) -> None:
    parts = score_run(audited / "run", draws=0).table.parts
    key = key_of(parts, "mine")
    assert key == key_of(score_run(audited / "audit", draws=0).table.parts, "j")
    assert key_of({**parts, "settings": {**parts["settings"], "max_side": "512"}}, "mine") != key
    asked = {"mine": {**parts["asked"]["mine"], "parameters": {"temperature": 1.0}}}
    assert key_of({**parts, "asked": asked}, "mine") != key
    assert key_of(parts, "nobody") != key
