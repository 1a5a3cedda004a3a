"""A MultiBanana of one's own, end to end, by a writer and a checker that misbehave: nothing broken is shipped, nothing
paid for twice, and the card says what is missing."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from PIL import Image

import refbench
from refbench.benchmarks.multibanana.anomalies import anomalies
from refbench.benchmarks.multibanana.cases import TASKS, load
from refbench.builders import BuildReport
from refbench.builders.multibanana import MultiBananaSettings
from refbench.builders.multibanana.build import build
from refbench.builders.multibanana.classify import LOOK, SCREEN, read_look
from refbench.builders.multibanana.tasks import Recipe, recipe_of, recipes
from refbench.cli.build import build_command
from refbench.failure import Failure
from refbench.networks import why_not
from refbench.pictures import encode
from refbench.pictures.collection import collect, lookalikes
from refbench.record import RefBenchError
from support.judge_server import Faults, JudgeServer, dice
from support.painters import Painter

Habit = Callable[[str, Sequence[str], str, str], str]
"""From the kind of question, the pictures, the text and the good reply to what is said."""


def any_look(picture: str, **more: Any) -> dict[str, Any]:
    """What a picture shows, by the dice."""

    def yes(name: str, share: float) -> str:
        return "Yes" if dice(picture, name) < share else "No"

    said: dict[str, Any] = {c.name: yes(c.name, 0.5) for c in LOOK.criteria}
    said |= {
        "shows": f"thing {picture[:6]}",
        "people": int(dice(picture, "people") * 3),
        "gender": "male" if dice(picture, "gender") < 0.5 else "female",
        "objects": ("none", "one", "many")[int(dice(picture, "objects") * 3)],
        "object_kind": ("animal", "clothing", "industrial", "thing")[int(dice(picture, "kind") * 4)],
        "rendering": ("photo", "anime", "painting", "cg", "sketch", "other")[int(dice(picture, "rendering") * 6)],
        "text": ("none", "none", "english", "japanese, english")[int(dice(picture, "text") * 4)],
    }
    return {**said, **more}


class Pen(JudgeServer):
    """Writer and checker in one: what it says depends on the pictures; `habit` spoils a reply."""

    def __init__(self, habit: Habit | None = None, look: Callable[..., dict[str, Any]] = any_look, **more: Any) -> None:
        super().__init__(**more)
        self.habit = habit or (lambda kind, pictures, text, reply: reply)
        self.look = look
        self.kinds: Counter[str] = Counter()

    async def _answer(self, request: web.Request, body: dict[str, Any], digest: str) -> web.StreamResponse:
        parts = body["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        pictures = [hashlib.sha256(url.encode()).hexdigest() for url in urls]
        self.reply = lambda text: self._say(text, pictures)
        return await super()._answer(request, body, digest)

    def _say(self, text: str, pictures: list[str]) -> str:
        kinds = {
            "screen": "public test set",
            "look": "You sort pictures",
            "write": "You write tasks",
            "check": "You check",
        }
        kind = next(kind for kind, words in kinds.items() if words in text)
        self.kinds[kind] += 1
        return self.habit(kind, pictures, text, getattr(self, f"_{kind}")(pictures, text))

    def _screen(self, pictures: list[str], text: str) -> str:
        return json.dumps({c.name: "a thing" if c.name == "reason" else "No" for c in SCREEN.criteria})

    def _look(self, pictures: list[str], text: str) -> str:
        return json.dumps(self.look(pictures[0]))

    def _write(self, pictures: list[str], text: str) -> str:
        recipe = next(one for one in recipes().values() if one.says in text)
        shown = [self._categories(one) for one in pictures]
        said: dict[str, Any] = {"thinking": "I see."}
        for modified, giver in [*permutations(range(len(shown)), 2), (0, 0)]:
            if not shown[modified].isdisjoint(recipe.base) and (
                not recipe.giver or not shown[giver].isdisjoint(recipe.giver)
            ):
                said |= {"modified": modified + 1} if recipe.modified else {}
                said |= {"giver": f"Image {giver + 1}"} if recipe.giver else {}
                break
        named = " and ".join(f"the thing of Image {k}" for k in range(1, len(pictures) + 1))
        return "Here it is:\n```json\n" + json.dumps({**said, "instruction": f"Show {named} on a table."}) + "\n```"

    def _categories(self, picture: str) -> frozenset[str]:
        look = read_look(json.dumps(self.look(picture)))
        assert not isinstance(look, Failure)
        return look.categories()

    def _check(self, pictures: list[str], text: str) -> str:
        return json.dumps({"reason": "Fine.", "sensible": "Yes", "needed": "Yes", "breakdown": 2, "difficulty": 3})


def spec(server: JudgeServer, name: str = "writer") -> str:
    return f"{name}=openai:{name}?base_url={server.url}/v1&price=1,1"


def folder_of_pictures(folder: Path, count: int, seed: int = 0) -> Path:
    """Pictures no two of which look alike."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for number in range(count):
        small = Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8))
        small.resize((96, 96), Image.Resampling.BICUBIC).save(folder / f"p{number:02d}.png")
    return folder


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
def no_networks(tmp_path: Path) -> Path:
    """Filters that need no network and let small pictures pass."""
    path = tmp_path / "filters.toml"
    off = ("aesthetic", "unsafe", "object", "object_mask", "object_name")
    path.write_text("[size]\nleast = 64\n" + "".join(f"[{name}]\nuse = false\n" for name in off))
    return path


