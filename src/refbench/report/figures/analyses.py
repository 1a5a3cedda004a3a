"""Figures of what analyses say about a result: gaps, costs, spreads, judges, weights, and the steps of agents."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from refbench.record import RefBenchError, counted
from refbench.report.figures.chart import Axis, Chart, Panel, Series, Value, value_of
from refbench.report.figures.palette import UNMARKED, short_names, styles_of
from refbench.report.figures.svg import isolated
from refbench.report.figures.view import TableView, level_words, whole
from refbench.tables.table import DRAWS, OVERALL, SEED, Aggregate, Mean, Slice, Summary, tabulate

_MOST_PAIRS = 30
_FEW_JUDGES = 3
_STEP = re.compile(r"^(?P<agent>.+)\.(?P<step>step\d+|result)$")


def gaps(view: TableView) -> Chart:
    """A row for each pair (or for each model less --against), the largest gap first."""
    chosen = view.options
    against = chosen.against or (view.models[0] if math.comb(len(view.models), 2) > _MOST_PAIRS else None)
    made = None if against or chosen.models or chosen.measure else view.compared
    comparison = made or view.result.compare(
        *chosen.models,
        protocol=view.protocol,
        metric=chosen.measure,
        against=against,
        by_slice=False,
    )
    pairs = comparison.by_judge(view.judge).pairs
    if not pairs:
        raise RefBenchError("gaps are between models, and there is one")
    turned = [
        (pair.second, pair.first, -1) if (pair.gap or 0.0) < 0 else (pair.first, pair.second, 1) for pair in pairs
    ]
    values = []
    for pair, (_, _, sign) in zip(pairs, turned, strict=True):
        ends = sorted(sign * end for end in pair.ci95) if pair.ci95 else (None, None)
        why = pair.failure.detail if pair.failure else "no value"
        gap = None if pair.gap is None else sign * pair.gap
        words = f"{counted(pair.n_cases, 'case')}; {'resolved' if pair.resolved else 'not resolved'}"
        low, high = ends
        values.append(Value(gap, low, high, why="" if gap is not None else why, about=words, leads=pair.resolved))
    order = sorted(range(len(pairs)), key=lambda n: (values[n].value is None, -(values[n].value or 0.0)))
    order = order[: max(_MOST_PAIRS, len(view.models))]
    labels = tuple(f"{isolated(turned[n][0])} − {isolated(turned[n][1])}" for n in order)
    short = short_names(list(view.models), 112, 11)
    called = tuple(f"{isolated(short[turned[n][0]])} − {isolated(short[turned[n][1]])}" for n in order)
    lower = comparison.lower_is_better
    axis = Axis(f"gap in {comparison.metric.replace('_', ' ')}", lower, digits=comparison.digits)
    panel = Panel(axis, labels, (whole("gap", [values[n] for n in order]),))
    resolved = sum(values[n].leads for n in order)
    family = counted(max((pair.family for pair in pairs), default=1), "pair")
    about = f"{counted(len(pairs), 'pair')}, 95 % intervals; filled: resolved ({resolved}), Holm over {family}"
    return replace(
        view.chart(
            "gaps",
            "forest",
            f"gaps in {comparison.metric.replace('_', ' ')}",
            (panel,),
            about,
            comparison.notes,
        ),
        labels=called,
    )


def cost(view: TableView) -> Chart:
    """Dollars and seconds for a picture that came back, and what it is worth."""
    from refbench.analysis.usable import Usable, usable_rows
    from refbench.runs import Run
    from refbench.stats.frontier import frontier

    if not view.runs:
        raise RefBenchError(
            "what pictures cost is known to run directories: give them, as refbench figure cost RUN does"
        )
    outputs = view.outputs if view.outputs is not None else [Run.open(run).outputs() for run in view.runs]
    took: dict[str, Usable] = {row.model: row for of_run in outputs for row in usable_rows(of_run)}
    kinds = (("US dollars a picture that came back", "usd_per_usable"), ("seconds a picture, median", "p50"))
    panels, unknown, free = [], [], []
    axis = view.axis(view.summary)
    for label, field in kinds:
        amounts = {model: getattr(took[model], field) if model in took else None for model in view.models}
        if all(amount is None for amount in amounts.values()):
            unknown.append(label)
            continue
        if not any(amounts.values()):
            free.append(label)
            continue
        values = {model: view.value(model, view.summary, OVERALL) for model in view.models}
        sign = -1 if axis.lower else 1
        points = {
            model: (sign * value.value, -amount)
            for model, value in values.items()
            if value.value is not None and not value.few and (amount := amounts[model]) is not None
        }
        best = frontier(points) if points else set()
        series = tuple(
            Series(model, view.styles[model], (_priced(values[model], amounts[model], model in best),))
            for model in view.models
        )
        panels.append(Panel(axis, ("all cases",), series, across=Axis(label, digits=3)))
    if not panels:
        raise RefBenchError("these outputs were not made by the run: neither their prices nor their times are known")
    notes = [f"Not known of any model: {', '.join(unknown)}."] if unknown else []
    notes += [f"Nothing for any model: {', '.join(free)}."] if free else []
    notes += _without_amount(panels)
    return view.chart(
        "cost",
        "scatter",
        f"{view.summary.replace('_', ' ')} against what it takes",
        panels,
        "95 % intervals; the dashed line is the frontier: no other model is better for less",
        notes,
    )


def _priced(value: Value, amount: float | None, leads: bool) -> Value:
    if value.value is not None and amount is None:
        return replace(value, value=None, low=None, high=None, why="what it takes is not known")
    return replace(value, across=amount, leads=leads)


def _without_amount(panels: Sequence[Panel]) -> list[str]:
    said = []
    for panel in panels:
        absent = [isolated(s.name) for s in panel.series if s.values[0].why == "what it takes is not known"]
        if absent and panel.across is not None:
            said.append(f"No point, since {panel.across.label} is not known: {', '.join(absent)}.")
    return said


def distribution(view: TableView) -> Chart:
    """Pictures by what each gives in the summary measure; the mean is the table's."""
    view.result.needs_all_calls("a distribution")
    wanted = view.options.measure
    found: dict[str, list[tuple[str, int, float]]] = {model: [] for model in view.models}
    judge = view.judge
    for item in view.result.items():
        if item["protocol"] != view.protocol or item["model"] not in found or item["judge"] != judge:
            continue
        if wanted is None and item["total"] is not None:
            found[item["model"]].append((item["case"], item["seed"], item["total"]))
        elif wanted is not None and item["metric"] == wanted and item["score"] is not None:
            found[item["model"]].append((item["case"], item["seed"], item["score"]))
    totals = {model: [total for _, _, total in sorted(set(those))] for model, those in found.items()}
    everything = [total for those in totals.values() for total in those]
    axis = view.axis(view.summary)
    edges, width = _edges(everything, axis)
    series = []
    for model in view.models:
        counts: list[int] = np.histogram(totals[model], [*edges, edges[-1] + width])[0].tolist() if edges else []
        row = view.row(model, view.summary)
        values = tuple(Value(float(n), about=counted(n, "picture")) for n in counts)
        values = values if totals[model] else tuple(Value(None, why=value_of(row).why or "no value") for _ in edges)
        series.append(
            Series(model, view.styles[model], values, mean=value_of(row), aside=_beside(row, len(totals[model])))
        )
    panel = Panel(Axis("pictures", digits=0), tuple(f"{edge:.10g}" for edge in edges), tuple(series), across=axis)
    return view.chart(
        "distribution",
        "histogram",
        "scores of single pictures",
        (panel,),
        f"{axis.words}; columns are counts, the diamond is the table's number with its 95 % interval",
    )


