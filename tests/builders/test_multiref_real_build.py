"""A real-world MultiRef of one's own, end to end, by a writer and a checker that misbehave: nothing broken is shipped,
nothing paid for twice."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from aiohttp import web
from PIL import Image

import refbench
from refbench.benchmarks.multiref.anomalies import anomalies
from refbench.benchmarks.multiref.cases import CATEGORIES, load
from refbench.builders import BuildReport
from refbench.builders.multiref_real import MultiRefRealSettings
from refbench.builders.multiref_real.build import build
from refbench.cli.build import build_command
from refbench.pictures.collection import collect, lookalikes
from refbench.record import RefBenchError
from support.judge_server import Faults, JudgeServer, dice

Habit = Callable[[str, str, str], str]
"""From the kind of question, its text and the good reply to what is said."""
SMALL = {"missing_split", "other_count"}
"""What is odd about any dataset of one's own: it has one split, and not 1,000 entries."""


class Pen(JudgeServer):
    """Writer and checker in one: what it says depends on the text alone; `habit` spoils a reply."""

    KINDS: ClassVar = {
        "choose": "Mark every result from 1",
        "rewrite": "Write the request again as one clean instruction",
        "accept": "Decide strictly whether",
        "category": "Which kind of edit is it",
    }

    def __init__(self, habit: Habit | None = None, **more: Any) -> None:
        super().__init__(reply=self._say, **more)
        self.habit: Habit = habit or (lambda kind, text, reply: reply)
        self.kinds: Counter[str] = Counter()

    async def _answer(self, request: web.Request, body: dict[str, Any], digest: str) -> web.StreamResponse:
        return await super()._answer(request, body, digest)

    def _say(self, text: str) -> str:
        kind = next(kind for kind, words in self.KINDS.items() if words in text)
        self.kinds[kind] += 1
        return self.habit(kind, text, getattr(self, f"_{kind}")(text))

    def _choose(self, text: str) -> str:
        count = int(re.search(r"\((\d) results\)", text)[1])  # type: ignore[index]
        marks = [{"result": n, "clarity": 4, "fidelity": 2 + n % 3, "quality": 4} for n in range(1, count + 1)]
        return json.dumps({"results": marks})

    def _rewrite(self, text: str) -> str:
        tokens = sorted(set(re.findall(r"<image[1-6]>", text)))
        more = " and with ".join(f"the thing of {token}" for token in tokens[1:])
        again = "kindly " if "A second reader has complained" in text else ""
        said = f"Edit image {tokens[0]} by {again}filling wish {topic(text)} with {more}."
        return "```json\n" + json.dumps({"thinking": "Hm.", "instruction": said}) + "\n```"

    def _accept(self, text: str) -> str:
        tokens = sorted(set(re.findall(r"^(<image[1-6]>):$", text, re.MULTILINE)))
        each = [{"picture": token, "necessary": "Yes", "appropriate": "Yes"} for token in tokens]
        return json.dumps({"pictures": each, "coherent": "Yes", "relevant": "Yes", "follows": "Yes", "reason": ""})

    def _category(self, text: str) -> str:
        return json.dumps({"category": 1 + topic(text) % 5})


def topic(text: str) -> int:
    """The number of the wish that a request is about."""
    found = re.search(r"wish (\d+)", text)
    assert found
    return int(found[1])


def picture(path: Path, seed: int) -> str:
    small = Image.fromarray(np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8))
    path.parent.mkdir(parents=True, exist_ok=True)
    small.resize((80, 72), Image.Resampling.BICUBIC).save(path)
    return path.name


def table(root: Path, many: int, *, outputs: int = 1) -> Path:
    """A CSV of requests with pictures beside it; returns its path."""
    path = root / "requests.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["request", "inputs", "outputs"])
        for number in range(many):
            befores = [picture(root / f"{number}-in{n}.png", 100 * number + n) for n in range(2 + number % 5)]
            afters = [picture(root / f"{number}-out{n}.png", 100 * number + 50 + n) for n in range(outputs)]
            rows.writerow([f"hi all, can sb pls do wish {number}? ty!!", ";".join(befores), ";".join(afters)])
    return path


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def spec(server: JudgeServer, model: str = "pen", more: str = "&price=1,1") -> str:
    return f"{model}=openai:{model}?base_url={server.url}/v1{more}"


def make(server: JudgeServer, source: Path, out: Path, **more: Any) -> BuildReport:
    more = {"writer": spec(server), "checker": spec(server, "other"), **more}
    return asyncio.run(build(MultiRefRealSettings(source, out=out, **more)))


def files(root: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".build")}


