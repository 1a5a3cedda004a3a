"""Local image models and judges on the nodes of a Ray cluster give what they give on one machine."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.local import LocalVLM
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.engine.ray.models import Cluster, RemoteModel, RemoteVLM
from refbench.engine.workers.engines import StartedEngine, started
from refbench.engine.workers.task import Resources
from refbench.machine import threads
from refbench.models.model import Commission, Painted, Shown
from refbench.models.process.python import PythonModel
from refbench.pictures import encode
from refbench.specs import Spec
from support import tiny_vlms
from support.ray_nodes import ray_cluster

pytest.importorskip("ray.cluster_utils")  # not `ray`: without it, the folder of these tests has that name
NEURAL = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "transformers", "diffusers"))), reason="needs refbench[diffusers]"
)

PAINTER = """
import os
import numpy as np

def painter():
    def paint(requests, seeds):
        if any(request.instruction == "leave" for request in requests):
            os._exit(4)
        return [np.full((8, 8, 3), seed + len(os.environ["CUDA_VISIBLE_DEVICES"]), np.uint8) for seed in seeds]
    return paint
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster({"num_cpus": 1, "num_gpus": 2}) as made:
        yield made


def test_gpus_are_shared_out_whole_while_there_are_enough_and_in_parts_then(cluster: Any, tmp_path: Path) -> None:
    async def shares() -> list[Resources]:
        async with started("ray", cluster.address, tmp_path) as on:
            assert on.cluster is not None
            found = []
            for _ in range(5):
                on.cluster.wants_gpu()
                found.append(on.cluster.share())
            return found

    assert [(one.workers, one.gpus) for one in asyncio.run(shares())] == [
        (2, 1),
        (1, 1),
        (1, 0.5),
        (1, 0.5),
        (1, pytest.approx(1 / 3)),
    ]


def test_a_python_model_paints_on_the_nodes_with_a_gpu_each_and_its_pictures_come_through_the_run(
    cluster: Any, tmp_path: Path
) -> None:
    (tmp_path / "paint.py").write_text(PAINTER)
    spec = Spec.parse(f"P=python:{tmp_path}/paint.py:painter?gpus=2&batch=4", "--model")

    async def painted() -> list[Painted]:
        async with started("ray", cluster.address, tmp_path / "run") as on:
            model = placed(on).model(spec, PythonModel)
            assert isinstance(model, RemoteModel)
            assert model.canonical() == PythonModel(spec).canonical()
            orders = [("a", 1), ("b", 2), ("leave", 3), ("c", 4)]
            try:
                return await asyncio.gather(*(model.generate(Commission(text), seed) for text, seed in orders))
            finally:
                await model.close()

    first, second, third, fourth = asyncio.run(painted())
    for one, seed in ((first, 1), (second, 2), (fourth, 4)):
        assert one.pictures == (encode(np.full((8, 8, 3), seed + 1, np.uint8)),)  # one GPU is seen
    assert third.failure is not None
    assert third.failure.kind == "worker_died"
    assert len(list((tmp_path / "run/blobs").glob("*/*.png"))) == 3


@NEURAL
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_pipeline_of_diffusers_paints_the_same_picture_on_a_node(cluster: Any, tmp_path: Path) -> None:
    from refbench.models.diffusers.model import DiffusersModel
    from support import tiny_diffusers

    folder = tiny_diffusers.Pipelines(tmp_path)("edit")
    shown: Shown = tiny_diffusers.noise_picture(tmp_path, 1)
    order = Commission("Make it snow.", (shown,))
    (here,) = tiny_diffusers.paint(folder, "steps=2", (order, 5))
    spec = Spec.parse(f"m=diffusers:{folder}?device=cpu&steps=2", "--model")

    async def painted() -> Painted:
        async with started("ray", cluster.address, tmp_path / "run") as on:
            model = placed(on).model(spec, DiffusersModel)
            try:
                return await model.generate(order, 5)
            finally:
                await model.close()

    there = asyncio.run(painted())
    assert there.pictures == here.pictures
    assert there.provenance == here.provenance
    assert there.provenance["threads"] == str(threads())


@NEURAL
def test_a_local_judge_says_the_same_on_a_node(cluster: Any, tmp_path: Path) -> None:
    import transformers

    folder = tiny_vlms.llava(transformers, tmp_path / "vlm")
    (tmp_path / "one.png").write_bytes(encode(np.random.default_rng(1).integers(0, 255, (40, 40, 3), dtype=np.uint8)))
    sent = prepare(tmp_path / "one.png", PicturePolicy(), lambda data, kind: tmp_path / "never")
    assert isinstance(sent, SentPicture)
    spec = Spec.parse(f"v=local:{folder}?device=cpu&max_tokens=6&batch=2", "--judge")
    requests = [
        ChatRequest(parts=(ChatText(text=text), ChatPicture(sha256=sent.sha256)), max_tokens=6)
        for text in ("What is it?", "Is it red?", "Who?")
    ]

    async def asked(vlm: Any) -> list[Any]:
        return await asyncio.gather(*(vlm.ask(request, {sent.sha256: sent}, 0) for request in requests))

    async def on_ray() -> list[Any]:
        async with started("ray", cluster.address, tmp_path / "run") as on:
            vlm = placed(on).vlm(spec, LocalVLM)
            assert isinstance(vlm, RemoteVLM)
            return await asked(vlm)

    local = LocalVLM(spec)
    here = asyncio.run(asked(local))
    asyncio.run(local.close())
    assert asyncio.run(on_ray()) == here
    assert all(evidence.reply or evidence.failure for evidence in here)


def placed(on: StartedEngine) -> Cluster:
    assert on.cluster is not None
    return on.cluster