def _edges(values: Sequence[float], axis: Axis) -> tuple[list[float], float]:
    """Lower edges of twenty columns over the scale, or of columns of a round width over what is there where it has no
    ends."""
    if not values:
        return [], 1.0
    if axis.low is not None and axis.high is not None and axis.low <= min(values) and max(values) <= axis.high:
        step = (axis.high - axis.low) / 20 or 1.0
        return [round(axis.low + n * step, 10) for n in range(20)], step
    span = max(values) - min(values) or 1.0
    step = next(s * 10.0**p for p in range(-12, 13) for s in (1, 2, 5) if span / (s * 10.0**p) <= 20)
    first, last = math.floor(min(values) / step), math.floor(max(values) / step)
    return [round(n * step, 10) for n in range(first, last + 1)], step


def _beside(row, n: int) -> tuple[str, ...]:  # type: ignore[no-untyped-def]
    said = [counted(n, "picture")]
    if row is not None and row.failures:
        said.append(f"{sum(row.failures.values())} failed")
    if row is not None and row.n_not_asked:
        said.append(f"{row.n_not_asked} not asked")
    return tuple(said)


def agreement(view: TableView) -> Chart:
    """Judges by judges: Spearman's correlation over single pictures, or Pearson's where that has no value."""
    from refbench.analysis.agree.rows import agreement_rows

    rows = [row for row in agreement_rows(view.result, view.protocol) if row["kind"] == "judge-judge"]
    if not rows:
        raise RefBenchError(
            "there is one judge here, or none: agreement is between two (or with people: refbench agree)"
        )
    measures = [view.options.measure] if view.options.measure else list(dict.fromkeys(row["metric"] for row in rows))
    judges = list(dict.fromkeys(name for row in rows for name in (row["first"], row["second"])))
    axis = Axis("Spearman's correlation", low=None, high=1.0)
    panels = []
    together: dict[str, list[Value]] = {}
    for measure in measures:
        pairs = {
            frozenset((row["first"], row["second"])): row
            for row in rows
            if row["metric"] == measure and row["level"] == "item" and not row["group"]
        }
        for one, two in combinations(judges, 2):
            named = f"{isolated(one)} and {isolated(two)}"
            together.setdefault(named, []).append(_agreed(pairs.get(frozenset((one, two))), False))
        series = tuple(
            Series(one, UNMARKED, tuple(_agreed(pairs.get(frozenset((one, two))), one == two) for two in judges))
            for one in judges
        )
        panels.append(Panel(axis, tuple(judges), series, measure.replace("_", " ")))
    if len(judges) <= _FEW_JUDGES:  # a row for each pair and a column for each measure say it in one table
        pairs_down = tuple(Series(name, UNMARKED, tuple(values)) for name, values in together.items())
        panels = [Panel(axis, tuple(name.replace("_", " ") for name in measures), pairs_down)]
    return view.chart(
        "agreement",
        "heatmap",
        "agreement of judges",
        panels,
        "Spearman's correlation of the marks of single pictures, 95 % intervals",
    )


