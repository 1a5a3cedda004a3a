"""What README.md and the pages of docs/ tell readers to type: their blocks of shell and Python, command by command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_SHELL = re.compile(r"(\$ )?([A-Z_]+=\S* )*(refbench|pip|export|make|python3?|bash|sbatch|hf|git|cat|ls|curl)( |$)")
_MARK = re.compile(r"<!-- not run: (.+?) -->")
_INLINE = re.compile(r"`(refbench [^`\n]+)`")
_BETWEEN = {"&&", "||", ";", "|", "|&"}


@dataclass(frozen=True)
class Block:
    """A block of a page; `why_not` says why no test runs it, as the page's source does just before it."""

    page: str
    line: int
    language: str
    text: str
    why_not: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> list[list[str]]:
        """The words of each `refbench` command, without redirections and what is between commands."""
        return [words for line in self.lines() for words in _commands(line)]

    def lines(self) -> list[str]:
        """The lines as a shell has them: continued ones in one."""
        whole = re.sub(r"\\\n\s*", " ", self.text)
        return [line for line in whole.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def blocks(page: Path) -> list[Block]:
    """The shell and Python blocks of a page: fenced ones by their language, indented ones that begin as commands do."""
    return [block for block in _blocks(page) if block.language]


def inline(page: Path) -> list[list[str]]:
    """Commands within sentences, which may lack arguments: `[--a X | --b Y]` names options as `--a X --b Y` does."""
    commands = _INLINE.findall(page.read_text("utf-8"))
    split = [shlex.split(re.sub(r"\[|\]| \||(?<=\w)\|(?=-)", " ", command)) for command in commands]
    return [[word for word in words[1:] if word != "..."] for words in split]


def _blocks(page: Path) -> Iterator[Block]:
    name = str(page.relative_to(ROOT))
    lines = page.read_text("utf-8").splitlines()
    at, why_not = 0, None
    while at < len(lines):
        line, begin = lines[at], at
        if marked := _MARK.fullmatch(line.strip()):
            why_not = marked[1]
        elif line.startswith("```"):
            at += 1
            while not lines[at].startswith("```"):
                at += 1
            language = {"sh": "shell", "bash": "shell", "python": "python"}.get(line.strip("`").strip(), "")
            yield Block(name, begin + 2, language, "\n".join(lines[begin + 1 : at]), why_not)
            why_not = None
        elif line.startswith("    ") and not (at and lines[at - 1].strip()):
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            text = re.sub(r"^    ", "", "\n".join(lines[begin : at + 1]), flags=re.MULTILINE).rstrip()
            yield Block(name, begin + 1, "shell" if _SHELL.match(text) else "", text, why_not)
            why_not = None
        elif line.strip():
            why_not = None
        at += 1


def _commands(line: str) -> list[list[str]]:
    words = shlex.shlex(re.sub(r"\$\(.*?\)", "SUBSTITUTED", line), posix=True, punctuation_chars="|&;<>")
    words.whitespace_split, words.commenters = True, "#"
    found: list[list[str]] = [[]]
    for word in words:
        if word in _BETWEEN:
            found.append([])
        else:
            found[-1].append(word)
    return [command for some in found if (command := _refbench(some)) is not None]


def _refbench(words: list[str]) -> list[str] | None:
    """What follows `refbench`, also where another script is given the command to run."""
    if "refbench" not in words:
        return None
    words = words[words.index("refbench") + 1 :]
    redirected = next((n for n, word in enumerate(words) if set(word) & set("<>") and len(word) <= 2), len(words))
    return words[:redirected]