def odd_kinds(data: Path) -> set[str]:
    return {one.kind for one in anomalies(load(data))}


def moody(kind: str, text: str, reply: str) -> str:
    """Faults of every kind, by the wish; some are mended when asked again."""
    again, luck = "could not be used" in text, dice(str(topic(text)), f"mood {kind}")
    if luck < 0.04:
        return "I'm sorry, I can't help with that."
    if luck < 0.07 or (luck < 0.2 and not again):
        return reply[: len(reply) // 2]
    if kind == "rewrite" and luck < 0.35:
        return reply.replace("the thing of <image2>", "that thing") if luck < 0.27 or not again else reply
    if kind == "rewrite" and luck < 0.45 and not again:
        return reply.replace("Edit image <image1> by", "Please edit it by <image1>")
    if kind == "accept" and luck < 0.28:
        return reply.replace('"necessary": "Yes"', '"necessary": "No"', 1)
    if kind == "accept" and luck < 0.36:
        return reply.replace('"follows": "Yes"', '"follows": "No"')
    if kind == "category" and luck < 0.4:
        return '{"category": "spatial"}' if luck < 0.33 or not again else reply
    return reply


def test_misbehaving_writers_leave_a_benchmark_without_an_anomaly(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 30, outputs=2), tmp_path / "out"
    faults = Faults(throttled=0.02, cut=0.03, failing=0.02)
    with Pen(moody, faults=faults, keep_bodies=False) as server:
        report = make(server, source, out)
    assert 5 < report.made < report.begun == 30
    stages = {(stage, reason) for stage, reasons in report.dropped.items() for reason in reasons}
    assert {
        ("instruction", "missing token"),
        ("acceptance", "input not necessary"),
        ("acceptance", "output does not follow"),
        ("category", "unusable reply"),
    } <= stages
    assert any(reason == "refused" for _, reason in stages)
    lost = [
        one for one in map(json.loads, (out / "dropped.jsonl").read_text().splitlines()) if one["what"] == "request"
    ]
    assert report.made + len(lost) == 30, "nothing disappears"
    assert odd_kinds(out) == SMALL
    for case in load(out).cases:
        assert re.match(r"Edit image <image\d> by ", case.request.instruction)
        assert set(re.findall(r"<(image\d)>", case.request.instruction)) == set(case.details.tokens)
        assert case.groups["category"] in CATEGORIES
        assert len(case.targets) == 1
    from refbench.cli.check import check_command

    assert check_command("multiref", data=out) == 0
    card = (out / "README.md").read_text()
    assert "missing token" in card
    assert any((out / "card").iterdir())
    assert server.url not in card


def test_entries_are_those_of_the_release(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 5), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out)
        assert server.kinds == {"rewrite": 5, "accept": 5, "category": 5}, "one output needs no choice"
        rewriting = next(seen.body for seen in server.requests if "clean instruction" in json.dumps(seen.body))
        shown = [part["text"] for part in rewriting["messages"][0]["content"] if part["type"] == "text"]
        assert shown[0] == "<image1>:"
        assert shown[-2] == "The result:", "the writer sees inputs, request and output"
    assert (report.made, report.benchmark) == (5, "multiref")
    entries = json.loads((out / "multi_image_benchmark/final_prompts_taxonomy.json").read_text())
    assert [entry["row_id"] for entry in entries] == [1, 2, 3, 4, 5]
    first = entries[0]
    assert first["image_path_mapping"] == {
        "image1": "compressed_images/0001_image1.png",
        "image2": "compressed_images/0001_image2.png",
    }
    assert type(first["category"]) is int
    cases = load(out).cases
    assert {len(case.request.pictures) for case in cases} == {2, 3, 4, 5, 6}
    for number, case in enumerate(cases):
        golden = out / case.targets[0].name
        assert golden.read_bytes() == (source.parent / f"{number}-out0.png").read_bytes()
        assert case.groups["category"] == list(CATEGORIES)[number % 5]


def test_what_was_built_runs(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 10), tmp_path / "out"
    with Pen() as server:
        make(server, source, out)
    marks = {"reason": "Fine.", "image_quality": 4, "instruction_following": 3, "source_fidelity": 5}
    with JudgeServer(reply=lambda text: json.dumps(marks)) as judge:
        result = refbench.evaluate(
            "multiref",
            data=out,
            subset="real-world",
            models=["copy=baseline:copy", "truth=baseline:truth"],
            judges=[f"judge=openai:gpt-4o?base_url={judge.url}/v1"],
            metrics=["canny"],
            out=tmp_path / "run",
        ).result
        assert len(judge.requests) == 20
    values = {
        (row.model, row.metric): row.value
        for row in result.table.rows
        if row.slice == {"level": "split", "split": "real-world"} and row.protocol == "corrected"
    }
    for model in ("copy", "truth"):
        assert [values[model, axis] for axis in ("IQ", "IF", "SF")] == pytest.approx([0.8, 0.6, 1.0])


