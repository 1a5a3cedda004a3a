"""Statistics on plain arrays: resampling, intervals, weighted means. No nouns, no files."""

from refbench.stats.agreement import Bins
from refbench.stats.correlation import kendall, pearson, spearman
from refbench.stats.effect import clusters_needed, detectable, smallest_p
from refbench.stats.interval import (
    Array,
    Contrast,
    Design,
    OneSwapMeans,
    SingleMeans,
    WeightedMeans,
    bca_interval,
    bounded_interval,
    bounds_interval,
    draws_of,
    effective_n,
    error_and_skew,
    interval_for,
    leave_one_out,
    mean_of_those_there,
    resample,
)
from refbench.stats.permutation import FlipP, flip_p, flips, holm, is_exhaustive, sum_flip_p

__all__ = [
    "Array",
    "Bins",
    "Contrast",
    "Design",
    "FlipP",
    "OneSwapMeans",
    "SingleMeans",
    "WeightedMeans",
    "bca_interval",
    "bounded_interval",
    "bounds_interval",
    "clusters_needed",
    "detectable",
    "draws_of",
    "effective_n",
    "error_and_skew",
    "flip_p",
    "flips",
    "holm",
    "interval_for",
    "is_exhaustive",
    "kendall",
    "leave_one_out",
    "mean_of_those_there",
    "pearson",
    "resample",
    "smallest_p",
    "spearman",
    "sum_flip_p",
]
