"""Rewriting by a VLM: nothing gets through that asks for something else, and the original stays when it must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.instructions import compose, load_templates
from refbench.builders.refblend.plan import PlannedSample
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.rewriting import fault, read_rewriting, rewrite
from refbench.builders.refblend.samples import Sample
from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from support.judge_server import JudgeServer
from support.planner import saying, texts, with_vlm

PERSONA = "a retired sea captain who loves charts"
ORIGINAL = "Generate an image in the style of <style_image> of the subject shown in <subject_1> following the caption: A $5 cup, {red}."
GOOD = "Ahoy! Take <subject_1>, dress it like <style_image>, and keep to the caption: A $5 cup, {red}."


def sample() -> Sample:
    rules = load_rules("table7")
    planned = PlannedSample("a.png", ("canny", "caption", "subject"), ((0,), (0,), (1,)))
    made = compose(planned, rules, load_templates(rules), lambda kind, n: f"{kind}/{n}.png", "A $5 cup, {red}")
    assert isinstance(made, Sample)
    return made


def test_a_rewriting_that_keeps_placeholders_and_caption_is_taken_as_it_is() -> None:
    assert read_rewriting(ORIGINAL, GOOD, PERSONA) == GOOD
    assert fault(ORIGINAL, ORIGINAL, PERSONA) == ""


@pytest.mark.parametrize(
    "wrapped", [f"  {GOOD}\n", f'"{GOOD}"', f"“{GOOD}”", f"```\n{GOOD}\n```", f"```text\n{GOOD}\n```"]
)
def test_quotation_marks_and_fences_around_the_whole_are_taken_off(wrapped: str) -> None:
    assert read_rewriting(ORIGINAL, wrapped, PERSONA) == GOOD


@pytest.mark.parametrize(
    "reply, kind, why",
    [
        ("", "empty_reply", "it is empty"),
        (" \n\t ", "empty_reply", "it is empty"),
        ("```\n\n```", "unparsable", "it is empty"),
        (GOOD.replace("<subject_1>", "the subject"), "unparsable", "it lacks <subject_1>"),
        (GOOD.replace("<subject_1>", "<subject_2>"), "unparsable", "it lacks <subject_1> and it adds <subject_2>"),
        (GOOD.replace("<subject_1>", "<Subject_1>"), "unparsable", "it lacks <subject_1> and it adds <Subject_1>"),
        (GOOD.replace("<subject_1>", "< subject_1 >"), "unparsable", "it lacks <subject_1>"),
        (GOOD.replace("<subject_1>", "＜subject_1＞"), "unparsable", "it lacks <subject_1>"),
        (GOOD.replace("<subject_1>", "&lt;subject_1&gt;"), "unparsable", "it lacks <subject_1>"),
        (GOOD.replace("Ahoy!", "<subject_1>!"), "unparsable", "it adds <subject_1>"),
        (GOOD.replace("Ahoy!", "<b>Ahoy!</b>"), "unparsable", "it adds </b>, <b>"),
        (GOOD.replace("Ahoy!", "I <3 this."), "unparsable", "it has stray angle brackets"),
        (GOOD.replace("Ahoy!", "->"), "unparsable", "it has stray angle brackets"),
        (GOOD[:-1], "unparsable", "what follows caption: is not the same"),
        (f"{GOOD}\n\nHope this helps!", "unparsable", "what follows caption: is not the same"),
        (GOOD.replace("A $5 cup", "a $5 cup"), "unparsable", "what follows caption: is not the same"),
        (GOOD.replace("caption: A", "caption:  A"), "unparsable", "what follows caption: is not the same"),
        (GOOD.replace("caption:", "Caption:"), "unparsable", "it has lost the caption"),
        (GOOD.partition(" and keep")[0], "unparsable", "it has lost the caption"),
        (f"caption: mine. {GOOD}", "unparsable", "what follows caption: is not the same"),
        (GOOD.replace("Ahoy!", "As a retired sea captain who loves charts I say:"), "unparsable", "it mentions the person"),
        (GOOD.replace("Ahoy!", "Speaking as a Retired  Sea Captain:"), "unparsable", "it mentions the person"),
        (GOOD.replace("Ahoy!", "Your captain says:"), "unparsable", "it mentions the person \\(captain\\)"),
        (GOOD.replace("Ahoy!", "In the voice of the persona:"), "unparsable", "it mentions the person \\(persona\\)"),
        (GOOD.replace("Ahoy!", "Ahoy!\x00"), "unparsable", "cannot be shown"),
        (GOOD.replace("Ahoy!", "Ahoy!\u202e"), "unparsable", "cannot be shown"),
        (GOOD.replace("Ahoy!", "Ahoy! " * 1000), "unparsable", "characters where the request has"),
        ("I'm sorry, but I cannot help with that.", "refused", "I'm sorry"),
    ],
)  # fmt: skip
def test_a_rewriting_that_asks_for_something_else_is_refused(reply: str, kind: str, why: str) -> None:
    found = read_rewriting(ORIGINAL, reply, PERSONA)
    assert isinstance(found, Failure) and found.kind == kind
    assert re.search(why, found.detail), found.detail


def test_where_there_is_no_caption_none_may_be_made_up() -> None:
    bare = "Generate an image stylised after <style_image> keeping the outlines of <canny_image>."
    assert fault(bare, "Trace <canny_image>, paint like <style_image>.", PERSONA) == ""
    assert fault(bare, "Trace <canny_image>, paint like <style_image>. caption: A cup", PERSONA)


def test_a_word_of_the_persona_that_the_request_itself_has_is_no_mention() -> None:
    original = "Generate an image in the manner of the captain in <style_image>."
    assert fault(original, "The captain of <style_image> leads the brush.", PERSONA) == ""
    assert fault(ORIGINAL, GOOD.replace("Ahoy!", "Captaincy!"), PERSONA) == "", "whole words only"


def test_joiners_of_a_script_are_no_fault_and_signs_of_the_original_neither() -> None:
    original = "Generate an image after <style_image> following the caption: می\u200cخواهم \u2067x\u2069."
    assert fault(original, "Nach <style_image>, من می\u200cروم, caption: می\u200cخواهم \u2067x\u2069.", PERSONA) == ""


def test_the_caption_is_not_searched_for_the_persona() -> None:
    original = "Generate an image after <style_image> following the caption: A captain at sea."
    assert fault(original, "Like <style_image>, caption: A captain at sea.", "a captain") == ""


@given(st.text(max_size=80))
def test_no_text_is_taken_that_changes_placeholders_or_caption(noise: str) -> None:
    for reply in (noise, noise + GOOD, GOOD + noise, GOOD.replace("dress", noise)):
        found = read_rewriting(ORIGINAL, reply, PERSONA)
        if isinstance(found, str):
            assert found.count("<style_image>") == found.count("<subject_1>") == 1
            assert found.count("<") == found.count(">") == 2
            assert found.partition("caption:")[2] == " A $5 cup, {red}."


def run(server: JudgeServer, folder: Path) -> tuple[Sample, int]:
    async def work(vlm: VLM) -> tuple[Sample, int]:
        async with (
            Transport(policy=RetryPolicy(attempts=2, first=0.01)) as transport,
            Interviews(folder, transport) as asking,
        ):
            return await rewrite(asking, vlm, sample(), PERSONA), asking.asked

    return with_vlm(server, work)


def right() -> str:
    return "Mark <canny_image> and <subject_1> on the map, caption: A $5 cup, {red}."


def test_the_vlm_is_told_persona_and_instruction_and_its_words_are_kept(tmp_path: Path) -> None:
    with saying(right()) as server:
        made, asked = run(server, tmp_path)
        text = texts(server.requests[0])
        again, nothing = run(server, tmp_path)
    assert made.enhanced == (right(),) and made.rewriting == "rewritten" and made.persona == PERSONA
    assert made.instruction == sample().instruction and made.why_kept is None
    assert PERSONA in text and sample().instruction in text and "could not be used" not in text
    assert (asked, nothing) == (1, 0) and again == made, "what is on record is not paid for again"


def test_a_broken_rewriting_is_asked_for_once_more_with_what_was_wrong(tmp_path: Path) -> None:
    with saying("Nothing of the sort.", right()) as server:
        made, asked = run(server, tmp_path)
        second = texts(server.requests[1])
    assert made.enhanced == (right(),) and asked == 2
    assert "could not be used: it lacks <canny_image>, <subject_1>" in second


def test_after_the_second_broken_one_the_original_is_kept_and_that_is_recorded(tmp_path: Path) -> None:
    with saying("Nothing of the sort.") as server:
        made, asked = run(server, tmp_path)
        assert len(server.requests) == 2
    assert made.enhanced == () and made.rewriting == "kept" and made.persona == PERSONA and asked == 2
    assert made.why_kept is not None and made.why_kept.kind == "unparsable"
    assert made.instruction == sample().instruction


def test_a_server_that_fails_keeps_the_original_for_now_and_is_asked_again(tmp_path: Path) -> None:
    with JudgeServer(status=500, error={"error": {"message": "down"}}) as server:
        made, _ = run(server, tmp_path)
        assert made.rewriting == "kept" and made.why_kept is not None and made.why_kept.transient
        server.status, server.reply = None, lambda _: right()
        assert run(server, tmp_path)[0].rewriting == "rewritten"