def test_of_several_outputs_the_best_is_kept_and_the_others_are_listed(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 4, outputs=3), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out)
    assert report.dropped == {"output": {"another is better": 8}}
    for number, case in enumerate(load(out).cases):
        best = source.parent / f"{number}-out1.png"  # the second has the highest fidelity
        assert (out / case.targets[0].name).read_bytes() == best.read_bytes()


def test_the_same_replies_give_the_same_bytes_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    source = table(tmp_path / "in", 20, outputs=2)
    with Pen(moody) as server:
        first = make(server, source, tmp_path / "one", size=4, concurrency=16)
        asked = len(server.requests)
        again = make(server, source, tmp_path / "one", size=4, concurrency=2)
        assert (first.asked, again.asked, len(server.requests)) == (asked, 0, asked)
        other = make(server, source, tmp_path / "two", size=4, concurrency=1)
    assert first.made == 4 < first.begun, "others took the places of those that were dropped"
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert first.model_copy(update={"asked": 0}) == again
    assert other.made == first.made


def test_the_budget_ends_it_with_whole_entries_and_more_money_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = table(tmp_path / "in", 12), tmp_path / "out"
    with Pen() as server:
        words = [
            "multiref-real",
            str(source),
            "--out",
            str(out),
            "--writer",
            spec(server),
            "--checker",
            spec(server, "o"),
        ]
        code = build_command(
            [*words, "--budget", "0.02usd", "--json", "--concurrency", "2"], result_action="return_value"
        )
        said = json.loads(capsys.readouterr().out)
        assert code == 3
        assert said["stopped"] == "budget"
        assert 0 < said["made"] < 12
        assert len(load(out).cases) == said["made"]
        assert said["cost_usd"] <= 0.02
        code = build_command([*words, "--budget", "9usd", "--json"], result_action="return_value")
        said = json.loads(capsys.readouterr().out)
    assert (code, said["made"], said["unfinished"]) == (0, 12, 0)


def test_a_dead_endpoint_is_no_reason_to_drop_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = table(tmp_path / "in", 6), tmp_path / "out"
    with Pen(status=400, error={"error": {"message": "down"}}) as server:
        words = ["multiref-real", str(source), "--out", str(out), "--writer", spec(server), "--checker", "none"]
        assert build_command(words, result_action="return_value") == 1
        assert "6 could not be finished for want of replies" in capsys.readouterr().out
        assert (out / "dropped.jsonl").read_bytes() == b""
        server.status = None
        assert build_command(words, result_action="return_value") == 0
        assert "--checker" in capsys.readouterr().out
    assert len(load(out).cases) == 6


def test_an_instruction_that_the_checker_finds_unclear_is_written_once_more(tmp_path: Path) -> None:
    def strict(kind: str, text: str, reply: str) -> str:
        unclear = kind == "accept" and "kindly" not in text
        return reply.replace('"coherent": "Yes"', '"coherent": "No"').replace('""', '"Which?"') if unclear else reply

    source, out = table(tmp_path / "in", 3), tmp_path / "out"
    with Pen(strict) as server:
        report = make(server, source, out)
        assert server.kinds == {"rewrite": 6, "accept": 6, "category": 3}
        assert sum("Which?" in json.dumps(seen.body) for seen in server.requests) == 3, "with the complaint"
    assert report.made == 3
    assert all("kindly" in case.request.instruction for case in load(out).cases)


