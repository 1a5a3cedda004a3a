"""The best one-to-one matching of two lists, by the Hungarian method; small enough not to need SciPy for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best_pairs(gain: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs (row, column) that maximise the total gain; as many as the shorter side has, in the order of the rows."""
    if gain.shape[0] > gain.shape[1]:
        return sorted((row, column) for column, row in best_pairs(gain.T))
    rows, columns = gain.shape
    # Shortest augmenting paths with potentials: row by row, each step finds the cheapest path to a free column.
    cost = np.zeros((rows + 1, columns + 1))
    cost[1:, 1:] = -gain
    row_potential, column_potential = np.zeros(rows + 1), np.zeros(columns + 1)
    taken_by = np.zeros(columns + 1, dtype=int)
    for row in range(1, rows + 1):
        taken_by[0] = row
        reached = np.zeros(columns + 1, dtype=bool)
        cheapest = np.full(columns + 1, np.inf)
        came_from = np.zeros(columns + 1, dtype=int)
        column = 0
        while taken_by[column]:
            reached[column] = True
            at = taken_by[column]
            reduced = cost[at] - row_potential[at] - column_potential
            better = ~reached & (reduced < cheapest)
            cheapest[better], came_from[better] = reduced[better], column
            following = int(np.argmin(np.where(reached, np.inf, cheapest)))
            step = cheapest[following]
            row_potential[taken_by[reached]] += step
            column_potential[reached] -= step
            cheapest[~reached] -= step
            column = following
        while column:
            previous = int(came_from[column])
            taken_by[column] = taken_by[previous]
            column = previous
    return sorted((int(taken_by[c]) - 1, c - 1) for c in range(1, columns + 1) if taken_by[c])
