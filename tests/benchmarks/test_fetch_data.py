"""`refbench fetch BENCHMARK` against a Hub on loopback: whole, interrupted, changed, refused, and lied to."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refbench.benchmarks import benchmark, names
from refbench.benchmarks.fetch import RECORD, bring, look, record_of, said_of
from refbench.benchmarks.kit.definition import Source
from refbench.benchmarks.kit.wording import commit_of
from refbench.networks import hub_datasets as hub
from refbench.networks.fetch import LARGEST_ARCHIVE
from refbench.networks.hub_datasets import is_safe
from refbench.record import RefBenchError
from refbench.runs import Run
from support import checkout, ideabench, multibanana, multiref
from support import icebench as icebench_files
from support.judge_server import JudgeServer
from support.kills import Blow, Commands
from support.tiny_hub import COMMIT, Hub, listening_hub

DOCS = Path(__file__).parents[2] / "docs"
LATER = "f" * 40
SECRET = "hf_SECRETsecretSECRET"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-token"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("REFBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(hub, "_PAUSE_S", 0.0)
    with listening_hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.url)
        state.files = tmp_path / "repository"
        state.files.mkdir()
        yield state


def write(root: Path | None, files: dict[str, bytes]) -> None:
    assert root is not None
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


SMALL = {
    "a.txt": b"one",
    "empty.txt": b"",
    "deep/b c%20\xc3\xa9.json".encode().decode(): b"{}",
    "large.bin": bytes(range(256)) * 400,
}


def get(folder: Path, **how: Any) -> str:
    how.setdefault("source", Source("owner/name"))
    return bring(look("Made up", folder=folder, **how))


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != RECORD
    }


def released(name: str, root: Path) -> None:
    """A small dataset as the Hub has it."""
    if name == "creval":
        checkout.write_checkout(root, checkout.plain_items(3))
        (root / "bench").rename(root / "CREval-Bench")
    elif name == "multibanana":
        multibanana.write_dataset(root, multibanana.every_task()[:3])
    elif name == "ideabench":
        ideabench.write_checkout(root, ideabench.designs()[:3])
    elif name == "multiref":
        multiref.write_hub_release(root, multiref.blends()[:2], multiref.requests(2))
    else:
        inside = icebench_files.write_dataset(root / "made", icebench_files.every_task()[:2], folder="data")
        with zipfile.ZipFile(root / "dataset.zip", "w") as archive:
            for path in sorted((inside if inside.name == "made" else root / "made").rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(root / "made").as_posix())
        shutil.rmtree(root / "made")
        write(root, {"models.zip": b"gigabytes of weights"})


@pytest.mark.parametrize("name", names()[:5])
def test_what_is_fetched_is_found_without_data_and_said_with_its_commit(
    name: str, server: Hub, tmp_path: Path, run_cli: Any
) -> None:
    assert server.files is not None
    released(name, server.files)
    write(server.files, {".gitattributes": b"*.zip filter=lfs"})
    server.repository = benchmark(name).data.sources[0].dataset
    server.large, server.page = 5000, 7
    code, out, err = run_cli("fetch", name, "--yes")
    assert code == 0, err
    assert f"{server.repository} at {COMMIT}" in out and "licence: " in out and f"refbench check {name}" in out
    code, out, err = run_cli("check", name, "--json")
    assert code == 0, err
    assert json.loads(out)["source"] == f"{server.repository} at {COMMIT}"
    brought = tree(tmp_path / "data" / name)
    assert not any(path.startswith(("models", ".git")) or path.endswith(".zip") for path in brought)
    assert not (tmp_path / "data" / f".fetch-{name}").exists()
    asked = len(server.asked)
    assert run_cli("fetch", name)[0] == 0 and len(server.asked) == asked, "what is all there asks nobody, and nothing"


@pytest.mark.parametrize("name", names()[:5])
def test_pages_and_errors_know_the_addresses(name: str, monkeypatch: pytest.MonkeyPatch, run_cli: Any) -> None:
    sources = benchmark(name).data.sources
    page = (DOCS / f"{name}.md").read_text()
    for source in sources:
        assert source.dataset in page and source.code in page
        assert source.licence == "unknown" or source.licence in page
    assert f"refbench fetch {name}" in page and sources[0].by_hand(name) in page
    monkeypatch.delenv("REFBENCH_DATA", raising=False)
    assert f"refbench fetch {name} brings it from {sources[0].page}" in run_cli("check", name)[2]
    monkeypatch.setenv("REFBENCH_DATA", "/nowhere")
    assert f"refbench fetch {name} brings it from {sources[0].page}" in run_cli("check", name)[2]


def test_every_byte_is_brought_and_the_token_stays_with_the_hub(
    server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(server.files, SMALL)
    server.large, server.page, server.token, server.busy = 1000, 2, SECRET, 2
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert get(tmp_path / "made") == "fetched"
    assert tree(tmp_path / "made") == SMALL
    assert server.tokens_seen and not any(path.startswith("/cdn/") for path, _ in server.tokens_seen)
    assert "/cdn/large.bin" in server.asked, "the large file came from the other host"
    record = (tmp_path / "made" / RECORD).read_text()
    assert COMMIT in record and SECRET not in record and "owner/name" in record
    assert all(COMMIT in path for path in server.asked if "/resolve/" in path)


def test_an_interrupted_fetch_goes_on_at_its_own_commit(server: Hub, tmp_path: Path) -> None:
    write(server.files, SMALL)
    server.large, server.break_after = 1000, 20_000
    with pytest.raises(RefBenchError, match=r"broke off: run the command again, it goes on"):
        get(tmp_path / "made")
    assert not (tmp_path / "made").exists(), "half a dataset is none"
    server.break_after, server.commit, server.ranges = None, LATER, []
    write(server.files, {"new.txt": b"of a later commit"})
    offer = look("Made up", Source("owner/name"), tmp_path / "made")
    assert [file.path for file in offer.lacking if file.path == "large.bin"] == ["large.bin"]
    asked = [path for path in server.asked if "/api/" in path]
    assert asked[-2].endswith(f"/revision/{COMMIT}")
    bring(offer)
    assert tree(tmp_path / "made")["large.bin"] == SMALL["large.bin"]
    assert server.ranges == ["/cdn/large.bin from 80000"], "four tries of 20,000 bytes were there already"


def test_a_wrong_beginning_is_brought_anew(server: Hub, tmp_path: Path) -> None:
    write(server.files, SMALL)
    server.break_after = 20_000
    with pytest.raises(RefBenchError):
        get(tmp_path / "made")
    server.break_after = None
    for part in (tmp_path / ".fetch-made/parts").glob("*.part"):
        part.write_bytes(b"y" * part.stat().st_size)
    assert get(tmp_path / "made") == "fetched" and tree(tmp_path / "made") == SMALL


def test_a_later_commit_comes_only_when_asked_for_and_takes_no_work_of_the_users(server: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write(server.files, SMALL)
    get(folder)
    assert server.files is not None
    (server.files / "a.txt").unlink()
    write(server.files, {"b.txt": b"new", "large.bin": SMALL["large.bin"]})
    server.commit, server.asked = LATER, []
    assert get(folder) == "already there" and not server.asked
    assert said_of(folder) == f"owner/name at {COMMIT}" and "a.txt" in tree(folder)
    (folder / "mine_generated.png").write_bytes(b"a day of GPU")
    with pytest.raises(RefBenchError, match=r"mine_generated.png did not come from the Hub"):
        get(folder, update=True)
    assert (folder / "mine_generated.png").exists()
    (folder / "mine_generated.png").unlink()
    assert get(folder, update=True) == "fetched"
    assert tree(folder) == {name: data for name, data in SMALL.items() if name != "a.txt"} | {"b.txt": b"new"}
    assert said_of(folder) == f"owner/name at {LATER}"
    assert [path for path in server.asked if "/resolve/" in path] == [f"/datasets/owner/name/resolve/{LATER}/b.txt"]


def test_damaged_files_are_brought_again_and_the_user_s_stay(server: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write(server.files, SMALL)
    get(folder)
    (folder / "a.txt").write_bytes(b"two")
    (folder / "large.bin").unlink()
    (folder / "own.png").write_bytes(b"mine")
    assert said_of(folder) == f"owner/name at {COMMIT}, 2 files changed since (first: a.txt)"
    server.asked = []
    assert get(folder) == "fetched" and tree(folder) == SMALL | {"own.png": b"mine"}
    assert sorted(path.rpartition("/")[2] for path in server.asked if "/resolve/" in path) == ["a.txt", "large.bin"]


def test_a_folder_that_was_brought_by_hand_is_taken_as_it_is_or_left_alone(server: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write(server.files, SMALL)
    write(folder, SMALL | {"own.png": b"mine"})
    assert get(folder) == "fetched" and said_of(folder) == f"owner/name at {COMMIT}"
    (folder / RECORD).unlink()
    (folder / "a.txt").write_bytes(b"another")
    with pytest.raises(RefBenchError, match=r"made is there, not fetched by RefBench, and 1 of the 4 files"):
        get(folder)
    assert (folder / "a.txt").read_bytes() == b"another"


@pytest.mark.parametrize("large", [1, 1 << 40], ids=["sha256", "git"])
def test_a_file_with_another_hash_is_refused(large: int, server: Hub, tmp_path: Path) -> None:
    write(server.files, SMALL)
    server.large = large
    server.instead = {"a.txt": b"two"}
    with pytest.raises(
        RefBenchError, match=r"sends another a.txt than the one whose hash it states: nothing of it was kept"
    ):
        get(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_file_without_end_is_cut_at_its_size(server: Hub, tmp_path: Path) -> None:
    write(server.files, SMALL)
    server.endless = "a.txt"
    with pytest.raises(RefBenchError, match=r"sends more of a.txt than the 3 bytes it states"):
        get(tmp_path / "made")
    assert sum(p.stat().st_size for p in tmp_path.rglob("*.part")) < 1 << 20 < LARGEST_ARCHIVE


def test_a_listing_without_end_is_refused(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(server.files, SMALL)
    server.endless = "listing"
    monkeypatch.setattr(hub, "_PAGES", 5)
    with pytest.raises(RefBenchError, match="lists files without end"):
        get(tmp_path / "made")


@pytest.mark.parametrize(
    "name",
    ["../up", "/etc/x", "a/../../up", "a//b", "./a", "a\\b", "a\nb", "a\0b", "\u001b[2J/../x", "a.txt", "a.txt/under", "x" * 300, "", 7, None],
)  # fmt: skip
def test_a_hostile_name_is_refused_before_anything_is_written(name: Any, server: Hub, tmp_path: Path) -> None:
    write(server.files, SMALL)
    server.also = [{"type": "file", "path": name, "size": 1, "oid": "0" * 40}]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RefBenchError) as error:
        get(tmp_path / "made")
    assert sorted(tmp_path.rglob("*")) == before
    assert "\x1b" not in str(error.value) and "\n" not in str(error.value)


def test_names_are_safe_or_not() -> None:
    assert is_safe("a/b c/ü.json") and is_safe(".hidden") and not is_safe("a/../b") and not is_safe("\ud800")


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("GatedRepo", 403, r"is gated: accept its terms on that page, set HF_TOKEN"),
        ("GatedRepo", 401, r"is gated: accept its terms on that page, set HF_TOKEN"),
        ("RepoNotFound", 401, r"is not there, or private: set HF_TOKEN"),
        ("RepoNotFound", 404, r"is not there, or private: set HF_TOKEN"),
        ("RevisionNotFound", 404, r"has no such revision"),
        ("", 500, r"answered with status 500: run the command again later, it goes on"),
    ],
)
def test_refusals_are_said_without_the_token(
    code: str, status: int, said: str, server: Hub, monkeypatch: pytest.MonkeyPatch, run_cli: Any
) -> None:
    server.files, server.code, server.status = None, code, status
    monkeypatch.setenv("HF_TOKEN", SECRET)
    ended, out, err = run_cli("fetch", "multibanana", "--yes")
    assert ended == 2 and re.search(f"datasets/kohsei/MultiBanana-Benchmark {said}", err), err
    assert SECRET not in out + err
    monkeypatch.setenv("HF_TOKEN", SECRET + "\nX-Other: 1")
    ended, out, err = run_cli("fetch", "multibanana", "--yes")
    assert ended == 2 and "no token has" in err and SECRET not in out + err


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("HF_ENDPOINT", "http://127.0.0.1:9", "cannot be reached"),
        ("HF_HUB_OFFLINE", "1", "while HF_HUB_OFFLINE is set"),
    ],
)
def test_without_a_network_the_line_and_the_folder_are_said(
    name: str, value: str, why: str, server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Any
) -> None:
    monkeypatch.setenv(name, value)
    code, _, err = run_cli("fetch", "icebench", "--yes")
    assert code == 2 and why in err and benchmark("icebench").data.sources[0].by_hand("icebench") in err
    assert f"copy that folder to {tmp_path / 'data/icebench'}" in err
    assert "git clone https://huggingface.co/datasets/ali-vilab/ICE-Bench" in err
    assert not (tmp_path / "data").exists() and not server.asked


def test_nothing_is_fetched_before_size_and_licence_were_shown_and_agreed_to(
    server: Hub, tmp_path: Path, run_cli: Any
) -> None:
    write(server.files, SMALL)
    server.repository, server.licence = "kohsei/MultiBanana-Benchmark", "mit"
    code, out, err = run_cli("fetch", "multibanana")
    assert code == 2 and "nothing was fetched: add --yes" in err
    assert "licence: CC BY-NC 4.0 (the Hub's card says mit)" in out and "4 files, 0.00 GB" in out
    assert not (tmp_path / "data").exists() and not any("/resolve/" in path for path in server.asked)
    server.licence = "cc-by-nc-4.0"
    assert "licence: CC BY-NC 4.0\n" in run_cli("fetch", "multibanana")[1]


def packed(members: dict[str, bytes], links: tuple[str, ...] = ()) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = ((stat.S_IFLNK if name in links else stat.S_IFREG) | 0o644) << 16
            archive.writestr(entry, data)
    return made.getvalue()


@pytest.mark.parametrize("name", ["../up.txt", "/abs.txt", "link", "a.txt", ".refbench-source.json"])
def test_an_archive_with_a_hostile_member_is_not_unpacked(name: str, server: Hub, tmp_path: Path) -> None:
    write(server.files, {"a.txt": b"1", "d.zip": packed({"ok.txt": b"2", name: b"/etc/passwd"}, links=("link",))})
    with pytest.raises(RefBenchError, match="which may not be written: nothing was unpacked"):
        get(tmp_path / "made", source=Source("owner/name", unpack=True))
    assert not (tmp_path / "made").exists() and not (tmp_path / "up.txt").exists()


def test_a_member_that_was_lost_brings_its_archive_again(server: Hub, tmp_path: Path) -> None:
    folder, source = tmp_path / "made", Source("owner/name", unpack=True)
    write(server.files, {"a.txt": b"1", "d.zip": packed({"x/1.txt": b"2", "x/2.txt": b"3"})})
    get(folder, source=source)
    (folder / "x/1.txt").write_bytes(b"?")
    assert get(folder, source=source) == "fetched"
    assert tree(folder) == {"a.txt": b"1", "x/1.txt": b"2", "x/2.txt": b"3"}


def test_a_run_records_repository_and_commit(server: Hub, tmp_path: Path, run_cli: Any) -> None:
    assert server.files is not None
    server.repository = "kohsei/MultiBanana-Benchmark"
    released("multibanana", server.files)
    assert run_cli("fetch", "multibanana", "--yes")[0] == 0
    with JudgeServer() as judging:
        judge = f"j=openai:j?base_url={judging.url}/v1"
        words = ("--model", "c=baseline:copy", "--judge", judge, "--out", tmp_path / "run")
        made = run_cli("run", "multibanana", *words)
    assert made[0] == 0, made[2]
    assert Run.open(tmp_path / "run").notes("source of the data")[""] == f"{server.repository} at {COMMIT}"
    assert f"data: {server.repository} at {COMMIT}" in run_cli("table", tmp_path / "run", "--json")[1]


def test_official_wording_from_fetched_data_has_the_commit_of_the_hub(server: Hub, tmp_path: Path) -> None:
    assert server.files is not None
    server.repository = "ali-vilab/IDEA-Bench"
    released("ideabench", server.files)
    bring(look("IDEA-Bench", benchmark("ideabench").data.sources[0], tmp_path / "ideabench"))
    assert commit_of(tmp_path / "ideabench") == COMMIT


def test_of_a_large_dataset_only_the_named_files_are_brought(server: Hub, tmp_path: Path) -> None:
    write(server.files, SMALL)
    get(tmp_path / "made", source=Source("owner/name", only=("deep/*", "large.*")))
    assert set(tree(tmp_path / "made")) == {name for name in SMALL if name.startswith(("deep", "large"))}


CLIENT = Path(sys.executable).parent / "hf"


@pytest.mark.parametrize("chosen", [{"leave": ("a*",)}, {"only": ("[!a]*",)}], ids=["leave", "only"])
def test_the_hub_s_own_client_gets_the_same_from_this_server(
    chosen: dict[str, tuple[str, ...]], server: Hub, tmp_path: Path
) -> None:
    """The server is no invention of ours, and the line that we print is one that works."""
    pytest.importorskip("huggingface_hub")
    write(server.files, SMALL)
    server.large, server.page = 1000, 2
    source = Source("owner/name", **chosen)  # type: ignore[arg-type]
    line = source.by_hand(str(tmp_path / "by-hand")).replace("hf ", f"{CLIENT} ", 1)
    told = {"HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(line, shell=True, env=os.environ | told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    by_hand = {name: data for name, data in tree(tmp_path / "by-hand").items() if not name.startswith(".cache")}
    get(tmp_path / "made", source=source)
    assert by_hand == tree(tmp_path / "made") == {name: data for name, data in SMALL.items() if name != "a.txt"}
    assert record_of(tmp_path / "made") is not None


BENCH = """
from refbench.benchmarks.kit import benchmark, case, Dataset
from refbench.benchmarks.kit.definition import Data, Source
def load(root, subset):
    return Dataset("mine", root, root, (case("1", (root / "a.txt").read_text(), {}),))
