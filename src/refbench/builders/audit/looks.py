"""What is done to a picture as a whole: blur, JPEG, noise, light, mirror, frame, colours, grey."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np

from refbench.builders.audit.scene import Away, Check, Made, Mask, Scene, difference, each
from refbench.builders.audit.wording import names_sides
from refbench.failure import Failure
from refbench.pictures import Pixels, decode, encode, resize

BLUR = (0.002, 0.005, 0.012)
"""Standard deviations, as shares of the longer side."""
JPEG = (30, 12, 5)
NOISE = (8.0, 20.0, 40.0)
GAMMA = (0.9, 1.1)
FRAME = 0.03
LETTERS = 4
"""Letters in a picture from which on it has words."""
SURE = 0.7
"""Score from which on a line that was read is one: beads and windows are read as words with 0.4 to 0.6."""


def blurred(scene: Scene, strength: int) -> Made | Away:
    def change(pixels: Pixels) -> Pixels:
        sigma = BLUR[strength - 1] * max(pixels.shape[:2])
        return np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma, borderType=cv2.BORDER_REFLECT_101), np.uint8)

    outputs = each(scene, change)
    left = fine(np.asarray(outputs[0])) / max(fine(scene.output), 1e-6)
    return Made(outputs, checks=(Check(name="fine detail left", value=left, most=0.8),))


def fine(pixels: Pixels, where: Mask | None = None) -> float:
    """How much fine detail a picture has, or a part of it: the mean size of the Laplacian of its luma."""
    detail = np.abs(cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F))
    return float((detail if where is None else detail[where]).mean())


def compressed(scene: Scene, strength: int) -> Made | Away:
    outputs = each(scene, lambda pixels: _through_jpeg(pixels, JPEG[strength - 1]))
    return Made(outputs, checks=(_noise_check(scene, outputs[0], (40.0, 36.0, 33.0)[strength - 1]),))


def noisy(scene: Scene, strength: int) -> Made | Away:
    drawn = scene.draws("noise")

    def change(pixels: Pixels) -> Pixels:
        noise = drawn.standard_normal(pixels.shape, dtype=np.float32) * np.float32(NOISE[strength - 1])
        return np.clip(np.rint(pixels + noise), 0, 255).astype(np.uint8)

    outputs = each(scene, change)
    return Made(outputs, checks=(_noise_check(scene, outputs[0], (34.0, 27.0, 22.0)[strength - 1]),))


def _noise_check(scene: Scene, made: Pixels | bytes, most: float) -> Check:
    error = float(np.square(scene.output.astype(np.float32) - np.asarray(made, np.float32)).mean())
    return Check(name="PSNR in dB", value=10 * math.log10(255**2 / max(error, 1e-9)), most=most)


def _through_jpeg(pixels: Pixels, quality: int) -> Pixels:
    back = decode(encode(pixels, "jpeg", quality=quality))
    assert not isinstance(back, Failure)
    return back


def recompressed(scene: Scene, strength: int) -> Made | Away:
    def change(pixels: Pixels) -> Pixels:
        height, width = pixels.shape[:2]
        return _through_jpeg(resize(pixels, (max(1, round(width * 0.8)), max(1, round(height * 0.8))), "lanczos"), 95)

    return Made(each(scene, change))


def gamma(scene: Scene, strength: int) -> Made | Away:
    chosen = GAMMA[int(scene.draws("gamma").integers(2))]
    curve = np.rint(255 * (np.arange(256) / 255) ** chosen).astype(np.uint8)
    return Made(each(scene, lambda pixels: curve[pixels]))


def framed(scene: Scene, strength: int) -> Made | Away:
    shade = int(scene.draws("frame").integers(2)) * 255

    def change(pixels: Pixels) -> Pixels:
        wide = max(1, round(FRAME * max(pixels.shape[:2])))
        sides = (wide, wide, wide, wide)
        return np.asarray(cv2.copyMakeBorder(pixels, *sides, cv2.BORDER_CONSTANT, value=(shade,) * 3), np.uint8)

    return Made(each(scene, change))


def sides_matter(scene: Scene, least: float = SURE) -> str:
    """Why a mirrored output would be wrong for this case; empty where it would not. Lines that were read with a score
    below `least` are none."""
    if names_sides(scene.instruction):
        return "the instruction speaks of left or right"
    seen = scene.seeing.feature("ppocr", scene.output)
    lines = zip(seen["lines"], seen["scores"], strict=True) if seen else ()
    letters = sum(sum(sign.isalpha() for sign in str(line)) for line, score in lines if score >= least)
    return "the picture has words" if letters >= LETTERS else ""


def mirrored_wrongly(scene: Scene, strength: int) -> Made | Away:
    if not sides_matter(scene):
        return Away("neither left or right nor words matter")
    made = _mirrored(scene.output)
    return Made(
        each(scene, _mirrored), checks=(Check(name="difference", value=difference(scene.output, made), least=4),)
    )


def mirrored(scene: Scene, strength: int) -> Made | Away:
    reason = sides_matter(scene, 0.0)  # what may be words is not mirrored as if it had none
    return Away(reason) if reason else Made(each(scene, _mirrored))


def _mirrored(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(pixels[:, ::-1])


def beautified(pixels: Pixels) -> Pixels:
    """More saturation, more sharpness, and a vignette: what pleases at a glance and answers no request."""
    hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV_FULL).astype(np.float32)
    hsv[..., 1] = np.minimum(hsv[..., 1] * 1.4, 255)
    rich = cv2.cvtColor(np.rint(hsv).astype(np.uint8), cv2.COLOR_HSV2RGB_FULL).astype(np.float32)
    soft = cv2.GaussianBlur(rich, (0, 0), max(1.0, 0.002 * max(pixels.shape[:2])))
    sharp = rich + 0.8 * (rich - soft)
    height, width = pixels.shape[:2]
    y, x = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)[None]
    shade = 1 - 0.4 * np.clip((x * x + y * y) / 2, 0, 1) ** 1.5
    return np.clip(np.rint(sharp * shade[..., None]), 0, 255).astype(np.uint8)


def grey(pixels: Pixels) -> Pixels:
    return np.full_like(pixels, 128)


def all_grey(scene: Scene, strength: int) -> Made | Away:
    return Made(each(scene, grey), _inputs(scene, grey))


def references_grey(scene: Scene, strength: int) -> Made | Away:
    if not scene.inputs:
        return Away("the case shows no pictures")
    return Made(inputs=_inputs(scene, grey))


def _inputs(scene: Scene, change: Callable[[Pixels], Pixels]) -> dict[int, Pixels | bytes]:
    return {number: change(opened.pixels) for number, opened in enumerate(scene.inputs)}
