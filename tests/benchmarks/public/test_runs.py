"""GEdit, ImgEdit, OmniContext and DreamBench++ by the front door: check, run, table, the releases' result files, and what
goes over the wire in the authors' words."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from refbench import load
from refbench.benchmarks import benchmark
from support import public
from support.judge_server import JudgeServer
from support.releases import COMMIT, committed

Refbench = Callable[..., tuple[int, str, str]]
NAMES = list(public.WRITERS)
REPLIES: dict[str, Callable[[str], str]] = {
    "gedit": lambda text: '{"reasoning": "fine", "score": [9, 4]}',
    "imgedit": lambda text: "Fine.\nEdit: 5\nLook: 4\nDetail: 3",
    "omnicontext": lambda text: f'{{"reasoning": "fine", "score": {9 if "how far" in text else 4}}}',
    "dreambenchplus": lambda text: "Alike.\nScore: 3",
}
TOTALS = {
    "gedit": ("O", 4.0),
    "imgedit": ("score", 4.0),
    "omnicontext": ("overall", 6.0),
    "dreambenchplus": ("CP_PF", 0.5625),
}


def outputs(root: Path, name: str, data: Path, ending: str = "png") -> Path:
    """A picture for each case where the release puts it."""
    bench = benchmark(name)
    for number, case in enumerate(load(name, data).cases):
        public.put(root / f"{bench.data.output_names(case)[-1]}.{ending}", public.picture(200 + number, 20, 30))
    return root


def rows(out: str, metric: str, level: str = "overall") -> list[dict[str, Any]]:
    return [row for row in json.loads(out)["rows"] if row["metric"] == metric and row["slice"]["level"] == level]


@pytest.mark.parametrize("name", NAMES)
def test_checked_run_and_tabled(name: str, run_cli: Refbench, tmp_path: Path) -> None:
    data = public.WRITERS[name](tmp_path / "data")
    made = outputs(tmp_path / "out", name, data)
    code, out, err = run_cli("check", name, "--data", data, "--json")
    assert code in (0, 1), err
    assert {one["kind"] for one in json.loads(out)["anomalies"]} == {"other_count"}
    metric, total = TOTALS[name]
    with JudgeServer(reply=REPLIES[name]) as judge:
        run = ("run", name, "--data", data, "--model", f"A=folder:{made}", "--out", tmp_path / "run")
        run += ("--judge", f"j=openai:x?base_url={judge.url}/v1")
        code, out, err = run_cli(*run, "--json")
        assert code == 0, err
        asked = len(judge.requests)
        run_cli(*run)
        assert len(judge.requests) == asked, "a second start asks nothing again"
    for protocol in ("paper", "corrected"):
        (row,) = [row for row in rows(out, metric) if row["protocol"] == protocol]
        assert row["value"] == pytest.approx(total), protocol
        assert row["n_scored"] == row["n_expected"] == len(load(name, data).cases)


def sent(judge: JudgeServer) -> list[dict[str, Any]]:
    return [request.body for request in judge.requests if request.body]


def picture_of(part: dict[str, Any]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2])))


def official_run(run_cli: Refbench, name: str, root: Path, *more: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All requests of a run in the authors' words, and the record of the run."""
    data = public.WRITERS[name](root / "data")
    code = committed(getattr(public, f"{name}_code")(root / "code"))
    with JudgeServer(reply=REPLIES[name]) as judge:
        run = ("run", name, "--data", data, "--model", f"A=folder:{outputs(root / 'out', name, data)}")
        run += (
            "--judge",
            f"j=openai:x?base_url={judge.url}/v1",
            "--out",
            root / "run",
            "--prompts",
            f"official:{code}",
        )
        status, _, err = run_cli(*run, *more)
    assert status in (0, 1), err
    return sent(judge), json.loads((root / "run/run.json").read_text())


def texts(body: dict[str, Any]) -> list[str]:
    found = []
    for message in body["messages"]:
        content = message["content"]
        found += [content] if isinstance(content, str) else [one["text"] for one in content if one["type"] == "text"]
    return found


def pictures(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in body["messages"][-1]["content"] if one["type"] == "image_url"]


