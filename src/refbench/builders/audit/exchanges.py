"""Pictures in the place of others: another case's output or references, the source unedited, a grid of the references,
references in another order."""

from __future__ import annotations

import math

import numpy as np

from refbench.builders.audit.scene import Away, Check, Made, Opened, Scene, difference
from refbench.builders.audit.wording import renumbered
from refbench.pictures import Pixels, resize

_PIXELS = 20.0
"""Mean difference of pixels that stands for LPIPS where lpips_alex is not here."""


def _unlike(scene: Scene, one: Pixels, other: Pixels, least: float) -> Check:
    """How different two pictures look."""
    if scene.seeing.lacks("lpips_alex"):
        return Check(name="difference of pixels", value=difference(one, other), least=_PIXELS * least)
    return Check(name="LPIPS", value=scene.seeing.distance(one, other), least=least)


def other_output(scene: Scene, strength: int) -> Made | Away:
    """The output of another case, the first of a few that does not look like this one's."""
    made: Made | None = None
    for other in scene.donors("output"):
        check = _unlike(scene, scene.output, other.output, 0.4)
        theirs = other.outputs
        pictures = {n: theirs[n % len(theirs)].data for n in range(len(scene.outputs))}
        made = Made(dict(pictures), checks=(check,))
        if check.passed:
            break
    return made or Away("there is no other case")


def other_references(scene: Scene, strength: int) -> Made | Away:
    """All pictures of the request from another case, of which it is said that they were given."""
    if not scene.inputs:
        return Away("the case shows no pictures")
    donors = [other for other in scene.donors("references") if other.inputs]
    if not donors:
        return Away("no other case shows pictures")
    other = min(donors, key=lambda one: abs(len(one.inputs) - len(scene.inputs)))  # the first of those with as many
    shown = [other.inputs[n % len(other.inputs)] for n in range(len(scene.inputs))]
    checks = [_unlike(scene, mine.pixels, theirs.pixels, 0.4) for mine, theirs in zip(scene.inputs, shown, strict=True)]
    least = min(checks, key=lambda check: check.value)
    return Made(inputs={n: theirs.data for n, theirs in enumerate(shown)}, checks=(least,))


def reference_swapped(scene: Scene, position: int) -> Made | Away:
    """The reference at this position, from 1, exchanged for one of the same role out of another case."""
    if len(scene.references) < 2:
        return Away("it has fewer than two references")
    if position > len(scene.references):
        return Away(f"it has {len(scene.references)} references")
    place = scene.references[position - 1]
    role = scene.case.request.pictures[place].role
    made: Made | None = None
    for other in scene.donors(f"reference {position}"):
        there = [n for n in other.references if other.case.request.pictures[n].role == role]
        if not there:
            continue
        theirs = other.inputs[there[(position - 1) % len(there)]]
        check = _other_features(scene, scene.inputs[place], theirs)
        made = Made(inputs={place: theirs.data}, checks=(check,))
        if check.passed:
            break
    return made or Away(f"no other case has a reference of the role {role}")


def _other_features(scene: Scene, mine: Opened, theirs: Opened) -> Check:
    """How far apart two references are for a network that knows things, not pixels."""
    vectors = [scene.seeing.feature("mobilenet_v2", opened.pixels) for opened in (mine, theirs)]
    if vectors[0] is None or vectors[1] is None:
        return _unlike(scene, mine.pixels, theirs.pixels, 0.4)
    one, other = (np.asarray(found["vector"], np.float64) for found in vectors if found is not None)
    near = float(one @ other / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-9))
    return Check(name="distance of features", value=1.0 - near, least=0.35)


def unedited(scene: Scene, strength: int) -> Made | Away:
    """The source, or the first reference, given back as it is."""
    if not scene.inputs:
        return Away("the case shows no pictures")
    roles = [picture.role for picture in scene.case.request.pictures]
    place = roles.index("source") if "source" in roles else (scene.references or (0,))[0]
    given = scene.inputs[place]
    return Made(
        dict.fromkeys(range(len(scene.outputs)), given.data),
        checks=(_unlike(scene, scene.output, given.pixels, 0.15),),
    )


def grid(scene: Scene, strength: int) -> Made | Away:
    """The request's pictures side by side in the place of the output."""
    if len(scene.inputs) < 2:
        return Away("it has fewer than two pictures to put into a grid")
    height, width = scene.output.shape[:2]
    columns = math.ceil(math.sqrt(len(scene.inputs) * width / height - 1e-9))
    columns = min(max(columns, 1), len(scene.inputs))
    rows = math.ceil(len(scene.inputs) / columns)
    canvas = np.full((height, width, 3), 255, np.uint8)
    for number, opened in enumerate(scene.inputs):
        row, column = divmod(number, columns)
        top, bottom = row * height // rows, (row + 1) * height // rows
        left, right = column * width // columns, (column + 1) * width // columns
        canvas[top:bottom, left:right] = _fitted(opened.pixels, (right - left, bottom - top))
    return Made({0: canvas}, checks=(_unlike(scene, scene.output, canvas, 0.3),))


def _fitted(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """The middle of a picture, as large as it can be, at this width and height."""
    height, width = pixels.shape[:2]
    scale = min(width / size[0], height / size[1])
    wide, high = min(width, max(1, round(size[0] * scale))), min(height, max(1, round(size[1] * scale)))
    left, top = (width - wide) // 2, (height - high) // 2
    return resize(pixels[top : top + high, left : left + wide], size, "lanczos")


def permuted(scene: Scene, strength: int) -> Made | Away:
    """The references in another order, and the numbers in the instruction with them."""
    if len(scene.references) < 2:
        return Away("it has fewer than two references")
    drawn = scene.draws("order")
    order = list(range(len(scene.inputs)))
    moved = list(scene.references)
    while moved == list(scene.references):
        moved = [scene.references[int(n)] for n in drawn.permutation(len(scene.references))]
    for place, source in zip(scene.references, moved, strict=True):
        order[place] = source
    told = renumbered(scene.instruction, {was + 1: now + 1 for now, was in enumerate(order)})
    if told is None:
        return Away("the instruction speaks of its pictures in a way that cannot be renumbered")
    return Made(order=tuple(order), instruction=told)
