"""turns: one reference a turn, each turn going on from the result of the one before (MultiRef's multi-turn route)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from refbench.machine import scratch_folder
from refbench.models.model import Commission, ImageModel, Painted, Shown, Step, takes_role
from refbench.models.wrappers.wrapper import (
    Wrapper,
    broken_off,
    inside,
    is_reference,
    keep,
    noted,
    whole_cost,
    whole_seconds,
    whole_worst,
    wording,
    wording_key,
)
from refbench.record import RefBenchError
from refbench.specs import Spec

_WORDS = "turn.txt"


class Turns(Wrapper):
    """The model, shown one reference at a time; its own result stands in the source's place from the second turn on."""

    def __init__(self, spec: Spec, model: ImageModel, folder: Path) -> None:
        super().__init__(spec, model, max_references=None)
        self._folder = folder
        most = model.traits.max_references
        if most is not None and most < 2:
            raise RefBenchError(
                f"--model {spec.name}: turns shows a model two pictures, the result so far and the next reference, and "
                f"{model.name} takes {most}: write turns(collage(...))"
            )
        if not takes_role(model.traits, "source"):
            raise RefBenchError(f"--model {spec.name}: turns works on from a source, and {model.name} takes none")

    def canonical(self) -> Mapping[str, str]:
        return {"kind": "turns", "words": wording_key("refbench.models.wrappers", _WORDS), **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        references = [(n, shown) for n, shown in enumerate(commission.pictures, 1) if is_reference(shown)]
        if len(references) < 2:
            return noted(await self.model.generate(commission, seed), {"turns": "1"})
        base = tuple(shown for shown in commission.pictures if not is_reference(shown))
        mask = tuple(shown for shown in base if shown.role == "mask")
        steps: list[Step] = []
        with scratch_folder(self._folder) as folder:
            for turn, (number, reference) in enumerate(references, 1):
                last = turn == len(references)
                asked = replace(
                    commission,
                    instruction=_instruction(commission, turn, len(references), number, reference.role),
                    pictures=(*base, reference),
                    n_pictures=commission.n_pictures if last else 1,
                )
                painted = await self.model.generate(asked, seed)
                notes = {"turns": f"{turn} of {len(references)}", "reference": str(number)}
                if last or painted.failure is not None or not painted.pictures:
                    ended = painted if last else broken_off(painted)
                    return replace(
                        noted(ended, {**notes, "instruction": asked.instruction}),
                        seconds=whole_seconds(painted),
                        cost_usd=whole_cost(painted),
                        worst_usd=whole_worst(painted),
                        steps=tuple(steps),
                    )
                steps.append(
                    Step(
                        instruction=asked.instruction,
                        pictures=painted.pictures,
                        seconds=whole_seconds(painted),
                        cost_usd=whole_cost(painted),
                        worst_usd=whole_worst(painted),
                        provenance={**painted.provenance, **notes},
                    )
                )
                (path,) = keep(painted.pictures[:1], folder, f"turn-{turn}")
                base = (Shown(path, "source"), *mask)
        raise AssertionError("the last turn returns")


def _instruction(commission: Commission, turn: int, turns: int, number: int, role: str) -> str:
    return wording(
        "refbench.models.wrappers",
        _WORDS,
        instruction=commission.instruction,
        turn=str(turn),
        turns=str(turns),
        number=str(number),
        role="" if role == "reference" else f" ({role})",
        so_far="The first picture is the result so far: keep what it has. " if turn > 1 else "",
    )
