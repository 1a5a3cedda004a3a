"""The data of the pages: every chunk says what the table, the cases and the judges say, and nothing gets out of it."""

from __future__ import annotations

import asyncio
import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from oracle.kits import kits
from refbench.benchmarks import benchmark, names
from refbench.case import Picture
from refbench.engine import evaluate
from refbench.engine.evaluation import generate_async
from refbench.engine.options import RunOptions
from refbench.failure import KINDS
from refbench.metrics import find_metric
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from refbench.report.site.boards import _within, open_boards
from refbench.report.site.contract import CASES_SIZE
from refbench.report.site.failures import cause_of
from refbench.report.site.overview import failure_kinds
from refbench.report.site.pages import Pages, script, write_site
from refbench.report.site.pictures import PictureStore, full_picture, thumbnail
from refbench.runs import Run
from refbench.runs.annotations import Annotation, annotate
from refbench.stats import WeightedMeans
from refbench.tables.scoring import rescore, score_run
from refbench.tables.table import Columns
from support import ideabench
from support.five_criteria import FIVE
from support.judge_server import JudgeServer, dice
from support.shown_numbers import site_chunk

NASTY = "It is </script><script>alert(1)</script>\u2028 & \x00 <b>bold</b>"


def marks(text: str) -> str:
    return json.dumps({"reasoning": NASTY, **{name: 1 + int(dice(text + name, "mark") * 10) for name in FIVE}})


