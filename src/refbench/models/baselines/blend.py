"""blend: the subjects of the references cut out and pasted on the background reference, side by side, with soft edges
and colours drawn towards the place where they stand. No model, only the network that finds subjects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.extractors.mask import mask
from refbench.failure import Failure
from refbench.models.collage import covering
from refbench.pictures import Pixels, resize

HEIGHT, GROUND = 0.62, 0.96
"""Most that a subject has of the picture's height, and how far down it stands."""
FEATHER = 0.004
"""Deviation of the soft edge, of the picture's shorter side."""
TONE = 0.5
"""How far a subject's colours move to those around it: all the way, a red coat on a lawn turns green."""


@dataclass(frozen=True)
class Cut:
    """A subject: its pixels and its mask (0 or 255), cut to its box."""

    pixels: Pixels
    mask: NDArray[np.uint8]
    cropped: bool = False
    """Its picture ends before it does, at the bottom: a bust, which would hover if it were put anywhere else."""


def blend(pictures: Sequence[Pixels], roles: Sequence[str], size: tuple[int, int] | None) -> tuple[Pixels, str]:
    """The picture, and which subjects are on it. A reference in which nothing stands out gives none."""
    masks = [mask(pixels) for pixels in pictures]
    back = background_of(roles, [not isinstance(subject, Failure) for subject in masks])
    cuts, pasted, bare = [], [], []
    for number, (pixels, subject) in enumerate(zip(pictures, masks, strict=True)):
        if number == back:
            continue
        if isinstance(subject, Failure):
            bare.append(number)
        else:
            pasted.append(number)
            cuts.append(cut_out(pixels, subject))
    note = f"background picture {back + 1}, subjects of pictures {_numbers(pasted)}"
    if bare:
        note += f", no subject in {_numbers(bare)}"
    return paste(covering(pictures[back], size), cuts), note


def background_of(roles: Sequence[str], has_subject: Sequence[bool]) -> int:
    """The picture with that role, else the source, else one in which nothing stands out, else the last."""
    for role in ("background", "source"):
        if role in roles:
            return list(roles).index(role)
    return list(has_subject).index(False) if False in has_subject else len(roles) - 1


def cut_out(pixels: Pixels, subject: NDArray[np.uint8]) -> Cut:
    """The box around a mask that is not empty."""
    rows, columns = np.flatnonzero(subject.any(axis=1)), np.flatnonzero(subject.any(axis=0))
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    return Cut(pixels[box], subject[box], cropped=bool(subject[-1].any()))


def paste(background: Pixels, cuts: Sequence[Cut]) -> Pixels:
    """The subjects on the background, from left to right, standing on one line; unchanged where none of them is."""
    height, width = background.shape[:2]
    canvas = background.astype(np.float32)
    for number, cut in enumerate(cuts):
        left, right = number * width // len(cuts), (number + 1) * width // len(cuts)
        high, wide = cut.mask.shape
        scale = min(0.96 * (right - left) / wide, HEIGHT * height / high)
        wide, high = max(1, round(wide * scale)), max(1, round(high * scale))
        # The soft lower edge of a bust lies below the picture.
        ground = height + 4 * round(FEATHER * min(height, width)) + 2 if cut.cropped else round(GROUND * height)
        x, y = left + (right - left - wide) // 2, ground - high
        _paste_one(canvas, background, Cut(resize(cut.pixels, (wide, high), "lanczos"), _scaled(cut, wide, high)), x, y)
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8)


def _scaled(cut: Cut, wide: int, high: int) -> NDArray[np.uint8]:
    inside: NDArray[np.uint8] = cv2.resize(cut.mask, (wide, high), interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    return np.where(inside > 127, 255, 0).astype(np.uint8)


def _paste_one(canvas: NDArray[np.float32], background: Pixels, cut: Cut, x: int, y: int) -> None:
    y, x = max(0, y), max(0, x)
    high, wide = min(cut.mask.shape[0], canvas.shape[0] - y), min(cut.mask.shape[1], canvas.shape[1] - x)
    place = slice(y, y + high), slice(x, x + wide)
    # Feathered before the frame cuts it, or the frame would be an edge too.
    alpha = feathered(cut.mask, FEATHER * min(canvas.shape[:2]))[:high, :wide, None]
    toned = matched_tone(cut.pixels[:high, :wide], cut.mask[:high, :wide] > 0, background[place])
    canvas[place] = canvas[place] * (1 - alpha) + toned * alpha


def feathered(inside: NDArray[np.uint8], sigma: float) -> NDArray[np.float32]:
    """The mask as opacity 0..1: drawn in by the blur's width first, so that nothing of the old ground shows."""
    sigma = max(sigma, 0.5)
    reach = max(1, round(2 * sigma))
    padded = cv2.copyMakeBorder(inside, reach, reach, reach, reach, cv2.BORDER_CONSTANT, value=0)
    element = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    smaller = cv2.erode(padded, element)
    if not smaller.any():  # too thin to be drawn in: a hard edge is better than no subject
        smaller = padded
    soft = cv2.GaussianBlur(smaller.astype(np.float32) / 255, (4 * reach + 1, 4 * reach + 1), sigma)
    # Outside the mask there is nothing of the subject, however wide the blur reaches.
    return np.where(padded > 0, soft, 0)[reach:-reach, reach:-reach].astype(np.float32)


def matched_tone(pixels: Pixels, inside: NDArray[np.bool_], around: Pixels) -> NDArray[np.float32]:
    """The subject with mean and spread of its Lab channels moved towards those of the ground it stands before."""
    if not inside.any():
        return pixels.astype(np.float32)
    lab = cv2.cvtColor(np.ascontiguousarray(pixels).astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    ground = cv2.cvtColor(np.ascontiguousarray(around).astype(np.float32) / 255, cv2.COLOR_RGB2LAB).reshape(-1, 3)
    own = lab[inside]
    spread = np.clip(ground.std(axis=0) / np.maximum(own.std(axis=0), 1e-3), 0.7, 1.4)
    moved = (lab - own.mean(axis=0)) * spread + ground.mean(axis=0)
    toned = np.asarray(cv2.cvtColor((lab + TONE * (moved - lab)).astype(np.float32), cv2.COLOR_LAB2RGB), np.float32)
    return np.clip(toned * 255, 0, 255)


def _numbers(places: Sequence[int]) -> str:
    return ", ".join(str(place + 1) for place in places) or "none"
