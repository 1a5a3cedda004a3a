"""Reviews: which fields of a line its builder lets people change, and whether a change will stand when it builds.

Each line is checked by the builder's own functions, so that what is accepted here is accepted there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

from pydantic import ValidationError

from refbench.benchmarks.multibanana.cases import TAGS
from refbench.builders.creval import build as creval
from refbench.builders.ideabench import asking as idea_asking
from refbench.builders.ideabench import build as ideabench
from refbench.builders.ideabench.item import DesignTask
from refbench.builders.kit.replies import line
from refbench.builders.kit.review import Decision
from refbench.builders.multibanana import writing
from refbench.builders.multibanana.classify import Look
from refbench.builders.multibanana.tasks import Member
from refbench.builders.multiref_real import asking as real_asking
from refbench.builders.refblend.rewriting import fault
from refbench.record import RefBenchError

Row = Mapping[str, Any]
Check = Callable[[Row, Mapping[str, Any]], str]
"""What is wrong with a change of a line; empty where nothing is."""


class Lines(NamedTuple):
    """The lines of one builder: how they are known, what may be changed, and how that is checked."""

    known_by: frozenset[str]
    editable: tuple[str, ...]
    wrong: Check


def _creval(row: Row, edit: Mapping[str, Any]) -> str:
    return _said(lambda: creval.read_edit(_decision(row, edit)))


def _ideabench(row: Row, edit: Mapping[str, Any]) -> str:
    pictures = cast("Any", tuple(row.get("pictures") or ()))
    outputs = row["outputs"] if isinstance(row.get("outputs"), int) else 1
    name = str(row["id"])
    task = DesignTask(name, name, str(row.get("task", "")), "", pictures=pictures, outputs=outputs)
    if "instruction" in edit and (wrong := idea_asking.instruction_fault(str(edit["instruction"]))):
        return wrong
    return _said(lambda: ideabench.read_edit(_decision(row, edit), task))


def _multibanana(row: Row, edit: Mapping[str, Any]) -> str:
    references = cast("tuple[Member, ...]", row.get("references") or ())
    if "instruction" in edit and (wrong := writing.instruction_fault(line(edit["instruction"]), references)):
        return wrong
    tags = edit.get("tags", [])
    labels = tags.replace(",", " ").split() if isinstance(tags, str) else tags
    if not isinstance(labels, list) or any(label not in TAGS for label in labels):
        return f"tags are a list of {', '.join(TAGS)}"
    return ""


def _pictures(row: Row, edit: Mapping[str, Any]) -> str:
    try:
        known = {name: row[name] for name in Look.model_fields if name in row}
        Look.model_validate({**known, **edit})
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def _multiref_real(row: Row, edit: Mapping[str, Any]) -> str:
    inputs, outputs = row.get("inputs") or (), row.get("outputs") or ()
    if "instruction" in edit and (found := real_asking.instruction_fault(line(edit["instruction"]), len(inputs))):
        return found[1]
    if "category" in edit and real_asking.category_of(edit["category"]) is None:
        return "the category is a number from 1 to 5"
    if "output" in edit and edit["output"] not in outputs:
        return f"the output is one of {', '.join(outputs)}"
    return ""


def _refblend(row: Row, edit: Mapping[str, Any]) -> str:
    for name in ("instruction", "enhanced"):
        if edit.get(name) and (wrong := fault(str(row.get("instruction", "")), str(edit[name]), "")):
            return f"the {name} asks for something else: {wrong}"
    return "" if any(edit.values()) else "it gives none of instruction, caption, enhanced"


BUILDERS: Mapping[Literal["creval", "ideabench", "multibanana", "pictures", "multiref_real", "refblend"], Lines] = {
    "creval": Lines(frozenset({"class_id", "IF", "VC", "VQ"}), ("instruction", "IF", "VC", "VQ"), _creval),
    "ideabench": Lines(frozenset({"task", "questions", "outputs"}), ("instruction", "questions"), _ideabench),
    "multiref_real": Lines(
        frozenset({"request", "inputs", "outputs"}), ("instruction", "category", "output"), _multiref_real
    ),
    "refblend": Lines(frozenset({"types", "enhanced", "caption"}), ("instruction", "caption", "enhanced"), _refblend),
    "multibanana": Lines(frozenset({"references", "tags", "giver"}), ("instruction", "tags"), _multibanana),
    "pictures": Lines(frozenset({"shows", "rendering", "categories"}), tuple(Look.model_fields), _pictures),
}
"""By what their lines have; a builder of MultiBanana also has lines about single pictures."""


def lines_of(row: Row) -> Lines | None:
    """Which builder wrote the line; None where nobody here did."""
    return next((lines for lines in BUILDERS.values() if lines.known_by <= row.keys()), None)


def wrong_decision(row: Row, decision: object, edit: object) -> str:
    """What is wrong with a decision about a line; empty where its builder will take it."""
    if decision != "edit":
        return "" if not edit else "a change needs the decision edit"
    if not isinstance(edit, Mapping) or not edit:
        return "say what is changed, or accept it"
    lines = lines_of(row)
    editable = lines.editable if lines is not None else tuple(row)
    if strange := next((name for name in edit if name not in editable), None):
        return f"{strange} cannot be changed, only {', '.join(editable)}"
    return lines.wrong(row, edit) if lines is not None else ""


def _decision(row: Row, edit: Mapping[str, Any]) -> Decision:
    return Decision(id=str(row["id"]), decision="edit", edit=edit)


def _said(check: Callable[[], object]) -> str:
    try:
        check()
    except RefBenchError as error:
        return str(error).removeprefix("--review, ")
    return ""
