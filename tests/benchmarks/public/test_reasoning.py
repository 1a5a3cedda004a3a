"""RISEBench, KRIS-Bench, MICo-Bench and EditReward-Bench by the front door: what is asked, how replies and result files
are read in both protocols, and what becomes of ties, passes and faces."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refbench
from refbench import Failure, RefBenchError
from refbench.benchmarks import benchmark
from refbench.benchmarks.editrewardbench.benchmark import GROUP_OF
from refbench.benchmarks.kit import Material
from refbench.benchmarks.krisbench import benchmark as kris
from refbench.benchmarks.micobench.benchmark import face_kept
from refbench.case import AnyCase
from refbench.chat.pictures import SentPicture
from refbench.engine import evaluate
from refbench.evidence import Evidence, Purpose
from refbench.text.sheets import sheet_rows
from support import reasoning
from support.judge_server import JudgeServer
from support.public import put

Refbench = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for name, write in reasoning.WRITERS.items():
        write(root / name)
    return root


def cases_of(data: Path, name: str) -> dict[str, AnyCase]:
    return {case.id: case for case in benchmark(name).data.load(data / name, None).cases}


def read(name: str, protocol: str, case: AnyCase, part: str, reply: str) -> dict[str, float | str | None]:
    """Each measure of a part as a protocol reads it of a reply: a value, or the kind of the failure."""
    purpose = Purpose(case=case.id, model="m", judge="j", part=part)
    evidence = Evidence(kind="chat", request={}, reply=reply)
    scores = benchmark(name).scoring.protocols[protocol].read(case, purpose, evidence)
    return {s.metric: s.failure.kind if s.failure else s.value for s in scores if not s.not_applicable}


RISE = [
    ("Final Score: 5", 1.0, 1.0),
    ("Good.\n\n**Final Score: 4**", 0.75, 0.75),
    ("Final Score: 2. On reflection:\nFinal Score: 4", 0.25, 0.75),
    ("Final Score: 5\n1. The moth is there.", "unparsable", 1.0),
    ("Final Score: 4.5", 0.75, "out_of_range"),
    ("Final Score: 7", 1.5, "out_of_range"),
    ("The final score is 3", "unparsable", "unparsable"),
    ("Failed to obtain answer via API. ", "unparsable", "unparsable"),
    ("", "unparsable", "empty_reply"),
]


@pytest.mark.parametrize(("reply", "paper", "corrected"), RISE)
def test_rise_takes_the_first_mark_in_paper_and_the_last_in_corrected(
    data: Path, reply: str, paper: float | str, corrected: float | str
) -> None:
    case = cases_of(data, "risebench")["temporal_reasoning_1"]
    assert read("risebench", "paper", case, "reasoning", reply)["reasoning"] == paper
    assert read("risebench", "corrected", case, "reasoning", reply)["reasoning"] == corrected


def test_rise_puzzles_are_marked_0_or_1(data: Path) -> None:
    case = cases_of(data, "risebench")["logical_reasoning_1"]
    assert read("risebench", "paper", case, "reasoning", "Final Score: 5")["reasoning"] == 1.0
    assert read("risebench", "corrected", case, "reasoning", "Final Score: 5")["reasoning"] == "out_of_range"
    assert read("risebench", "corrected", case, "reasoning", "Final Score: 1")["reasoning"] == 1.0


def rise_results(root: Path, marks: Mapping[str, tuple[str | None, ...]], *, shared: bool = True) -> Path:
    columns = ("judge_cons", "judge_reas", "judge_qua")
    rows = [{"index": case, **dict(zip(columns, said, strict=True))} for case, said in marks.items()]
    return reasoning.write_sheet(root / "mine_judge.xlsx", rows, shared=shared).parent


@pytest.mark.parametrize("shared", [True, False])
def test_rise_sheets_of_the_release_are_read_again_in_both_protocols(data: Path, tmp_path: Path, shared: bool) -> None:
    five, four, lost = "Final Score: 5", "a & b <c>\nFinal Score: 4", "Failed to obtain answer via API. "
    marks = {
        "temporal_reasoning_1": (four, five, five),
        "temporal_reasoning_2": (None, five, five),
        "causal_reasoning_1": (five, "Final Score: 1", five),
        "spatial_reasoning_1": (five, five, lost),
        "spatial_reasoning_2": (five, five, five),
        "spatial_reasoning_3": (five, five, four),
        "logical_reasoning_1": ("Final Score: 1", "Final Score: 1", None),
        "logical_reasoning_2": ("Final Score: 1", "Final Score: 0", None),
        "logical_reasoning_3": ("Final Score: 1", "Final Score: 1", None),
    }
    folder = rise_results(tmp_path, marks, shared=shared)
    result = refbench.rescore("risebench", data=data / "risebench", replies=folder, draws=0)
    value = {p: result.value(level="overall", metric="accuracy", protocol=p) for p in ("paper", "corrected")}
    assert value["paper"] == pytest.approx(100 * 4 / 9), "the failed case counts 0, as the release has it"
    assert value["corrected"] == pytest.approx(100 * 4 / 8)
    scores = {(s.case, s.protocol): s.value for s in result.scores if s.metric == "score"}
    assert scores["temporal_reasoning_1", "corrected"] == pytest.approx((0.3 * 4 + 0.7 * 5 - 1) / 4)
    assert scores["temporal_reasoning_1", "paper"] == pytest.approx(1.0), "consistency never enters"
    assert scores["temporal_reasoning_2", "corrected"] == pytest.approx(1.0)
    assert scores["causal_reasoning_1", "paper"] == pytest.approx((max(1, (0.8 + 0.2 * 5) / 2) - 1) / 4)
    assert scores["causal_reasoning_1", "corrected"] == pytest.approx(((0.3 * 5 + 0.5 + 0.2 * 5) / 2 - 1) / 4)
    assert scores["logical_reasoning_2", "corrected"] == pytest.approx((max(1, (0.3 * 5 + 0.7) / 2) - 1) / 4)
    assert scores["spatial_reasoning_1", "corrected"] is None and {s.model for s in result.scores} == {"mine"}


def test_a_spreadsheet_that_is_none_or_asks_for_entities_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="cannot be read as a spreadsheet"):
        list(sheet_rows(put(tmp_path / "a_judge.xlsx", "no zip")))
    path = reasoning.write_sheet(tmp_path / "b.xlsx", [{"a": "&x;"}])
    import zipfile

    with zipfile.ZipFile(path) as book:
        sheet = book.read("xl/worksheets/sheet1.xml")
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/worksheets/sheet1.xml", b'<!DOCTYPE a [<!ENTITY x "xxxx">]>' + sheet)
    with pytest.raises(RefBenchError, match="declares entities"):
        list(sheet_rows(path))


KRIS = [
    ('{"consistency_score": 4, "reasoning": "kept"}', 0.75, 0.75),
    ('{"reasoning": 2 trees changed, "consistency_score": 4}', 0.25, 0.75),
    ('{"reasoning": "a {brace}, 1 of them", "consistency_score": 5}', 0.0, 1.0),
    ("Consistency score: 3", 0.5, 0.5),
    ("I would say 4 out of 5, with 2 flaws", 0.75, "unparsable"),
    ('{"consistency_score": 0}', -0.25, "out_of_range"),
    ('{"consistency_score": 7}', 1.5, "out_of_range"),
    ('{"consistency_score": 4.5}', 0.75, "out_of_range"),
    ("There are 3 birds and no mark.", 0.5, "unparsable"),
    ("No mark.", "unparsable", "unparsable"),
]


@pytest.mark.parametrize(("reply", "paper", "corrected"), KRIS)
def test_kris_takes_the_first_digit_in_paper_and_the_key_in_corrected(
    data: Path, reply: str, paper: float | str, corrected: float | str
) -> None:
    case = cases_of(data, "krisbench")["color_change/1"]
    assert read("krisbench", "paper", case, "consistency", reply)["VC"] == paper
    assert read("krisbench", "corrected", case, "consistency", reply)["VC"] == corrected


def test_kris_asks_for_two_marks_where_knowledge_is_asked_for_and_takes_no_digit_for_them(data: Path) -> None:
    cases = cases_of(data, "krisbench")
    told = '{"instruction_score": 3, "knowledge_score": 5}'
    for protocol in ("paper", "corrected"):
        assert read("krisbench", protocol, cases["physics/1"], "instruction", told) == {"IF": 0.5, "KP": 1.0}
        assert read("krisbench", protocol, cases["color_change/1"], "instruction", told) == {"IF": 0.5}
    stray = read("krisbench", "paper", cases["physics/1"], "instruction", "2 trees. Knowledge score: 4")
    assert stray == {"IF": "unparsable", "KP": 0.75}


def test_kris_a_refusal_fails_no_measure_that_is_not_asked_for(data: Path) -> None:
    case = next(case for case in cases_of(data, "krisbench").values() if case.details["kind"] == "plain")
    purpose, refused = Purpose(case=case.id, model="m", judge="j", part="instruction"), Failure(kind="refused")
    for protocol in ("paper", "corrected"):
        read_of = benchmark("krisbench").scoring.protocols[protocol].read
        scores = read_of(case, purpose, Evidence(kind="chat", request={}, failure=refused))
        assert [(s.metric, s.failure is not None) for s in scores] == [("IF", True), ("KP", False)]


def test_kris_marks_of_the_released_scripts_are_tabled_in_paper_alone(data: Path, tmp_path: Path) -> None:
    marks = {"consistency_score": 5, "instruction_score": 3, "knowledge_score": 1, "quality_score": None}
    put(tmp_path / "mine/physics/metrics.json", json.dumps({"1": marks}))
    put(tmp_path / "mine/color_change/metrics.json", json.dumps({"1": {**marks, "quality_score": 5}}))
    result = refbench.rescore("krisbench", data=data / "krisbench", replies=tmp_path, draws=0)
    assert {row.protocol for row in result.table.rows} == {"paper"}
    scores = {(s.case, s.metric): s for s in result.scores if s.case.endswith(("physics/1", "color_change/1"))}
    assert [scores["physics/1", m].value for m in ("VC", "IF", "KP")] == [1.0, 0.5, 0.0]
    assert scores["physics/1", "VQ"].failure is not None and scores["color_change/1", "KP"].not_applicable


def test_kris_shows_frames_in_the_order_of_time_and_names_every_picture(data: Path, tmp_path: Path) -> None:
    assert kris.frames(["7-1.jpg", "7-2.jpg", "7-4.jpg"]) == [1, 2, 4, 3]
    assert kris.frames(["a.jpg"]) == [1]
    with JudgeServer(reply=lambda text: '{"consistency_score": 1}') as server:
        evaluate(
            "krisbench",
            data=data / "krisbench",
            models=["A=baseline:copy"],
            judges=[f"j=openai:x?base_url={server.url}/v1"],
            out=tmp_path / "run",
            repair=False,
        )
    contents = [request.body["messages"][0]["content"] for request in server.requests]
    (course,) = (c for c in contents if "Whether its moment is right" in c[0]["text"])
    named = [part["text"].split(":")[0] for part in course[1:] if part["type"] == "text"]
    assert named[:-1] == ["Frame 1, given", "Frame 2, given", "Frame 3, generated", "Frame 4, given"]
    assert named[-1].startswith("Reply with one JSON object")
    (view,) = (c for c in contents if "to show its scene from elsewhere" in c[0]["text"])
    assert sum(part["type"] == "image_url" for part in view) == 3


MICO = [
    ("Scores: [8, 6]", 48**0.5, 48**0.5),
    ("[8/10, 7/10]", "unparsable", 56**0.5),
    ("[8, 70]", 560**0.5, "out_of_range"),
    ("[8]", "unparsable", "unparsable"),
    ("[8, 7, 6]", "unparsable", "unparsable"),
]


@pytest.mark.parametrize(("reply", "paper", "corrected"), MICO)
def test_mico_reads_a_pair(data: Path, reply: str, paper: float | str, corrected: float | str) -> None:
    case = cases_of(data, "micobench")["hoi/2"]
    for protocol, wanted in (("paper", paper), ("corrected", corrected)):
        found = read("micobench", protocol, case, "PQ", reply)["PQ"]
        assert found == (pytest.approx(wanted) if isinstance(wanted, float) else wanted)


def test_mico_takes_both_words_for_no_in_paper_and_for_no_answer_in_corrected(data: Path) -> None:
    case = cases_of(data, "micobench")["object_centric/0"]
    for reply, paper, corrected in (
        ("Yes.", 1, 1),
        ("no", 0, 0),
        ("Yes and no", 0, "unparsable"),
        ("?", 0, "unparsable"),
    ):
        assert read("micobench", "paper", case, "source_1", reply)["source_1"] == paper
        assert read("micobench", "corrected", case, "source_1", reply)["source_1"] == corrected


def face(*vectors: tuple[float, float]) -> dict[str, Any]:
    return {"vectors": np.array(vectors, dtype=np.float64).reshape(-1, 2)}


def test_mico_gives_five_credits_for_a_face_and_none_where_the_output_has_no_face() -> None:
    kept = face_kept
    for cosine, credit in ((0.45, 1.0), (0.449, 0.7), (0.3, 0.7), (0.15, 0.5), (0.05, 0.2), (0.049, 0.0), (-1.0, 0.0)):
        turned = (cosine, (1 - cosine**2) ** 0.5)
        assert kept(face(turned), face((2.0, 0.0))) == credit
        assert kept(face((-1.0, 0.0), turned), face((2.0, 0.0), (0.0, 1.0))) == credit
    assert kept(face(), face((1.0, 0.0))) == 0.0
    found = kept(face((1.0, 0.0)), face())
    assert isinstance(found, Failure) and found.kind == "no_detection"


def derived(name: str, protocol: str, case: AnyCase, **marks: float | str | Failure) -> dict[str, Any]:
    """What follows of marks; a text is the kind of a failure."""
    from refbench.score import Score

    bench = benchmark(name)
    away = bench.asking.not_applicable(case)
    place = {"case": case.id, "model": "m", "judge": "j", "protocol": protocol}
    failed = {m: Failure(kind=v) if isinstance(v, str) else v for m, v in marks.items()}  # type: ignore[arg-type]
    scores = {
        m: Score(**place, metric=m, **{"failure" if isinstance(v, Failure) else "value": v})  # type: ignore[arg-type]
        for m, v in failed.items()
    } | {m: Score(**place, metric=m, not_applicable=why) for m, why in away.items()}  # type: ignore[arg-type]
    assert bench.scoring.derived is not None
    return dict(bench.scoring.derived(case, protocol, scores))


def test_mico_self_test_values_of_the_readme(data: Path) -> None:
    """One face at 0.35, two objects found, one of two pieces of clothing: 0.74; with W 0.75, [8, 7] and [9, 6] 41.24."""
    case = cases_of(data, "micobench")["dere/2623"]
    marks = {"face_2": 0.7, "source_1": 1.0, "source_3": 1.0, "source_4": 1.0, "source_5": 0.0}
    for protocol in ("paper", "corrected"):
        found = derived("micobench", protocol, case, **marks, SC=54**0.5, PQ=56**0.5)
        assert found["W"] == pytest.approx(0.74)
        assert found["score"] / found["W"] * 0.75 == pytest.approx(41.24, abs=0.005)


def test_mico_weight_of_a_failed_call_is_1_in_paper_alone(data: Path) -> None:
    case = cases_of(data, "micobench")["human_centric/1"]
    lost = {"face_2": 0.0, "source_1": "api_error", "source_3": 0.0, "SC": 5.0, "PQ": 4.0}
    assert derived("micobench", "paper", case, **lost)["W"] == 1.0
    assert derived("micobench", "corrected", case, **lost)["W"].kind == "api_error"
    faceless = {**lost, "source_1": 1.0, "face_2": "no_detection"}
    assert derived("micobench", "paper", case, **faceless)["W"] == pytest.approx(1 / 3)
    assert derived("micobench", "corrected", case, **faceless)["W"].kind == "no_detection"
    refused = derived("micobench", "paper", case, **{**lost, "source_1": Failure(kind="refused", by_model=True)})
    assert refused["W"].kind == "refused", "nobody gains by refusing"
    for protocol, source in itertools.product(("paper", "corrected"), (1.0, "api_error")):
        unmeasured = derived("micobench", protocol, case, **{**faceless, "source_1": source, "face_2": "not_measured"})
        assert isinstance(unmeasured["W"], Failure), "a network that is not here raises nobody's score"


PAIR = [
    ('{"reasoning": "r", "score": [20, 5]}', (20.0, 5.0), (20.0, 5.0)),
    ('{"reasoning": "a "quote"", "score": [20, 5]}', (20.0, 5.0), (20.0, 5.0)),
    ('{"reasoning": "a "quote"", "score": [20]', "unparsable", "unparsable"),
    ('{"reasoning": "a "quote"", "score": 20}', "unparsable", "unparsable"),
    ('{"score": [30, 5]}', (30.0, 5.0), "out_of_range"),
    ('{"score": [20]}', "unparsable", "unparsable"),
    ('{"reasoning": "It has 2 people and 3 dogs"}', "unparsable", "unparsable"),
    ('{"reasoning": "2 dogs", "rating": [20, 18]}', "unparsable", "unparsable"),
    ('{"score": [-5, 3]}', "out_of_range", "out_of_range"),
    ("I'm sorry, but I can't assist with that request.", "unparsable", "refused"),
]


@pytest.mark.parametrize(("reply", "paper", "corrected"), PAIR)
def test_editreward_draws_no_marks_by_lot(data: Path, reply: str, paper: Any, corrected: Any) -> None:
    case = next(iter(cases_of(data, "editrewardbench").values()))
    for protocol, wanted in (("paper", paper), ("corrected", corrected)):
        found = read("editrewardbench", protocol, case, "SC_preferred", reply)
        marks = [found[f"SC_preferred_{n}"] for n in (1, 2)]
        kinds = {mark for mark in marks if isinstance(mark, str)}
        assert kinds == {wanted} if isinstance(wanted, str) else tuple(marks) == wanted


def test_editreward_words_do_not_tell_which_edit_people_preferred(data: Path) -> None:
    case = next(c for c in cases_of(data, "editrewardbench").values() if c.groups["dimension"] == "overall")
    shown = SentPicture("a" * 64, Path("a.png"), "image/png", 8, 8, 100, None)  # type: ignore[arg-type]
    material = Material(inputs=(shown,), outputs=(shown, shown))
    judging = benchmark("editrewardbench").asking.judging(data / "editrewardbench", {"prompts": "own", "ask": "both"})
    requests = {asked.part: asked.request for asked in judging.ask(case, material)}
    assert requests["SC_preferred"] == requests["SC_other"] and requests["PQ_preferred"] == requests["PQ_other"]
    texts = [part.text for request in requests.values() for part in request.parts if part.type == "text"]
    assert texts and not [text for text in texts if "preferred" in text.lower()]


@given(st.lists(st.integers(0, 25), min_size=2, max_size=4), st.data())
def test_editreward_passes_with_one_sum_are_a_tie_however_they_are_rounded(
    passes: list[int], more: st.DataObject
) -> None:
    from refbench.benchmarks.editrewardbench.benchmark import tied

    turned = more.draw(st.permutations(passes))
    first, second = (sum(mark / 2.5 for mark in marks) / len(marks) for marks in (passes, turned))

    class Marks(dict[str, float]):
        def applies(self, name: str) -> bool:
            return name in self

    assert tied(Marks(consistency_preferred=first, consistency_other=second)) == 1.0


def pairs(data: Path, out: Path, marks: Callable[[str, bool, int], tuple[int, int]], **more: Any) -> Any:
    """A run in which the judge's marks follow from the call, whether it is of the preferred edit, and the pass."""
    passes: dict[str, int] = {}

    def reply(body: str) -> str:
        content = json.loads(body)["messages"][0]["content"]
        kind = "SC" if "edit" in content[0]["text"] and sum(p["type"] == "image_url" for p in content) == 2 else "PQ"
        pictures = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        preferred = pictures[-1] in first
        passes[body] = passes.get(body, -1) + 1
        return json.dumps({"reasoning": "r", "score": marks(kind, preferred, passes[body])})

    import base64

    dataset = benchmark("editrewardbench").data.load(data / "editrewardbench", None)
    first = {
        f"data:image/png;base64,{base64.b64encode(dataset.path(case.targets[0]).read_bytes()).decode()}"
        for case in dataset.cases
    }
    with JudgeServer(reply=reply, with_pictures=True) as server:
        result = evaluate(
            "editrewardbench",
            data=data / "editrewardbench",
            models=(),
            judges=[f"j=openai:x?base_url={server.url}/v1"],
            out=out,
            **more,
        ).result
    return result, len(server.requests)


