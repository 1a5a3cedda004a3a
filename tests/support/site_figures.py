"""Made-up marks of models and judges, and the cases they belong to, with texts that would break a careless page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MODELS = ("alpha", "beta<b>", "gamma", "delta", "epsilon")


def names_of(n_models: int) -> list[str]:
    """Names of so many models: short ones, then one written from the right, then checkpoints with a common beginning."""
    steps = (
        f"checkpoints/flux-kontext-multiref-lora/run_2026-11/step-{n:06d}.safetensors" for n in range(500, 99_999, 500)
    )
    return [*MODELS, "نموذج الصور", *(next(steps) for _ in range(n_models))][:n_models]


JUDGES = ("first judge", "second judge")
KINDS = ("refused", "unparsable")
GROUPS = ("indoors", "outdoors", "it's <i>odd</i> & so on")
MARKUP = "<img src=x onerror=\"document.title='broken'\"></script><script>document.title='broken'</script>\u2028end"
"""A judge's reply that must stay text."""


@dataclass(frozen=True)
class Figures:
    """What the site was made from, to check pages against: values and failures by judge, models x cases."""

    ids: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    failed: tuple[list[list[str | None]], ...]
    flags: np.ndarray
    groups: tuple[str, ...]
    references: tuple[int, ...]


def figures(n_cases: int, n_models: int, *, seed: int = 7) -> Figures:
    """Marks from 0 to 10 with one digit; NaN where a case failed."""
    rng = np.random.default_rng(seed)
    ids = tuple(f"case {i:05d}" if i % 10 else f"odd/{i:05d} <&?#%>" for i in range(n_cases))
    values, failed = [], []
    for _ in JUDGES:
        marks = np.round(rng.uniform(0, 10, (n_models, n_cases)), 1)
        lost = rng.random((n_models, n_cases)) < 0.15
        marks[lost] = np.nan
        kinds = rng.integers(0, len(KINDS), (n_models, n_cases))
        values.append(marks)
        failed.append([[KINDS[kinds[m, i]] if lost[m, i] else None for i in range(n_cases)] for m in range(n_models)])
    flags = (rng.random((n_models, n_cases)) < 0.05).astype(int)
    groups = tuple(GROUPS[i % len(GROUPS)] for i in range(n_cases))
    return Figures(ids, tuple(values), tuple(failed), flags, groups, tuple(1 + i % 4 for i in range(n_cases)))


def index_chunk(made: Figures, start: int, end: int) -> dict[str, Any]:
    names = sorted(set(made.groups[start:end]))
    some = range(start, end)
    keys = [(f"{protocol}/{judge}", judge) for protocol in ("corrected", "paper") for judge in range(len(JUDGES))]
    return {
        "start": start,
        "ids": made.ids[start:end],
        "instructions": [instruction(i)[:160] for i in some],
        "groups": {"place": {"names": names, "of": [names.index(made.groups[i]) for i in some]}},
        "n_references": made.references[start:end],
        "values": {key: [_nullable(row[start:end]) for row in made.values[judge]] for key, judge in keys},
        "failed": {key: [row[start:end] for row in made.failed[judge]] for key, judge in keys},
        "waiting": {},
        "flags": made.flags[:, start:end].tolist(),
        "words": [f"{instruction(i)} {made.groups[i]} {made.ids[i]}".lower()[:600] for i in some],
    }


def instruction(i: int) -> str:
    return f"Put the cat of image {i} on a mat" if i % 7 == 0 else f"Paint number {i} <script>alert(1)</script>"


def _nullable(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _picture(role: str, name: str, file: str) -> dict[str, Any]:
    return {"role": role, "name": name, "thumb": f"{file}.png", "full": f"{file}.png", "width": 32, "height": 24}


def case_view(made: Figures, i: int, n_models: int) -> dict[str, Any]:
    return {
        "id": made.ids[i],
        "instruction": instruction(i),
        "references": [_picture("subject", f"r{n}.png", "ref") for n in range(made.references[i])],
        "targets": [],
        "groups": {"place": made.groups[i]},
        "tags": ["hard"],
        "questions": [
            {"metric": "parts", "text": "Is the cat there?", "expected": "Yes", "weight": 2, "gate": None},
            {
                "metric": "parts",
                "text": "Is it <b>clean</b>?",
                "expected": "No",
                "weight": 1,
                "gate": "the cat is there",
            },
        ],
        "outputs": [_output(i, model, seed, step) for model in range(n_models) for seed, step in _steps(model)],
        "scores": [
            score for model in range(n_models) for judge in range(2) for score in _scores(made, i, model, judge)
        ],
        "replies": [_reply(made, i, model, judge) for model in range(n_models) for judge in range(2)],
    }


def _steps(model: int) -> Sequence[tuple[int, int | None]]:
    return [(0, 0), (0, 1), (0, None), (1, None)] if model == 1 else [(0, None)]


def _output(i: int, model: int, seed: int, step: int | None) -> dict[str, Any]:
    refused = model == 0 and i % 9 == 4
    return {
        "model": model,
        "seed": seed,
        "step": step,
        "pictures": [] if refused else [_picture("output", "", "out" if model else "other")],
        "failure": {"kind": "refused", "detail": MARKUP} if refused else None,
        "seconds": 1.5,
        "cost_usd": None,
        "provenance": {"prompt": "as <i>given</i>"},
    }


def _scores(made: Figures, i: int, model: int, judge: int) -> list[dict[str, Any]]:
    kind = made.failed[judge][model][i]
    failure = {"kind": kind, "detail": MARKUP} if kind else None
    value = None if kind else float(made.values[judge][model][i])
    about = {
        "model": model,
        "judge": judge,
        "protocol": "corrected",
        "seed": 0,
        "not_applicable": None,
        "not_asked": False,
        "failure": failure,
    }
    return [
        {**about, "metric": "parts", "value": value, "answers": [] if kind else ["Yes", "Yes"]},
        {**about, "metric": "total", "value": value, "answers": []},
    ]


def _reply(made: Figures, i: int, model: int, judge: int) -> dict[str, Any]:
    about = {"model": model, "judge": judge, "part": "verdict", "protocol": "corrected", "seed": 0, "repeat": 0}
    return {**about, "reply": f"{MARKUP} about {made.ids[i]}", "failure": None}
