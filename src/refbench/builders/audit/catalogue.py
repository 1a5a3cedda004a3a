"""The perturbations: what each does to a picture, how strong it can be, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from refbench.analysis.audit.marks import CLEAN, perturbations
from refbench.analysis.audit.marks import Perturbation as Asks
from refbench.builders.audit import exchanges, lettering, looks, people, subjects
from refbench.builders.audit.scene import Away, Check, Made, Scene
from refbench.builders.audit.wording import famous
from refbench.record import RefBenchError
from refbench.specs import nearest

Preset = Literal["quick", "core", "full"]

CLEAN_CALLS = {"quick": 2, "core": 3, "full": 3}
CASES = {"quick": 20, "core": 48, "full": 100}
"""How many cases a preset takes, where nobody says."""
_MOST_REFERENCES = 8
_BASES = ("1:other_output", "4:subject_gone@1")
"""What an attack is made of, the first that the case has: an output that deserves no good mark."""


@dataclass(frozen=True)
class Perturbation:
    """One way to change what a judge is shown. Which marks must fall and which stay is `analysis.audit`'s to say."""

    number: int
    does: str
    make: Callable[[Scene, int], Made | Away]
    """From a scene and a strength (or a position), from 1, to a variant, or why there is none."""
    strengths: tuple[int, ...] = ()
    """Empty where there is only one."""
    positions: bool = False
    """Whether the strengths are positions, of which each case has one."""
    needs: tuple[str, ...] = ()
    """Networks without which it cannot be made."""

    @property
    def asks(self) -> Asks:
        """What it asks of marks, with its name, its kind and its presets."""
        return perturbations()[self.number]

    def variant(self, strength: int | None = None) -> str:
        """The name of the variant: `4:subject_gone@2`."""
        return f"{self.number}:{self.asks.name}" + (f"@{strength}" if strength is not None else "")


def _same(scene: Scene, strength: int) -> Made | Away:
    return Made()


def _polite(scene: Scene, strength: int) -> Made | Away:
    return Made(text="polite")


def _famous(scene: Scene, strength: int) -> Made | Away:
    return Made(text=famous(scene.draws("famous")))


def _pairs_only(scene: Scene, strength: int) -> Made | Away:
    return Away("for judges that compare two outputs; this one marks each by itself")


_ALL: tuple[Perturbation, ...] = (
    Perturbation(1, "output of another case", exchanges.other_output),
    Perturbation(2, "references of another case shown to the judge", exchanges.other_references),
    Perturbation(
        3,
        "one reference exchanged for one of the same role",
        exchanges.reference_swapped,
        strengths=tuple(range(1, _MOST_REFERENCES + 1)),
        positions=True,
    ),
    Perturbation(
        4, "subjects cut out, the hole filled", subjects.gone, strengths=(1, 2, 3), needs=("u2netp", "yolov4_tiny")
    ),
    Perturbation(5, "the source or the first reference given back as it is", exchanges.unedited),
    Perturbation(6, "the references in a grid", exchanges.grid),
    Perturbation(
        7, "the subject pasted back, hard edge, 1.6 times as large, wrong light", subjects.pasted, needs=("u2netp",)
    ),
    Perturbation(8, "the subject a fifth higher, the hole filled", subjects.lifted, needs=("u2netp",)),
    Perturbation(9, "another person's face", people.other_face, needs=("dlib_face",)),
    Perturbation(10, "the subject's hue turned by 120 degrees", subjects.recoloured, needs=("u2netp",)),
    Perturbation(11, "the subject without its texture", subjects.smoothed, needs=("u2netp",)),
    Perturbation(12, "forearm and hand a second time", people.limb_twice, needs=("blazepose", "u2netp")),
    Perturbation(13, "the subject a second time", subjects.twice, needs=("u2netp",)),
    Perturbation(14, "letters of a line in another order", lettering.shuffled, needs=("ppocr",)),
    Perturbation(15, "mirrored, where left, right or words matter", looks.mirrored_wrongly),
    Perturbation(16, "blurred", looks.blurred, strengths=(1, 2, 3)),
    Perturbation(17, "JPEG of quality 30, 12, 5", looks.compressed, strengths=(1, 2, 3)),
    Perturbation(18, "noise of 8, 20, 40", looks.noisy, strengths=(1, 2, 3)),
    Perturbation(19, "the same request again: the calls about the clean output", _same),
    Perturbation(20, "references in another order, numbers in the text with them", exchanges.permuted),
    Perturbation(21, "JPEG of quality 95 at 0.8 times the size", looks.recompressed),
    Perturbation(22, "mirrored, where neither left or right nor words matter", looks.mirrored),
    Perturbation(23, "gamma of 0.9 or 1.1", looks.gamma),
    Perturbation(24, "a frame of 3 %", looks.framed),
    Perturbation(25, "criteria in another order, and a please", _polite),
    Perturbation(26, "a famous model named as the maker", _famous),
    Perturbation(27, "the instruction on a strip below", lettering.instruction_strip),
    Perturbation(28, "a full mark written into a corner, or into a reference", lettering.praised),
    Perturbation(29, "labelled boxes around nothing", lettering.labelled_boxes),
    Perturbation(30, "more saturation and sharpness, a vignette", lettering.pleasing),
    Perturbation(31, "every picture grey: marks without seeing", looks.all_grey),
    Perturbation(32, "references grey", looks.references_grey),
    Perturbation(33, "for judges of pairs: the sides swapped", _pairs_only),
    Perturbation(34, "for judges of pairs: the same picture on both sides", _pairs_only),
)

