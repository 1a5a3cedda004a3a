"""The sentence against text in pictures: whose requests it stands in, and whose it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.kit.definition import Asked, Judging, Material
from refbench.benchmarks.kit.hardening import hardened, sentence
from refbench.benchmarks.own.benchmark import own_benchmark
from refbench.benchmarks.registry import SHIPPED
from refbench.chat import ChatRequest, ChatText
from refbench.judges.rubric import rubric_source
from refbench.record import RefBenchError

JUDGED = [name for name in SHIPPED if name != "own"]


def test_only_what_corrected_asks_has_the_sentence_and_paper_is_left_to_another_run() -> None:
    plain = [
        Asked("mark", ChatRequest(parts=(ChatText(text=protocol or "both"),)), protocol)
        for protocol in ("", "corrected", "paper")
    ]
    changed = hardened(Judging(lambda case, material: plain, {"prompts": "own"}))
    asked = changed.ask(None, Material((), ()))  # type: ignore[arg-type]
    assert [one.protocol for one in asked] == ["corrected", "corrected"]
    assert [[part.text for part in one.request.parts] for one in asked] == [  # type: ignore[union-attr]
        [sentence(), "both"],
        [sentence(), "corrected"],
    ]
    assert changed.recorded["harden"] == "yes"


@pytest.mark.parametrize("name", JUDGED)
def test_by_default_nothing_is_hardened_and_nothing_new_is_recorded(name: str, tmp_path: Path) -> None:
    asking = benchmark(name).asking
    assert asking.judging is not None
    chosen = asking.chosen({}, name)
    assert chosen["harden"] == "no"
    assert "harden" not in asking.judging(tmp_path, chosen).recorded
    told = asking.judging(tmp_path, {**chosen, "harden": "yes"}).recorded
    assert {key for key in told if "harden" in key} == {"harden", "harden_wording"}


@pytest.mark.parametrize("name", JUDGED)
def test_other_peoples_words_are_never_hardened(name: str, tmp_path: Path) -> None:
    asking = benchmark(name).asking
    assert asking.judging is not None
    for prompts in (f"official:{tmp_path}", str(tmp_path)):
        with pytest.raises(RefBenchError, match="our own words"):
            asking.judging(tmp_path, {**asking.chosen({}, name), "prompts": prompts, "harden": "yes"})
    if "ask" in asking.chosen({}, name):
        with pytest.raises(RefBenchError, match="--ask corrected"):
            asking.judging(tmp_path, {**asking.chosen({}, name), "ask": "paper", "harden": "yes"})


def test_a_shipped_rubric_can_be_hardened_and_a_users_own_says_it_itself(tmp_path: Path) -> None:
    text, title = rubric_source("five_criteria")
    shipped = own_benchmark(text, title).asking.judging
    users = own_benchmark(text.replace("strict", "kind") + "\n", "mine").asking.judging
    assert shipped is not None
    assert users is not None
    assert shipped(tmp_path, {"harden": "yes"}).recorded["harden"] == "yes"
    with pytest.raises(RefBenchError, match="write such a sentence into"):
        users(tmp_path, {"harden": "yes"})
