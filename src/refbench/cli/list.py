"""`refbench list`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.specs import Kind

Of = Annotated[
    str | None,
    Parameter(help="With models: those that a benchmark's paper evaluated (multibanana, ...), or those of today"),
]


def list_command(
    what: Literal[
        "benchmarks", "models", "metrics", "networks", "extractors", "judges", "rubrics", "failures"
    ] = "benchmarks",
    *,
    of: Of = None,
    json: Json = False,
) -> int:
    """List what there is."""
    if of is not None:
        return _models_of(what, of, json)
    found: list[dict[str, Any]] = {
        "benchmarks": _benchmarks,
        "models": _models,
        "metrics": _metrics,
        "networks": _networks,
        "extractors": _extractors,
        "judges": _judges,
        "rubrics": _rubrics,
        "failures": _failures,
    }[what]()
    if json:
        print(orjson.dumps({what: found}).decode())
        return 0
    if what in ("models", "judges"):
        found = _option_rows(found)
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    grid = Grid()
    for name in found[0]:
        grid.add_column(name)
    for row in found:
        grid.add_row(*(Text(str(value)) for value in row.values()))  # as it is: [neural] is no markup
    console().print(grid)
    return 0


def _models_of(what: str, paper: str, json: bool) -> int:
    """A paper's models, each with the spec to type on a line of its own, so that it can be copied at any width."""
    from rich.padding import Padding
    from rich.text import Text

    from refbench.models.papers import models_of
    from refbench.text.console import console

    if what != "models":
        raise RefBenchError(f"--of names whose models are listed: write refbench list models --of {paper}")
    found = models_of(paper)
    if json:
        rows = [{"label": label, **model.model_dump(), "gone": model.gone} for label, model in found.items()]
        print(orjson.dumps({"models": rows, "of": paper}).decode())
        return 0
    out = console()
    for label, model in found.items():
        out.print(f"{label}: {model.state}", style="bold", markup=False, highlight=False)
        price = f"; about ${model.usd:g} a picture ({model.priced})" if model.usd is not None else ""
        facts = f"references: {model.references}; licence: {model.licence}{price}"
        if model.route:
            out.print(f"  {model.route}", markup=False, highlight=False, soft_wrap=True)
        for line in (facts, model.gone, model.note):
            if line:
                out.print(Padding(Text(line), (0, 0, 0, 4), expand=False))
    return 0


def _option_rows(kinds: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row for each kind and below it one for each of its options."""
    rows = []
    for kind in kinds:
        rows.append({"kind": kind["kind"], "write": "", "default": "", "what": kind["what"]})
        for option in kind["options"]:
            default = option["default"] if option["default"] is not None else ""
            row = {"kind": f"  {option['name']}=", "write": option["value"], "default": default, "what": option["what"]}
            rows.append(row)
        if kind["options"] and kind["other options"] != "there are none":
            rows.append({"kind": "  ...", "write": "", "default": "", "what": f"others go {kind['other options']}"})
    return rows


def _benchmarks() -> list[dict[str, str]]:
    from refbench.benchmarks import benchmark, names

    found = []
    for name in names():
        bench = benchmark(name)
        measures = bench.scoring.protocols["corrected"].aggregate.measures
        found.append(
            {
                "name": name,
                "title": bench.title,
                "paper": bench.paper,
                "metrics": ", ".join(measure.name for measure in measures),
                "protocols": ", ".join(bench.scoring.protocols),
                "subsets": ", ".join(bench.data.subsets),
            }
        )
    return found


def _models() -> list[dict[str, Any]]:
    from refbench.specs import MODEL_PLUG_INS, MODELS, WRAPPERS, kinds

    return _kinds([*kinds(MODELS, MODEL_PLUG_INS).values(), *WRAPPERS.values()])


def _judges() -> list[dict[str, Any]]:
    from refbench.chat.presets import judge_presets
    from refbench.specs import JUDGE_PLUG_INS, JUDGES, kinds

    presets = [
        {
            "kind": f"paper:{one.what}",
            "what": f"{one.spec}; {one.note}",
            "options": [],
            "other options": "to the judge that it stands for",
        }
        for one in judge_presets().values()
    ]
    return [*_kinds(kinds(JUDGES, JUDGE_PLUG_INS).values()), *presets]


def _kinds(kinds: Iterable[Kind]) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind.usage,
            "what": kind.help,
            "options": [
                {"name": one.name, "value": one.form.says, "default": one.default, "what": one.help}
                for one in kind.options
            ],
            "other options": kind.others or "there are none",
        }
        for kind in kinds
    ]


def _metrics() -> list[dict[str, str]]:
    from refbench.metrics import metrics
    from refbench.metrics.measure import why_not_measured

    found: dict[str, dict[str, str]] = {}
    for metric in metrics():
        said = {
            "name": metric.id,
            "protocol": metric.protocol or "both",
            "reads": ", ".join(i.name + ("?" if i.optional else "") for i in metric.inputs if i.kind != "network"),
            "better": metric.better,
            "range": " to ".join("open" if end is None else f"{end:g}" for end in metric.range),
            "what": metric.summary,
            "here": why_not_measured(metric.id, metric.protocol or "corrected") or "yes",
        }
        found[f"{metric.id} {metric.protocol}"] = said
    return list(found.values())


def _networks() -> list[dict[str, str]]:
    from refbench.networks import networks, why_not

    return [
        {
            "name": info.name,
            "gives": info.gives,
            "purpose": info.purpose,
            "licence": info.licence + ("" if info.commercial else " (opt-in)"),
            "group": info.group,
            "here": why_not(info.name) or "yes",
        }
        for info in networks().values()
    ]


def _extractors() -> list[dict[str, str]]:
    from refbench.extractors import EXTRACTORS

    return [
        {"name": name, "what": extractor.summary, "networks": ", ".join(extractor.networks) or "none"}
        for name, extractor in EXTRACTORS.items()
    ]


def _rubrics() -> list[dict[str, str]]:
    from refbench.judges.rubric import load_rubric, shipped_rubrics

    return [{"name": name, "title": load_rubric(name).title} for name in shipped_rubrics()]


def _failures() -> list[dict[str, str]]:
    from refbench.failure import KINDS, TRANSIENT

    return [
        {"kind": kind, "tried again": "by the next run" if kind in TRANSIENT else "only when asked"} for kind in KINDS
    ]
