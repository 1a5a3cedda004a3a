"""The split into training, calibration and test: what shares an original, or a picture that looks like it, stays
together, and every type has its share of each part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from refbench.builders.filter_judge.marks import MarkedReference
from refbench.builders.kit.draws import draw
from refbench.builders.kit.split import clusters
from refbench.pictures.collection import SAME_LOOKS, lookalikes
from refbench.record import RefBenchError

Part = Literal["train", "calibration", "test"]
PARTS: tuple[Part, ...] = get_args(Part)
SHARES: Mapping[Part, float] = {"train": 0.8, "calibration": 0.1, "test": 0.1}
REAL = frozenset({"subject", "style"})
"""Types whose references are photographs or paintings themselves, which may be another sample's original."""


class Seen(NamedTuple):
    """A picture that a sample shows, and how it looks."""

    sample: str
    picture: str
    looks: int


def seen_in(samples: Iterable[MarkedReference]) -> list[Seen]:
    """The pictures that must not be in two parts. An edge map or a mask goes where its original goes."""
    found = []
    for sample in samples:
        found.append(Seen(sample.id, sample.original.name, sample.original.looks))
        if sample.type in REAL and sample.reference is not None:
            found.append(Seen(sample.id, sample.reference.name, sample.reference.looks))
    return found


def split(samples: Sequence[MarkedReference], seed: int = 0) -> dict[str, Part]:
    """The part of each sample: as the file of marks says, or drawn."""
    named = {sample.part for sample in samples}
    if named == {""}:
        parts = _drawn(samples, seed)
    elif strange := sorted(named - set(PARTS)):
        raise RefBenchError(
            f"the column part says {strange[0]!r}: write {', '.join(PARTS)} in every row, or leave the column out"
        )
    else:
        parts = {sample.id: part for sample in samples for part in PARTS if part == sample.part}
    check_leaks(seen_in(samples), parts)
    counts = Counter(parts.values())
    if missing := [part for part in PARTS if not counts[part]]:
        raise RefBenchError(
            f"nothing is left for the part {missing[0]}: {len(samples)} references hang together by their originals "
            "and near copies of them; more originals are needed"
        )
    return parts


def _drawn(samples: Sequence[MarkedReference], seed: int) -> dict[str, Part]:
    """Clusters in an order drawn by the seed, each to the part that lacks most of its types. One that is too large for
    the smaller parts is trained on."""
    by_id = {sample.id: sample for sample in samples}
    wanted = Counter[str](sample.type for sample in samples)
    have: dict[Part, Counter[str]] = {part: Counter() for part in PARTS}
    parts: dict[str, Part] = {}

    def lack(part: Part, types: Counter[str]) -> tuple[float, float]:
        room = {kind: SHARES[part] * wanted[kind] - have[part][kind] for kind in types}
        if part != "train" and sum(types.values()) > max(len(wanted), 0.5 * SHARES[part] * len(samples)):
            return (-1e9, 0.0)
        gain = sum(n * room[kind] / (SHARES[part] * wanted[kind]) for kind, n in types.items())
        return (gain, SHARES[part])

    hanging = _hanging(seen_in(samples))
    for members in sorted(hanging, key=lambda cluster: draw(seed, "filter split", min(cluster))):
        types = Counter(str(by_id[member].type) for member in members)
        chosen = max(PARTS, key=lambda part: lack(part, types))
        have[chosen] += types
        parts |= dict.fromkeys(members, chosen)
    return parts


def _hanging(seen: Sequence[Seen]) -> list[list[str]]:
    groups: dict[str, list[int]] = {}
    for one, group in zip(seen, lookalikes([one.looks for one in seen]), strict=True):
        groups.setdefault(one.sample, []).append(int(group))
    return clusters(groups)


def groups_of(seen: Sequence[Seen]) -> dict[str, int]:
    """The number of each sample's cluster."""
    return {member: number for number, members in enumerate(_hanging(seen)) for member in members}


def check_leaks(seen: Sequence[Seen], parts: Mapping[str, Part]) -> None:
    """Refuse a split in which an original, or a near copy of one, is in two parts."""
    first: dict[int, Seen] = {}
    for one, group in zip(seen, lookalikes([one.looks for one in seen]), strict=True):
        other = first.setdefault(int(group), one)
        if parts[other.sample] != parts[one.sample]:
            raise RefBenchError(
                f"{other.picture} ({parts[other.sample]}) and {one.picture} ({parts[one.sample]}) are the same picture "
                f"or near copies (at most {SAME_LOOKS} of 64 bits apart, also by way of others): put them into one part"
            )
