"""From a run to a folder of variants: which cases, which outputs, and every perturbation of a preset on each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.builders.audit.anchor import Anchors, anchors_of
from refbench.builders.audit.catalogue import CASES, PERTURBATIONS, Preset, perturbed
from refbench.builders.audit.scene import Opened, Scene, Seeing
from refbench.builders.audit.variants import (
    VariantRow,
    Variants,
    VariantsInfo,
    are_there,
    kept,
    read_variants,
    write_variants,
)
from refbench.case import AnyCase
from refbench.engine.anchor import data_of
from refbench.failure import Failure
from refbench.machine import cores
from refbench.networks import why_not
from refbench.pictures import decode, picture_bytes
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.scoring import benchmark_of

_CHECKED_BY = ("lpips_alex", "mobilenet_v2")
"""Networks that only measure damages."""

_TOLD_EVERY = 10


@dataclass(frozen=True)
class MakeOptions:
    """What is made of a run: how much of it, by whose word outputs are good, and where the cases' pictures lie."""

    preset: Preset = "core"
    cases: int | None = None
    seed: int = 0
    anchor: str | None = None
    people: Path | None = None
    data: Path | None = None


def make_variants(run: Run, out: Path, options: MakeOptions, *, show: bool = False) -> Variants:
    """The variants of a run's good outputs, in a folder; those that are there already are not made again.

    The same run, options and seed give the same bytes.
    """
    bench = benchmark_of(run)
    cases = run.cases(bench.data.case_type)
    root = picture_root(run, options.data)
    anchors = anchors_of(run, bench, cases, root, anchor=options.anchor, people=options.people)
    wanted = options.cases or CASES[options.preset]
    scenes, left_out = _scenes({case.id: case for case in cases}, anchors, root, wanted, options.seed)
    info = VariantsInfo(
        benchmark=run.info.benchmark,
        preset=options.preset,
        seed=options.seed,
        cases=tuple(scene.case.id for scene in scenes),
        anchor=anchors.by,
        anchor_asked=anchors.asked,
        outputs={scene.case.id: anchors.outputs[scene.case.id][0] for scene in scenes},
        left_out=left_out,
        networks=tuple(name for name in _networks() if why_not(name) is None),
    )
    if are_there(out):
        before = read_variants(out)
        if before.info.model_copy(update={"manifest": ""}) != info:
            raise RefBenchError(f"{out} holds variants of another run, or made otherwise: choose another folder")
        return before
    rows: list[VariantRow] = []
    with ThreadPoolExecutor(cores()) as pool:
        for number, made in enumerate(pool.map(_made(out, options.preset), scenes), 1):
            rows += made
            if show and (number % _TOLD_EVERY == 0 or number == len(scenes)):
                print(f"variants of {number} of {len(scenes)} cases", file=sys.stderr, flush=True)
    return write_variants(out, info, rows)


def picture_root(run: Run, data: Path | None) -> Path | None:
    """Where the pictures of a run's cases lie: as it was noted when it was made, or as somebody says now."""
    if data is not None:
        return benchmark_of(run).data.load(data, run.info.subset).picture_root
    noted = run.notes("pictures").get("")
    return Path(noted) if noted and Path(noted).is_dir() else data_of(run)


def _networks() -> list[str]:
    needed = [name for one in PERTURBATIONS.values() for name in one.needs]
    return sorted({*needed, *_CHECKED_BY})


def _made(out: Path, preset: Preset) -> Callable[[Scene], list[VariantRow]]:
    def make(scene: Scene) -> list[VariantRow]:
        rows = kept(out, scene, perturbed(scene, preset))
        scene.seeing.forget()
        return rows

    return make


def _scenes(
    cases: Mapping[str, AnyCase], anchors: Anchors, root: Path | None, most: int, seed: int
) -> tuple[list[Scene], dict[str, str]]:
    """The first cases, in the run's fair order, whose pictures can all be read."""
    scenes: list[Scene] = []
    left_out: dict[str, str] = {}
    for name, (_, paths) in anchors.outputs.items():
        if len(scenes) == most:
            break
        case = cases[name]
        if case.request.pictures and root is None:
            raise RefBenchError("the pictures of the run's cases are not where they were: give --data")
        files = [*paths, *(root / picture.name for picture in case.request.pictures if root is not None)]
        opened = [_opened(path) for path in files]
        wrong = next((one for one in opened if isinstance(one, Failure)), None)
        if wrong is not None:
            left_out[name] = str(wrong)
            continue
        there = tuple(one for one in opened if isinstance(one, Opened))
        scenes.append(Scene(case, there[: len(paths)], there[len(paths) :], seed, Seeing()))
    if len(scenes) < 2:
        raise RefBenchError("an audit needs good outputs of two cases at the least: other cases lend what damages take")
    return [replace(scene, others=tuple(scenes)) for scene in scenes], left_out


def _opened(path: Path) -> Opened | Failure:
    data = picture_bytes(path)
    if isinstance(data, Failure):
        return data
    pixels = decode(data)
    return pixels if isinstance(pixels, Failure) else Opened(data)
