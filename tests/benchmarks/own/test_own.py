"""Own cases under a rubric: what the judge is shown, how replies become the table, and what failed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from refbench.benchmarks.kit.definition import Benchmark, Material
from refbench.benchmarks.own.benchmark import own_benchmark
from refbench.case import AnyCase
from refbench.chat import ChatText
from refbench.chat.pictures import SentPicture
from refbench.cli.check import check_command
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import rubric_source
from refbench.record import RefBenchError
from refbench.tables.result import Result
from refbench.tables.scorer import score_evidence
from refbench.tables.scoring import result_of
from support.five_criteria import FIVE


def sent(name: str) -> SentPicture:
    """A picture that is only its hash: requests name pictures by nothing else."""
    return cast("SentPicture", SimpleNamespace(sha256=name.ljust(64, "0")))


def cases(folder: Path, count: int = 4) -> Path:
    path = folder / "cases.jsonl"
    rows = [
        {
            "id": f"c{n}",
            "instruction": f"Combine number {n}",
            "source": "s.png",
            "references": ["r.png", {"path": "t.png", "role": "style"}],
            "cluster": f"c{n}",
            "groups": {"task": "add" if n % 2 else "swap"},
            "tags": ["hard"] if n == 0 else [],
            "questions": ["Is it so?", "Is it not so?"],
        }
        for n in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def bench(rubric: str) -> Benchmark:
    return own_benchmark(*rubric_source(rubric))


def table(own: Benchmark, path: Path, replies: dict[str, dict[str, str | Failure]], draws: int = 0) -> Result:
    """One model, one judge; replies by case and part."""
    loaded = own.data.load(path, None).cases
    evidence = []
    for case, parts in replies.items():
        for part, said in parts.items():
            state: dict[str, Any] = {"failure": said} if isinstance(said, Failure) else {"reply": said}
            act = Evidence(kind="chat", request={"case": case, "part": part}, **state)
            evidence.append((Purpose(case=case, model="A", judge="J", part=part), act))
    return result_of(own, loaded, score_evidence(own, loaded, evidence, ["corrected"]), draws=draws)


def five(*marks: float) -> str:
    return json.dumps({"reasoning": "so", **dict(zip(FIVE, marks, strict=True))})


def shown(case: AnyCase, own: Benchmark) -> dict[str, list[str]]:
    assert own.asking.judging is not None
    material = Material((sent("source"), sent("first"), sent("second")), (sent("output"),))
    return {
        asked.part: [
            part.text.splitlines()[0] if isinstance(part, ChatText) else part.sha256.rstrip("0")
            for part in asked.request.parts[:-1]
        ]
        for asked in own.asking.judging(Path(), {}).ask(case, material)
    }


def test_pictures_are_announced_and_in_order(tmp_path: Path) -> None:
    own = bench("viescore_pair")
    case = own.data.load(cases(tmp_path), None).cases[0]
    assert shown(case, own) == {
        "semantic_consistency": [
            "Image 1 (source):", "source", "Image 2:", "first", "Image 3 (style):", "second", "Output:", "output",
        ],
        "perceptual_quality": ["Output:", "output"],
    }  # fmt: skip


def test_a_picture_has_the_number_that_the_model_knows_it_by_whatever_else_is_shown(tmp_path: Path) -> None:
    """`Put the hat of image 2 on the dog of image 1` means the same to the model and to the judge."""
    text, name = rubric_source("viescore_pair")
    own = own_benchmark(text.replace('["source", "references", "output"]', '["output", "references"]'), name)
    case = own.data.load(cases(tmp_path), None).cases[0]
    assert shown(case, own)["semantic_consistency"] == [
        "Output:", "output", "Image 2:", "first", "Image 3 (style):", "second",
    ]  # fmt: skip


def test_requests_carry_the_schema_and_are_recorded_with_the_wording(tmp_path: Path) -> None:
    own = bench("five_criteria")
    assert own.asking.judging is not None
    judging = own.asking.judging(tmp_path, {})
    material = Material((sent("s"), sent("a"), sent("b")), (sent("o"),))
    (asked,) = judging.ask(own.data.load(cases(tmp_path), None).cases[0], material)
    assert asked.request.json_schema is not None
    assert asked.request.json_schema["required"] == ["reasoning", *FIVE]
    assert judging.recorded["rubric"] == "five_criteria"
    assert len(judging.recorded["wording"]) == 64


def test_the_total_is_weighted_and_the_table_has_groups_and_tags(tmp_path: Path) -> None:
    own = bench("five_criteria")
    replies = {f"c{n}": {"verdict": five(10, 10, 1, 1, 1)} for n in range(3)}
    replies["c3"] = {"verdict": five(1, 1, 1, 1, 1)}
    result = table(own, cases(tmp_path), replies)
    assert result.value(metric="total", level="overall") == pytest.approx((3 * 7 + 1) / 4)
    assert {row.slice["level"] for row in result.table.rows} == {"overall", "task", "tag"}
    assert [m.name for m in own.scoring.protocols["corrected"].aggregate.measures] == [*FIVE, "total"]
    (hard,) = result.rows(metric="total", level="tag")
    assert (hard.slice["tag"], hard.value, hard.n_expected) == ("hard", 7.0, 1)


def test_a_lost_mark_is_a_failure_with_bounds_and_never_a_number(tmp_path: Path) -> None:
    own = bench("five_criteria")
    replies: dict[str, dict[str, str | Failure]] = {f"c{n}": {"verdict": five(5, 5, 5, 5, 5)} for n in range(4)}
    replies["c0"] = {"verdict": five(5, 5, 5, 5, 50)}
    replies["c1"] = {"verdict": "I'm sorry, I can't."}
    replies["c2"] = {"verdict": Failure(kind="timeout")}
    result = table(own, cases(tmp_path), replies)
    (total,) = result.rows(metric="total", level="overall")
    assert (total.value, total.n_scored, total.n_expected) == (5.0, 1, 4)
    assert dict(total.failures) == {"out_of_range": 1, "refused": 1, "timeout": 1}
    (alignment,) = result.rows(metric="instruction_alignment", level="overall")
    assert alignment.n_scored == 2
    assert total.bounds == pytest.approx(((5 + (8 * 5 + 1) / 9 + 1 + 1) / 4, (5 + (8 * 5 + 10) / 9 + 10 + 10) / 4))


def test_the_pair_is_a_geometric_mean_of_minima_for_each_case(tmp_path: Path) -> None:
    own = bench("viescore_pair")

    def pair(a: float, b: float, c: float, d: float) -> dict[str, str | Failure]:
        return {
            "semantic_consistency": json.dumps({"instruction_success": a, "preservation": b}),
            "perceptual_quality": json.dumps({"naturalness": c, "no_artifacts": d}),
        }

    replies = {"c0": pair(4, 9, 9, 10), "c1": pair(0, 9, 9, 9), "c2": pair(10, 10, 10, 10), "c3": pair(1, 1, 4, 4)}
    result = table(own, cases(tmp_path), replies)
    assert result.value(metric="semantic_consistency", level="overall") == (4 + 0 + 10 + 1) / 4
    assert result.value(metric="total", level="overall") == pytest.approx((6 + 0 + 10 + 2) / 4)
    del replies["c3"]["perceptual_quality"]
    (total,) = table(own, cases(tmp_path), replies).rows(metric="total", level="overall")
    assert (total.value, total.n_scored, total.n_not_asked, dict(total.failures)) == (pytest.approx(16 / 3), 3, 1, {})


def test_the_checklist_is_the_share_of_yes_and_an_unanswered_question_a_failure(tmp_path: Path) -> None:
    own = bench("checklist")
    both = '[{"question": "Q1", "answer": "Yes"}, {"question": "Q2", "answer": "No"}]'
    replies = {"c0": {"verdict": both}, "c1": {"verdict": '{"Q1": "Yes", "Q2": "Yes"}'}, "c2": {"verdict": "Q1: Yes"}}
    result = table(own, cases(tmp_path, 3), replies)
    (total,) = result.rows(metric="total", level="overall")
    assert (total.value, dict(total.failures)) == (0.75, {"unparsable": 1})
    assert next(s.failure.detail for s in result.scores if s.failure) == "no answer to Q2"


def test_a_checklist_without_questions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "a", "instruction": "x"}')
    with pytest.raises(RefBenchError, match=r"1 case has none \(first: a\): add a column questions"):
        bench("checklist").data.load(path, None)


def test_marks_of_other_ranges_are_brought_to_the_range_of_the_total(tmp_path: Path) -> None:
    rubric = """+++
