"""Statistics on plain arrays: resampling, intervals, weighted means. No nouns, no files."""

from refbench.stats.bootstrap import Array, Design, leave_one_out, resample
from refbench.stats.interval import bca_interval
from refbench.stats.means import WeightedMeans

__all__ = ["Array", "Design", "WeightedMeans", "bca_interval", "leave_one_out", "resample"]