def read(path: Path) -> Any:
    """The value in a chunk, as a browser would be given it."""
    root = next(folder for folder in path.parents if folder.name == "data")
    return site_chunk(root.parent, path.relative_to(root).with_suffix("").as_posix(), as_text=False)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty cases of one's own with one to three references; a run of two baselines and a folder with a gap, and a
    second run of one baseline on half of them."""
    root = tmp_path_factory.mktemp("view")
    rng = np.random.default_rng(0)
    (root / "pics").mkdir()
    (root / "out").mkdir()
    rows = []
    for n in range(30):
        for k in range(3):
            (root / f"pics/{n}_{k}.png").write_bytes(encode(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)))
        if n != 4:
            (root / f"out/case{n}.png").write_bytes(
                encode(rng.integers(0, 255, (500, 400, 3) if n == 0 else (40, 30, 3), dtype=np.uint8))
            )
        references = [
            {"path": f"pics/{n}_{k}.png", "role": role}
            for k, role in enumerate(("subject", "style", "pose")[: 1 + n % 3])
        ]
        rows.append(
            {
                "id": f"case{n}",
                "instruction": f"Paint {n} {NASTY}",
                "references": references,
                "tags": ["hard"] if n % 2 else [],
            }
        )
    (root / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with JudgeServer(reply=marks, with_pictures=True) as server:
        judges = [f"j=openai:gpt-4o?base_url={server.url}/v1"]
        cases = str(root / "cases.jsonl")
        models = ["copy=baseline:copy", "collage=baseline:collage", f"mine=folder:{root / 'out'}"]
        evaluate(cases, models=models, judges=judges, out=root / "one", rubric="five_criteria")
        evaluate(
            cases, models=["copy=baseline:copy"], judges=judges, out=root / "two", rubric="five_criteria", limit=15
        )
    return root


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def pages(work: Path) -> Iterator[Pages]:
    store = PictureStore()
    found = Pages([work / "one"], store, draws=200)
    yield found
    found.close()
    store.close()


@pytest.fixture
def store() -> Iterator[PictureStore]:
    found = PictureStore()
    yield found
    found.close()


def test_rows_are_those_of_the_table(pages: Pages, work: Path) -> None:
    head, chunk = pages.chunk("site")["boards"][0], pages.chunk("b0/board")
    table = score_run(work / "one", draws=200)
    assert head["fingerprint"] == table.table.fingerprint
    rows = {
        (head["models"][r["model"]]["name"], head["judges"][r["judge"]], r["metric"], tuple(r["slice"].items())): r
        for r in chunk["rows"]
    }
    for row in table.table.rows:
        shown = rows[row.model, row.judge, row.metric, tuple(row.slice.items())]
        assert (shown["value"], shown["ci95"], shown["bounds"], shown["n_scored"]) == (
            row.value,
            row.ci95,
            row.bounds,
            row.n_scored,
        )
    assert head["summary"] == {"corrected": "total"}
    total = next(m for m in head["measures"]["corrected"] if m["name"] == "total")
    assert (total["low"], total["high"], total["better"], total["digits"]) == (1.0, 10.0, "higher", 2)


def test_rows_by_number_of_references_are_means_over_those_cases(pages: Pages, work: Path) -> None:
    assert pages.chunk("site")["boards"][0]["levels"] == ["overall", "tag", "n_refs"]
    models = [model["name"] for model in pages.chunk("site")["boards"][0]["models"]]
    by_references = [
        r
        for r in pages.chunk("b0/board")["rows"]
        if r["slice"]["level"] == "n_refs" and r["metric"] == "visual_quality"
    ]
    assert {r["slice"]["n_refs"] for r in by_references} == {"1", "2", "3"}
    scores = score_run(work / "one", draws=0).scores
    for row in by_references:
        mine = [
            s.value
            for s in scores
            if s.model == models[row["model"]]
            and s.metric == "visual_quality"
            and 1 + int(s.case[4:]) % 3 == int(row["slice"]["n_refs"])
        ]
        there = [value for value in mine if value is not None]
        assert row["n_expected"] == 10 and row["n_scored"] == len(there)
        assert row["value"] == pytest.approx(np.mean(there))


def test_the_index_has_the_value_and_the_failure_of_each_case(pages: Pages, work: Path) -> None:
    index, models = pages.chunk("b0/index/0"), pages.chunk("site")["boards"][0]["models"]
    assert index["ids"] == [f"case{n}" for n in range(30)]
    assert index["n_references"] == [1 + n % 3 for n in range(30)]
    weights = {
        "instruction_alignment": 3,
        "reference_consistency": 3,
        "background_subject_match": 1,
        "physical_realism": 1,
        "visual_quality": 1,
    }
    scores = {(s.model, s.case, s.metric): s.value for s in score_run(work / "one", draws=0).scores}
    for m, model in enumerate(models):
        for n, case in enumerate(index["ids"]):
            parts = [scores[model["name"], case, metric] for metric in weights]
            value, failed = index["values"]["corrected/0"][m][n], index["failed"]["corrected/0"][m][n]
            if None in parts:
                assert (value, failed) == (None, "missing_output")
            else:
                assert value == pytest.approx(np.average(parts, weights=list(weights.values())), abs=1e-6)
                assert failed is None
    assert all(len(words) <= 600 and words == words.lower() for words in index["words"])
    assert "alert(1)" in index["words"][3], "the judge's words can be searched"


def test_a_case_shows_its_pictures_outputs_scores_and_words(pages: Pages) -> None:
    case = pages.chunk("b0/cases/0")["cases"][5]
    assert (case["id"], case["instruction"], case["tags"]) == ("case5", f"Paint 5 {NASTY}", ("hard",))
    assert [(p["role"], p["name"], p["width"], p["height"]) for p in case["references"]] == [
        ("subject", "pics/5_0.png", 32, 24),
        ("style", "pics/5_1.png", 32, 24),
        ("pose", "pics/5_2.png", 32, 24),
    ]
    assert [(o["model"], len(o["pictures"]), o["failure"]) for o in case["outputs"]] == [
        (0, 1, None),
        (1, 1, None),
        (2, 1, None),
    ]
    assert case["outputs"][1]["pictures"][0]["thumb"] == case["references"][0]["thumb"], "a copy is the same picture"
    assert len(case["scores"]) == 3 * 5 and all(score["value"] is not None for score in case["scores"])
    assert [json.loads(reply["reply"])["reasoning"] for reply in case["replies"]] == [NASTY] * 3
    assert [question["metric"] for question in case["questions"]][:2] == [
        "instruction_alignment",
        "reference_consistency",
    ]
    absent = pages.chunk("b0/cases/0")["cases"][4]
    assert next(o for o in absent["outputs"] if o["model"] == 2)["failure"]["kind"] == "missing_output"
    assert [c["id"] for c in pages.chunk("b0/cases/1")["cases"]] == [f"case{n}" for n in range(CASES_SIZE, 30)]


def test_a_copied_reference_is_flagged_and_a_new_picture_is_not(pages: Pages) -> None:
    models = [model["name"] for model in pages.chunk("site")["boards"][0]["models"]]
    flags = dict(zip(models, pages.chunk("b0/index/0")["flags"], strict=True))
    assert flags["copy"] == [2] * 30 and flags["mine"] == [0] * 30, "bit 1 is near_reference"
    row = next(row for row in pages.chunk("b0/failures")["flags"] if models[row["model"]] == "copy")
    assert (row["flag"], row["n"], row["of"], len(row["cases"])) == ("near_reference", 30, 30, 30)


def test_failures_are_counted_and_shown(pages: Pages) -> None:
    chunk = pages.chunk("b0/failures")
    assert {(row["kind"], row["n"], row["n_expected"]) for row in chunk["by_kind"]} == {("missing_output", 1, 30)}
    assert [(one["case"], one["kind"], one["n"]) for one in chunk["causes"]] == [("case4", "missing_output", 1)], (
        "once, not for each measure"
    )
    assert chunk["causes"][0]["protocol"] == pages.boards["b0"].board.protocols[0]
    assert len(chunk["causes"][0]["metrics"]) > 1 and chunk["n_causes"] == 1
    assert len(chunk["test"]) == 1 and chunk["test"][0]["statement"].startswith("in total, ")


def test_cases_to_look_at_first_are_the_best_the_worst_and_the_most_disputed(pages: Pages) -> None:
    looks = pages.chunk("b0/board")["looks"]["corrected/0"]
    index = pages.chunk("b0/index/0")
    values = np.array([[np.nan if v is None else v for v in row] for row in index["values"]["corrected/0"]])
    whole = ~np.isnan(values).any(axis=0)
    means = np.where(whole, values.mean(axis=0), np.nan)
    spread = np.where(whole, np.ptp(values, axis=0), np.nan)
    assert [look["why"] for look in looks] == ["best", "worst", "disputed"]
    places = [index["ids"].index(look["case"]) for look in looks]
    assert len(set(places)) == 3, "none is shown twice"
    assert means[places[0]] == np.nanmax(means) and means[places[1]] == np.nanmin(means)
    others = [i for i in range(30) if i not in places[:2]]
    assert spread[places[2]] == np.nanmax(spread[others])
    for look, place in zip(looks, places, strict=True):
        assert look["given"]["thumb"] and look["n_given"] == 1 + place % 3
        assert {(at["model"], at["value"]) for at in look["models"]} == {(m, values[m][place]) for m in range(3)}
        assert all(at["picture"]["thumb"].startswith("thumbs/") for at in look["models"])


def test_models_have_their_places_on_the_board(pages: Pages) -> None:
    models = pages.chunk("site")["boards"][0]["models"]
    ranks = {
        row["model"]: row["rank"]
        for row in pages.chunk("b0/board")["rows"]
        if row["metric"] == "total" and row["slice"]["level"] == "overall"
    }
    by_place = sorted(range(3), key=lambda model: models[model]["place"])
    assert [ranks[model] for model in by_place] == sorted(ranks.values())


def test_every_measure_of_a_shipped_benchmark_is_described() -> None:
    said = tomllib.loads((resources.files("refbench.report.site") / "measures.toml").read_text("utf-8"))
    assert set(said) <= set(names())
    for name, about in said.items():
        protocols = benchmark(name).scoring.protocols.values()
        declared = {measure.name: measure for protocol in protocols for measure in protocol.aggregate.measures}
        assert set(about) <= set(declared), f"{name}: {set(about) - set(declared)} is no measure"
        measured = {measure for measure in declared if measure not in about}
        assert all(measure in benchmark(name).asking.measured or "@" in measure for measure in measured), measured


def test_a_measure_that_a_metric_gives_is_described_by_the_metric(
    work: Path, tmp_path: Path, store: PictureStore
) -> None:
    cases = str(work / "cases.jsonl")
    evaluate(cases, models=["copy=baseline:copy"], metrics="colorfulness", out=tmp_path / "run", limit=3)
    pages = Pages([tmp_path / "run"], store, draws=0)
    (measure,) = pages.chunk("site")["boards"][0]["measures"]["corrected"]
    assert measure["about"] == find_metric("colorfulness", "corrected").summary != ""
    pages.close()


def test_failures_of_one_cause_stand_together() -> None:
    trace = 'Traceback (most recent call last):\n  File "/a/b.py", line {n}, in f\nRuntimeError: CUDA out of memory: {n}.5 GiB'
    assert (
        cause_of(trace.format(n=3), "a")
        == cause_of(trace.format(n=71), "b")
        == "RuntimeError: CUDA out of memory: # GiB"
    )
    assert cause_of("case-1: no answer to 'q7'", "case-1") == cause_of("case-22: no answer to 'q9'", "case-22")
    # One reply that gives no value for any of five criteria is one cause, not five.
    assert cause_of("no value for realism", "a", "realism") == cause_of("no value for quality", "a", "quality")
    assert cause_of("status 500 after 3 s", "a") == cause_of("status 500 after 71 s", "a")
    assert cause_of("status 500", "a") != cause_of("status 429", "a")
    assert cause_of("timed out", "") != cause_of("refused", "")


def test_pairs_are_those_of_compare(pages: Pages, work: Path) -> None:
    chunk = pages.chunk("b0/compare")
    found = score_run(work / "one", draws=0).compare(draws=200)
    models = [model["name"] for model in pages.chunk("site")["boards"][0]["models"]]
    assert {(models[p["first"]], models[p["second"]]): (p["gap"], p["n"], p["resolved"]) for p in chunk["pairs"]} == {
        (p.first, p.second): (p.gap, p.n_cases, p.resolved) for p in found.pairs
    }


def test_prompts_are_what_was_sent(pages: Pages) -> None:
    prompts = pages.chunk("b0/board")["prompts"]
    assert [prompt["title"] for prompt in prompts] == ["j: verdict"]
    assert "[picture]" in prompts[0]["text"] and "hard to please" in prompts[0]["text"]


def test_two_runs_of_the_same_cases_share_a_board(work: Path) -> None:
    (board,) = open_boards([work / "one", work / "two"], draws=0)
    try:
        assert [model.name for model in board.models] == ["collage", "copy (one)", "mine", "copy (two)"]
        of_two = [
            score for score in board.result.scores if score.model == "copy (two)" and score.metric == "visual_quality"
        ]
        assert len(of_two) == 30 and sum(score.value is not None for score in of_two) == 15
        assert sum(score.not_asked for score in of_two) == 15
        rows = board.result.rows(model="copy (two)", level="overall")
        assert {(row.n_expected, row.n_scored, row.n_not_asked, sum(row.failures.values())) for row in rows} == {
            (30, 15, 15, 0)
        }
        same = {
            s.case: s.value for s in board.result.scores if s.model == "copy (one)" and s.metric == "visual_quality"
        }
        assert all(score.value == same[score.case] for score in of_two if score.value is not None)
    finally:
        board.close()


def test_runs_of_different_benchmarks_have_boards_of_their_own(work: Path, checkout: Path, tmp_path: Path) -> None:
    rescore("creval", data=checkout, replies=checkout / "answer_gpt", out=tmp_path / "run", draws=0)
    boards = open_boards([work / "one", tmp_path / "run"], draws=0)
    assert [(board.id, board.bench.name) for board in boards] == [("b0", "own"), ("b1", "creval")]
    for board in boards:
        board.close()


def test_a_run_given_twice_is_refused(work: Path) -> None:
    with pytest.raises(RefBenchError, match="given twice"):
        open_boards([work / "one", work / "pics/../one"], draws=0)


def test_judging_that_differs_between_runs_is_said(checkout: Path, tmp_path: Path) -> None:
    with JudgeServer() as server:
        for name, questions in (("all", "all"), ("each", "one")):
            shutil.copytree(checkout / "bench/image", tmp_path / "out", dirs_exist_ok=True)
            evaluate(
                "creval",
                data=checkout,
                models=[f"m=folder:{tmp_path / 'out'}"],
                judges=[f"j=openai:gpt-4o?base_url={server.url}/v1"],
                out=tmp_path / name,
                settings={"questions": questions},
                limit=2,
            )
    (board,) = open_boards([tmp_path / "all", tmp_path / "each"], draws=0)
    board.close()
    assert "the runs were not judged alike: questions is all in all, one in each" in board.result.notes


def test_answers_stand_in_the_order_of_the_questions(checkout: Path, tmp_path: Path, store: PictureStore) -> None:
    rescore("creval", data=checkout, replies=checkout / "answer_gpt", out=tmp_path / "run", draws=0)
    pages = Pages([tmp_path / "run"], store, data=checkout, draws=0)
    case = pages.chunk("b0/cases/0")["cases"][0]
    pages.close()
    for metric in ("IF", "VC", "VQ"):
        questions = [q for q in case["questions"] if q["metric"] == metric]
        for score in (s for s in case["scores"] if s["metric"] == metric):
            assert len(score["answers"]) == len(questions)
            right = sum(q["weight"] for q, a in zip(questions, score["answers"], strict=True) if a == q["expected"])
            assert score["value"] == pytest.approx(right / sum(q["weight"] for q in questions))
    assert all(p["thumb"] for p in case["references"]), "found through --data"


def test_the_papers_numbers_are_there_for_models_that_the_run_has_not(
    checkout: Path, tmp_path: Path, store: PictureStore
) -> None:
    rescore("creval", data=checkout, replies=checkout / "answer_gpt", out=tmp_path / "run", draws=0)
    pages = Pages([tmp_path / "run"], store, draws=0)
    rows = pages.chunk("b0/board")["published"]
    pages.close()
    assert len(rows) == len(benchmark("creval").reporting.published()) and all(row["model"] is None for row in rows)


def test_without_the_data_references_are_empty_and_the_page_says_so(
    checkout: Path, tmp_path: Path, store: PictureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here/creval", tmp_path / "elsewhere/creval"
    shutil.copytree(checkout, here)
    rescore("creval", data=here, replies=here / "answer_gpt", out=tmp_path / "run", draws=0)
    elsewhere.parent.mkdir()
    here.rename(elsewhere)
    monkeypatch.delenv("REFBENCH_DATA", raising=False)
    with closing(Pages([tmp_path / "run"], store, draws=0)) as pages:
        assert [p["thumb"] for p in pages.chunk("b0/cases/0")["cases"][0]["references"]] == [""]
        assert any("not at hand" in note for note in pages.chunk("b0/board")["notes"])
    monkeypatch.setenv("REFBENCH_DATA", str(elsewhere.parent))
    with closing(Pages([tmp_path / "run"], store, draws=0)) as pages:
        assert pages.chunk("b0/cases/0")["cases"][0]["references"][0]["thumb"]


def test_a_data_directory_without_the_pictures_is_refused(work: Path, tmp_path: Path, store: PictureStore) -> None:
    with pytest.raises(RefBenchError, match="holds none of the cases' pictures"):
        Pages([work / "one"], store, data=tmp_path, draws=0)


@pytest.mark.parametrize("text", [NASTY, "</SCRIPT>", "<!--", "]]>", "\u2029", "\ud800 lone", "'\"\\\r\n"])
def test_whatever_a_judge_says_stays_inside_a_string(text: str) -> None:
    data = script("b0/cases/0", {"reply": text, text: 1})
    for bad in (b"<", b">", b"&", "\u2028".encode(), "\u2029".encode(), b"\x00"):
        assert bad not in data
    value = json.loads(data[len(b'refbench.put("b0/cases/0", ') : -len(b");\n")])
    assert value["reply"] == text.replace("\ud800", "\ufffd" * 3)


def test_a_written_site_is_whole_small_at_first_sight_and_can_be_written_again(work: Path, tmp_path: Path) -> None:
    annotate(Run.open(work / "one"), Annotation(case="case3", star=True, comment=NASTY))
    done = write_site([work / "one"], tmp_path / "site", draws=50)
    assert done.path == tmp_path / "site/index.html" and done.cases == 30 and not done.absent and not done.broken
    names = {path.relative_to(tmp_path / "site/data").as_posix() for path in (tmp_path / "site/data").rglob("*.js")}
    assert names == {
        "site.js",
        "annotations.js",
        *(
            f"b0/{n}.js"
            for n in ("board", "compare", "failures", "agreement", "figures/0", "index/0", "cases/0", "cases/1")
        ),
    }
    assert read(tmp_path / "site/data/annotations.js") == [
        {"board": "b0", "case": "case3", "star": True, "tags": [], "comment": NASTY}
    ]
    head = read(tmp_path / "site/data/site.js")
    assert head["live"] is False and set(head["failure_kinds"]) == set(KINDS) == set(failure_kinds())
    first = [path for path in (tmp_path / "site").iterdir() if path.is_file()] + [
        tmp_path / "site/data" / n for n in ("site.js", "annotations.js", "b0/board.js")
    ]
    assert sum(path.stat().st_size for path in first) < 1_000_000
    picture = read(tmp_path / "site/data/b0/cases/0.js")["cases"][0]["outputs"][2]["pictures"][0]
    assert (picture["width"], picture["height"]) == (400, 500)
    shown = decode((tmp_path / "site" / picture["thumb"]).read_bytes())
    assert isinstance(shown, np.ndarray) and shown.shape[:2] == (500, 400) and picture["full"] == picture["thumb"]
    files = [path.stem for path in (tmp_path / "site/shown").glob("*/*")]
    assert len(files) == len(set(files)) == done.pictures - len(list((tmp_path / "site/thumbs").glob("*/*"))), (
        "once each"
    )
    write_site([work / "one"], tmp_path / "site", pictures="full", draws=0)
    picture = read(tmp_path / "site/data/b0/cases/0.js")["cases"][0]["outputs"][2]["pictures"][0]
    thumb = decode((tmp_path / "site" / picture["thumb"]).read_bytes())
    assert isinstance(thumb, np.ndarray) and thumb.shape[:2] == (320, 256)
    assert (tmp_path / "site" / picture["full"]).read_bytes() == (work / "out/case0.png").read_bytes()
    assert not list((tmp_path / "site/shown").glob("*/*")), "what it does not show is gone"
    again = write_site([work / "two"], tmp_path / "site", pictures="thumbs", draws=0)
    assert again.cases == 15 and not list((tmp_path / "site/pictures").glob("*/*")), "what it does not show is gone"
    given = read(tmp_path / "site/data/b0/cases/0.js")["cases"][0]["references"][0]
    assert given["full"] == given["thumb"] and (tmp_path / "site" / given["thumb"]).is_file()


def test_a_folder_with_other_files_is_left_alone(work: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear to someone")
    with pytest.raises(RefBenchError, match=r"holds other files \(thesis.tex\)"):
        write_site([work / "one"], tmp_path, draws=0)
    with pytest.raises(RefBenchError, match="is a file"):
        write_site([work / "one"], tmp_path / "thesis.tex", draws=0)


def test_a_run_that_is_not_there_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="is not there"):
        write_site([tmp_path / "nothing"], tmp_path / "site", draws=0)
    assert not (tmp_path / "site").exists()


def test_a_site_that_was_not_finished_has_no_page_to_open(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_site([work / "two"], tmp_path / "site", draws=0)

    def full(name: str, value: Mapping[str, Any]) -> bytes:
        if name == "b0/failures":
            raise OSError(28, "No space left on device")
        return script(name, value)

    monkeypatch.setattr("refbench.report.site.pages.script", full)
    with pytest.raises(RefBenchError, match=r"disk of .* is full"):
        write_site([work / "two"], tmp_path / "site", draws=0)
    assert not (tmp_path / "site/index.html").exists()
    monkeypatch.undo()
    assert write_site([work / "two"], tmp_path / "site", draws=0).path.exists()


def test_broken_and_changed_pictures_are_named_and_stay_empty(work: Path, tmp_path: Path, store: PictureStore) -> None:
    for name in ("one", "pics"):
        shutil.copytree(work / name, tmp_path / name)
    (tmp_path / "pics/0_0.png").write_bytes((work / "pics/0_0.png").read_bytes()[:40])
    (tmp_path / "pics/1_0.png").unlink()
    pages = Pages([tmp_path / "one"], store, data=tmp_path, draws=0)
    blob = Run.open(tmp_path / "one").blobs
    stored = pages.boards["b0"].board.outputs_by_case["case2"][2][1].pictures[0]
    blob.path(stored.sha256, stored.format).write_bytes(encode(np.zeros((4, 4, 3), dtype=np.uint8)))
    cases = pages.chunk("b0/cases/0")["cases"]
    pages.close()
    assert [cases[n]["references"][0]["thumb"] for n in (0, 1)] == ["", ""] and cases[2]["references"][0]["thumb"]
    assert cases[2]["outputs"][2]["pictures"][0]["thumb"] == "", "another picture under its name is not its picture"
    assert store.absent == {"pics/1_0.png"}
    assert "cut off" in store.broken["pics/0_0.png"] and len(store.broken) == 2
    assert "could not be checked" in pages.boards["b0"].copies.unchecked


def test_pictures_that_browsers_do_not_show_are_shown_as_png(tmp_path: Path, store: PictureStore) -> None:
    pixels = np.random.default_rng(2).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    cv2.imwrite(str(tmp_path / "a.tiff"), pixels[:, :, ::-1])
    view = store.inputs([Picture(name="a.tiff", role="source")], tmp_path, {})[0]
    assert view["full"].endswith(".png") and (view["width"], view["height"]) == (60, 40)
    data = full_picture(store.full[view["full"]])
    assert isinstance(data, bytes) and np.array_equal(decode(data), pixels)
    assert isinstance(small := thumbnail(store.thumbs[view["thumb"]]), bytes) and small[:2] == b"\xff\xd8"


def test_painted_and_not_yet_judged_pictures_can_be_looked_at(work: Path, tmp_path: Path, store: PictureStore) -> None:
    asyncio.run(
        generate_async(
            RunOptions(
                benchmark=str(work / "cases.jsonl"),
                models=["copy=baseline:copy"],
                out=tmp_path / "run",
                rubric="five_criteria",
                limit=3,
            )
        )
    )
    pages = Pages([tmp_path / "run"], store, draws=0)
    case = pages.chunk("b0/cases/0")["cases"][0]
    assert pages.chunk("b0/compare")["pairs"] == [] and pages.chunk("b0/agreement")["pairs"] == []
    pages.close()
    assert case["outputs"][0]["pictures"][0]["thumb"]
    assert {(score["not_asked"], score["failure"]) for score in case["scores"]} == {(True, None)}


def test_gates_of_a_design_are_said_and_every_question_has_its_score(
    tmp_path: Path, store: PictureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    items = ideabench.designs(1)
    ideabench.write_checkout(tmp_path / "data", items)
    ideabench.write_outputs(tmp_path / "m", items)
    with JudgeServer(reply=lambda text: '{"reason": "seen", "score": 1}') as server:
        evaluate(
            "ideabench",
            data=tmp_path / "data",
            models=[f"m=folder:{tmp_path / 'm'}"],
            judges=[f"j=openai:x?base_url={server.url}/v1"],
            out=tmp_path / "run",
            settings={"ask": "corrected"},
            limit=3,
        )
    pages = Pages([tmp_path / "run"], store, protocol="corrected", draws=0)
    case = next(case for case in pages.chunk("b0/cases/0")["cases"] if case["questions"])
    head = pages.chunk("site")["boards"][0]
    pages.close()
    assert [q["metric"] for q in case["questions"]] == [f"q{q}#{call}" for call in (1, 2, 3) for q in range(1, 7)]
    assert {q["metric"][1]: q["gate"] for q in case["questions"]} == {
        "1": None,
        "2": None,
        "3": "questions 1 and 2 earned",
        "4": "questions 1 and 2 earned",
        "5": "questions 1 to 4 earned",
        "6": "questions 1 to 4 earned",
    }
    values = {score["metric"]: score["value"] for score in case["scores"]}
    assert all(values[q["metric"]] == 1.0 for q in case["questions"])
    assert {m["name"]: m["better"] for m in head["measures"]["corrected"]} == {
        "failure_rate": "lower",
        "score@groups": "higher",
        "score": "higher",
    }


def test_rows_that_a_first_view_cannot_hold_are_in_a_chunk_of_their_own(
    work: Path, store: PictureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Pages([work / "two"], store, draws=0)
    rows = whole.chunk("b0/board")["rows"]
    assert not whole.chunk("site")["boards"][0]["rows_apart"] and "b0/rows" not in set(whole.names())
    whole.close()
    monkeypatch.setattr("refbench.report.site.boards.MOST_ROWS", 20)
    apart = Pages([work / "two"], store, draws=0)
    first, others = apart.chunk("b0/board")["rows"], apart.chunk("b0/rows")["rows"]
    assert apart.chunk("site")["boards"][0]["rows_apart"] and "b0/rows" in set(apart.names())
    apart.close()
    assert len(first) + len(others) == len(rows) and all(row in rows for row in (*first, *others))
    assert all(row["slice"]["level"] == "overall" or row["metric"] == "total" for row in first)


def faults_told(page: Path) -> list[str]:
    """The rows of a page's table of faults; none where it has no such table."""
    lines = page.read_text().splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("|") and "in `paper`" in line), len(lines))
    return list(takewhile(lambda line: line.startswith("|"), lines[start + 2 :]))


