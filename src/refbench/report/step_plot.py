"""The plot of agents by step, as one SVG file: the summary measure after each step, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refbench.report.charts import dot, line, padded, text
from refbench.result import Result
from refbench.table import Row

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 360, 64, 48, 40, 140
_FONT = 'font-family="sans-serif" font-size="13"'
_COLOURS = ("#3366cc", "#cc6633", "#339966", "#993399", "#666666")


def rows_by_step(result: Result, agents: Mapping[str, Sequence[str]]) -> dict[str, list[Row]]:
    """For each agent the overall row of the summary measure at each of its models (steps), in their order."""
    protocol = result.table.rows[0].protocol
    overall = [r for r in result.table.rows if r.slice["level"] == "overall" and r.protocol == protocol]
    summary = result.summary(protocol)
    found = {(row.model, row.judge): row for row in overall if row.metric == summary}
    judges = list(dict.fromkeys(judge for _, judge in found))
    return {
        agent + (f" ({judge})" if judge and len(judges) > 1 else ""): [found[model, judge] for model in models]
        for agent, models in agents.items()
        for judge in judges
        if all((model, judge) in found for model in models)
    }


def step_plot(lines: Mapping[str, Sequence[Row]], about: str = "") -> str:
    """The SVG; `about` says what the numbers were measured with. A step without a value leaves a gap in its line."""
    values = [v for rows in lines.values() for row in rows for v in (row.value, *(row.ci95 or ())) if v is not None]
    low, high = padded(values)
    most = max((len(rows) for rows in lines.values()), default=1)
    measure = next((row.metric for rows in lines.values() for row in rows), "")

    def x(step: int) -> float:
        return _LEFT + (step + 0.5) * (_WIDTH - _LEFT - _RIGHT) / most

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    title = f"{measure} by step, 95 % intervals"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        text((_LEFT, 22), title, extra='font-weight="bold"'),
        text((_LEFT, _HEIGHT - 4), about, extra='font-size="10" fill="#666"'),
    ]
    for tick in range(5):
        value = low + (high - low) * tick / 4
        parts.append(line((_LEFT, y(value)), (_WIDTH - _RIGHT, y(value)), "#ddd"))
        parts.append(text((_LEFT - 8, y(value) + 4), f"{value:.3g}", extra='text-anchor="end"'))
    for step in range(most):
        name = "result" if step == most - 1 else f"step {step + 1}"
        parts.append(text((x(step), _HEIGHT - 20), name, extra='text-anchor="middle"'))
    for number, (agent, rows) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        before: tuple[float, float] | None = None
        for step, row in enumerate(rows):
            if row.value is None:
                before = None
                continue
            here = x(step), y(row.value)
            if before is not None:
                parts.append(line(before, here, colour, 2))
            if row.ci95 is not None:
                parts.append(line((here[0], y(row.ci95[0])), (here[0], y(row.ci95[1])), colour))
            parts.append(dot(here, colour))
            before = here
        parts.append(text((_WIDTH - _RIGHT + 12, _TOP + 18 * number + 8), agent, extra=f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>", ""])