def test_gedit_is_asked_as_released_in_the_authors_words(run_cli: Refbench, tmp_path: Path) -> None:
    bodies, info = official_run(run_cli, "gedit", tmp_path, "--ask", "paper")
    assert (info["settings"]["prompts"], info["settings"]["commit"]) == ("official", COMMIT)
    context, edit, tie, quality = public.VIESCORE.values()
    wanted = {
        "\n".join((context, edit, tie.replace("<instruction>", "Change ps_human in cn"))),
        f"{context}\n{quality}",
    }
    assert wanted <= {texts(body)[0] for body in bodies}
    assert {len(texts(body)) for body in bodies} == {1}, "the authors' words say the form of the reply themselves"
    for body in bodies:
        assert (body["max_tokens"], set(body)) == (1400, {"model", "messages", "max_tokens"})
        shown = pictures(body)
        assert all("detail" not in one["image_url"] for one in shown)
        made = [picture_of(one) for one in shown]
        assert {(one.format, one.size) for one in made} == {("JPEG", (24, 16))}, "squeezed to the size of the source"


def test_gedit_corrected_shows_the_files_themselves(run_cli: Refbench, tmp_path: Path) -> None:
    bodies, _ = official_run(run_cli, "gedit", tmp_path, "--ask", "corrected")
    sizes = {picture_of(one).size for body in bodies for one in pictures(body)}
    assert sizes == {(24, 16), (20, 30)}


def test_imgedit_sends_files_as_they_are_and_calls_them_png(run_cli: Refbench, tmp_path: Path) -> None:
    bodies, _ = official_run(run_cli, "imgedit", tmp_path, "--ask", "paper")
    assert {texts(body)[0] for body in bodies} >= {"Plim add: Do add 0", "Plim style: Do style 1"}
    for body in bodies:
        first, second = (picture_of(one) for one in pictures(body))
        assert (first.format, second.format) == ("JPEG", "PNG")
        assert all(one["image_url"]["url"].startswith("data:image/png;") for one in pictures(body))
        assert set(body) == {"model", "messages"}


def test_omnicontext_reaches_the_scene_prompt_in_corrected_alone(run_cli: Refbench, tmp_path: Path) -> None:
    told = {}
    for protocol in ("paper", "corrected"):
        bodies, _ = official_run(run_cli, "omnicontext", tmp_path / protocol, "--ask", protocol)
        told[protocol] = {texts(body)[0] for body in bodies}
    for scene in ("scene_character", "scene_object", "scene_character_object"):
        asked = f"Show them as {scene}"
        assert {f"Plim. Follow {asked}", f"Plim. Same scene {asked}"} <= told["paper"]
        assert {f"Plim. Follow into the scene {asked}", f"Plim. Same scene {asked}"} <= told["corrected"]
    assert not any("into the scene" in text for text in told["paper"])
    assert "Plim. Follow Show them as multi_object" in told["paper"] & told["corrected"]


def test_omnicontext_cuts_references_to_multiples_of_16_and_leaves_the_output(
    run_cli: Refbench, tmp_path: Path
) -> None:
    bodies, _ = official_run(run_cli, "omnicontext", tmp_path, "--ask", "paper")
    for body in bodies:
        *references, output = (picture_of(one) for one in pictures(body))
        assert {one.size for one in references} == {(16, 16)}
        assert (output.size, output.format) == ((20, 30), "JPEG")


def test_dreambenchplus_makes_the_judge_say_something_first(run_cli: Refbench, tmp_path: Path) -> None:
    bodies, _ = official_run(run_cli, "dreambenchplus", tmp_path, "--ask", "paper")
    seen = set()
    for body in bodies:
        user, judge, payload = body["messages"]
        assert (user["role"], judge["role"], payload["role"]) == ("user", "assistant", "user")
        family = user["content"].rpartition(" ")[2]
        assert judge["content"] == f"gpt about {family}"
        kinds = [one["type"] for one in payload["content"]]
        assert kinds == (["text", "image_url"] if family == "text" else ["image_url", "image_url"])
        assert all(one["image_url"]["detail"] == "high" for one in pictures(body))
        assert {picture_of(one).size for one in pictures(body)} == {(512, 512)}
        seen.add(family)
    assert seen == {"subject", "style", "text"}


def test_a_checkout_that_has_other_words_is_refused_by_name(run_cli: Refbench, tmp_path: Path) -> None:
    data = public.gedit(tmp_path / "data")
    public.put(tmp_path / "code/GEdit-Bench/viescore/vie_prompts.py", "x = 1\n")
    made = outputs(tmp_path / "out", "gedit", data)
    run = (
        "run",
        "gedit",
        "--data",
        data,
        "--model",
        f"A=folder:{made}",
        "--judge",
        "openai:x?base_url=http://127.0.0.1:9/v1",
        "--out",
        tmp_path / "r",
    )
    code, _, err = run_cli(*run, "--prompts", f"official:{tmp_path / 'code'}")
    assert code == 2
    assert "vie_prompts.py is not as the release has it: looked for one line _context_no_delimit" in " ".join(
        err.split()
    )


