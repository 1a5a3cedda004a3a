"""Designs of a part of the calls, the references they lean on, and small fixed sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.analysis.fewer.design import judged_together, make_design
from refbench.analysis.fewer.references import References, references_of
from refbench.analysis.fewer.subset import make_subset
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.cli.subset import subset_command
from refbench.engine import evaluate
from refbench.record import RefBenchError
from support.checkout import plain_items, write_checkout, write_outputs
from support.judge_server import JudgeServer

CREVAL = benchmark("creval")


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    return list(released_scores()[0])


def test_any_beginning_of_a_design_is_spread_over_strata_and_favours_what_others_tell_least(cases: list[Any]) -> None:
    references = references_of(CREVAL, cases, (), None)
    assert references.said == "8 models whose item scores were released"
    design = make_design(CREVAL, cases, references)
    assert design.groups == (("IF",), ("VC",), ("VQ",))
    assert [sorted(order) for order in design.orders] == [list(range(904))] * 3
    begun = design.units()[:380]
    counts = [sum(group == g for _, group in begun) for g in range(3)]
    assert counts[1] > counts[0] > counts[2]  # VQ has half the weight
    for group in range(3):
        shares = [
            np.mean([(case, group) in set(begun) for case in range(904) if cases[case].stratum == name])
            for name in {case.stratum for case in cases}
        ]
        assert max(shares) - min(shares) < 0.03
    assert make_design(CREVAL, cases, references).digest == design.digest
    assert make_design(CREVAL, cases, References()).digest != design.digest


def test_parts_that_one_number_of_a_picture_is_made_of_are_judged_together() -> None:
    assert judged_together(CREVAL) == (("IF",), ("VC",), ("VQ",))
    for name in ("multibanana", "ideabench", "icebench", "multiref"):
        assert len(judged_together(benchmark(name))) == 1


@pytest.mark.slow
def test_a_fixed_set_says_how_far_it_is_off_for_models_that_did_not_choose_it(cases: list[Any]) -> None:
    chosen = make_subset(CREVAL, cases, 90)
    assert len(chosen.ids) == len(set(chosen.ids)) == 90
    assert chosen.models == 8
    assert chosen.rmse < chosen.random_rmse == pytest.approx(1.6, abs=0.1)
    assert chosen.rmse <= chosen.worst
    assert "whoever tunes on it fits it" in chosen.said()[1]


def test_sizes_that_are_no_part_are_refused(cases: list[Any]) -> None:
    for size in (1, 904):
        with pytest.raises(RefBenchError, match=f"--size {size}: give at least 2 and fewer than the 904"):
            make_subset(CREVAL, cases, size)


def test_a_run_on_a_list_of_ids_is_about_these_cases(tmp_path: Path) -> None:
    items = plain_items(12)
    write_checkout(tmp_path / "creval", items)
    write_outputs(tmp_path / "a", items)
    wanted = [item.stem for item in items[3:6]]
    (tmp_path / "ids.txt").write_text("# a small set\n" + "\n".join(wanted) + "\n")
    with JudgeServer() as server:
        options: dict[str, Any] = {
            "models": f"A=folder:{tmp_path / 'a'}",
            "judges": f"j=openai:gpt-4o?base_url={server.url}/v1",
            "data": tmp_path / "creval",
        }
        found = evaluate("creval", ids=str(tmp_path / "ids.txt"), out=tmp_path / "run", **options)
        assert sorted(case.id for case in found.result.cases) == wanted
        assert len(server.requests) == 9
        (tmp_path / "ids.txt").write_text("nobody\n")
        with pytest.raises(RefBenchError, match="there is no case nobody in creval"):
            evaluate("creval", ids=tmp_path / "ids.txt", out=tmp_path / "other", **options)


@pytest.mark.slow
def test_a_list_of_ids_is_not_written_over_with_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = tmp_path / "ids.txt"
    assert subset_command("creval", size=30, out=ids) == 0
    assert subset_command("creval", size=30, out=ids) == 0
    assert f"there already: {ids}" in capsys.readouterr().out
    ids.write_text("mine\n")
    with pytest.raises(RefBenchError, match="there with other content; give another name, or --replace"):
        subset_command("creval", size=30, out=ids)
    assert ids.read_text() == "mine\n"
    assert subset_command("creval", size=30, out=ids, replace=True) == 0
    assert len(ids.read_text().splitlines()) == 32