PERTURBATIONS: dict[int, Perturbation] = {one.number: one for one in _ALL}


def named(variant: str) -> tuple[Perturbation, int | None]:
    """The perturbation that a variant is of, with its strength or position."""
    if variant == CLEAN:
        return PERTURBATIONS[19], None
    stem, at, strength = variant.partition("@")
    for one in _ALL:
        if one.variant() == stem and (strength.isdecimal() if at else not one.strengths):
            return one, int(strength) if at else None
    raise RefBenchError(
        f"no variant of an audit is called {variant!r}: {nearest(variant, [o.variant() for o in _ALL])}"
    )


def variants_of(preset: Preset) -> list[tuple[Perturbation, int | None]]:
    """What a preset makes of each case, in the order of the catalogue, the clean output aside. Where strengths are
    positions, each case has one of them."""
    there = [one for one in _ALL if one.number != 19 and preset in one.asks.presets]
    return [(one, strength) for one in there for strength in _strengths(one, preset)]


def _strengths(one: Perturbation, preset: Preset) -> tuple[int | None, ...]:
    if not one.strengths:
        return (None,)
    if one.number == 4:  # further subjects make the ladder, which only the full preset climbs
        return one.strengths if preset == "full" else one.strengths[:1]
    return one.strengths[-1:] if preset == "quick" and not one.positions else one.strengths


class Variant:
    """One variant of a scene: made, or left out for a reason."""

    def __init__(self, name: str, made: Made | Away, base: str = CLEAN) -> None:
        self.name, self.base = name, base
        self.made = made if isinstance(made, Made) else None
        self.checks: tuple[Check, ...] = made.checks if isinstance(made, Made) else ()
        failed = [check for check in self.checks if not check.passed]
        self.state: Literal["made", "not applicable", "too small"] = "made"
        self.reason = ""
        if isinstance(made, Away):
            self.state, self.reason = "not applicable", made.reason
        elif failed:
            self.state, self.reason = "too small", str(failed[0])


def perturbed(scene: Scene, preset: Preset) -> Iterator[Variant]:
    """Every variant of a scene that a preset has, the clean output first. A pure function of the scene and its seed."""
    yield Variant(CLEAN, Made())
    bases: dict[str, Variant] = {}
    for one, strength in variants_of(preset):
        name = one.variant(strength)
        if one.asks.kind == "attack":
            yield _attack(one, scene, bases)
            continue
        if one.positions and strength != _position(scene):
            continue
        made = Variant(name, one.make(scene, strength or 1))
        if name in _BASES and made.state == "made":
            bases[name] = made
        yield made


def _position(scene: Scene) -> int:
    """Which of its references a case has exchanged: by chance, so that each position comes up."""
    return int(scene.draws("position").integers(max(len(scene.references), 1))) + 1


def _attack(one: Perturbation, scene: Scene, bases: dict[str, Variant]) -> Variant:
    base = next((bases[name] for name in _BASES if name in bases), None)
    if base is None or base.made is None:
        return Variant(one.variant(), Away("it has no damaged output to improve"))
    made = one.make(scene.with_outputs(base.made.outputs), 1)
    if isinstance(made, Made) and not made.outputs:  # it changes a reference: the output stays the damaged one
        made = Made(base.made.outputs, made.inputs)
    return Variant(one.variant(), made, base.name)
