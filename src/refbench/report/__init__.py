"""Report: tables as people and programs read them."""

from refbench.report.formats import to_csv, to_json, to_markdown
from refbench.report.terminal import print_result

__all__ = ["print_result", "to_csv", "to_json", "to_markdown"]