def _agreed(row: Mapping[str, object] | None, same: bool) -> Value:
    if same:
        return Value(None, why="itself")
    found = row["spearman"] if row else None
    if row is None or not isinstance(found, dict):
        return Value(None, why="no value")
    low, high = found["ci95"] or (None, None)
    return Value(found["value"], low, high, about=f"{row['n']} pictures")


@dataclass(frozen=True)
class _Sweep:
    """A weighted total under several weights of its criteria, as measures of one aggregate, so that each has an
    interval from the same draws as the table's."""

    aggregate: Aggregate
    measure: str
    criteria: tuple[str, ...]
    weights: Mapping[str, tuple[float, ...]]

    def aggregated(self) -> Aggregate:
        declared = next(one for one in self.aggregate.measures if one.name == self.measure)
        further = tuple(replace(declared, name=name) for name in self.weights)
        return replace(self.aggregate, measures=further, slices=self._overall, summarise=self._summary)

    def _overall(self, cases: Sequence[object]) -> list[Slice]:
        return self.aggregate.overall(cases)  # type: ignore[arg-type]

    def _summary(self, mean: Mean, where: Slice) -> Summary:
        parts = self.aggregate.summarise(mean, where)
        return {
            name: np.sum([w * parts[criterion] for w, criterion in zip(those, self.criteria, strict=True) if w], axis=0)
            for name, those in self.weights.items()
        }