def test_every_shipped_benchmark_lists_its_faults_as_its_docs_do() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    for name in names():
        page = docs / f"{name}.md"
        assert page.exists(), f"{name} has no page: write docs/{name}.md"
        told, faults = faults_told(page), benchmark(name).reporting.faults()
        assert len(faults) == len(told), f"docs/{name}.md tells of {len(told)} faults, faults.toml of {len(faults)}"
        assert all(fault.fault and fault.paper and fault.corrected for fault in faults)


def test_a_benchmark_without_faults_needs_no_table_of_them(tmp_path: Path) -> None:
    page = tmp_path / "mine.md"
    page.write_text("# Mine\n\n| measure | range |\n|---|---|\n| look | 0 to 4 |\n")
    assert faults_told(page) == []
    page.write_text("| fault | in `paper` | in `corrected` |\n|---|---|---|\n| a | b | c |\n\n| d |\n")
    assert faults_told(page) == ["| a | b | c |"]


def test_unknown_chunks_are_not_there(pages: Pages) -> None:
    for name in (
        "b1/board",
        "b0/cases/2",
        "b0/cases/00",
        "b0/cases/-1",
        "b0/index/1",
        "../site",
        "b0/board/",
        "b0/rows/0",
        "",
    ):
        with pytest.raises(KeyError):
            pages.chunk(name)