name = "mixed"
dialect = "labelled_lines"
range = [0, 10]
[[criteria]]
name = "beauty"
range = [1, 5]
[[criteria]]
name = "present"
kind = "yes_no"
+++
{format}
"""
    own = own_benchmark(rubric, "mixed.md")
    result = table(own, cases(tmp_path, 1), {"c0": {"verdict": "Beauty: 3\nPresent: Yes"}})
    values = {row.metric: row.value for row in result.rows(level="overall")}
    assert values == {"beauty": 3.0, "present": 1.0, "total": 7.5}


def test_intervals_come_from_the_same_aggregate(tmp_path: Path) -> None:
    own = bench("viescore_pair")
    replies: dict[str, dict[str, str | Failure]] = {
        f"c{n}": {
            "semantic_consistency": json.dumps({"instruction_success": n % 10, "preservation": 9}),
            "perceptual_quality": json.dumps({"naturalness": 8, "no_artifacts": (n * 7) % 10}),
        }
        for n in range(30)
    }
    (total,) = table(own, cases(tmp_path, 30), replies, draws=200).rows(metric="total", level="overall")
    assert total.ci95 is not None
    assert total.value is not None
    assert total.ci95[0] < total.value < total.ci95[1]


def test_cases_survive_the_run_directory(tmp_path: Path) -> None:
    own = bench("five_criteria")
    for case in own.data.load(cases(tmp_path), None).cases:
        assert own.data.case_type.model_validate_json(case.model_dump_json()) == case


def test_there_are_no_released_replies_to_import(tmp_path: Path) -> None:
    own = bench("five_criteria")
    assert own.asking.import_replies is None


def test_check_shows_what_a_judge_is_asked_and_how_a_reply_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(cases(tmp_path))
    assert check_command(path, rubric="viescore_pair", show=True) == 0
    said = capsys.readouterr().out
    assert said.index("Image 1 (source):\n  [s.png]") < said.index("Image 3 (style):\n  [t.png]")
    assert "call 2 of 2" in said and "Combine number 0" in said and "  total: 5\n" in said

    reply = tmp_path / "reply.txt"
    reply.write_text(five(5, 50, 5, 5, 5))
    assert check_command(path, rubric="five_criteria", show=True, reply=reply) == 0
    said = capsys.readouterr().out
    assert "reference_consistency: out_of_range: 50" in said and "total: none" in said
    for wrong in ({"show": True}, {"rubric": "viescore_pair", "reply": reply}, {"rubric": "five"}):
        with pytest.raises(RefBenchError, match=r"--rubric|--show"):
            check_command(path, **wrong)  # type: ignore[arg-type]
