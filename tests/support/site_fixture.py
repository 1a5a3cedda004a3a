"""A small or large site of made-up figures that keeps the pages' contract."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.pictures import encode
from refbench.report.figures.chart import Axis, Chart, Panel, Series, Value
from refbench.report.figures.palette import Style, styles_of
from refbench.report.site.contract import CASES_SIZE, INDEX_SIZE
from refbench.report.site.figures import figure_view
from refbench.report.site.overview import model_head
from refbench.report.site.pages import write_site
from refbench.tables.result import Result
from refbench.tables.scoring import rescore, score_run
from support.checkout import plain_items, write_checkout, write_replies
from support.site_figures import (
    GROUPS,
    JUDGES,
    KINDS,
    MARKUP,
    Figures,
    case_view,
    figures,
    index_chunk,
    instruction,
    names_of,
)

FAMILIES = [(protocol, judge) for protocol in ("corrected", "paper") for judge in range(len(JUDGES))]
ASSETS = Path(__file__).resolve().parents[2] / "src/refbench/report/site/assets"


def write_fixture(
    root: Path, n_cases: int = 60, n_models: int = 3, *, whole: bool = True, boards: Sequence[str] = ("b0",)
) -> Figures:
    """The assets, the boards with their chunks (all of the same figures), and three small pictures. Of a site that is
    not `whole`, only the first and last two chunks of cases are there."""
    made = figures(n_cases, n_models)
    root.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ASSETS, root, dirs_exist_ok=True)
    rng = np.random.default_rng(1)
    for name in ("ref", "out", "other"):
        (root / f"{name}.png").write_bytes(encode(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)))
    put(root, "site", _site(n_cases, n_models, boards))
    put(root, "annotations", [])
    for board in boards:
        _write_board(root, board, made, n_models, whole=whole)
    return made


def _write_board(root: Path, name: str, made: Figures, n_models: int, *, whole: bool) -> None:
    n_cases = len(made.ids)
    board = _board(made, n_models)
    apart = [row for row in board["rows"] if row["metric"] == "parts" and row["slice"]["level"] != "overall"]
    put(root, f"{name}/board", {**board, "rows": [row for row in board["rows"] if row not in apart]})
    put(root, f"{name}/rows", {"rows": apart})
    put(root, f"{name}/compare", _compare(n_models))
    put(root, f"{name}/failures", _failures(made, n_models))
    put(root, f"{name}/agreement", _agreement())
    for number, (protocol, judge) in enumerate(FAMILIES):
        put(root, f"{name}/figures/{number}", _figures(made, n_models, protocol, judge))
    for k, start in enumerate(range(0, n_cases, INDEX_SIZE)):
        put(root, f"{name}/index/{k}", index_chunk(made, start, min(n_cases, start + INDEX_SIZE)))
    for k, start in enumerate(range(0, n_cases, CASES_SIZE)):
        if not whole and 1 < k < n_cases // CASES_SIZE - 2:
            continue
        cases = [case_view(made, i, n_models) for i in range(start, min(n_cases, start + CASES_SIZE))]
        put(root, f"{name}/cases/{k}", {"start": start, "cases": cases})


def creval_site(root: Path, models: Sequence[str], url: str = "") -> tuple[Path, Result]:
    """The site that RefBench writes of a run of CREval's own kind, and its table."""
    items = plain_items(18)
    data = write_checkout(root / "creval", items)
    for model in models:
        write_replies(data / "answer_gpt", model, items)
    rescore("creval", data=data, replies=data / "answer_gpt", out=root / "run", draws=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_CACHE", "off")
        write_site([root / "run"], root / "site", data=data, draws=50, url=url)
    return root / "site", score_run(root / "run", draws=50)


def put(root: Path, name: str, data: Any) -> None:
    """A chunk as the writer in Python makes it: JSON in a script, with nothing in it that could end the script."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    path = root / "data" / f"{name}.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'refbench.put("{name}", {text});')


def _site(n_cases: int, n_models: int, boards: Sequence[str]) -> dict[str, Any]:
    measure = {
        "low": 0.0,
        "high": 10.0,
        "better": "higher",
        "digits": 2,
        "factor": 1.0,
        "about": "The mark, <b>0</b> to 10.",
    }
    board = {
        "benchmark": "made",
        "paper": "arXiv 0000.00000",
        "address": "https://arxiv.org/abs/0000.00000",
        "bibtex": "@misc{made0000,\n  title = {Made up}\n}",
        "subset": None,
        "n_cases": n_cases,
        "models": [
            model_head(name, "x", place, _styles(n_models)[name]) for place, name in enumerate(names_of(n_models))
        ],
        "judges": list(JUDGES),
        "judge_titles": list(JUDGES),
        "judge": {"corrected": 0, "paper": 0},
        "wording": "own wording",
        "protocols": ["corrected", "paper"],
        "measures": {p: [{"name": "parts", **measure}, {"name": "total", **measure}] for p in ("corrected", "paper")},
        "summary": {"corrected": "total", "paper": "total"},
        "rows_apart": True,
        "levels": ["overall", "place", "n_refs"],
        "fingerprint": "0123456789abcdef",
        "has_pictures": True,
        "figures": FAMILIES,
        "audit": False,
    }
    heads = [{"id": name, "title": "Made up <u>" if name == "b0" else f"Made up {name}", **board} for name in boards]
    kinds = {"refused": "The judge or the model declined.", "unparsable": "No answer can be read from the reply."}
    return {"version": "0", "live": False, "boards": heads, "failure_kinds": kinds}


def _row(model: int, judge: int, protocol: str, metric: str, where: Mapping[str, str], marks: Any) -> dict[str, Any]:
    there = marks[~np.isnan(marks)]
    mean, n = float(there.mean()) if len(there) else 0.0, len(marks)
    return {
        "model": model,
        "judge": judge,
        "protocol": protocol,
        "metric": metric,
        "slice": dict(where),
        "value": mean if len(there) else None,
        "ci95": [mean - 0.4, mean + 0.4],
        "bounds": [mean - 0.5, mean + 0.6],
        "rank": None,
        "unranked": None,
        "rank95": [1, 2] if where["level"] == "overall" else None,
        "first": 0.625 if where["level"] == "overall" else None,
        "n_cases": n,
        "n_seeds": 1,
        "n_expected": n,
        "n_scored": len(there),
        "n_not_asked": 0,
        "n_not_applicable": 0,
        "n_imputed": 0,
        "failures": {"refused": n - len(there)} if len(there) < n else {},
        "remark": None,
    }


def _board(made: Figures, n_models: int) -> dict[str, Any]:
    slices: list[tuple[dict[str, str], np.ndarray]] = [({"level": "overall"}, np.ones(len(made.ids), bool))]
    slices += [({"level": "place", "place": g}, np.array([x == g for x in made.groups])) for g in GROUPS]
    slices += [({"level": "n_refs", "n_refs": str(n)}, np.array(made.references) == n) for n in (1, 2, 3, 4)]
    rows = [
        _row(model, judge, protocol, metric, where, made.values[judge][model][members] - (metric == "parts"))
        for protocol in ("corrected", "paper")
        for judge in range(len(JUDGES))
        for model in range(n_models)
        for where, members in slices
        for metric in ("parts", "total")
    ]
    overall = [row for row in rows if row["slice"]["level"] == "overall"]
    for row in overall:
        alike = [one for one in overall if all(one[key] == row[key] for key in ("protocol", "judge", "metric"))]
        row["rank"] = 1 + sum(one["value"] > row["value"] for one in alike)
    published = [
        {
            "label": "Printed & <b>bold</b>",
            "model": None,
            "source": 0,
            "metric": "total",
            "slice": {"level": "overall"},
            "value": 5.5,
            "table": "7",
        },
        {
            "label": "Alpha",
            "model": 0,
            "source": 0,
            "metric": "total",
            "slice": {"level": "overall"},
            "value": 4.75,
            "table": "7",
        },
    ]
    return {
        "rows": rows,
        "published": published,
        "sources": [
            {
                "judge": JUDGES[0],
                "differs": {
                    "corrected/0": "protocol paper",
                    "corrected/1": f"judge {JUDGES[0]} and protocol paper",
                    "paper/0": "",
                    "paper/1": f"judge {JUDGES[0]}",
                },
            }
        ],
        "changes": [
            {
                "model": name,
                "judge": JUDGES[0],
                "change": "answers",
                "what": "read",
                "items": 3,
                "delta": {"total": 0.2},
            }
            for name in names_of(n_models)
        ],
        "notes": ["a note with <b>markup</b>"],
        "fingerprint_parts": {
            "data": "abc",
            "judges": list(JUDGES),
            "settings": {"draws": 2000},
            "measured": _measured(),
        },
        "prompts": [{"title": "first judge, verdict", "text": f"Look at it.\n{MARKUP}"}],
        "faults": [{"fault": "zeros for failures", "effect": "a failure", "paper": "0"}],
        "looks": _looks(made, n_models),
        "cards": [{"judge": JUDGES[0], "said": "VQ usable; method <b>not yet</b> validated", "path": "runs/audit"}],
        "painting": [{"model": 0, "n": 60, "seconds": 1.5, "cost_usd": 0.02, "refusals": 1}],
    }


def _looks(made: Figures, n_models: int) -> dict[str, Any]:
    """Three cases to look at first, under each protocol and judge."""
    picture = {"role": "output", "name": "", "thumb": "out.png", "full": "out.png", "width": 32, "height": 24}
    some = min(6, n_models)
    return {
        f"{protocol}/{judge}": [
            {
                "why": why,
                "case": made.ids[i],
                "instruction": instruction(i),
                "given": {**picture, "role": "subject", "thumb": "ref.png"},
                "n_given": made.references[i],
                "models": [
                    {
                        "model": m,
                        "picture": None if m == 2 else picture,
                        "value": None if made.failed[judge][m][i] else float(made.values[judge][m][i]),
                        "failed": made.failed[judge][m][i],
                    }
                    for m in range(some)
                ],
            }
            for i, why in enumerate(("best", "worst", "disputed"))
        ]
        for protocol in ("corrected", "paper")
        for judge in range(len(JUDGES))
    }


def _measured() -> dict[str, Any]:
    """How a measure is taken, as deep and with names as long as runs have them."""
    network = {
        "name": "u2netp",
        "sha256": "8e83ca70e441ab06c318d82300c84806" * 2,
        "settings": {"resize": "320 bilinear"},
    }
    return {
        "second_subject_of_the_foreground": {"metric": "subject_match", "networks": {"foreground_network": network}}
    }


def _styles(n_models: int) -> dict[str, Style]:
    names = names_of(n_models)
    return styles_of(names, names)


def _figures(made: Figures, n_models: int, protocol: str, judge: int) -> dict[str, Any]:
    """The marks by place as the site's own code draws them, and of another figure why there is none."""

    def value(model: int, group: str) -> Value:
        marks = made.values[judge][model][[one == group for one in made.groups]]
        mean = float(np.nanmean(marks))
        return Value(mean, mean - 0.4, mean + 0.4, about=f"{int((~np.isnan(marks)).sum())} scored")

    series = tuple(
        Series(name, _styles(n_models)[name], tuple(value(model, group) for group in GROUPS))
        for model, name in enumerate(names_of(n_models))
    )
    chart = Chart("heatmap", "heatmap", "Total by place", (Panel(Axis("total", digits=2), GROUPS, series),))
    numbers = {name: str(model) for model, name in enumerate(names_of(n_models))}
    drawn = figure_view(chart, "models x places", lambda _, name, group: {"model": numbers[name], "g.place": group})
    return {"protocol": protocol, "judge": judge, "figures": [drawn], "why_not": {"cost": "nothing is known of it"}}


def _compare(n_models: int) -> dict[str, Any]:
    pairs = [
        {
            "first": first,
            "second": second,
            "judge": judge,
            "protocol": protocol,
            "metric": "total",
            "gap": 0.5 * (second - first),
            "ci95": [0.5 * (second - first) - 0.6, 0.5 * (second - first) + 0.6],
            "p": 0.01,
            "p_adjusted": 0.02,  # small for all pairs: whether one is claimed takes its interval, too
            "resolved": second - first > 1,
            "undone": "",
            "effect": 0.3,
            "n": 50,
            "sentence": f"The gap of {names_of(n_models)[first]} and {names_of(n_models)[second]}, in a sentence.",
            "drivers": [{"slice": {"level": "place", "place": GROUPS[2]}, "gap": 1.25, "share": 0.4, "n": 20}],
        }
        for protocol in ("corrected", "paper")
        for judge in range(len(JUDGES))
        for first in range(n_models)
        for second in range(first + 1, n_models)
    ]
    return {"pairs": pairs, "limits": ["Pairs share cases."]}


def _failures(made: Figures, n_models: int) -> dict[str, Any]:
    n = len(made.ids)
    places = [(m, i) for m in range(n_models) for i in range(n) if made.failed[0][m][i]][:200]
    return {
        "by_kind": [
            {
                "model": m,
                "judge": 0,
                "protocol": "corrected",
                "metric": "total",
                "kind": kind,
                "n": made.failed[0][m].count(kind),
                "n_expected": n,
            }
            for m in range(n_models)
            for kind in KINDS
        ],
        "by_slice": [
            {
                "model": m,
                "judge": 0,
                "protocol": "corrected",
                "level": "place",
                "name": g,
                "n_expected": 20,
                "n_scored": 18,
                "n_not_asked": 0,
                "failures": {"refused": 2},
            }
            for m in range(n_models)
            for g in GROUPS
        ],
        "test": [{"protocol": "corrected", "judge": 0, "statement": "Failures do not depend on it.", "p": 0.4}],
        "flags": [{"model": 1, "flag": "near_source", "n": 1, "of": n, "cases": [made.ids[0]]}],
        "unchecked": "",
        "causes": [
            {
                "case": made.ids[i],
                "model": m,
                "judge": 0,
                "protocol": "corrected",
                "metrics": ["total"],
                "seed": 0,
                "kind": made.failed[0][m][i],
                "cause": MARKUP,
                "detail": f"Traceback (most recent call last):\n{MARKUP}",
                "n": len(places) - n,
                "models": [[m, len(places) - n]],
            }
            for n, (m, i) in enumerate(places)
        ],
        "n_causes": len(places),
    }


def _agreement() -> dict[str, Any]:
    figure = {"value": 0.61, "ci95": [0.5, 0.7]}
    names = ("pearson", "spearman", "kendall", "mse", "mae", "kappa", "qwk", "alpha", "icc")
    about = {"first": JUDGES[0], "second": JUDGES[1], "metric": "total", "group": "", "n": 50}
    pairs = [{**about, "level": level, **dict.fromkeys(names, figure)} for level in ("item", "system")]
    part = {"model": 0, "judge": None, "metric": "total", "source": "case", "share": 0.8, "variance": 2.5, "buys": None}
    return {"pairs": pairs, "components": [part], "notes": ["two judges only"]}
