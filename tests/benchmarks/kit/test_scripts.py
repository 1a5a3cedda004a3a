"""Reading a released script: whatever way a text is written, it is what Python would make of it; never by running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from refbench import RefBenchError
from refbench.benchmarks.kit.scripts import Script
from refbench.benchmarks.kit.wording import commit_of
from support.releases import COMMIT, committed

WAYS = {
    "an f-string": 'return f"""\n  one {{x}} {said}\n"""',
    "side by side": 'return ("\\n" "  one {x} " f"{said}" "\\n")',
    "plus": 'return "\\n  one {x} " + said + "\\n"',
    "format by name": 'return "\\n  one {{x}} {it}\\n".format(it=said)',
    "format by place": 'return "\\n  one {{x}} {}\\n".format(said)',
    "replace": 'return "\\n  one {x} HERE\\n".replace("HERE", said)',
    "a variable": 'text = f"\\n  one {{x}} {said}\\n"\n    return text',
    "variables in variables": 'head = "\\n  one"\n    text = head + " {x} "\n    return f"{text}{said}" + "\\n"',
    "of the file": 'return HEAD + f"{said}\\n"',
    "stripped": 'return ("\\n  one {x} " + said + "\\nEN" "D  ").rstrip().replace("END", "")',
}


@pytest.mark.parametrize("way", WAYS)
def test_a_text_is_what_python_would_make_of_it(tmp_path: Path, way: str) -> None:
    source = f'HEAD = "\\n  one {{x}} "\n\n\ndef outer():\n  def words(said):\n    {WAYS[way]}\n  return words\n'
    (tmp_path / "a.py").write_text(source)
    made: dict[str, object] = {}
    exec(source, made)  # the oracle: our own lines, run by Python itself
    expected = made["outer"]()("{said}")  # type: ignore[operator]
    read = Script(tmp_path, "a.py").returned("words", {"said": "{said}"})
    assert read == [expected] == ["\n  one {x} {said}\n"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('return f"{said!r} x"', "said!r"),
        ('return f"{said:>9} x"', "said:>9"),
        ("return open('words.txt').read()", r"open\('words.txt'\).read\(\)"),
        ('text = "a"\n  text = "b"\n  return text', "found text;"),
        ('text = "a"\n  text += said\n  return text', "found text;"),
        ('return f"{other} x"', "found other;"),
        ('return f"{{said}} {said}"', r"found \{said\} in the text itself"),
        ('if said:\n    return "a"\n  return "b"', "2 of them"),
    ],
)
def test_what_only_running_it_could_tell_is_refused_and_named(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "a.py").write_text(f"def words(said):\n  {body}\n")
    with pytest.raises(RefBenchError, match=said) as error:
        Script(tmp_path, "a.py").returned("words", {"said": "{said}"})
    assert str(tmp_path / "a.py") in str(error.value)


def test_a_script_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f'open({str(tmp_path / "ran")!r}, "w")\ndef words():\n  return "a"\n')
    assert Script(tmp_path, "a.py").returned("words", {}) == ["a"]
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_absent_or_no_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"judge\.py is not there, .*the authors' code"):
        Script(tmp_path, "judge.py")
    (tmp_path / "judge.py").write_text("def (:")
    with pytest.raises(RefBenchError, match=r"judge\.py is not Python"):
        Script(tmp_path, "judge.py")
    (tmp_path / "judge.py").write_text("def words(): return " + "+".join(["'a'"] * 400))
    with pytest.raises(RefBenchError, match=r"judge\.py .*nested too deep"):
        Script(tmp_path, "judge.py").returned("words", {})
    (tmp_path / "judge.py").write_text("def other(): pass")
    with pytest.raises(RefBenchError, match=r"looked for one function words\(\), found other\(\)"):
        Script(tmp_path, "judge.py").returned("words", {})


def test_the_commit_is_read_from_what_git_keeps(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "unknown"
    assert commit_of(committed(tmp_path / "branch")) == COMMIT
    packed = committed(tmp_path / "packed")
    (packed / ".git/refs/heads/main").unlink()
    (packed / ".git/packed-refs").write_text(f"# pack-refs\n{'f' * 40} refs/heads/other\n{COMMIT} refs/heads/main\n")
    assert commit_of(packed) == COMMIT
    alone = committed(tmp_path / "detached")
    (alone / ".git/HEAD").write_text(f"{COMMIT}\n")
    assert commit_of(alone) == COMMIT
    tree = tmp_path / "worktree"
    (packed / ".git/worktrees/w").mkdir(parents=True)
    (packed / ".git/worktrees/w/HEAD").write_text("ref: refs/heads/main\n")
    (packed / ".git/worktrees/w/commondir").write_text("../..\n")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {packed / '.git/worktrees/w'}\n")
    assert commit_of(tree) == COMMIT
    (tree / ".git").write_text("gitdir: /nowhere\n")
    assert commit_of(tree) == "unknown"
