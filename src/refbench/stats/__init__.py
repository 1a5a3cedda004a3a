"""Statistics on plain arrays: resampling, intervals, weighted means. No nouns, no files."""

from refbench.stats.agreement import mean_absolute_error, mean_squared_error
from refbench.stats.alpha import krippendorff_alpha
from refbench.stats.bootstrap import Array, Design, draws_of, leave_one_out, resample
from refbench.stats.correlation import kendall, pearson, spearman
from refbench.stats.effect import detectable, paired_effect
from refbench.stats.holm import holm
from refbench.stats.icc import icc
from refbench.stats.interval import bca_interval
from refbench.stats.kappa import Bins, cohen_kappa, quadratic_kappa
from refbench.stats.means import WeightedMeans
from refbench.stats.permutation import flip_p, flips, is_exhaustive

__all__ = [
    "Array",
    "Bins",
    "Design",
    "WeightedMeans",
    "bca_interval",
    "cohen_kappa",
    "detectable",
    "draws_of",
    "flip_p",
    "flips",
    "holm",
    "icc",
    "is_exhaustive",
    "kendall",
    "krippendorff_alpha",
    "leave_one_out",
    "mean_absolute_error",
    "mean_squared_error",
    "paired_effect",
    "pearson",
    "quadratic_kappa",
    "resample",
    "spearman",
]
