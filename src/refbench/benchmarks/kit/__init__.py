"""What all benchmarks share, and all that a benchmark in one file is written with.

`benchmark` is the one constructor; `asks` declares what a judge is asked and how its reply is read (`last_mark`,
`score_object`, `mark_lines`, `number_pair`, `yes_or_no`), `rows`, `hub_rows` and `case` turn files into cases, and
`Release` is what is known of published files, prompts and numbers.
"""

from refbench.benchmarks.kit.aggregate import TableRules, Total, split_slices
from refbench.benchmarks.kit.asks import Call, Parts, Said, Sent, asks, last_mark, request_of
from refbench.benchmarks.kit.constructor import Derive, Variant, benchmark
from refbench.benchmarks.kit.definition import Benchmark, Dataset, Material, Measured, Setting, Source
from refbench.benchmarks.kit.formulas import all_full, gated, geometric_mean, least, mean_capped, root_of_least
from refbench.benchmarks.kit.looks import Look
from refbench.benchmarks.kit.release import Given, Release
from refbench.benchmarks.kit.replies import mark_lines, number_pair, score_object, yes_or_no
from refbench.benchmarks.kit.rows import case, hub_rows, rows
from refbench.benchmarks.kit.wording import Prompts

__all__ = [
    "Benchmark",
    "Call",
    "Dataset",
    "Derive",
    "Given",
    "Look",
    "Material",
    "Measured",
    "Parts",
    "Prompts",
    "Release",
    "Said",
    "Sent",
    "Setting",
    "Source",
    "TableRules",
    "Total",
    "Variant",
    "all_full",
    "asks",
    "benchmark",
    "case",
    "gated",
    "geometric_mean",
    "hub_rows",
    "last_mark",
    "least",
    "mark_lines",
    "mean_capped",
    "number_pair",
    "request_of",
    "root_of_least",
    "rows",
    "score_object",
    "split_slices",
    "yes_or_no",
]
