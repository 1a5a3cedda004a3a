"""What the pages of docs/ link to outside of it is part of the site: pages of the root, and code as files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"CHANGELOG.md": "project/CHANGELOG.md", "CONTRIBUTING.md": "project/CONTRIBUTING.md",
         "SECURITY.md": "project/SECURITY.md", "recipes/README.md": "project/recipes.md"}  # fmt: skip
CODE = (
    "examples/edits.py",
    "src/refbench/benchmarks/omnicontext/benchmark.py",
    "src/refbench/stats/sample.py",
)
_OUTSIDE = re.compile(r"\]\(\.\./(?!\.\.)([^)#]+)")


def on_files(files: Files, *, config: Any) -> Files:
    for source, place in PAGES.items():
        text = (ROOT / source).read_text("utf-8")
        up = "../" if "/" in place else ""
        # From the root of the repository: docs/x.md is a page of the site, the rest lies beside it or is only named.
        text = re.sub(r"\]\(docs/decisions/\)", f"]({up}decisions/0001-dependencies.md)", text)
        text = re.sub(r"\]\(docs/([^)]+)\)", rf"]({up}\1)", text)
        text = re.sub(r"\]\(\.\./docs/([^)]+)\)", rf"]({up}\1)", text)
        files.append(File.generated(config, place, content=text))
    for source in CODE:
        files.append(File.generated(config, f"project/{source}.txt", content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    def inside(link: re.Match[str]) -> str:
        target = link[1]
        if page.file.src_uri.count("/"):  # of a folder in docs/, where ../ is docs/ itself
            return link[0]
        return f"]({PAGES.get(target) or f'project/{target}.txt'}"

    return _OUTSIDE.sub(inside, markdown)
