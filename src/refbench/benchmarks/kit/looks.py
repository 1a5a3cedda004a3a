"""Pictures as a release sends them to its judge: resized and encoded again. `paper` in the official words shows these;
everything else shows the files."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from PIL import Image, ImageOps

from refbench.benchmarks.kit.definition import Material
from refbench.case import AnyCase
from refbench.chat.pictures import SentPicture, made_picture
from refbench.failure import Failure

Size: TypeAlias = tuple[int, int]
Place: TypeAlias = Literal["input", "output", "target"]


@dataclass(frozen=True)
class Look:
    """What a release makes of the pictures it sends. `size` gives the new width and height from a picture's place, its
    own size and that of the case's first picture; Pillow's `resize` with its default filter does it."""

    size: Callable[[Place, Size, Size], Size] = lambda place, own, first: own
    upright: bool = False
    """Whether an EXIF rotation is applied."""

    def compose(self, case: AnyCase, material: Material, store: Callable[[bytes, str], Path]) -> Material:
        """The material with all its pictures in this look beside them."""
        sent = {"input": material.inputs, "output": material.outputs, "target": material.targets}
        first = (material.inputs or material.outputs)[0].original
        made: dict[str, SentPicture | Failure] = {}
        for place, pictures in sent.items():
            for number, picture in enumerate(pictures):
                data = self._encoded(place, picture, (first.width, first.height))  # type: ignore[arg-type]
                made[f"{place} {number}"] = (
                    data
                    if isinstance(data, Failure)
                    else made_picture(data, "resized and encoded again", store, picture.original)
                )
        return replace(material, composed={**material.composed, **made})

    def _encoded(self, place: Place, sent: SentPicture, first: Size) -> bytes | Failure:
        path = sent.file if sent.file is not None and not sent.resized else sent.path
        try:
            with Image.open(path) as opened:
                picture = (ImageOps.exif_transpose(opened) if self.upright else opened).convert("RGB")
            size = self.size(place, picture.size, first)
            picture = picture if size == picture.size else picture.resize(size)
            data = io.BytesIO()
            picture.save(data, format="JPEG")
            return data.getvalue()
        except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
            return Failure(kind="unreadable_picture", detail=f"{path.name} could not be encoded again ({error})")


def in_look(material: Material) -> Material | Failure:
    """The material with the pictures of the look in the places of the files, or why one of them cannot be made."""
    found: dict[str, tuple[SentPicture, ...]] = {}
    for place, name in (("input", "inputs"), ("output", "outputs"), ("target", "targets")):
        made = [material.composed[f"{place} {n}"] for n in range(len(getattr(material, name)))]
        broken = next((one for one in made if isinstance(one, Failure)), None)
        if broken is not None:
            return broken
        found[name] = tuple(one for one in made if isinstance(one, SentPicture))
    return replace(material, **found)  # type: ignore[arg-type]
