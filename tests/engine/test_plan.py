"""Plans and the doctor: what will be spent and shown, before; and what a judge can do."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refbench
from refbench.cli.app import main
from refbench.engine import evaluate
from refbench.engine.doctor import examine
from refbench.engine.options import RunOptions
from refbench.engine.plan import Plan, make_plan
from refbench.evidence import Evidence, Purpose
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.stats import detectable
from support import reasoning
from support.checkout import METRICS, plain_items, reply_text, write_checkout, write_outputs
from support.judge_server import Faults, JudgeServer


@pytest.fixture
def work(tmp_path: Path) -> Path:
    items = plain_items(36)
    write_checkout(tmp_path / "creval", items)
    write_outputs(tmp_path / "a", items)
    return tmp_path


def plan(work: Path, judge: str, **changes: Any) -> Plan:
    arguments: dict[str, Any] = {"data": work / "creval", "models": [f"A=folder:{work / 'a'}"], "judges": [judge]}
    like = changes.pop("like", None)
    return asyncio.run(make_plan(RunOptions.of({"benchmark": "creval", **arguments, **changes}), like=like))


PRICED = "j=openai:gpt-4o?base_url=http://127.0.0.1:9/v1&price=2,10"


def test_a_plan_counts_calls_tokens_and_money_without_sending_anything(work: Path) -> None:
    found = plan(work, PRICED)
    assert (found.cases, found.calls, found.calls_known) == (36, 108, 0)
    (judge,) = found.judges
    # Two pictures of one tile each (85 + 170), and 1,200 to 1,400 characters of rubric and questions, three a token.
    assert 108 * (2 * 255 + 400) < judge.input_tokens < 108 * (2 * 255 + 490)
    assert judge.output_tokens == 108 * 400
    assert judge.cost_usd == pytest.approx((judge.input_tokens * 2 + judge.output_tokens * 10) / 1e6, rel=1e-3)
    assert judge.worst_usd is not None
    assert judge.worst_usd > judge.cost_usd
    assert found.cost_usd == judge.cost_usd
    assert "replies of 400 tokens" in found.assumptions


def test_outputs_that_are_missing_are_named_before_anything_is_paid(work: Path) -> None:
    first, second, *_ = sorted(path for path in (work / "a").rglob("*") if path.is_file())
    first.rename(first.with_stem(f"{first.stem}_final"))
    assert plan(work, PRICED).missing == (
        f"1 of 36 outputs of A is missing: A has no picture for {first.stem}; is it {first.stem}_final{first.suffix}?",
    )
    second.unlink()
    assert plan(work, PRICED).missing[0].startswith("2 of 36 outputs of A are missing, the first: ")


def test_what_is_on_record_is_not_planned_again_and_teaches_the_rest(work: Path) -> None:
    with JudgeServer() as server:
        spec = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        evaluate(
            "creval", data=work / "creval", models=[f"A=folder:{work / 'a'}"], judges=[spec], out=work / "run", limit=18
        )
        found = plan(work, spec, out=work / "run")
    assert (found.calls, found.calls_known) == (108, 54)
    assert found.judges[0].calls == 54
    assert found.judges[0].output_tokens == 54 * 100, "replies had 100 tokens so far"
    assert found.assumptions == ()


def test_a_request_that_several_cases_share_is_one_call_in_plan_and_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each picture is in three pairs, and of the few that are laid out at first in fewer."""
    monkeypatch.setattr("refbench.engine.plan._SAMPLE", 4)
    rows = reasoning.editrewardbench(tmp_path / "pairs")
    with JudgeServer(reply=lambda text: '{"score": [5, 5]}') as server:
        judges = [f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"]
        told: dict[str, Any] = {"data": rows, "models": (), "judges": judges, "out": tmp_path / "run"}
        options = RunOptions.of({"benchmark": "editrewardbench", **told})
        begun = evaluate("editrewardbench", **told, limit=5)
        some = len(server.requests)
        whole = asyncio.run(make_plan(options.model_copy(update={"out": None})))
        rest = asyncio.run(make_plan(options))
        assert (whole.calls, rest.calls, rest.calls_known) == (52, 52, some)
        done = evaluate("editrewardbench", **told)
        assert len(server.requests) == 52
    assert begun.progress.expected == begun.progress.done == some
    assert (done.progress.expected, done.progress.known, done.progress.done) == (52, some, 52 - some)


@pytest.mark.parametrize("on_record", [40, 50])
@pytest.mark.slow
def test_what_an_earlier_run_left_out_is_counted_whatever_cases_it_began_with(tmp_path: Path, on_record: int) -> None:
    items = plain_items(60)
    write_checkout(tmp_path / "creval", items)
    write_outputs(tmp_path / "a", items)
    with JudgeServer() as server:
        spec = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        arguments: dict[str, Any] = {"data": tmp_path / "creval", "models": [f"A=folder:{tmp_path / 'a'}"]}
        evaluate("creval", **arguments, judges=[spec], out=tmp_path / "run", limit=on_record)
        found = plan(tmp_path, spec, out=tmp_path / "run")
        assert (found.calls, found.calls_known) == (180, 3 * on_record)
        before = len(server.requests)
        evaluate("creval", **arguments, judges=[spec], out=tmp_path / "run")
        assert len(server.requests) - before == found.judges[0].calls


@pytest.mark.slow
def test_only_the_seeds_and_repeats_on_record_are_known(work: Path) -> None:
    for path in sorted((work / "a").glob("*.png")):
        path.with_stem(f"{path.stem}_s1").write_bytes(encode(np.full((8, 8, 3), len(path.stem), dtype=np.uint8)))
    models = [f"A=folder:{work / 'a'}"]
    with JudgeServer() as server:
        spec = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        evaluate("creval", data=work / "creval", models=models, judges=[spec], out=work / "run")
        repeats, seeds = (plan(work, spec, out=work / "run", **more) for more in ({"repeats": 3}, {"seeds": 2}))
        assert (repeats.calls, repeats.calls_known) == (324, 108)
        assert (seeds.calls, seeds.calls_known) == (216, 108)
        assert plan(work, spec, like=work / "run").calls_known == 0, "an earlier run is not the one that is continued"


def test_a_failure_that_stands_is_not_paid_for_again(work: Path) -> None:
    with JudgeServer(faults=Faults(refused=0.3)) as server:
        spec = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        done = evaluate(
            "creval", data=work / "creval", models=[f"A=folder:{work / 'a'}"], judges=[spec], out=work / "run"
        )
        assert done.progress.failed["refused"]
        assert plan(work, spec, out=work / "run").calls_known == 108


@pytest.mark.slow
def test_the_judging_of_pictures_that_are_still_to_be_made_is_planned(work: Path) -> None:
    found = plan(work, PRICED, models=["C=baseline:copy", f"A=folder:{work / 'a'}"])
    assert (found.calls, found.pictures, found.pictures_usd) == (216, 36, 0.0)
    assert any("1024 x 1024" in assumed for assumed in found.assumptions)
    with JudgeServer() as server:
        spec = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        evaluate("creval", data=work / "creval", models=["C=baseline:copy"], judges=[spec], out=work / "run", limit=9)
        begun = plan(work, spec, models=["C=baseline:copy"], out=work / "run")
    assert (begun.calls, begun.calls_known, begun.pictures) == (108, 27, 27)


def test_a_budget_covers_in_the_plan_what_it_covers_in_the_run(work: Path) -> None:
    """Both begin a case only while the worst that it can cost is left."""
    with JudgeServer() as server:
        spec = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        arguments: dict[str, Any] = {"data": work / "creval", "models": [f"A=folder:{work / 'a'}"], "judges": [spec]}
        evaluate("creval", **arguments, out=work / "like", limit=6)
        whole = plan(work, spec, like=work / "like", budget="100usd")
        assert whole.fits_cases == 36
        assert whole.set_aside_usd is not None
        for budget in (0.9 * whole.set_aside_usd, 1.5 * whole.set_aside_usd):
            told = plan(work, spec, like=work / "like", budget=f"{budget:.6f}usd")
            done = evaluate("creval", **arguments, out=work / f"run{budget}", budget=f"{budget:.6f}usd")
            judged = {purpose.case for purpose, _ in done.run.evidence()}
            assert told.fits_cases == pytest.approx(len(judged), rel=0.2)
            assert (told.fits_cases == 0) == (budget < whole.set_aside_usd)
            assert done.stopped == "budget" or len(judged) == 36
    with pytest.raises(RefBenchError, match="price"):
        plan(work, "j=openai:gpt-4o?base_url=http://127.0.0.1:9/v1", budget="1usd")


def test_an_unknown_price_is_said_and_not_guessed(work: Path) -> None:
    found = plan(work, "j=openai:nobody-knows?base_url=http://127.0.0.1:9/v1")
    assert found.cost_usd is None
    assert found.judges[0].price_source is None


@pytest.mark.slow
def test_precision_comes_from_released_scores_and_shrinks_with_more_cases(work: Path) -> None:
    some, all_of_them = plan(work, PRICED, limit=18).precision, plan(work, PRICED).precision
    assert some is not None
    assert all_of_them is not None
    assert some.half_width > all_of_them.half_width > 1
    assert all_of_them.detectable == pytest.approx(all_of_them.gap_half_width * 2.8 / 1.96, rel=0.06)
    assert all_of_them.source == "the released item scores"
    assert (all_of_them.family, all_of_them.n_clusters, all_of_them.remarks) == (1, 36, ())


@pytest.mark.slow
def test_a_plan_is_for_the_family_the_seeds_and_the_repeats_of_its_run(work: Path) -> None:
    """Eight models are 28 pairs: what a single pair shows four times in five, the first of 28 does not."""
    one = plan(work, PRICED).precision
    for path in sorted((work / "a").glob("*.png")):
        path.with_stem(f"{path.stem}_s1").write_bytes(path.read_bytes())
    models = [f"m{i}=folder:{work / 'a'}" for i in range(8)]
    many = plan(work, PRICED, models=models, seeds=2, repeats=3)
    assert many.calls == 108 * 3, "the pictures are the same in all models and seeds, and asked about once"
    assert one is not None
    assert many.precision is not None
    assert (many.precision.family, many.precision.seeds, many.precision.repeats) == (28, 2, 3)
    assert one.detectable is not None
    assert many.precision.detectable == pytest.approx(
        detectable(many.precision.gap_half_width, clusters=36, df=27, family=28), rel=1e-3
    )
    assert many.precision.detectable > 1.3 * one.detectable
    assert [remark.split(" would")[0] for remark in many.precision.remarks] == ["what more seeds", "what more repeats"]


def test_a_plan_says_when_nothing_could_be_shown(work: Path) -> None:
    found = plan(work, PRICED, limit=5).precision
    assert found is not None
    assert found.detectable is None
    assert found.remarks[0].startswith("5 clusters cannot show a difference whatever the data: it takes at least 6")


def test_seeds_of_an_earlier_run_say_what_more_of_them_would_sharpen(work: Path) -> None:
    rng = np.random.default_rng(2)
    cases = refbench.load("creval", work / "creval").cases
    run = Run.create(work / "earlier", "creval", cases)
    with run.writer() as writer:
        for item in plain_items(36):
            for model, seed, metric in product(("A", "B"), (0, 1), METRICS):
                answers = [(question, "Yes" if rng.random() < 0.5 else "No") for question, *_ in item.of(metric)]
                purpose = Purpose(case=item.stem, model=model, judge="j", part=metric, seed=seed)
                request = {"of": [item.stem, model, metric, seed]}
                writer.add(Evidence(kind="chat", request=request, reply=reply_text(answers)), purpose)
    seeded = [f"A=folder:{work / 'a'}/{{id}}_s{{seed}}.png"]
    for path in sorted((work / "a").glob("*.png")):
        path.with_stem(f"{path.stem}_s0").write_bytes(path.read_bytes())
    two, eight = (plan(work, PRICED, like=run.path, seeds=seeds, models=seeded).precision for seeds in (2, 8))
    assert two is not None
    assert eight is not None
    assert eight.gap_half_width < 0.8 * two.gap_half_width, "nothing but seeds differs between these pictures"
    assert eight.remarks == ()


def test_the_plan_on_the_command_line(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["plan", "creval", "--data", str(work / "creval"), "--model", f"A=folder:{work / 'a'}", "--judge", PRICED]
    for more in (["--metrics", "none"], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["refbench", *words, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        out = capsys.readouterr().out
        assert json.loads(out)["calls"] == 108 if "--json" in more else "108 calls" in out


def examined(judge: str, pictures: int = 3) -> Any:
    (report,) = asyncio.run(examine([judge], pictures))
    return report


def test_the_doctor_finds_a_healthy_judge_healthy() -> None:
    with JudgeServer(reply=lambda text: '{"pictures": 3}' if "JSON" in text else "3") as server:
        report = examined(f"j=openai:gpt-4o?base_url={server.url}/v1&price=1,2")
    assert report.usable
    assert report.findings["reachable"] == "yes"
    assert "takes 3" in report.findings["pictures"]
    assert report.findings["json schema"] == "kept"
    assert report.findings["family"] == "openai"
    assert "1 and 2 usd" in report.findings["price"]


def test_the_doctor_finds_how_many_pictures_a_judge_takes() -> None:
    class Shy(JudgeServer):
        async def _answer(self, request: Any, body: dict[str, Any], digest: str) -> Any:
            from aiohttp import web

            count = json.dumps(body).count('image_url": {"url') + json.dumps(body).count('"type": "image_url"')
            if count // 2 > 4:
                return web.json_response(
                    {"error": {"message": "At most 4 image(s) may be provided in one request."}}, status=400
                )
            return await super()._answer(request, body, digest)

    with Shy(reply=lambda text: "some") as server:
        report = examined(f"j=openai:gpt-4o?base_url={server.url}/v1", pictures=9)
    assert not report.usable
    assert "9 in a request failed" in report.findings["pictures"]
    assert report.findings["pictures"].endswith("it takes 4")


def test_the_doctor_says_what_is_wrong_with_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    with JudgeServer(status=401, error={"error": {"message": "bad key"}}) as server:
        report = examined(f"j=openai:gpt-4o?base_url={server.url}/v1")
    assert not report.usable
    assert "refuses the key" in report.findings["reachable"]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY" in examined("openai:gpt-4o").findings["reachable"]
    assert "no judge is of the kind" in examined("oracle:delphi").findings["reachable"]


def test_the_doctor_tries_the_largest_request_of_a_benchmark(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with JudgeServer(reply=lambda text: '{"pictures": 2}') as server:
        words = [
            "doctor",
            "--judge",
            f"j=openai:gpt-4o?base_url={server.url}/v1",
            "--benchmark",
            "creval",
            "--data",
            str(work / "creval"),
        ]
        monkeypatch.setattr(sys, "argv", ["refbench", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        out = capsys.readouterr().out
        assert "one of the largest, went through, 1000 tokens in" in out
        assert "Image A" in json.dumps(server.requests[-1].body), "the benchmark's own rubric was sent"
