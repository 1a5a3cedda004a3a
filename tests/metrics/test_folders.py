"""A folder of pictures against another: pairs by name, means with intervals, one row a picture."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refbench import measure
from refbench.stats.quantiles import t_quantile

Refbench = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(3)
    for name in ("A", "B"):
        (tmp_path / name / "sub").mkdir(parents=True)
    for n in range(6):
        pixels = rng.integers(0, 255, (32, 40, 3), dtype=np.uint8)
        noise = np.clip(pixels.astype(int) + rng.integers(-5 - 5 * n, 6 + 5 * n, pixels.shape), 0, 255)
        Image.fromarray(pixels).save(tmp_path / "B" / "sub" / f"{n}.png")
        Image.fromarray(noise.astype(np.uint8)).save(tmp_path / "A" / "sub" / f"{n}.bmp")
    Image.new("RGB", (8, 8)).save(tmp_path / "A" / "only.png")
    return tmp_path / "A", tmp_path / "B"


def test_two_folders_are_measured_pair_by_pair_with_means_and_intervals(
    run_cli: Refbench, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = folders
    words = ("measure", "ssim", "psnr", "mse", "--output", first, "--source", second)
    code, out, _ = run_cli(*words, "--csv", tmp_path / "out.csv")
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == 3 * 6
    for row in rows:
        pair = {"output": first / f"{row['case']}.bmp", "source": second / f"{row['case']}.png"}
        assert float(row["value"]) == measure(row["metric"], **pair).value
    found = json.loads(run_cli(*words, "--json")[1])
    assert found["alone"] == [str(first / "only.png")]
    for one in found["metrics"]:
        values = [float(row["value"]) for row in rows if row["metric"] == one["metric"]]
        assert one["value"] == pytest.approx(np.mean(values))
        assert one["n"] == 6
        low, high = one["ci95"]
        half = t_quantile(0.975, 5) * np.std(values, ddof=1) / math.sqrt(6)
        assert low < one["value"] < high
        assert (high - low) / 2 == pytest.approx(half, rel=0.6), "about as wide as Student's"
    assert "psnr (corrected): " in out
    assert "95 % interval" in out
    assert "left out: " in out


def test_psnr_is_that_of_its_definition_and_undefined_where_nothing_differs(tmp_path: Path) -> None:
    black, grey = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 16, np.uint8)
    assert measure("psnr", output=grey, source=black).value == pytest.approx(20 * math.log10(255 / 16))
    same = measure("psnr", output=grey, source=grey)
    assert same.failure is not None
    assert same.failure.kind == "undefined"


def test_folders_without_a_common_name_and_metrics_that_compare_nothing_are_refused(
    run_cli: Refbench, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = folders
    (tmp_path / "C").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "C" / "x.png")
    code, _, err = run_cli("measure", "ssim", "--output", first, "--source", tmp_path / "C")
    assert code == 2
    assert "no picture of" in err
    code, _, err = run_cli("measure", "clip_score@clip_b16", "--output", first, "--source", second)
    assert code == 2
    assert "does not compare two pictures" in err
    assert run_cli("measure", "ssim", "--output", first)[0] == 2
    assert run_cli("measure", "ssim", "psnr", "--output", first / "only.png", "--source", first / "only.png")[0] == 2
