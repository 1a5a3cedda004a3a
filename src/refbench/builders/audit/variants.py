"""A folder of variants: every picture by its content, and a manifest that says of each case and variant what a judge is
shown, how the damage was checked, or why there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson
from pydantic import ValidationError

from refbench.analysis.audit.marks import CLEAN
from refbench.builders.audit.catalogue import Preset, Variant
from refbench.builders.audit.scene import Check, Scene, file_of
from refbench.pictures import EXTENSIONS, Pixels, sniff
from refbench.record import Record, RefBenchError
from refbench.runs import Blobs
from refbench.runs.disk import write_whole

FORMAT = 1
_FORMATS = {extension: name for name, extension in EXTENSIONS.items()}
_INFO, _ROWS, _PICTURES = "audit.json", "manifest.jsonl", "pictures"


class VariantRow(Record):
    """One variant of one case. Pictures go by the hash of their file and its format: `5f2a....png`."""

    case: str
    variant: str
    base: str = CLEAN
    """What it is made of: the clean output, or a damaged one, of attacks."""
    state: Literal["made", "not applicable", "too small"] = "made"
    reason: str = ""
    """Why there is none."""
    outputs: tuple[str, ...] = ()
    inputs: Mapping[int, str] = {}
    """Pictures of the request that the judge is shown others for, by their number from 0."""
    order: tuple[int, ...] = ()
    instruction: str | None = None
    text: str = ""
    checks: tuple[Check, ...] = ()


class VariantsInfo(Record):
    """What a folder of variants was made of, and how."""

    format: int = FORMAT
    benchmark: str
    preset: Preset
    seed: int
    cases: tuple[str, ...]
    anchor: str
    """Why the outputs are held to be good: truth, the judge, or people."""
    anchor_asked: Mapping[str, str] = {}
    """Kind and model of the judge that chose them: another name does not make it another judge."""
    outputs: Mapping[str, str]
    """By case: whose output is the clean one."""
    left_out: Mapping[str, str] = {}
    """Cases that have a good output and a picture that cannot be read."""
    networks: tuple[str, ...] = ()
    """Those that were there to make and check damages."""
    manifest: str = ""
    """Hash of the manifest: what judges were shown."""


@dataclass(frozen=True)
class Variants:
    """A folder of variants as it was read."""

    root: Path
    info: VariantsInfo
    rows: Mapping[tuple[str, str], VariantRow]
    """By case and variant, in the order in which they were made."""
    _blobs: Blobs = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_blobs", Blobs(self.root / _PICTURES))

    @property
    def names(self) -> list[str]:
        """Every variant that some case has, the clean output first."""
        return list(dict.fromkeys(row.variant for row in self.rows.values() if row.state == "made"))

    def path(self, picture: str) -> Path:
        """Where a picture of the manifest lies."""
        sha256, _, extension = picture.partition(".")
        return self._blobs.path(sha256, _FORMATS.get(f".{extension}", extension))

    def has(self, path: Path) -> bool:
        """Whether a file is one of the folder's pictures."""
        return path.is_relative_to((self.root / _PICTURES).absolute())

    def left_out(self) -> dict[str, dict[str, int]]:
        """By variant: how many cases have none, by reason; measured values are left out of reasons."""
        counts: dict[str, dict[str, int]] = {}
        for row in self.rows.values():
            if row.state != "made":
                reason = row.reason if row.state == "not applicable" else f"too small: {_named_check(row)}"
                reasons = counts.setdefault(row.variant, {})
                reasons[reason] = reasons.get(reason, 0) + 1
        return counts


def _named_check(row: VariantRow) -> str:
    return next((check.name for check in row.checks if not check.passed), "")


def kept(root: Path, scene: Scene, variants: Iterable[Variant]) -> list[VariantRow]:
    """Put the pictures of a scene's variants into the folder, and say what there is."""
    blobs = Blobs(root / _PICTURES)

    def put(picture: Pixels | bytes) -> str:
        data = file_of(picture)
        path = blobs.put_copy(data, hashlib.sha256(data).hexdigest(), sniff(data) or "png")
        return path.name

    rows = []
    clean = tuple(put(opened.data) for opened in scene.outputs)
    for one in variants:
        told = {"case": scene.case.id, "variant": one.name, "base": one.base, "checks": one.checks}
        if one.made is None or one.state != "made":
            rows.append(VariantRow(**told, state=one.state, reason=one.reason))
            continue
        made = one.made
        rows.append(
            VariantRow(
                **told,
                outputs=tuple(put(made.outputs[n]) if n in made.outputs else old for n, old in enumerate(clean)),
                inputs={number: put(picture) for number, picture in sorted(made.inputs.items())},
                order=made.order,
                instruction=made.instruction,
                text=made.text,
            )
        )
    return rows


def write_variants(root: Path, info: VariantsInfo, rows: Iterable[VariantRow]) -> Variants:
    """Write the manifest, and last what makes the folder whole."""
    listed = list(rows)
    data = b"".join(orjson.dumps(row.model_dump(mode="json")) + b"\n" for row in listed)
    whole = info.model_copy(update={"manifest": hashlib.sha256(data).hexdigest()})
    write_whole(root / _ROWS, data)
    write_whole(root / _INFO, orjson.dumps(whole.model_dump(mode="json"), option=orjson.OPT_INDENT_2) + b"\n")
    return Variants(root, whole, {(row.case, row.variant): row for row in listed})


def are_there(root: Path) -> bool:
    """Whether a folder holds variants that were made to the end."""
    return (root / _INFO).is_file()


def read_variants(root: Path) -> Variants:
    """The variants in a folder; refused where they are not whole, or not those that were written."""
    if not are_there(root):
        raise RefBenchError(f"{root} holds no variants: make them with refbench audit make RUN --out {root}")
    try:
        info = VariantsInfo.model_validate_json((root / _INFO).read_bytes())
        data = (root / _ROWS).read_bytes()
        rows = [VariantRow.model_validate_json(line) for line in data.splitlines()]
    except (OSError, ValidationError) as error:
        raise RefBenchError(f"{root}: the variants cannot be read: make them again in another folder") from error
    if info.format != FORMAT or hashlib.sha256(data).hexdigest() != info.manifest:
        raise RefBenchError(f"{root / _ROWS} was changed since it was written: make the variants again")
    return Variants(root, info, {(row.case, row.variant): row for row in rows})
