"""What all benchmarks share, and all that a benchmark in one file is written with.

`benchmark` is the one constructor; `asks` and `last_mark` declare what a judge is asked and how its reply is read,
`rows` and `case` turn files into cases.
"""

from refbench.benchmarks.kit.aggregate import TableRules, Total
from refbench.benchmarks.kit.asks import Call, Parts, asks, last_mark, request_of
from refbench.benchmarks.kit.constructor import Derive, Variant, benchmark
from refbench.benchmarks.kit.definition import Benchmark, Dataset, Material, Measured, Setting
from refbench.benchmarks.kit.rows import case, rows

__all__ = [
    "Benchmark",
    "Call",
    "Dataset",
    "Derive",
    "Material",
    "Measured",
    "Parts",
    "Setting",
    "TableRules",
    "Total",
    "Variant",
    "asks",
    "benchmark",
    "case",
    "last_mark",
    "request_of",
    "rows",
]
