"""How well a total goes with what people said of the same models and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refbench.analysis.human_scores import ONLY_METRIC
from refbench.analysis.ratings import Ratings
from refbench.record import Record, RefBenchError
from refbench.stats import Array
from refbench.stats.correlation import kendall, pearson, pearson_draws, spearman


class HumanFit(Record):
    """Correlation with human scores, over models (their means) and over single outputs; None where undefined."""

    n_models: int
    pearson: float | None
    spearman: float | None
    kendall: float | None
    n_items: int
    item_pearson: float | None
    item_spearman: float | None


class HumanScores:
    """What people gave to each model and to each output, on average; criteria of their own are averaged plainly."""

    def __init__(self, ratings: Ratings, measure: str) -> None:
        marks = [mark for mark in ratings.marks if mark.rater in ratings.humans and mark.value is not None]
        if not marks:
            raise RefBenchError("--humans: the file has no scores of people")
        names = {mark.item.metric for mark in marks}
        wanted = next(({name} for name in (measure, ONLY_METRIC) if name in names), names)
        self.remark = f"human scores are the mean over {', '.join(sorted(wanted))}" if len(wanted) > 1 else None
        by_model: dict[str, list[float]] = {}
        by_item: dict[tuple[str, str], list[float]] = {}
        for mark in marks:
            if mark.item.metric in wanted and mark.value is not None:
                by_model.setdefault(mark.item.model, []).append(mark.value)
                by_item.setdefault((mark.item.case, mark.item.model), []).append(mark.value)
        self.models = {model: float(np.mean(values)) for model, values in by_model.items()}
        self.items = {item: float(np.mean(values)) for item, values in by_item.items()}

    def fit(self, totals: Mapping[str, float], items: Mapping[tuple[str, str], float]) -> HumanFit:
        """Totals by model, and by (case, model)."""
        models = [model for model in totals if model in self.models]
        shared = [item for item in items if item in self.items]
        mine, theirs = [totals[m] for m in models], [self.models[m] for m in models]
        of_items, said = [items[i] for i in shared], [self.items[i] for i in shared]
        return HumanFit(
            n_models=len(models),
            pearson=pearson(mine, theirs),
            spearman=spearman(mine, theirs),
            kendall=kendall(mine, theirs),
            n_items=len(shared),
            item_pearson=pearson(of_items, said),
            item_spearman=spearman(of_items, said),
        )

    def best(self, models: Sequence[str], totals: Array) -> int | None:
        """Which row of totals (rows x models) goes best with the models' means, by Pearson; None where none can."""
        chosen = [i for i, model in enumerate(models) if model in self.models]
        theirs = np.array([self.models[models[i]] for i in chosen])
        found = pearson_draws(totals[:, chosen], theirs, np.ones((len(totals), len(chosen)))) if chosen else totals[:0]
        return int(np.nanargmax(found)) if np.isfinite(found).any() else None
