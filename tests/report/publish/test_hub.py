"""What is published, taken by the Hub's own client, and read by the libraries that others read it with."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refbench.report.publish.publish import Publishing, publish_folder
from refbench.report.publish.verify import verify
from support.brief_runs import evaluated
from support.hub_uploads import HubUploads

TOKEN = "hf_aTokenOfNobodyAtAll0123456789"
# The packages of others warn of each other.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(tmp_path_factory.mktemp("hub"), {"A": (0.8, 0.5, 0), "B": (0.3, 0.5, 2)}, cases=4)


@pytest.fixture(scope="module")
def folder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "dataset"
    publish_folder(run, folder, Publishing(allow=("unknown",), draws=200))
    return folder


def published(run: Path, server: HubUploads, tmp_path: Path, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the client reads its addresses when it is imported. Without Xet, whose servers are not
    the Hub's."""
    home = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    words = ["publish", str(run), "--to", "hub:someone/eval", "--allow", "unknown", "--private"]
    return subprocess.run(
        [sys.executable, "-m", "refbench", *words],
        env={**os.environ, **home, "HF_ENDPOINT": server.url, "HF_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_hubs_client_uploads_what_verify_then_finds_sound(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    yaml = pytest.importorskip("yaml")
    there = tmp_path / "there"
    (there / "evidence").mkdir(parents=True)
    (there / "evidence/00009.jsonl").write_text("of an earlier one")
    with HubUploads(folder=there, token=TOKEN) as server:
        done = published(run, server, tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"{server.url}/datasets/someone/eval/commit/" in done.stdout
    assert server.made["type"] == "dataset" and server.made["organization"] == "someone"
    assert server.made.get("visibility", "private" if server.made.get("private") else "") == "private"
    assert not (there / "evidence/00009.jsonl").exists() and (there / "pictures/00001.parquet").is_file()
    found = verify(there)
    assert found.exit_code == 0 and found.cells > 10
    everything = b"".join(path.read_bytes() for path in there.rglob("*") if path.is_file())
    assert TOKEN.encode() not in everything and TOKEN not in done.stdout + done.stderr
    top = yaml.safe_load((there / "README.md").read_text().split("---\n")[1])
    assert [entry["name"] for entry in top["model-index"]] == ["A", "B"] and top["configs"][0][
        "config_name"
    ] == "pictures"


def test_a_token_that_may_not_write_is_one_sentence_without_it(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    with HubUploads(folder=tmp_path / "there", token=TOKEN) as server:
        done = published(run, server, tmp_path, token="hf_anotherToken0123456789")
    assert done.returncode == 2 and "set HF_TOKEN" in done.stderr
    assert "hf_anotherToken" not in done.stderr + done.stdout and len(done.stderr.splitlines()) == 1


def test_the_hubs_client_reads_the_results_of_the_card(folder: Path) -> None:
    repocard = pytest.importorskip("huggingface_hub.repocard_data")
    card = (folder / "README.md").read_text()
    index = next(line for line in card.splitlines() if line.startswith("model-index: ")).partition(": ")[2]
    names, results = repocard.model_index_to_eval_results(json.loads(index)[:1])
    total = next(one for one in results if one.metric_type == "total")
    assert names == "A" and total.metric_value > 1 and total.metric_args["n_scored"] == 4


def test_datasets_shows_the_pictures_or_else_the_scores(run: Path, folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pictures = datasets.load_dataset(str(folder), split="test", cache_dir=str(tmp_path))
    assert pictures.features["image"].__class__.__name__ == "Image" and pictures[0]["image"].size == (30, 20)
    raw = pictures.cast_column("image", datasets.Image(decode=False))
    assert all(hashlib.sha256(row["image"]["bytes"]).hexdigest() == row["sha256"] for row in raw)
    publish_folder(run, tmp_path / "plain", Publishing(draws=200))
    scores = datasets.load_dataset(str(tmp_path / "plain"), "scores", split="test", cache_dir=str(tmp_path / "cache"))
    assert len(scores) == verify(folder).scores


def test_croissant_is_valid_and_its_records_can_be_read(folder: Path) -> None:
    croissant = pytest.importorskip("mlcroissant")
    dataset = croissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not dataset.metadata.issues.errors
    first = next(iter(dataset.records("scores")))
    assert first["scores/model"] in (b"A", "A") and "scores/score" in first
    assert next(iter(dataset.records("pictures")))["pictures/licence"] in (b"unknown", "unknown")