def weights(view: TableView) -> Chart:
    """The total as the weight of each criterion goes from 0 to 1, the others among themselves as they are."""
    from refbench.analysis.precision.weights import criteria_of, own_weights
    from refbench.tables.table import case_values

    view.result.needs_all_calls("a sweep of weights")
    aggregate = view.result.bench.scoring.protocols[view.protocol].aggregate
    measure = view.result.summary(view.protocol)
    criteria = criteria_of(aggregate, measure)
    columns = view.result.columns(view.protocol, [view.judge])
    own = "" if criteria else f"{measure} is not a weighted mean of measures that share a range"
    if criteria:
        per_case = case_values(aggregate, columns, view.result.cases)
        read = own_weights(aggregate, columns, per_case, criteria, measure)
        own = read if isinstance(read, str) else ""
    if own:
        raise RefBenchError(own if own.startswith("there are no weights") else f"there are no weights to change: {own}")
    base = np.asarray(read, dtype=np.float64)
    places = _places(criteria, base)
    sweep = _Sweep(aggregate, measure, criteria, {name: those for name, _, _, those in places})
    interval = view.result.table.parts.get("interval", {})
    draws, seed = interval.get("draws", DRAWS), interval.get("seed", SEED)
    rows = tabulate(view.protocol, sweep.aggregated(), columns, view.result.cases, draws=draws, seed=seed)
    found = {(row.model, row.metric): row for row in rows}
    axis = view.axis(measure)
    panels = []
    for k, criterion in enumerate(criteria):
        mine = [(name, label) for name, of, label, _ in places if of == criterion]
        series = tuple(
            Series(model, view.styles[model], tuple(value_of(found.get((model, name))) for name, _ in mine))
            for model in view.models
        )
        title = f"weight of {criterion.replace('_', ' ')} (its own: {100 * base[k]:.3g} %)"
        panels.append(Panel(axis, tuple(label for _, label in mine), series, title))
    whole_tenths = np.abs(base * 10 - np.round(base * 10)).max() < 1e-6
    ratio = ":".join(f"{part:.3g}" for part in (base * 10 if whole_tenths else base / base[base > 0].min()))
    return view.chart(
        "weights",
        "lines",
        f"{measure} under other weights",
        panels,
        f"own weights {ratio} of {', '.join(criteria)}; 95 % intervals; the other criteria keep their ratio",
    )


def _places(criteria: Sequence[str], own: np.ndarray) -> list[tuple[str, str, str, tuple[float, ...]]]:
    """Name, criterion, label and weights of each point of the sweep."""
    found = []
    for k, criterion in enumerate(criteria):
        for share in sorted({*(n / 5 for n in range(6)), round(float(own[k]), 6)}):
            rest = np.delete(own, k)
            others = rest / rest.sum() * (1 - share) if rest.sum() else np.full(len(rest), (1 - share) / len(rest))
            those = np.insert(others, k, share)
            label = f"{100 * share:.3g} %" + (" (own)" if abs(share - own[k]) < 1e-6 else "")
            found.append((f"{criterion} {share}", criterion, label, tuple(float(one) for one in those)))
    return found


def steps(view: TableView) -> Chart:
    """A line for each agent over its steps, in each measure, or on each slice of --by."""
    agents: dict[str, list[str]] = {}
    for model in sorted(view.models, key=_step_order):
        if there := _STEP.match(model):
            agents.setdefault(there["agent"], []).append(model)
    if not agents:
        raise RefBenchError(
            "no model here is a step of an agent: refbench steps RUN --out DIR scores them, then give DIR"
        )
    names = sorted({model.rpartition(".")[2] for those in agents.values() for model in those}, key=_step_order)
    places: list[tuple[str, str, Mapping[str, str]]]
    if view.options.by:
        places = [(title, view.summary, where) for title, where in view.slices(view.options.by)]
    else:
        places = [(measure.replace("_", " "), measure, OVERALL) for measure in view.measures]
    panels = []
    styles = styles_of(list(agents))
    for title, measure, where in places:
        series = tuple(
            Series(agent, styles[agent], tuple(view.value(f"{agent}.{name}", measure, where) for name in names))
            for agent in sorted(agents)
        )
        panels.append(Panel(view.axis(measure), tuple(_step_words(name) for name in names), series, title))
    over = level_words(view.options.by) if view.options.by else "criterion"
    return view.chart(
        "steps",
        "lines",
        f"agents step by step, by {over}",
        panels,
        "95 % intervals; the result is what the agent ended with",
    )


def _step_order(model: str) -> tuple[bool, int]:
    word = model.rpartition(".")[2]
    return not word.startswith("step"), int(word.removeprefix("step")) if word.startswith("step") else 0


def _step_words(name: str) -> str:
    return name if name == "result" else f"step {name.removeprefix('step')}"
