"""What people decided about an entry, checked like what machines wrote: their mistakes are said, not dropped."""

from __future__ import annotations

from dataclasses import dataclass

from refbench.benchmarks.multiref.details import Category
from refbench.builders.multiref_real.asking import category_of
from refbench.builders.multiref_real.checks import instruction_fault
from refbench.builders.multiref_real.item import Sought
from refbench.builders.replies import line
from refbench.builders.sourced import Plain
from refbench.record import RefBenchError
from refbench.workshop import Decision

_FIELDS = ("instruction", "category", "output")


@dataclass(frozen=True)
class Edit:
    """A decision made usable."""

    rejected: bool = False
    settled: bool = False
    """A person has looked at it: the checker's opinion does not count any more."""
    instruction: str = ""
    category: Category | None = None
    output: Plain | None = None


def read_edit(decision: Decision | None, sought: Sought) -> Edit:
    if decision is None:
        return Edit()
    if decision.decision != "edit":
        return Edit(rejected=decision.decision == "reject", settled=decision.decision == "accept")
    where = f"--review, {decision.id}"
    if strange := [name for name in decision.edit if name not in _FIELDS]:
        raise RefBenchError(f"{where}: {strange[0]} cannot be edited, only {', '.join(_FIELDS)}")
    instruction = ""
    if "instruction" in decision.edit:
        instruction = line(decision.edit["instruction"])
        if fault := instruction_fault(instruction, len(sought.inputs)):
            raise RefBenchError(f"{where}: {fault[1]}")
    category = None
    if "category" in decision.edit:
        category = category_of(decision.edit["category"])
        if category is None:
            raise RefBenchError(f"{where}: the category is a number from 1 to 5")
    output = None
    if "output" in decision.edit:
        output = next((one for one in sought.outputs if one.name == decision.edit["output"]), None)
        if output is None:
            raise RefBenchError(f"{where}: the output is one of {', '.join(one.name for one in sought.outputs)}")
    return Edit(settled=True, instruction=instruction, category=category, output=output)
