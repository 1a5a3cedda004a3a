"""An IDEA-Bench of one's own, end to end, by a writer and a checker that misbehave: nothing broken is shipped, nothing
paid for twice."""

from __future__ import annotations

import asyncio
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
from refbench.benchmarks.ideabench.anomalies import anomalies
from refbench.benchmarks.ideabench.cases import CATEGORIES, load
from refbench.builders import BuildReport
from refbench.builders.ideabench import IdeaBenchSettings
from refbench.builders.ideabench.build import build
from refbench.builders.ideabench.item import LEVELS
from refbench.cli.build import build_command
from refbench.pictures.collection import collect, lookalikes
from refbench.record import RefBenchError
from support.judge_server import Faults, JudgeServer, dice

Habit = Callable[[str, str, str], str]
"""From the kind of question, its text and the good reply to what is said."""

NOUNS = ("amber", "birch", "cloud", "delta", "ember", "flint", "grove", "heron", "inlet", "juniper", "kelp", "lantern")


class Pen(JudgeServer):
    """Writer and checker in one: what it says depends on the text alone; `habit` spoils a reply."""

    KINDS: ClassVar = {
        "instruction": "You write briefs for professional designers",
        "capabilities": "Which of these capabilities",
        "check": "Check each question, strictly",
        "questions": "review questions by which strict reviewers",
        "rephrasing": "You write prompts for a text-to-image model",
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

    def _instruction(self, text: str) -> str:
        words = sorted(NOUNS, key=lambda word: dice(text + word, "instruction"))
        brief = "Make it of " + " and ".join(f"{word} {words[0]}{number}" for number, word in enumerate(words * 2))
        return "```json\n" + json.dumps({"thinking": "Hm.", "instruction": f"{brief} for everybody."}) + "\n```"

    def _capabilities(self, text: str) -> str:
        known = re.findall(r"^- (\w+): ", text, re.MULTILINE)
        chosen = sorted(known, key=lambda name: dice(topic(text) + name, "capability"))[:2]
        return json.dumps({"thinking": "Hm.", "capabilities": chosen})

    def _questions(self, text: str) -> str:
        levels = text.rpartition("in this order of levels: ")[2].splitlines()[0].strip(" .").split(", ")
        references, outputs = given(text)
        keywords = re.findall(r"^  (\w+): ", text, re.MULTILINE)
        again = "mended " if "a second reader has complained" in text else ""
        rows = [
            {
                "level": level,
                "question": f"Is the {again}{level} part {NOUNS[number]} clearly visible?",
                "zero": f"The {NOUNS[number]} part is missing.",
                "one": f"The {NOUNS[number]} part is there.",
                "references": [1] if references and number % 2 else [],
                "results": list(range(1, outputs + 1)),
                **({"capability": keywords[number] if number < len(keywords) else ""} if keywords else {}),
            }
            for number, level in enumerate(levels)
        ]
        return json.dumps({"thinking": "Hm.", "questions": rows})

    def _check(self, text: str) -> str:
        numbers = [int(number) for number in re.findall(r"^(\d)\. \(\w+\) ", text, re.MULTILINE)]
        return json.dumps(
            {"verdicts": [{"number": n, "objective": "Yes", "standards": "Yes", "level": "Yes"} for n in numbers]}
        )

    def _rephrasing(self, text: str) -> str:
        count = int(re.search(r"Write (\d+) prompts", text)[1])  # type: ignore[index]
        return json.dumps({"prompts": [f"Picture {number} of it." for number in range(1, count + 1)]})


def topic(text: str) -> str:
    """The words of the task that a request is about."""
    found = re.search(r"<(?:<<|request>)\n(.*?)\n(?:>>>|</request>)", text, re.DOTALL)
    return found[1] if found else text


def given(text: str) -> tuple[int, int]:
    found = re.search(r"Reference pictures \(shown here\): (\w+)\. Pictures to be delivered: (\d+)", text)
    assert found
    return 0 if found[1] == "none" else int(found[1]), int(found[2])


TASKS: list[dict[str, Any]] = [
    {"task": "poster", "keywords": ["jazz", "night"]},
    {"task": "logo", "keywords": "bakery; wheat"},
    {"task": "image blur motion", "pictures": 1},
    {"task": "style editing era", "pictures": 1},
    {"task": "image blending collage", "pictures": 2},
    {"task": "human attribute editing age", "pictures": 3},
    {"task": "style group pixel art", "outputs": 4},
    {"task": "three-view", "pictures": 1, "outputs": 3},
]
TEXTS = (
    "Draw the quiet harbour of an old town under heavy snow with seven boats at the pier.",
    "Show two dancers in green coats who leap across a wet street while a tram is passing.",
    "Place the brass clock on a walnut desk beside three letters and one withered orchid.",
)


def picture(path: Path, seed: int) -> str:
    small = Image.fromarray(np.random.default_rng(seed).integers(0, 255, (6, 6, 3), dtype=np.uint8))
    path.parent.mkdir(parents=True, exist_ok=True)
    small.resize((80, 72), Image.Resampling.BICUBIC).save(path)
    return path.name


def table(root: Path, each: int = 2, tasks: list[dict[str, Any]] | None = None) -> Path:
    """A table of tasks with pictures beside it; returns its path."""
    rows = []
    for number in range(each):
        for place, task in enumerate(tasks or TASKS):
            names = [
                f"pictures/{picture(root / f'pictures/t{place}-{number}-{n}.png', 100 * place + 10 * number + n)}"
                for n in range(task.get("pictures", 0))
            ]
            written = {} if "keywords" in task else {"instruction": f"{TEXTS[number]} Task {place}."}
            rows.append({**task, **written, "pictures": names})
            if "keywords" in task:
                rows[-1]["keywords"] = [*np.atleast_1d(task["keywords"]).tolist(), f"variant {number}"]
    path = root / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def spec(server: JudgeServer, model: str = "pen", more: str = "&price=1,1") -> str:
    return f"{model}=openai:{model}?base_url={server.url}/v1{more}"


def make(server: JudgeServer, source: Path, out: Path, **more: Any) -> BuildReport:
    more = {"writer": spec(server), "checker": spec(server, "other"), **more}
    return asyncio.run(build(IdeaBenchSettings(source, out=out, **more)))


def files(root: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".build")}