BENCHMARK = benchmark(name="mine", data=Data(load, sources=(Source("owner/name", licence="MIT"),)))
"""


def test_a_benchmark_in_one_file_declares_its_source_too(server: Hub, tmp_path: Path, run_cli: Any) -> None:
    write(server.files, {"a.txt": b"one"})
    (tmp_path / "mine.py").write_text(BENCH)
    code, out, err = run_cli("fetch", tmp_path / "mine.py", "--yes", "--json")
    assert code == 0 and "licence: MIT" in err, err
    assert json.loads(out)["data"] == str(tmp_path / "data/mine") and json.loads(out)["state"] == "fetched"
    assert run_cli("check", tmp_path / "mine.py")[0] == 0
    code, _, err = run_cli("fetch", "multiref-other", "--yes")
    assert code == 2 and "MultiRef-Bench declares multiref, multiref-training" in err


def test_a_folder_inside_and_a_command_that_waited(server: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write(server.files, SMALL)
    first, second = (look("Made up", Source("owner/name"), folder) for _ in range(2))
    assert bring(first) == "fetched"
    (folder / "mine.png").write_bytes(b"mine")
    assert bring(second) == "already there" and (folder / "mine.png").exists(), "looked before, brought after"
    assert said_of(folder / "deep") == f"owner/name at {COMMIT}"


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 2)])
def test_on_a_terminal_the_user_is_asked(answer: bytes, code: int, server: Hub, tmp_path: Path) -> None:
    write(server.files, {"a.txt": b"one"})
    server.repository = "kohsei/MultiBanana-Benchmark"
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "refbench", "fetch", "multibanana"]
    with subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as asked:
        os.close(theirs)
        os.write(ours, answer)
        assert asked.wait(600) == code
    os.close(ours)
    assert (tmp_path / "data/multibanana/a.txt").exists() == (code == 0)


@pytest.mark.slow
@pytest.mark.parametrize("later", [False, True], ids=["first", "update"])
def test_a_fetch_that_is_killed_at_any_moment_is_finished_by_the_next(later: bool, server: Hub, tmp_path: Path) -> None:
    """Never half a dataset under its name, never one commit's files under another's."""
    archive = packed({"data/x.txt": b"2" * 1000, "data/y.txt": b"3"})
    old, new = {"a.txt": b"one", "gone.txt": b"old"}, {"a.txt": b"one", "b.txt": b"new", "d.zip": archive}
    expected = {"a.txt": b"one", "b.txt": b"new", "data/x.txt": b"2" * 1000, "data/y.txt": b"3"}
    server.repository, server.large = "ali-vilab/ICE-Bench", 500
    assert server.files is not None
    folder, base = tmp_path / "data/icebench", tmp_path / "base"
    source = Source(server.repository, leave=("models*",), unpack=True)
    write(server.files, old)
    get(base, source=source)
    shutil.rmtree(server.files)
    write(server.files, new)
    server.commit = LATER
    words = ["fetch", "icebench", "--yes", *(["--update"] if later else [])]
    states = (None, *([old] if later else []), expected)
    with Commands(tmp_path) as commands:
        moment, undisturbed = 0, 1
        while moment <= undisturbed:
            shutil.rmtree(tmp_path / "data", ignore_errors=True)
            if later:
                shutil.copytree(base, folder)
            ended = commands.run(words, Blow(moment) if moment else None)
            undisturbed = ended.moments if not moment else undisturbed
            seen = tree(folder) if folder.exists() else None
            assert seen in states, (moment, ended.said)
            if seen is not None:
                assert record_of(folder) is not None and said_of(folder).endswith(COMMIT if seen == old else LATER)
            if ended.code:
                again = commands.run(words)
                assert again.code == 0, (moment, again.said)
            assert tree(folder) == expected and not (tmp_path / "data/.fetch-icebench").exists(), moment
            moment += 1 if later else 3
    assert undisturbed > 10