def accuracy(result: Any, protocol: str) -> dict[str, float | None]:
    return {row.metric: row.value for row in result.rows(level="overall", protocol=protocol)}


def test_editreward_ranks_a_judge_by_pairs_and_asks_about_a_picture_once(data: Path, tmp_path: Path) -> None:
    result, asked = pairs(data, tmp_path / "run", lambda kind, preferred, _: (20, 10) if preferred else (10, 20))
    assert asked == 4 * len(GROUP_OF), "39 pairs of 26 pictures, two calls each"
    for protocol in ("paper", "corrected"):
        found = accuracy(result, protocol)
        assert (found["prompt_following"], found["consistency"]) == (1.0, 0.0)
    assert accuracy(result, "corrected")["overall"] == 0.5 and accuracy(result, "paper")["overall"] == 0.0
    assert accuracy(result, "corrected")["tied"] == pytest.approx(1 / 3), "all pairs compared in overall"
    (row,) = result.rows(level="overall", protocol="corrected", metric="prompt_following")
    assert (row.model, row.judge, row.n_expected, row.n_not_applicable) == ("pairs", "j", 13, 26)
    assert row.ci95 is None or row.ci95[0] <= 1.0


def test_editreward_passes_are_averaged_before_they_are_compared(data: Path, tmp_path: Path) -> None:
    """A judge that gives 12 both times to one, 10 and 20 to the other: right in the mean, not in the first pass."""

    def marks(kind: str, preferred: bool, draw: int) -> tuple[int, int]:
        return ((10, 20)[draw % 2],) * 2 if preferred else (12, 12)

    once, _ = pairs(data, tmp_path / "once", marks)
    twice, asked = pairs(data, tmp_path / "twice", marks, repeats=2)
    assert accuracy(once, "paper")["prompt_following"] == 0.0
    assert accuracy(twice, "paper")["prompt_following"] == 1.0 and asked == 8 * len(GROUP_OF)
    assert accuracy(twice, "paper")["overall"] == 1.0


