"""Daggers: results that were not painted from the case itself but from prompts that a language model rewrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from refbench.benchmarks.ideabench.details import CATEGORIES, IdeaCase
from refbench.output import Output

DAGGER = "†"
REPHRASED = "rephrased"
"""The key of an Output's provenance that says so: `unsupported` or `always`, and `no` where it was not needed."""

Regime = Literal["native", "unsupported", "always"]


def regime_of(label: str) -> Regime:
    """How the model of a printed row was fed: as it is, rephrased where it cannot take the case, or always.

    Table 13 has both regimes for the same models; the page writes `+ GPT-4o` where the paper has a dagger.
    """
    if label.rstrip(DAGGER).endswith("-T2I"):
        return "always"
    return "unsupported" if label.endswith((DAGGER, "+ GPT-4o")) else "native"


def notes(cases: Sequence[IdeaCase], outputs: Iterable[Output]) -> list[str]:
    """One sentence for each model of which some pictures were painted from rewritten prompts."""
    category = {case.id: case.groups["category"] for case in cases}
    rewritten: dict[str, Counter[str]] = defaultdict(Counter)
    regimes: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        how = output.provenance.get(REPHRASED, "no")
        if how != "no" and output.step is None and output.failure is None and output.case in category:
            rewritten[output.model][category[output.case]] += 1
            regimes[output.model].add(how)
    found = []
    for model, counts in sorted(rewritten.items()):
        where = ", ".join(f"{name} {counts[name]}" for name in CATEGORIES if counts[name])
        how = "/".join(sorted(regimes[model]))
        found.append(f"{model}{DAGGER} was given rewritten prompts ({how}): cases by category {where}")
    return found
