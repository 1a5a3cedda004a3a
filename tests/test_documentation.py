"""What the pages tell readers to type: every option is one that the command has, and blocks run as they stand."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError, MissingArgumentError

from refbench.cli import plan, run
from refbench.cli.app import COMMANDS, app
from support.commands import called
from support.pages import PAGES, ROOT, Block, blocks, inline
from support.workplace import NOT_HERE, Workplace, providers, write_workplace

SPLIT = {"run": ((), run._command), "plan": (plan._OPTIONS, plan._command)}
"""Commands whose options depend on the benchmark that their words name."""


def parsed(words: list[str]) -> Any:
    """What the real parser makes of a command's words, without running it."""
    if words and words[0] in SPLIT:
        options, command = SPLIT[words[0]]
        whole = run.with_settings(words[0], words[1:], command, *options)
        return whole.parse_args(words[1:], exit_on_error=False, print_error=False)
    return app.parse_args(words, exit_on_error=False, print_error=False)


def wrong(words: list[str], *, whole: bool) -> str | None:
    """Why these words cannot be typed so; options that are of every command are read before the others."""
    words = [word for word in words if word not in ("--debug", "--quiet", "--no-color", "--trust-run")]
    if words and words[0] not in COMMANDS and not words[0].startswith("-"):
        return f"no command is called {words[0]}"
    try:
        parsed(words)
    except MissingArgumentError as error:
        return str(error) if whole else None
    except CycloptsError as error:
        return str(error)
    return None


def name(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_of_a_page_is_one_that_can_be_typed(page: Path) -> None:
    said = [(str(block), words) for block in blocks(page) if block.language == "shell" for words in block.commands()]
    found = [(where, words, why) for where, words in said if (why := wrong(words, whole=True))]
    found += [(page.name, words, why) for words in inline(page) if (why := wrong(words, whole=False))]
    assert found == []


def test_a_wrong_option_in_a_page_is_found(tmp_path: Path) -> None:
    block = Block("page", 1, "shell", "refbench run creval --no-such x \\\n  --out a && refbench tabel runs/x | head")
    first, second = block.commands()
    assert first == ["run", "creval", "--no-such", "x", "--out", "a"]
    assert "--no-such" in str(wrong(first, whole=True))
    assert wrong(second, whole=True) == "no command is called tabel"
    assert wrong(["table"], whole=True)
    assert wrong(["table"], whole=False) is None


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with providers() as url:
        yield url


@pytest.fixture(scope="module")
def furnished(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every page begins with, made once."""
    root = tmp_path_factory.mktemp("documentation")
    with pytest.MonkeyPatch.context() as patch:
        at_work(patch, root, address)
        return write_workplace(root, called)


def at_work(patch: pytest.MonkeyPatch, root: Path, address: str) -> None:
    patch.chdir(root)
    patch.setenv("REFBENCH_DATA", str(root / "official"))
    for provider in ("OPENAI", "GEMINI", "ANTHROPIC", "BFL"):
        patch.setenv(f"{provider}_BASE_URL", f"{address}/v1" if provider == "OPENAI" else address)
        patch.setenv(f"{provider}_API_KEY", "no-key")


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name)
def test_the_blocks_of_a_page_run(
    page: Path, furnished: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another in a folder of their own, as a reader types them."""
    root = tmp_path / "here"
    shutil.copytree(furnished, root, symlinks=True)
    at_work(monkeypatch, root, address)
    place = Workplace(root, address, called)
    wrong = [said for block in blocks(page) if block.why_not is None for said in place.execute(block)]
    assert not wrong, "\n".join(wrong)


def test_what_no_test_runs_says_why_and_the_tests_it_names_are_there() -> None:
    """A comment just before the block, in the page's source; one that stands before nothing excuses nothing."""
    excused = [block for page in PAGES for block in blocks(page) if block.why_not]
    comments = sum(page.read_text("utf-8").count("<!-- not run: ") for page in PAGES) - 1  # CONTRIBUTING explains it
    assert len(excused) == comments <= 20
    named = {path for block in excused for path in re.findall(r"tests/[\w/.]+", str(block.why_not))}
    named |= {path for why in NOT_HERE.values() for path in re.findall(r"tests/[\w/.]+", why)}
    assert [path for path in named if not (ROOT / path).exists()] == []
