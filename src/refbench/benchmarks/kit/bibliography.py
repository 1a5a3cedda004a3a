"""The benchmarks' papers as one cites them: address on arXiv, and BibTeX (papers.bib beside the benchmarks)."""

from __future__ import annotations

from importlib import resources


def arxiv_address(paper: str) -> str:
    """Where the paper is, if a benchmark says that it is on arXiv ("arXiv 2603.26174"); else empty."""
    place, _, number = paper.partition(" ")
    year, _, rest = number.partition(".")
    if place != "arXiv" or not (number.isascii() and year.isdigit() and rest.isdigit() and len(year) == 4):
        return ""
    return f"https://arxiv.org/abs/{number}"


def bibtex_of(paper: str) -> str:
    """The entry of a paper that a shipped benchmark names; empty for others."""
    address = arxiv_address(paper)
    entries = (resources.files("refbench.benchmarks") / "papers.bib").read_text("utf-8").split("\n\n")
    return next((entry.strip() for entry in entries if address and f"{{{address}}}" in entry), "")