def test_a_person_adds_the_missing_token_and_overrules_the_checker(tmp_path: Path) -> None:
    def stern(kind: str, text: str, reply: str) -> str:
        if kind == "rewrite" and topic(text) == 0:
            return reply.replace("<image2>", "the other")
        bad = kind == "accept" and topic(text) in (1, 2)
        return reply.replace('"follows": "Yes"', '"follows": "No"') if bad else reply

    source, out = table(tmp_path / "in", 6, outputs=2), tmp_path / "out"
    with Pen(stern) as server:
        first = make(server, source, out)
        assert first.made == 3
        rows = {row["id"]: row for row in map(json.loads, (out / "review.jsonl").read_text().splitlines())}
        assert {name for name, row in rows.items() if row["problem"]} == {"1", "2", "3"}
        assert rows["1"]["problem"] == "the instruction does not mention <image2>"
        mended = rows["1"]["instruction"].replace("the other", "<image2>")
        other = rows["5"]["outputs"][1]
        decided = [
            {"id": "1", "decision": "edit", "edit": {"instruction": mended}},
            {**rows["2"], "decision": "accept"},
            {**rows["3"], "instruction": "Edit image <image1> by another writer's words.", "decision": "accept"},
            {"id": "4", "decision": "reject"},
            {"id": "5", "decision": "edit", "edit": {"category": 5, "output": other}},
            {"id": "99", "decision": "accept"},
        ]
        review = tmp_path / "decided.jsonl"
        review.write_text("".join(json.dumps(one) + "\n" for one in decided))
        report = make(server, source, out, review=review)
    cases = {case.id.rpartition("/")[2]: case for case in load(out).cases}
    assert set(cases) == {"1", "2", "5", "6"}
    assert cases["1"].request.instruction == mended
    assert cases["2"].request.instruction == rows["2"]["instruction"]
    assert cases["5"].groups["category"] == "attribute_transfer"
    assert (out / cases["5"].targets[0].name).read_bytes() == (source.parent / other).read_bytes()
    assert any("99" in note for note in report.notes)
    assert any("review of 3 " in note for note in report.notes), "nobody has accepted the words that it has now"
    assert odd_kinds(out) == SMALL


def test_no_two_splits_hold_pictures_that_look_alike(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 12), tmp_path / "out"
    with source.open("a", newline="") as file:
        for n in range(3):
            Image.open(source.parent / f"{n}-in0.png").resize((120, 108)).save(source.parent / f"twin{n}.jpg")
            picture(source.parent / f"twin-out{n}.png", 5000 + n)
            csv.writer(file).writerow([f"pls wish {50 + n}", f"twin{n}.jpg;{n + 3}-in0.png", f"twin-out{n}.png"])
    with Pen() as server:
        report = make(server, source, out, test_share=0.4)
        assert report.made == 15
        dev, test = (collect(Path(data)).found for data in report.data)
        groups = lookalikes([one.looks for one in (*dev, *test)]).tolist()
        assert not set(groups[: len(dev)]) & set(groups[len(dev) :])
        assert 4 <= len(load(out / "test").cases) <= 6
        assert odd_kinds(out / "dev") == odd_kinds(out / "test") == SMALL
        make(server, source, out)
    assert not (out / "test/multi_image_benchmark").exists(), "what an earlier build left is gone"


def test_rotated_and_palette_pictures_are_shipped_plain(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 1), tmp_path / "out"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(source.parent / "0-in0.png").save(source.parent / "turned.jpg", exif=exif)
    Image.open(source.parent / "0-in1.png").convert("P").save(source.parent / "palette.gif")
    source.write_text("request,inputs,outputs\ndo wish 7,turned.jpg;palette.gif,0-out0.png\n")
    with Pen() as server:
        report = make(server, source, out)
    assert odd_kinds(out) == SMALL
    assert any("2 pictures were re-encoded" in note for note in report.notes)
    (case,) = load(out).cases
    with Image.open(out / case.request.pictures[0].name) as turned:
        assert turned.size == (72, 80)


def test_a_folder_of_requests_is_read_too(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    for number in (12, 7):
        for place, name in enumerate(("input_1", "input_2", "output")):
            picture(source / f"{number}/{name}.png", 10 * number + place)
        (source / f"{number}/request.txt").write_text(f"please, wish {number}")
    with Pen() as server:
        make(server, source, out)
    assert {case.id for case in load(out).cases} == {"real-world/7", "real-world/12"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": 0}, "--size 0"),
        ({"test_share": 1.0}, "--test-share 1"),
        ({"retry": ["maybe"]}, "--retry maybe"),
        ({"writer": "gpt"}, "--writer gpt"),
        ({"out": "theirs"}, "which no such build made"),
        ({"source": "nowhere.csv"}, "is not there"),
        ({"source": "empty"}, "holds no folder with"),
        ({"source": "broken.csv"}, "holds no request that can be used"),
    ],
)
def test_wrong_usage_is_one_sentence_before_anything_is_paid(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    table(tmp_path / "in", 1)
    (tmp_path / "theirs/multi_image_benchmark").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.csv").write_text("request,inputs,outputs\ndo it,a.png;b.png,c.png\n")
    settings = {"writer": "openai:x?base_url=http://127.0.0.1:1/v1&price=1,1", **change}
    source = tmp_path / settings.pop("source", "in/requests.csv")
    with pytest.raises(RefBenchError, match=said):
        asyncio.run(build(MultiRefRealSettings(source, out=tmp_path / settings.pop("out", "out"), **settings)))
