"""`refbench blend combos` and `refbench blend explain`: what they print, and one sentence for wrong usage."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.rules import allowed_sets
from refbench.cli.app import COMMANDS, app, main

Blend = Callable[..., tuple[int, str, str]]

if "blend" not in COMMANDS:
    app.command("refbench.cli.blend:blend_command", name="blend")


@pytest.fixture
def blend(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Blend:
    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["refbench", "blend", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@pytest.mark.parametrize(
    "preset, sizes, count", [("table7", "2,3,4", 32), ("matrix", "2,3", 43), ("paper-rules", "2, 3", 50)]
)
def test_combos_prints_a_json_list_of_sorted_lists_and_nothing_else(
    blend: Blend, preset: str, sizes: str, count: int
) -> None:
    code, out, err = blend("combos", "--preset", preset, "--sizes", sizes, "--json")
    found = json.loads(out)
    assert (code, err, len(found)) == (0, "", count)
    assert all(one == sorted(set(one)) for one in found)
    chosen = load_rules(preset).restricted(sizes=[int(size) for size in sizes.split(",")])
    assert [tuple(one) for one in found] == list(allowed_sets(chosen))


def test_combos_tables_counts_by_size(blend: Blend) -> None:
    code, out, _ = blend("combos")
    assert code == 0 and "caption+mask+subject" in out and "8,808" in out
    assert "32 sets: 19 of 2 types, 13 of 3 types, 0 of 4 types" in out


def test_rules_of_ones_own_are_listed(blend: Blend, tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text('extends = "matrix"\nuse = ["canny", "caption"]\n[sources]\n"[red]shop" = ["canny", "caption"]\n')
    code, out, _ = blend("combos", "--rules", rules)
    assert code == 0 and "1 sets: 1 of 2 types" in out and "[red]shop" in out


def test_explain_says_why_and_exits_with_0(blend: Blend) -> None:
    code, out, err = blend("explain", "Canny+sketch")
    assert (code, err) == (0, "")
    assert out.startswith("canny+sketch is forbidden by table7") and "exclude each other" in out
    code, out, _ = blend("explain", "semantic map+caption", "--preset", "matrix", "--json")
    said = json.loads(out)
    assert code == 0 and said["allowed"] is True and said["set"] == ["caption", "semantic_map"] and said["reasons"]


@pytest.mark.parametrize(
    "words, told",
    [
        (("combos", "--preset", "tabel7"), "--preset tabel7: presets are"),
        (("combos", "--rules", "nowhere.toml"), "--rules nowhere.toml is not there"),
        (("combos", "--rules", "nowhere.toml", "--preset", "matrix"), "exclude each other"),
        (("combos", "--sizes", "2;3"), "--sizes 2;3: give numbers"),
        (("combos", "--sizes", "1"), "--sizes 1: give numbers"),
        (("explain", "canny+sketc"), "did you mean sketch?"),
        (("explain", "+"), "name reference types joined by +"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(blend: Blend, words: tuple[str, ...], told: str) -> None:
    code, out, err = blend(*words)
    assert (code, out) == (2, "") and told in err and err.count("\n") == 1