def test_editreward_ranks_judges_among_each_other(data: Path, tmp_path: Path, run_cli: Refbench) -> None:
    """A judge that prefers the smaller picture is always right here, one that gives everybody the same never decides."""

    def reply(body: str) -> str:
        name, content = json.loads(body)["model"], json.loads(body)["messages"][0]["content"]
        last = [part["image_url"]["url"] for part in content if part["type"] == "image_url"][-1]
        small = len(last) < 2080
        return json.dumps({"reasoning": "r", "score": [20, 20] if name == "even" or small else [5, 5]})

    with JudgeServer(reply=reply, with_pictures=True) as server:
        judges = [f"{name}=openai:{name}?base_url={server.url}/v1" for name in ("even", "keen")]
        words = [word for judge in judges for word in ("--judge", judge)]
        where = ["--data", data / "editrewardbench", "--out", tmp_path / "run"]
        code, out, said = run_cli("run", "editrewardbench", *words, *where)
    assert code == 0, said
    lines = [line.split()[:3] for line in out.splitlines() if line.startswith("pairs")]
    values = {judge: float(value) for _, judge, value in lines[:2]}
    assert values == {"even": 0.5, "keen": 1.0} and [judge for _, judge, _ in lines[:2]] == sorted(
        values, key=lambda j: -values[j]
    )
    code, out, said = run_cli("agree", tmp_path / "run", "--draws", "0")
    assert code == 0 and "even ~ keen" in out, said


def test_editreward_takes_no_model_and_needs_every_task(data: Path, tmp_path: Path, run_cli: Refbench) -> None:
    words = ["run", "editrewardbench", "--data", data / "editrewardbench", "--out", tmp_path / "run"]
    code, _, said = run_cli(*words, "--model", "A=baseline:copy", "--judge", "openai:x?base_url=http://localhost:1/v1")
    assert code == 2 and "ranks judges by outputs of its own: leave --model out" in said
    code, _, said = run_cli(*words)
    assert code == 2 and "is scored by a judge: give at least one --judge" in said
    with pytest.raises(RefBenchError, match=re.escape("has no pairs of extract")):
        rows = reasoning.editrewardbench(tmp_path / "less")
        from pyarrow import compute, ipc

        with ipc.open_stream(str(rows / "data-00000-of-00001.arrow")) as file:
            table = file.read_all()
        kept = table.filter(compute.not_equal(table["task_type"], "extract"))
        with ipc.new_stream(str(rows / "data-00000-of-00001.arrow"), kept.schema) as out:
            out.write_table(kept)
        benchmark("editrewardbench").data.load(rows, None)