def make(server: JudgeServer, source: Path, out: Path, **more: Any) -> BuildReport:
    painter = more.pop("painter", None)
    settings = MultiBananaSettings(source, out=out, writer=spec(server), checker=spec(server, "checker"), **more)
    return asyncio.run(build(settings, painter=painter))


def files(out: Path) -> dict[str, bytes]:
    """Everything that is shipped; the ledger of replies has times in it."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and ".build" not in path.parts
    }


def moody(kind: str, pictures: Sequence[str], text: str, reply: str) -> str:
    """Half-valid JSON, missing tokens, refusals, marks out of range, sets that make no sense; most of it for good."""
    luck, again = dice(kind + "".join(pictures), "mood"), "could not be used" in text
    if luck < 0.08:
        return reply[: len(reply) * 2 // 3]
    if luck < 0.16 and not again:
        return reply.replace("Image 1", "the first picture").replace('"No"', '"perhaps"').replace(": 2,", ": 7,")
    if luck < 0.20:
        return "I'm sorry, but I cannot help with that."
    if luck < 0.26 and kind == "write":
        return reply.replace("of Image 1", "of Image 9")
    if luck < 0.34 and kind == "check":
        return reply.replace('"difficulty": 3', '"difficulty": 1')
    if luck < 0.40 and kind == "check":
        return reply.replace('"sensible": "Yes"', '"sensible": "No"')
    if luck < 0.24 and kind == "screen":
        return reply.replace('"violence": "No"', '"violence": "Yes"')
    return reply


def test_a_clean_build_covers_all_36_tasks_and_loads_without_an_anomaly(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 40), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out, size=72, filters=no_networks)
    assert (report.made, report.begun, report.missing) == (72, 72, {})
    dataset = load(out)
    assert Counter(case.groups["task"] for case in dataset.cases) == dict.fromkeys(TASKS, 2)
    assert anomalies(dataset) == []
    for case in dataset.cases:
        named = [int(k) for k in re.findall(r"Image (\d+)", case.request.instruction)]
        assert (
            named
            == list(range(1, TASKS[case.groups["task"]].n_refs + 1))
            == list(range(1, len(case.request.pictures) + 1))
        )
        assert case.groups["source"] == "real"
        shown = {(out / "data" / picture.name).read_bytes() for picture in case.request.pictures}
        assert len(shown) == len(case.request.pictures), "no picture is there twice"


def test_a_writer_and_a_checker_that_misbehave_cost_sets_and_never_ship_a_broken_one(
    tmp_path: Path, no_networks: Path
) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 40), tmp_path / "out"
    with Pen(moody, faults=Faults(cut=0.05, failing=0.05)) as server:
        report = make(server, source, out, size=72, filters=no_networks)
    dataset = load(out)
    assert [one for one in anomalies(dataset) if one.kind != "missing_task"] == []
    assert report.made == len(dataset.cases) > 60
    assert report.begun == report.made + sum(report.dropped["instruction"].values()) + sum(
        report.dropped["check"].values()
    )
    assert {"refused", "unusable reply"} <= set(report.dropped["instruction"])
    assert {"nonsensical", "difficulty below 2"} <= set(report.dropped["check"])
    assert report.dropped["screen"]["violence"] > 0
    lines = [json.loads(line) for line in (out / "dropped.jsonl").read_text().splitlines()]
    assert len(lines) == sum(sum(reasons.values()) for reasons in report.dropped.values())
    shipped = {case.id for case in dataset.cases}
    assert not shipped & {line["id"] for line in lines}
    unsafe = {line["id"] for line in lines if line["what"] == "picture"}
    with (out / "data/from_where.csv").open() as table:
        assert not unsafe & {row["picture"] for row in csv.DictReader(table)}


def can_be_made(recipe: Recipe, n_refs: int, shown: Sequence[frozenset[str]]) -> bool:
    """By trying, not by the counts that the builder uses."""
    base = [n for n, one in enumerate(shown) if not one.isdisjoint(recipe.base)]
    if not recipe.giver:
        return len(base) >= n_refs
    givers = [n for n, one in enumerate(shown) if not one.isdisjoint(recipe.giver)]
    return any(sum(n != giver for n in base) >= n_refs - 1 for giver in givers)


@pytest.mark.parametrize("seed", range(4))
def test_every_task_that_the_pictures_allow_is_covered_and_the_card_says_why_not_the_others(
    tmp_path: Path, no_networks: Path, seed: int
) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 7, seed), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out, size=36, filters=no_networks)
        rows = [json.loads(line) for line in (out / "review.jsonl").read_text().splitlines()]
    shown = [frozenset(row["categories"]) for row in rows if row["id"].startswith("picture:")]
    allowed = {name for name, task in TASKS.items() if can_be_made(recipe_of(task), task.n_refs, shown)}
    assert 0 < len(allowed) < 36
    assert {case.groups["task"] for case in load(out).cases} == allowed
    card = (out / "README.md").read_text()
    for name in set(TASKS) - allowed:
        assert report.missing[name].startswith(("no picture is there for", "it needs"))
        assert f"- **{name}**: " in card


@pytest.mark.slow
def test_123_real_pictures_make_sets_of_every_task(tmp_path: Path, creval_mini: Path, no_networks: Path) -> None:
    out = tmp_path / "out"
    with Pen() as server:
        report = make(server, creval_mini / "bench/image", out, size=36, filters=no_networks)
    assert (report.counts["pictures that passed"], report.made, report.missing) == (123, 36, {})
    dataset = load(out)
    assert {case.groups["task"] for case in dataset.cases} == set(TASKS)
    assert anomalies(dataset) == []


def test_a_build_that_loses_more_than_is_allowed_says_so(
    tmp_path: Path, no_networks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 12), tmp_path / "out"
    with Pen(moody) as server:
        words = ["multibanana", str(source), "--out", str(out), "--size", "12", "--filters", str(no_networks)]
        words += ["--writer", spec(server)]
        assert build_command([*words, "--max-dropped", "0"], result_action="return_value") == 1
        assert "More was dropped than --max-dropped 0 allows" in capsys.readouterr().out
        assert build_command([*words, "--max-dropped", "0.9"], result_action="return_value") == 0
        said = " ".join(capsys.readouterr().out.split())
    assert "the same model (writer) wrote and checked" in said
    assert f"refbench check multibanana --data {out}" in said


def test_the_same_replies_give_the_same_bytes_and_nothing_is_asked_twice(tmp_path: Path, no_networks: Path) -> None:
    source = folder_of_pictures(tmp_path / "in", 20)
    with Pen(moody) as server:
        first = make(server, source, tmp_path / "one", size=40, filters=no_networks)
        asked = len(server.requests)
        again = make(server, source, tmp_path / "one", size=40, filters=no_networks, concurrency=2)
        assert (first.asked, again.asked, len(server.requests)) == (asked, 0, asked)
        make(server, source, tmp_path / "two", size=40, filters=no_networks, concurrency=1)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert first.model_copy(update={"asked": 0}) == again


def test_a_dataset_that_was_built_runs(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 12), tmp_path / "out"
    with Pen() as server:
        report = make(server, source, out, size=12, filters=no_networks)
    with JudgeServer() as judge:
        result = refbench.evaluate(
            "multibanana",
            models={"copy": "baseline:copy"},
            judges=[spec(judge, "judge")],
            data=out,
            out=tmp_path / "run",
        ).result
        assert len(judge.requests) == report.made
    assert result.failure_share(missing=True) == 0


def test_the_budget_ends_it_with_whole_sets_and_more_money_goes_on(
    tmp_path: Path, no_networks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 10), tmp_path / "out"
    with Pen() as server:
        words = ["multibanana", str(source), "--out", str(out), "--size", "20", "--filters", str(no_networks)]
        words += ["--writer", spec(server), "--concurrency", "6"]
        assert build_command([*words, "--budget", "0.05usd"], result_action="return_value") == 3
        assert "The budget ended it" in capsys.readouterr().out
        few = load(out).cases
        assert 0 < len(few) < 20
        assert [one for one in anomalies(load(out)) if one.kind != "missing_task"] == []
        assert build_command([*words, "--budget", "5usd"], result_action="return_value") == 0
        assert build_command([*words, "--budget", "5usd", "--json"], result_action="return_value") == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["made"], told["asked"], told["stopped"]) == (20, 0, "")
    assert {case.id for case in few} <= {case.id for case in load(out).cases}


def test_a_dead_endpoint_stops_the_build_and_the_next_one_goes_on(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 10), tmp_path / "out"
    with Pen(status=400, error={"error": {"message": "down"}}) as server:
        report = make(server, source, out, size=8, filters=no_networks)
        assert (report.made, report.stopped, report.dropped) == (0, "unreachable", {})
        assert report.unfinished == 10
        server.status = None
        assert make(server, source, out, size=8, filters=no_networks).made == 8


def test_a_review_is_honoured_for_sets_and_for_pictures(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 14), tmp_path / "out"

    def strict(kind: str, pictures: Sequence[str], text: str, reply: str) -> str:
        if kind == "check" and dice("".join(pictures), "x") < 0.3:
            return reply.replace('"breakdown": 2', '"breakdown": 5')
        return reply

    with Pen(strict) as server:
        first = make(server, source, out, size=24, filters=no_networks)
        assert first.dropped["check"]["breakdown above 3"] > 0
        shown = [json.loads(line) for line in (out / "review.jsonl").read_text().splitlines()]
        offered = {row["id"]: row for row in shown if row.get("problem")}
        assert len(offered) == first.dropped["check"]["breakdown above 3"], "what the checker turned down is offered"
        broken, other, *_ = offered
        one, two, *_ = (json.loads(line) for line in (out / "sets.jsonl").read_text().splitlines())
        names = " with ".join(f"Image {k}" for k in range(1, len(two["references"]) + 1))
        review = tmp_path / "decided.jsonl"
        rows = [
            {"id": one["id"], "decision": "reject", "comment": "dull"},
            {"id": two["id"], "decision": "edit", "edit": {"instruction": f"Dance {names}!", "tags": ["rare"]}},
            {**offered[broken], "decision": "accept"},
            {**offered[other], "instruction": "Words of another writer.", "decision": "accept"},
            {"id": "single/nowhere", "decision": "accept"},
        ]
        review.write_text("".join(json.dumps(row) + "\n" for row in rows))
        second = make(server, source, out, size=24, filters=no_networks, review=review)
        cases = {case.id: case for case in load(out).cases}
        assert one["id"] not in cases
        assert broken in cases
        assert other not in cases
        assert any(f"review of {other} " in note for note in second.notes), "nobody has accepted what it has now"
        assert (cases[two["id"]].request.instruction, cases[two["id"]].tags) == (f"Dance {names}!", ("rare",))
        assert second.dropped["review"] == {"rejected": 1}
        assert any("single/nowhere" in note for note in second.notes)
        gone = {"id": f"picture:{two['references'][0]}", "decision": "reject"}
        review.write_text(json.dumps(gone) + "\n")
        make(server, source, out, size=24, filters=no_networks, review=review)
        with (out / "data/from_where.csv").open() as table:
            assert two["references"][0] not in {row["picture"] for row in csv.DictReader(table)}
        review.write_text(json.dumps({"id": two["id"], "decision": "edit", "edit": {"instruction": "Nothing."}}))
        with pytest.raises(RefBenchError, match="does not mention Image 1"):
            make(server, source, out, size=24, filters=no_networks, review=review)


def test_no_picture_and_no_lookalike_is_in_two_splits(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 24), tmp_path / "out"
    for path in sorted(source.iterdir())[:12]:
        with Image.open(path) as opened:
            opened.resize((80, 80)).save(path.with_suffix(".jpg"), quality=60)
    with Pen() as server:
        report = make(server, source, out, size=40, filters=no_networks, test_share=0.4)
    assert report.dropped["pictures"] == {"near-duplicate": 12}
    assert report.data == (str(out / "dev"), str(out / "test"))
    looks = {split: {one.looks for one in collect(out / split).found} for split in ("dev", "test")}
    assert min(map(len, looks.values())) > 3
    groups = lookalikes([*looks["dev"], *looks["test"]])
    assert not set(groups[: len(looks["dev"])]) & set(groups[len(looks["dev"]) :])
    assert {len(load(out / split).cases) for split in ("dev", "test")} == {24, 16}


class Colourist(Painter):
    """Paints pictures that do not look alike; refuses kitchens."""

    async def generate(self, commission: Any, seed: int) -> Any:
        painted = await super().generate(commission, seed)
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(commission.instruction.encode()).digest()[:4], "big"))
        small = Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).resize((96, 96))
        return painted if painted.failure else type(painted)((encode(np.asarray(small)),), cost_usd=0.01)


def test_gaps_are_filled_by_a_model_and_every_picture_says_where_it_is_from(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 3), tmp_path / "out"

    def photo_of_objects(picture: str) -> dict[str, Any]:
        return any_look(
            picture, people=0, objects="one", background="No", tone="No", light="No", rendering="photo", text="none"
        )

    with Pen(look=photo_of_objects) as server:
        bare = make(server, source, tmp_path / "bare", size=36, filters=no_networks)
    assert {"single", "add", "replace", "color", "3_object"} == {
        case.groups["task"] for case in load(tmp_path / "bare").cases
    } - {"material", "3_local"}
    painter = Colourist(name="brush", refuses="kitchen")
    with Pen() as server:
        report = make(server, source, out, size=36, filters=no_networks, painter=painter, fill_to=3)
        assert len(painter.asked) == len({commission.instruction for commission, _ in painter.asked}) > 20
        again = Colourist(name="brush", refuses="kitchen")
        repeated = make(server, source, out, size=36, filters=no_networks, painter=again, fill_to=3)
        assert not again.asked, "what was painted, or refused for good, is on record"
    assert report.cost_usd == pytest.approx(repeated.cost_usd)
    assert report.model_copy(update={"asked": 0, "cost_usd": repeated.cost_usd}) == repeated
    assert len(bare.missing) > 20
    assert report.missing == {}
    assert report.dropped["fill"]["refused"] > 0
    with (out / "data/from_where.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert {row["source"] for row in rows} == {"real", "generated"}
    for row in rows:
        assert (row["by"] == "brush", bool(row["prompt"])) == (row["source"] == "generated",) * 2
    assert {case.groups["source"] for case in load(out).cases} >= {"generated", "both"}
    assert anomalies(load(out)) == []


def test_a_painter_without_a_price_is_not_counted_as_free(tmp_path: Path, no_networks: Path) -> None:
    class Gratis(Colourist):
        async def generate(self, commission: Any, seed: int) -> Any:
            return replace(await super().generate(commission, seed), cost_usd=None)

    source, out = folder_of_pictures(tmp_path / "in", 3), tmp_path / "out"
    with Pen() as server:
        with pytest.raises(RefBenchError, match="--budget needs the price of brush's pictures"):
            make(server, source, out, size=4, filters=no_networks, painter=Gratis(name="brush"), budget="5usd")
        assert not server.requests, "it is said before anything is asked"
        report = make(server, source, out, size=4, filters=no_networks, painter=Gratis(name="brush"), fill_to=1)
        assert report.cost_usd is None
        priced = make(server, source, tmp_path / "paid", size=4, filters=no_networks, painter=Colourist(), fill_to=1)
        paintings = len(list((tmp_path / "paid/.build/fill").iterdir()))
        calls = priced.asked * 1100 * 1e-6
        assert priced.cost_usd == pytest.approx(calls + 0.01 * paintings)
        later = make(server, source, tmp_path / "paid", size=4, filters=no_networks)
        assert later.cost_usd == pytest.approx(priced.cost_usd + later.asked * 1100 * 1e-6), "also without --fill"


def test_outputs_beside_the_references_survive_another_build(tmp_path: Path, no_networks: Path) -> None:
    source, out = folder_of_pictures(tmp_path / "in", 12), tmp_path / "out"
    with Pen() as server:
        make(server, source, out, size=20, filters=no_networks)
        case = load(out).cases[0]
        mine = out / "data" / f"{case.id}_generated.png"
        mine.write_bytes(b"mine")
        make(server, source, out, size=12, filters=no_networks, seed=5)
    assert mine.read_bytes() == b"mine"
    assert len(load(out).cases) == 12


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"size": 0}, "--size 0"),
        ({"fill": "folder:x"}, "--fill folder:x: give a model that paints"),
        ({"fill": "baseline:noise"}, "--fill noise: there is no baseline"),
        ({"retry": ["sorrow"]}, "--retry sorrow"),
        ({"test_share": 2.0}, "--test-share 2"),
    ],
)
def test_wrong_usage_is_one_sentence(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    source = folder_of_pictures(tmp_path / "in", 2)
    with Pen() as server, pytest.raises(RefBenchError, match=re.escape(said)):
        make(server, source, tmp_path / "out", **more)
    (tmp_path / "empty").mkdir()
    with Pen() as server, pytest.raises(RefBenchError, match="holds no picture"):
        make(server, tmp_path / "empty", tmp_path / "out2")


@pytest.mark.slow
def test_real_pictures_meet_real_networks_and_the_card_shows_what_was_dropped(
    tmp_path: Path, creval_mini: Path
) -> None:
    for network in ("yolov4_tiny", "u2netp", "open_nsfw"):
        if reason := why_not(network):
            pytest.skip(reason)
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    # By eye: a clock tower far away, a street, a person, a horse ...; the last is 500 pixels wide.
    names = [
        "HQ-Edit_126_29.jpg",
        "laion_4761897426820023265.jpg",
        "HQ-Edit_122_133.jpg",
        "i2i_0053.jpg",
        "v2v_145.png",
    ]
    for name in names:
        (source / name).symlink_to(creval_mini / "bench/image" / name)
    with Pen() as server:
        report = make(server, source, out, size=8)
    dropped = {line["id"]: line["reason"] for line in map(json.loads, (out / "dropped.jsonl").read_text().splitlines())}
    assert dropped["HQ-Edit_126_29.jpg"] == dropped["laion_4761897426820023265.jpg"] == "object box below 0.02"
    assert dropped["HQ-Edit_122_133.jpg"] == "object mask below 0.3"
    assert "v2v_145.png" not in dropped
    card = (out / "README.md").read_text()
    assert "by yolov4_tiny" in card
    assert any("the filter aesthetic was not run" in note for note in report.notes) or why_not("laion_v1_l14") is None
    shown = re.findall(r"!\[object box below 0.02: [^\]]+\]\((card/\w+\.png)\)", card)
    assert len(shown) == 2
    assert all((out / name).stat().st_size > 1000 for name in shown)
