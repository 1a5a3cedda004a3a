"""The appendix: of each benchmark all that its numbers rest on, and its own table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from refbench import __version__
from refbench.record import counted
from refbench.report.latex.escape import WIDE, is_wide, tex
from refbench.report.latex.table import Openness
from refbench.report.latex.write import to_latex
from refbench.report.paper.citations import OURS, citation, key
from refbench.report.paper.overview import Published
from refbench.runs import Run
from refbench.tables.result import Result

Source = tuple[Result, Sequence[Run]]
"""A result with the run directories behind it; none where released item scores were tabled."""


def appendix(sources: Sequence[Source], *, published: Published = "run", openness: Openness | None = None) -> str:
    """Settings, seeds, dates, judges and fingerprints of every benchmark, then its table in all measures."""
    facts = [(result, list(_facts(result, runs))) for result, runs in sources]
    wide = any(
        is_wide(text)
        for result, pairs in facts
        for text in (result.bench.title, *(word for pair in pairs for word in pair))
    )
    lines = [WIDE] if wide else []
    lines += [
        "% needs \\usepackage{booktabs}",
        r"\section{How the numbers were made}",
        rf"All numbers were computed with RefBench {tex(__version__)}~\cite{{{OURS}}}. Tables of one fingerprint "
        r"were made in the same way; with the same digest as well, they have the same numbers.",
    ]
    for number, (result, pairs) in enumerate(facts, 1):
        cited = rf"~\cite{{{key(result.bench)}}}" if citation(result.bench) else ""
        # Two sets of cases may be of one benchmark, and no two tables have one label.
        table = to_latex(result, published=published, openness=openness, wide=True)
        table = table.replace(r"\label{tab:", rf"\label{{tab:{number}-")
        lines += [
            "",
            rf"\subsection{{{tex(result.bench.title)}}}",
            rf"The benchmark{cited} was run as follows; Table~\ref{{tab:{number}-{_label(result)}}} has its measures.",
            r"\begin{description}\small\raggedright",
            *(rf"\item[{tex(name)}] {tex(text)}" for name, text in pairs),
            r"\end{description}",
            table,
        ]
    return "\n".join([*lines, ""])


def _label(result: Result) -> str:
    """The label that `to_latex` gives the table of a result."""
    return "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in f"{result.bench.name}-overall")


def _facts(result: Result, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    parts = result.table.parts
    subset = f", subset {parts['subset']}" if parts.get("subset") else ""
    yield "Cases", f"{counted(len(result.cases), 'case')}{subset}; content {parts['cases'][:16]}"
    for name, versions in parts.get("protocols", {}).items():
        said = ", ".join(f"{part} version {n}" for part, n in versions.items())
        yield "Protocol", f"{name}{f' ({said})' if said else ''}"
    yield from _judges(result)
    if settings := parts.get("settings"):
        yield "Settings", _listed({name: text for name, text in settings.items() if name != "wording"})
    for name, how in parts.get("measured", {}).items():
        networks = how.get("networks") or {}
        weights = f", weights {_listed(networks)}" if networks else ""
        yield "Measured", f"{name}: {how.get('metric', name)} version {how.get('version', '?')}{weights}"
    yield from _models(result, runs)
    own = "; a model's own failures are " + (
        "left out, and bound the number" if result.refusals == "conditional" else f"counted ({result.refusals})"
    )
    yield "Failures", f"{_failed(result)}{own}"
    interval = parts.get("interval", {})
    yield (
        "Intervals",
        f"95 %, {interval.get('draws')} bootstrap draws over clusters of cases, seed {interval.get('seed')}",
    )
    if parts.get("sample"):
        yield "Estimated", f"from a part of the calls, by the design {parts['sample'].get('design', '')}"
    for days in dict.fromkeys(run.recorded_between() for run in runs):
        if days[0]:
            yield "Recorded", days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"
    if not runs:
        yield "Recorded", "item scores as their authors released them"
    yield "Fingerprint", f"{result.table.fingerprint}, digest {result.table.digest}"
    for note in result.notes:
        yield "Note", note


def _judges(result: Result) -> Iterator[tuple[str, str]]:
    parts = result.table.parts
    if not parts.get("judges"):
        yield "Judge", "none"
        return
    yield "Judge", f"{result.judges_said()}; {result.wording}"
    for name, who in parts.get("asked", {}).items():
        given = _listed(who.get("parameters") or {})
        yield "Asked", f"{name}: {who.get('model', name)}{f' with {given}' if given else ''}"


def _models(result: Result, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Each model with how its pictures were made, as the run noted it, and with how many seeds."""
    how: dict[str, str] = {}
    for run in runs:
        for name, note in run.notes("model ").items():
            told = orjson.loads(note)
            if isinstance(told, dict):
                kind = ":".join(_shown(told.pop(part)) for part in ("kind", "what") if told.get(part))
                how.setdefault(name, ", ".join(filter(None, (kind, _listed(told)))))
    for model in dict.fromkeys(row.model for row in result.table.rows):
        seeds = result.seeds.get(model, 1)
        yield "Model", "; ".join(filter(None, (model, how.get(model, ""), counted(seeds, "seed"))))


def _failed(result: Result) -> str:
    kinds, n = result.failed()
    said = ", ".join(f"{many} {kind}" for kind, many in kinds.items())
    return f"{sum(kinds.values())} of {n} ({said})" if said else "none"


def _listed(told: Mapping[str, object]) -> str:
    """Names with their values; of a path its last part, since the folders of a machine say nothing to a reader."""
    return ", ".join(f"{name} {_shown(value)}" for name, value in told.items() if value not in ("", None, {}, []))


def _shown(value: object) -> str:
    text = str(value)
    return Path(text).name if text.startswith(("/", "~")) else text
