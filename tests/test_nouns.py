"""The nouns: frozen, keyed by content, and never in two states at once."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from refbench import Case, Evidence, Failure, Output, Picture, Request, Score
from refbench.failure import KINDS, TRANSIENT
from refbench.record import canonical_json, content_key


def a_case(**changes: object) -> Case[None]:
    fields = {"id": "a", "request": Request(instruction="paint it blue"), "cluster": "a", "details": None}
    return Case[None].model_validate({**fields, **changes})


def test_nouns_are_frozen() -> None:
    with pytest.raises(ValidationError):
        a_case().id = "b"  # type: ignore[misc]


def test_equal_content_has_an_equal_key_and_other_content_another() -> None:
    assert a_case().key == a_case().key
    assert a_case().key != a_case(id="b").key


def test_keys_do_not_change_between_versions() -> None:
    # Runs are paid for: a key that changed would pay for everything again. Hashes taken with sha256sum.
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    assert content_key({"b": 1, "a": [1.5, None, True]}) == (
        "c987ffa2d30c971dc497669112f77ecb5f56fb3fa25d1643ff3f8d61cce41d1e"
    )
    evidence = Evidence(kind="chat", request={"text": "t", "model": "m"}, reply="yes")
    assert evidence.id == "69cc30b60d86561e9d0958270ad1578516fe82b6fec1cf47a292ceb364f27589"


def test_evidence_is_keyed_by_the_act_and_not_by_what_came_of_it() -> None:
    request = {"endpoint": "e", "model": "m", "text": "t", "repeat": 0}
    done = Evidence(kind="chat", request=request, reply="yes", cost_usd=0.1, provenance="here")
    failed = Evidence(kind="chat", request=request, failure=Failure(kind="timeout"))
    again = Evidence(kind="chat", request={**request, "repeat": 1}, reply="yes")
    assert done.id == failed.id != again.id


def test_a_score_has_exactly_one_state() -> None:
    place = {"case": "a", "model": "m", "metric": "IF", "protocol": "paper"}
    for bad in (
        {},
        {"value": 0.0, "failure": Failure(kind="refused")},
        {"value": 1.0, "not_applicable": "no text in the picture"},
        {"value": math.nan},
        {"value": math.inf},
    ):
        with pytest.raises(ValidationError):
            Score.model_validate({**place, **bad})
    assert Score.model_validate({**place, "value": 0.0}).value == 0.0


def test_an_output_has_pictures_or_a_failure() -> None:
    with pytest.raises(ValidationError):
        Output(case="a", model="m")
    assert Output(case="a", model="m", failure=Failure(kind="missing_output")).pictures == ()


def test_a_picture_cannot_leave_its_dataset() -> None:
    for name in ("/etc/passwd", "../other/a.png", "a/../../b.png"):
        with pytest.raises(ValidationError):
            Picture(name=name, role="source")


def test_a_failure_never_carries_a_key() -> None:
    detail = "401: Incorrect API key provided: sk-proj-abcdef1234567890, header Bearer abcdefgh12345678"
    said = Failure(kind="api_error", detail=detail).detail
    assert "abcdef" not in said
    assert "[redacted]" in said


def test_every_kind_of_failure_is_transient_or_final_and_known() -> None:
    assert {"api_error", "timeout", "worker_died", "missing_output", "budget"} <= TRANSIENT
    assert not TRANSIENT & {"refused", "unparsable", "out_of_range", "no_detection", "undefined"}
    with pytest.raises(ValidationError):
        Failure(kind="bad luck")  # type: ignore[arg-type]
    assert len(KINDS) == len(set(KINDS))