def odd_kinds(data: Path) -> set[str]:
    return {one.kind for one in anomalies(load(data))}


def moody(kind: str, text: str, reply: str) -> str:
    """Faults of every kind, by the task; some are mended when asked again."""
    again = "could not be used" in text
    luck = dice(topic(text), f"mood {kind}")
    if luck < 0.05:
        return "I'm sorry, I can't help with that."
    if luck < 0.10 or (luck < 0.3 and not again):
        return reply[: len(reply) // 2]
    if kind == "questions" and luck < 0.4 and not again:
        said = json.loads(reply)
        return json.dumps({**said, "questions": said["questions"][:4]})
    if kind == "questions" and luck < 0.5:
        return reply.replace("clearly visible", "beautiful and visible")
    if kind == "check" and luck < 0.6:
        return reply.replace('"objective": "Yes"', '"objective": "No", "reason": "Taste."', 1)
    if kind == "rephrasing" and luck < 0.4:
        return json.dumps({"prompts": ["one too few"] * 0})
    return reply


def test_misbehaving_writers_leave_a_benchmark_without_an_anomaly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = table(tmp_path / "in", 3), tmp_path / "out"
    faults = Faults(throttled=0.02, cut=0.03, failing=0.02)
    with Pen(moody, faults=faults, keep_bodies=False) as server:
        report = make(server, source, out)
    assert 5 < report.made < report.begun == 24
    stages = {(stage, reason) for stage, reasons in report.dropped.items() for reason in reasons}
    assert {("questions", "unusable reply"), ("check", "questions turned down")} <= stages
    assert any(reason == "refused" for _, reason in stages)
    lost = Counter(one["stage"] for one in map(json.loads, (out / "dropped.jsonl").read_text().splitlines()))
    assert report.made + sum(n for stage, n in lost.items() if stage != "rephrasing") == 24, "nothing disappears"
    assert odd_kinds(out) == {"release_size"}, "it is smaller than the paper's, and nothing else is odd"
    for case in load(out).cases:
        assert len(case.details.auto) == len(case.details.human) == 6
        assert not [q.text for q in case.details.auto if "beautiful" in q.text]
        assert all(q.zero and q.one for q in case.details.human)
        counts = [q.counts for q in case.details.auto]
        assert counts == ([case.request.n_pictures] if case.request.n_pictures > 1 else [None]) + [None] * 5
    from refbench.cli.check import check_command

    assert check_command("ideabench", data=out) == 0
    assert "released scorer averages" in (out / "README.md").read_text().replace("\\", "")
    assert server.url not in (out / "README.md").read_text()


def test_every_category_is_built_and_the_files_are_those_of_the_release(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in"), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out)
        assert server.kinds["check"] == server.kinds["questions"] == 16
        assert server.kinds["instruction"] == 4, "only where the source has none"
        assert server.kinds["capabilities"] == 8, "only for tasks of several pictures"
    assert (report.made, report.dropped, report.missing) == (16, {}, {})
    cases = {case.id: case for case in load(out).cases}
    assert {case.groups["category"] for case in cases.values()} == set(CATEGORIES)
    assert {case.groups["group"] for case in cases.values()} >= {"poster", "blur", "image blending", "three-view"}
    folder = out / "dataset/three-view_0001"
    assert {path.name for path in folder.iterdir()} == {
        "instruction.txt", "meta.json", "eval.json", "auto_eval.jsonl", "0001.png",
    }  # fmt: skip
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["task_name"] == "three-view"
    assert (meta["num_of_cases"], meta["output_image_count"], meta["case_id"]) == (2, 3, "0001")
    assert (meta["image_reference"], meta["multi_image_reference"], meta["multi_image_output"]) == (True, False, True)
    assert re.fullmatch(r"\d{4}", meta["uid"])
    assert 1 <= len(meta["capabilities"]) <= 3
    lines = [json.loads(line) for line in (folder / "auto_eval.jsonl").read_text().splitlines()]
    assert lines[0]["output_images"] == ["0001.jpg", "0002.jpg", "0003.jpg"]
    assert lines[0]["input_images"] == []
    assert "upper row" in lines[2]["question"]
    assert lines[2]["input_images"] == ["0001.png"]
    assert cases["three-view_0001"].request.instruction in lines[1]["question"]
    assert "{'score': int, 'reason': str}" in lines[1]["question"]
    assert "0 points: The amber part is missing." in lines[1]["question"]
    assert not re.search(r"\{\w+\}", "".join(line["question"] for line in lines)), "every placeholder is filled"


def test_prompts_for_text_to_image_models_come_as_a_file(tmp_path: Path) -> None:
    source = table(tmp_path / "in", 1)

    def rows(regime: str) -> dict[str, list[str]]:
        out = tmp_path / regime
        make(server, source, out, rephrase=regime)
        path = out / "rephrased_prompts.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return {row["case"]: row["prompts"] for row in found}

    with Pen() as server:
        needed, always, none = (rows(regime) for regime in ("needed", "always", "none"))
    cases = {case.id: case for case in load(tmp_path / "needed").cases}
    assert set(needed) == {case.id for case in cases.values() if case.groups["category"] != "T2I"}
    assert set(always) == set(cases)
    assert none == {}
    assert all(len(prompts) == cases[case].request.n_pictures for case, prompts in always.items())


def test_what_was_built_runs_and_the_gates_hold(tmp_path: Path) -> None:
    """With the questions of the middle level failed, a case has its two first sixths, whatever the last ones earned."""
    source, out = table(tmp_path / "in", 1), tmp_path / "out"
    with Pen() as server:
        make(server, source, out)
    for case in load(out).cases:
        for number in range(case.request.n_pictures):
            picture(tmp_path / f"m/{case.id}/{number + 1:04d}.png", number)
    with JudgeServer(reply=lambda text: json.dumps({"reason": "", "score": int("demands part" not in text)})) as judge:
        result = refbench.evaluate(
            "ideabench",
            data=out,
            models=[f"m=folder:{tmp_path / 'm'}"],
            judges=[f"judge=openai:gpt-4o?base_url={judge.url}/v1"],
            out=tmp_path / "run",
        ).result
    assert result.failure_share(missing=True) == 0
    (overall,) = [
        row
        for row in result.table.rows
        if row.slice == {"level": "overall"} and (row.protocol, row.metric) == ("corrected", "score")
    ]
    assert overall.value == pytest.approx(100 * 2 / 6)


def test_the_same_replies_give_the_same_bytes_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    source = table(tmp_path / "in")
    with Pen(moody) as server:
        first = make(server, source, tmp_path / "one", concurrency=16)
        asked = len(server.requests)
        again = make(server, source, tmp_path / "one", concurrency=2)
        assert (first.asked, again.asked, len(server.requests)) == (asked, 0, asked)
        other = make(server, source, tmp_path / "two", concurrency=1)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert first.model_copy(update={"asked": 0}) == again
    assert other.made == first.made


def test_the_budget_ends_it_with_whole_cases_and_more_money_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = table(tmp_path / "in"), tmp_path / "out"
    with Pen() as server:
        words = ["ideabench", str(source), "--out", str(out), "--writer", spec(server), "--checker", spec(server, "o")]
        code = build_command(
            [*words, "--budget", "0.03usd", "--json", "--concurrency", "2"], result_action="return_value"
        )
        said = json.loads(capsys.readouterr().out)
        assert code == 3
        assert said["stopped"] == "budget"
        assert 0 < said["made"] < 16
        assert len(load(out).cases) == said["made"]
        assert said["cost_usd"] <= 0.03
        code = build_command([*words, "--budget", "9usd", "--json"], result_action="return_value")
        said = json.loads(capsys.readouterr().out)
    assert (code, said["made"], said["unfinished"]) == (0, 16, 0)


def test_a_dead_endpoint_leaves_what_stands_and_the_next_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = table(tmp_path / "in", 1), tmp_path / "out"
    with Pen(status=400, error={"error": {"message": "down"}}) as server:
        words = ["ideabench", str(source), "--out", str(out), "--writer", spec(server), "--checker", "none"]
        assert build_command(words, result_action="return_value") == 1
        said = capsys.readouterr().out
        assert "8 could not be finished for want of replies" in said
        assert (out / "dropped.jsonl").read_bytes() == b"", "a dead endpoint is no reason to drop a case"
        server.status = None
        assert build_command(words, result_action="return_value") == 0
    assert len(load(out).cases) == 8


def test_questions_that_the_checker_turns_down_are_written_once_more(tmp_path: Path) -> None:
    def strict(kind: str, text: str, reply: str) -> str:
        if kind == "check" and "Is the mended" not in text:
            return reply.replace('"level": "Yes"', '"level": "No", "reason": "Too early."', 1)
        return reply

    source, out = table(tmp_path / "in", 1), tmp_path / "out"
    with Pen(strict) as server:
        report = make(server, source, out)
        assert server.kinds["questions"] == server.kinds["check"] == 16
        assert sum("Too early." in json.dumps(seen.body) for seen in server.requests) == 8, "with the complaint"
    assert report.made == 8
    assert all("Is the mended" in case.details.auto[-1].text for case in load(out).cases)


def test_a_review_is_honoured(tmp_path: Path) -> None:
    def stern(kind: str, text: str, reply: str) -> str:
        bad = kind == "check" and ("Task 2." in text or "Task 3." in text)
        return reply.replace('"standards": "Yes"', '"standards": "No", "reason": "A third case."', 1) if bad else reply

    source, out = table(tmp_path / "in", 1), tmp_path / "out"
    with Pen(stern) as server:
        first = make(server, source, out)
        assert first.made == 6
        rows = {row["id"]: row for row in map(json.loads, (out / "review.jsonl").read_text().splitlines())}
        assert len(rows) == 8, "what the checker turned down is offered too"
        down = [name for name, row in rows.items() if row["problem"]]
        assert {row["problem"] for row in rows.values()} >= {"question 1, standards: A third case."}
        mine = [
            {**q, "question": f"Is thing {n} of mine to be seen?"} for n, q in enumerate(rows["logo_0001"]["questions"])
        ]
        decided = [
            {**rows[down[0]], "decision": "accept"},
            {**rows[down[1]], "questions": mine, "decision": "accept"},
            {"id": "poster_0001", "decision": "reject"},
            {"id": "logo_0001", "decision": "edit", "edit": {"questions": mine}},
            {"id": "three-view_0001", "decision": "edit", "edit": {"instruction": "Show a pale soap from all sides."}},
            {"id": "nobody", "decision": "accept"},
        ]
        review = tmp_path / "decided.jsonl"
        review.write_text("".join(json.dumps(one) + "\n" for one in decided))
        asked = len(server.requests)
        report = make(server, source, out, review=review)
        texts = [json.dumps(seen.body) for seen in server.requests[asked:]]
    new = [text for text in texts if "write prompts for a text-to-image model" not in text]
    assert len(new) == 3
    assert all("pale soap" in text for text in new), "only for the new instruction is anything asked"
    cases = {case.id: case for case in load(out).cases}
    assert set(cases) == {name for name in rows if name not in ("poster_0001", down[1])}
    assert [q.text for q in cases["logo_0001"].details.human] == [q["question"] for q in mine]
    accepted = [q["question"] for q in rows[down[0]]["questions"]]
    assert "mended" in accepted[0]
    assert [q.text for q in cases[down[0]].details.human] == accepted, "what was accepted is what was shown"
    assert cases["three-view_0001"].request.instruction == "Show a pale soap from all sides."
    assert report.dropped["review"] == {"rejected": 1}
    assert any("nobody" in note for note in report.notes)
    assert any(f"review of {down[1]} " in note for note in report.notes), "nobody has accepted what it has now"


def test_the_size_is_dealt_over_tasks_first(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 3), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out, size=8, rephrase="none")
    assert report.made == report.begun == 8
    assert len({case.groups["task"] for case in load(out).cases}) == 8
    with Pen() as server:
        make(server, source, out, size=8, seed=4, rephrase="none")
    assert len(list((out / "dataset").iterdir())) == 8, "another seed leaves no file of the first"


def test_no_two_splits_hold_pictures_that_look_alike(tmp_path: Path) -> None:
    tasks = [{"task": f"image blur {kind}", "pictures": 1} for kind in ("motion", "field", "rotation")]
    source, out = table(tmp_path / "in", 3, tasks), tmp_path / "out"
    twins = []
    for n, path in enumerate(sorted((source.parent / "pictures").glob("*.png"))[:4]):
        Image.open(path).resize((120, 108)).save(source.parent / f"twin{n}.jpg", quality=85)
        twins.append(
            {"task": "image blur motion", "instruction": f"{TEXTS[0]} Twin {n}.", "pictures": [f"twin{n}.jpg"]}
        )
    with source.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in twins)
    with Pen() as server:
        report = make(server, source, out, test_share=0.4, rephrase="none")
        assert report.made == 13
        dev, test = (collect(Path(data) / "dataset").found for data in report.data)
        groups = lookalikes([one.looks for one in (*dev, *test)]).tolist()
        assert not set(groups[: len(dev)]) & set(groups[len(dev) :])
        assert len(set(groups)) == 9
        assert 3 <= len(load(out / "test").cases) <= 6
        assert {"release_size"} == odd_kinds(out / "dev") == odd_kinds(out / "test")
        make(server, source, out, rephrase="none")
    assert not (out / "test/dataset").exists(), "what an earlier build left is gone"


