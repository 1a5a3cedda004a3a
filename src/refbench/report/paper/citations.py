"""How a paper cites the benchmarks of its runs: the entries that are shipped, what is known of others, and RefBench."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refbench import __version__
from refbench.benchmarks import Benchmark
from refbench.benchmarks.kit.bibliography import arxiv_address, bibtex_of
from refbench.report.latex.escape import tex

OURS = "refbench"


def citation(bench: Benchmark) -> str:
    """The BibTeX entry of a benchmark's paper, with its number where every style prints it; "" where no paper is known
    of it."""
    address = arxiv_address(bench.paper)
    if not address:
        return ""
    number = address.rpartition("/")[2]
    entry = bibtex_of(bench.paper) or _sketched(bench, number)
    return f"{entry.removesuffix('}').rstrip()},\n  howpublished = {{arXiv:{number}}}\n}}\n"


def _sketched(bench: Benchmark, number: str) -> str:
    """What is known of a paper whose entry is not shipped."""
    name = "".join(sign for sign in bench.name if sign.isalnum() and sign.isascii()) or "benchmark"
    note = "title and authors to be completed"
    return f"@misc{{{name},\n  title = {{{tex(bench.title)}}},\n  eprint = {{{number}}},\n  note = {{{note}}}\n}}"


def key(bench: Benchmark) -> str:
    """What a paper cites a benchmark by."""
    found = re.match(r"@\w+\{([^,]+),", citation(bench))
    return found[1] if found else ""


def bibliography(benches: Sequence[Benchmark]) -> str:
    """The entries of all benchmarks that have one, each once, and that of RefBench."""
    ours = [
        f"@misc{{{OURS},",
        "  title = {{RefBench}: trustworthy evaluation of image generation and editing models},",
        "  author = {{The RefBench authors}},",
        f"  note = {{Version {__version__}, Apache-2.0}}",
        "}\n",
    ]
    entries = {bench.name: citation(bench) for bench in benches}
    return "\n".join([*filter(None, entries.values()), *ours])