@pytest.mark.parametrize("name", ["creval", "icebench", "ideabench", "multibanana", "multiref"])
def test_a_row_by_references_is_the_tables_own_mean_over_these_cases_alone(name: str) -> None:
    """Also where a benchmark averages over groups in more than one way: no mean looks beyond the cases."""
    cases = kits()[name].pool()
    kept = np.arange(len(cases)) % 3 > 0
    rng = np.random.default_rng(5)
    for protocol in benchmark(name).scoring.protocols.values():
        aggregate = protocol.aggregate
        metrics = {part for measure in aggregate.measures for part in measure.parts}
        values = {metric: rng.random((1, len(cases))) for metric in sorted(metrics)}
        filled = aggregate.filled(Columns.of_values([("m", None)], values))
        (overall,) = aggregate.overall(cases)
        weights = np.ones((1, len(cases)))
        narrow = aggregate.summarise(WeightedMeans(filled, weights), _within(overall, kept, "n_refs", {"n_refs": "1"}))
        weighed = aggregate.summarise(WeightedMeans(filled, weights * kept), overall)
        assert narrow.keys() == weighed.keys()
        for measure, value in narrow.items():
            assert value == pytest.approx(weighed[measure], nan_ok=True), measure


def test_a_source_is_no_reference(tmp_path: Path, store: PictureStore) -> None:
    (tmp_path / "p.png").write_bytes(encode(np.zeros((24, 24, 3), np.uint8)))
    given = [{"source": "p.png"}, {"source": "p.png", "references": ["p.png"]}, {"references": ["p.png", "p.png"]}]
    rows = [{"id": f"c{n}", "instruction": "Paint it " + "blue " * 50, **one} for n, one in enumerate(given)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    evaluate(str(tmp_path / "cases.jsonl"), models=["copy=baseline:copy"], metrics=["l1"], out=tmp_path / "run")
    pages = Pages([tmp_path / "run"], store, draws=0)
    index = pages.chunk("b0/index/0")
    assert index["n_references"] == [0, 1, 2]
    assert all(len(said) <= 160 and said.endswith("…") for said in index["instructions"]), "a cut is seen to be one"
    pages.close()