def test_a_split_that_stayed_empty_is_not_offered_as_data(tmp_path: Path) -> None:
    source, out = table(tmp_path / "in", 1, TASKS[2:3]), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out, test_share=0.2, rephrase="none")
    assert report.data == (str(out / "dev"),)
    assert any("--test-share 0.2 leaves nothing in test" in note for note in report.notes)


def test_a_folder_of_cases_keeps_its_names(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    for name, more in (
        ("poster_generation_0007", {"instruction.txt": TEXTS[0]}),
        ("my tea tins", {"keywords.txt": "tins, tea\nred"}),
        ("deep/image_blur_motion_blur_0003", {"instruction.txt": TEXTS[1], "meta.json": '{"uid": "0063"}'}),
        ("broken_0001", {"instruction.txt": TEXTS[2], "meta.json": "{"}),
    ):
        (source / name).mkdir(parents=True)
        for file, text in more.items():
            (source / name / file).write_text(text)
    for number in (1, 2, 10):
        picture(source / f"my tea tins/{number}.png", number)
    picture(source / "deep/image_blur_motion_blur_0003/a.png", 4)
    with Pen() as server:
        report = make(server, source, out)
    cases = {case.id: case for case in load(out).cases}
    assert set(cases) == {"poster_generation_0007", "my_tea_tins_0001", "image_blur_motion_blur_0003"}
    assert cases["image_blur_motion_blur_0003"].details.uid == "0063"
    assert report.dropped == {"source": {"unreadable": 1}}
    kept = [(out / f"dataset/my_tea_tins_0001/{n:04d}.png").read_bytes() for n in (1, 2, 3)]
    assert kept == [(source / f"my tea tins/{n}.png").read_bytes() for n in (1, 2, 10)], "2 comes before 10"
    assert json.loads((out / "dataset/my_tea_tins_0001/meta.json").read_text())["keywords"] == ["tins", "tea", "red"]
    assert odd_kinds(out) == {"release_size", "unknown_task"}
    assert any("my tea tins" in note for note in report.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": 0}, "--size 0"),
        ({"test_share": 1.0}, "--test-share 1"),
        ({"retry": ["maybe"]}, "--retry maybe"),
        ({"writer": "gpt"}, "--writer gpt"),
        ({"out": "in"}, "keep them apart"),
        ({"out": "theirs"}, "which no such build made"),
        ({"source": "nowhere.csv"}, "is not there"),
        ({"source": "empty"}, "holds no folder with"),
        ({"budget": "1usd", "writer": "openai:x?base_url=http://127.0.0.1:1/v1"}, "price of x"),
    ],
)
def test_wrong_usage_is_one_sentence_before_anything_is_paid(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    table(tmp_path / "in", 1)
    (tmp_path / "theirs/dataset").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    settings = {"writer": "openai:x?base_url=http://127.0.0.1:1/v1&price=1,1", **change}
    source = tmp_path / settings.pop("source", "in/tasks.jsonl")
    with pytest.raises(RefBenchError, match=said):
        asyncio.run(build(IdeaBenchSettings(source, out=tmp_path / settings.pop("out", "out"), **settings)))


def test_levels_are_the_gates_of_the_benchmark() -> None:
    from refbench.benchmarks.ideabench.table import gated

    for level, shut in (("basis", 4), ("demands", 2), ("finish", 0)):
        first = LEVELS.index(level)
        answers: list[float | None] = [0.0 if number == first else 1.0 for number in range(6)]
        assert sum(1 for answer in gated(answers)[first + 1 :] if answer == 0.0) == shut