# --- the releases' own result files ----------------------------------------------------------------------------------


def rescored(run_cli: Refbench, name: str, data: Path, folder: Path, *more: object) -> str:
    words = ("rescore", name, "--data", data, "--replies", folder, "--json", "--allow-failures", "1")
    code, out, err = run_cli(*words, *more)
    assert code == 0, err
    return out


def test_imgedit_results_are_replies_and_errors(run_cli: Refbench, tmp_path: Path) -> None:
    data = public.imgedit(tmp_path / "data")
    keys = [case.id for case in load("imgedit", data).cases]
    replies: dict[str, Any] = dict.fromkeys(keys, "A: 5\nB: 4\nC: 3") | {keys[0]: {"error": "429"}, keys[1]: "**A:** 5"}
    folder = public.imgedit_results(tmp_path / "results", {**replies, "99999": "A: 1\nB: 1\nC: 1"})
    out = rescored(run_cli, "imgedit", data, folder, "--judge", "gpt-4.1")
    for protocol in ("paper", "corrected"):
        (row,) = [row for row in rows(out, "score") if row["protocol"] == protocol]
        assert (row["model"], row["value"], row["n_scored"]) == ("painter", 4.0, len(keys) - 2)
        assert row["failures"] == {"api_error": 1, "unparsable": 1}


def test_omnicontext_results_count_once_and_drawn_marks_not_at_all(run_cli: Refbench, tmp_path: Path) -> None:
    data = public.omnicontext(tmp_path / "data")
    told = []
    for number, case in enumerate(load("omnicontext", data).cases):
        task, _, key = case.id.partition("/")
        marks = {"PF_score": 9, "PF_score_reason": "fine", "SC_score": 4, "SC_score_reason": "so so"}
        if number == 0:
            marks |= {"SC_score": 10, "SC_score_reason": "guess_if_cannot_parse | I'm sorry"}
        told.append({"task_type": task, "key": key, **marks})
    out = rescored(run_cli, "omnicontext", data, public.omnicontext_results(tmp_path / "results", [*told, *told]))
    for protocol in ("paper", "corrected"):
        (row,) = [row for row in rows(out, "overall") if row["protocol"] == protocol]
        assert (row["model"], row["judge"], row["value"]) == ("painter", "gpt-4.1", pytest.approx(6.0))
        assert (row["n_scored"], row["failures"]) == (7, {"unparsable": 1})


def test_dreambenchplus_results_of_three_passes_are_averaged(run_cli: Refbench, tmp_path: Path) -> None:
    data = public.dreambenchplus(tmp_path / "data")
    for case in load("dreambenchplus", data).cases:
        cp = [("concept_preservation", turn, f"Score: {mark}") for turn, mark in enumerate((2, 3, 4), 1)]
        pf = [("prompt_following", turn, "Fine.\nScore: 4") for turn in (1, 2, 3)]
        public.dreambenchplus_results(tmp_path / "ratings", "BLIP-Diffusion", case.id, [*cp, *pf])
    out = rescored(run_cli, "dreambenchplus", data, tmp_path / "ratings")
    (row,) = [row for row in rows(out, "CP") if row["protocol"] == "paper"]
    assert (row["model"], row["value"], row["n_scored"], row["failures"]) == ("BLIP-Diffusion", 0.75, 36, {})
    assert {row["value"] for row in rows(out, "CP_PF")} == {0.75}
    assert [row["slice"]["category"] for row in rows(out, "PF", "category")][:4] == [
        "animal",
        "human",
        "object",
        "style",
    ]


@pytest.mark.parametrize("name", ["imgedit", "omnicontext", "dreambenchplus"])
def test_a_folder_without_result_files_is_named(name: str, run_cli: Refbench, tmp_path: Path) -> None:
    data = public.WRITERS[name](tmp_path / "data")
    (tmp_path / "empty").mkdir()
    code, _, err = run_cli("rescore", name, "--data", data, "--replies", tmp_path / "empty")
    assert code == 2
    assert "has no result files" in " ".join(err.split())


def test_a_dataset_that_lacks_a_column_is_an_error_that_names_it(run_cli: Refbench, tmp_path: Path) -> None:
    public.put(tmp_path / "data/rows.jsonl", '{"key": "a", "instruction": "do"}\n')
    code, _, err = run_cli("check", "gedit", "--data", tmp_path / "data")
    assert code == 2
    assert "rows.jsonl, line 1: it has no 'task_type', only key, instruction" in " ".join(err.split())
