"""What rule metrics cost beside the plain ways of computing them, in one run, and whether they agree.

    python perf/rule_metrics.py [--pictures 10000]

CPU milliseconds of one thread on pairs of 1024 px, the best of several rounds; the targets beside the figures are the
project's own. scikit-image, torch and SciPy are only needed to compare with. Memory is of a loop over files.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from refbench.failure import Failure
from refbench.metrics.colour import colorfulness, colorize_l1
from refbench.metrics.edges import canny_l1, edge_f1
from refbench.metrics.pixels import l1, l1_masked, mse, rounded_luma, ssim
from refbench.pictures import decode, encode

SIDE, PAIRS = 1024, 4


def pairs() -> list[tuple[Any, Any]]:
    """Smooth pictures and noisy, shifted and unrelated companions."""
    rng = np.random.default_rng(0)

    def smooth(blur: float) -> Any:
        field = cv2.GaussianBlur(rng.random((SIDE, SIDE, 3)), (0, 0), blur)
        return ((field - field.min()) / np.ptp(field) * 255).astype(np.uint8)

    made = []
    for blur in (2.0, 4.0, 9.0, 25.0)[:PAIRS]:
        first = smooth(blur)
        second = np.clip(first.astype(int) + rng.integers(-9, 10, first.shape), 0, 255).astype(np.uint8)
        made.append((first, second))
    return made


def cost(function: Callable[[], Any], rounds: int) -> float:
    """CPU milliseconds of a call: the best round, as other processes can only add to it."""
    function()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best * 1000


def compare(
    name: str, ours: Callable[[Any, Any], Any], plain: Callable[[Any, Any], float], target: float | None, rounds: int
) -> None:
    given = pairs()
    apart = max(abs(float(ours(a, b)) - plain(a, b)) for a, b in given)
    first, second = given[0]
    fast, slow = cost(lambda: ours(first, second), 30), cost(lambda: plain(first, second), rounds)
    said = f" (target {target:g}x, 1e-6)" if target else ""
    print(f"{name}: {fast:.2f} ms against {slow:.1f} ms, {slow / fast:.1f}x, values apart by at most {apart:.1e}{said}")


def float32_l1(a: Any, b: Any) -> float:
    return float(np.abs(a.astype(np.float32) / 255 - b.astype(np.float32) / 255).mean(dtype=np.float64))


def float32_mse(a: Any, b: Any) -> float:
    return float(((a.astype(np.float32) / 255 - b.astype(np.float32) / 255) ** 2).mean(dtype=np.float64))


def skimage_ssim(a: Any, b: Any) -> float:
    """The same definition: the same luma, Gaussian window of 11 with sigma 1.5, borders left out."""
    from skimage.metrics import structural_similarity

    x, y = rounded_luma(a).astype(np.float64), rounded_luma(b).astype(np.float64)
    return float(
        structural_similarity(x, y, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255)
    )


def convolved_ssim(a: Any, b: Any, convolve: Callable[[Any, Any], Any]) -> float:
    """Five two-dimensional convolutions of 11x11 in double precision, as the official library does it."""
    axis = np.arange(11) - 5
    kernel = np.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / 4.5)
    kernel = (kernel / kernel.sum()).astype(np.float32).astype(np.float64)
    x, y = rounded_luma(a).astype(np.float64), rounded_luma(b).astype(np.float64)
    m, n, xx, yy, xy = (convolve(z, kernel) for z in (x, y, x * x, y * y, x * y))
    contrast = np.maximum((2 * (xy - m * n) + 58.5225) / (xx - m * m + yy - n * n + 58.5225), 0)
    return float((contrast * (2 * m * n + 6.5025) / (m * m + n * n + 6.5025)).mean())


def torch_convolve(plane: Any, kernel: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    return torch.nn.functional.conv2d(torch.from_numpy(plane)[None, None], torch.from_numpy(kernel)[None, None])[
        0, 0
    ].numpy()


def scipy_convolve(plane: Any, kernel: Any) -> Any:
    from scipy.signal import convolve2d

    return convolve2d(plane, kernel, mode="valid")


def memory(pictures: int) -> None:
    """Resident memory while pictures are read and measured one after the other."""

    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20

    rng = np.random.default_rng(1)
    mask = np.zeros((256, 256), np.uint8)
    mask[64:128] = 255
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number in range(40):
            pixels = cv2.GaussianBlur(rng.integers(0, 256, (256, 256, 3), dtype=np.uint8), (0, 0), 3)
            paths.append(Path(folder) / f"{number}.jpg")
            paths[-1].write_bytes(encode(np.asarray(pixels, np.uint8), "jpeg"))
        at = {}
        for number in range(1, pictures + 1):
            output, source = (decode(paths[(number + shift) % 40].read_bytes()) for shift in (0, 1))
            assert not isinstance(output, Failure) and not isinstance(source, Failure)
            for measure in (l1, mse, ssim, colorize_l1, canny_l1):
                measure(output, source)
            l1_masked(output, source, mask)
            colorfulness(output)
            edge_f1(output, source[..., 0])
            if number in (1_000, pictures):
                at[number] = resident(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for number, (now, peak) in at.items():
        print(f"memory after {number} pictures, eight metrics each: {now:.1f} MB, peak {peak:.1f} MB")
    first, last = min(at), max(at)
    print(
        f"growth from {first} to {last} pictures: {at[last][0] - at[first][0]:+.1f} MB, peak {at[last][1] - at[first][1]:+.1f} MB (target: flat)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=10_000, help="pictures of the memory loop")
    pictures = parser.parse_args().pictures
    cv2.setNumThreads(1)
    memory(pictures)  # first, so that its peak is its own
    compare("L1 against numpy in float32", l1, float32_l1, 20, 20)
    compare("MSE against numpy in float32", mse, float32_mse, None, 20)
    try:
        compare("SSIM against scikit-image", ssim, skimage_ssim, 4, 8)
    except ImportError:
        print("SSIM against scikit-image: not measured, scikit-image is not installed (pip install scikit-image)")
    # The official library convolves by torch; SciPy's is the fastest direct convolution at hand.
    for name, convolve, target in (("torch", torch_convolve, 50), ("scipy", scipy_convolve, None)):
        try:
            compare(
                f"SSIM against 11x11 convolutions in float64 by {name}",
                ssim,
                lambda a, b, c=convolve: convolved_ssim(a, b, c),
                target,
                2,
            )
        except ImportError:
            print(
                f"SSIM against 11x11 convolutions by {name}: not measured, {name} is not installed (pip install {name})"
            )
    first, second = pairs()[0]
    for name, call in {
        "L1 outside a mask": lambda: l1_masked(first, second, first[..., 0]),
        "Canny L1": lambda: canny_l1(first, second),
        "edge F1": lambda: edge_f1(first, second[..., 0]),
        "colourfulness": lambda: colorfulness(first),
        "luma L1": lambda: colorize_l1(first, second),
    }.items():
        print(f"{name}: {cost(call, 20):.2f} ms")


if __name__ == "__main__":
    main()
