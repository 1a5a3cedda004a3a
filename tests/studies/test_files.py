"""What is on disk: torn lines, versions, who was forgotten, crowds, packages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from refbench.cli.app import app
from refbench.record import RefBenchError
from refbench.studies.adjudication import disputed
from refbench.studies.design import StudyDesign, read_design, write_design
from refbench.studies.marks import Mark
from refbench.studies.reading import read
from refbench.studies.server import ServeOptions, started
from refbench.studies.shown import Refusal
from refbench.studies.study import Study
from support.studies import IF, IQ, mark, rate_items, study
from support.study_raters import answer_all, marks_by
from support.study_server import serving

GOOD = marks_by(lambda item: 0.8)


def cli(*words: object) -> int:
    code = app([str(word) for word in words], result_action="return_value")
    assert isinstance(code, int)
    return code


def test_a_torn_last_line_is_told_and_nothing_is_glued_to_it(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3))
    rater = made.raters.add()
    shown = made.next_items(rater)
    made.take(rater, mark(shown[0].item, 1, IQ=4, IF=2))
    with (tmp_path / "marks.jsonl").open("ab") as file:
        file.write(b'{"id": "browser-000002", "rater": "r0')  # a server killed in the middle of a line
    after = Study.open(tmp_path)
    after.take(rater, mark(shown[1].item, 3, IQ=5, IF=5))
    again = Study.open(tmp_path)
    assert [m.id for m in again.marks.given()] == ["browser-000001", "browser-000003"]
    assert again.marks.broken == 1 and "1 lines of marks.jsonl" in again.status().notes[0]


def test_a_design_that_changes_after_the_first_mark_is_another_version_and_export_keeps_them_apart(
    tmp_path: Path,
) -> None:
    made = study(tmp_path, rate_items(tmp_path, 4), overlap=2)
    first, second = made.raters.add(), made.raters.add()
    answer_all(made, first, GOOD)
    design = read_design(tmp_path)
    changed = design.model_copy(update={"criteria": (IQ, IF.model_copy(update={"description": {"en": "Other words"}}))})
    write_design(tmp_path, changed)
    later = Study.open(tmp_path)
    assert later.versions.number == 2
    answer_all(later, second, GOOD)
    assert {m.version for m in later.marks.given()} == {1, 2}
    assert read(later).versions == (1, 2)
    assert {row.rater for row in read(later).rows} == {"r02"}
    assert {row.rater for row in read(later, 1).rows} == {"r01"}
    write_design(tmp_path, design)
    assert Study.open(tmp_path).versions.number == 1  # changed back is what it was


def test_every_design_survives_its_file(tmp_path: Path) -> None:
    odd = 'quotes " and \\ back\nlines\t\x7f 图像'
    design = StudyDesign(name=odd, screen="rate", criteria=(IQ, IF), consent={"en": odd, "zh": "同意"}, per_rater=7)
    write_design(tmp_path, design)
    assert read_design(tmp_path) == design


def test_mistakes_in_the_file_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"is no study: study\.toml is missing"):
        Study.open(tmp_path)
    (tmp_path / "study.toml").write_text('name = "x"\nscreen = "rates"\n')
    with pytest.raises(RefBenchError, match=r"study.toml: screen: Input should be 'rate'"):
        Study.open(tmp_path)


def test_who_is_forgotten_leaves_marks_and_nothing_else(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2), overlap=1)
    worker = made.register_crowd({"PROLIFIC_PID": "5f0c3ab7e1", "SESSION_ID": "s1"})
    assert made.register_crowd({"PROLIFIC_PID": "5f0c3ab7e1", "SESSION_ID": "s2"}).id == worker.id
    assert made.rater(worker.token or "") is not None
    shown = made.next_items(worker)[0]
    made.take(worker, {**mark(shown.item, 1, IQ=4, IF=2), "comment": "my name is Ann"})
    before = made.raters.all[worker.id]
    assert before.crowd and "5f0c3ab7e1" not in (tmp_path / "raters.jsonl").read_text()
    assert cli("study", "forget", tmp_path, worker.id) == 0
    written = (tmp_path / "raters.jsonl").read_text() + (tmp_path / "marks.jsonl").read_text()
    assert all(secret not in written for secret in (before.crowd, before.link, "Ann"))
    assert made.rater(worker.token or "") is None  # also for a server that is running
    assert len(list(Study.open(tmp_path).marks.given())) == 1


def test_who_returned_on_the_platform_frees_what_was_open(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2), overlap=1)
    gone, other = made.register_crowd({"workerId": "W1"}), made.register_crowd({"workerId": "W2"})
    assert len(made.next_items(gone, 2)) == 2 and made.next_items(other) == []
    (tmp_path / "prolific.csv").write_text("Participant id,Status\nW1,RETURNED\nW2,AWAITING REVIEW\n")
    assert cli("study", "forget", tmp_path, "--returned", tmp_path / "prolific.csv") == 0
    assert len(made.next_items(other, 2)) == 2


def test_links_are_kept_as_hashes_and_can_be_withdrawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))
    assert cli("study", "links", tmp_path, "2", "--name", "Ann", "--owner", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["rater"] for one in told] == ["r01", "r02", "o01"]
    assert all(len(one["token"]) == 32 for one in told)  # 192 bits in base64
    assert all(one["token"] not in (tmp_path / "raters.jsonl").read_text() for one in told)
    owner = made.rater(told[2]["token"])
    assert owner is not None and owner.owner
    assert cli("study", "links", tmp_path, "--revoke", "r01") == 0
    assert made.rater(told[0]["token"]) is None and made.rater(told[1]["token"]) is not None


def test_links_are_whole_addresses_of_the_last_server_or_of_whoever_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))

    def link(*more: object) -> str:
        assert cli("study", "links", tmp_path, 1, *more) == 0
        told.append(capsys.readouterr().out)
        return told[-1].split()[1]

    told: list[str] = []
    assert link().startswith("/r/") and "refbench study serve" in told[-1].splitlines()[-1]
    with serving(made) as server:
        assert link().startswith(f"http://127.0.0.1:{server.port}/r/")
    assert link().startswith(f"http://127.0.0.1:{server.port}/r/")  # it is where the next one listens
    assert link("--base", "https://rate.example.org/").startswith("https://rate.example.org/r/")
    assert cli("study", "links", tmp_path, 1, "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["url"] == f"http://127.0.0.1:{server.port}/r/{row['token']}"
    with pytest.raises(RefBenchError, match=r"--base rate\.example\.org: give the whole address"):
        link("--base", "rate.example.org")
    (tmp_path / "served.json").write_text("{")
    assert link().startswith("/r/")
    with serving(made, ServeOptions(public="https://rate.example.org")):
        assert link().startswith("https://rate.example.org/r/")


def test_a_server_takes_the_port_of_the_last_time_or_a_free_one(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))

    async def ports() -> list[int]:
        found = []
        first = await started(made, ServeOptions())
        await first.stop()
        again = await started(made, ServeOptions())
        beside = await started(made, ServeOptions())  # that port is taken
        for server in (first, again, beside):
            found.append(server.port)
            await server.stop()
        return found

    first, again, beside = asyncio.run(ports())
    assert first == again != beside


def test_marks_of_a_package_are_taken_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3), consent={"en": "Agree?"})
    rater = made.raters.add()
    made.consent(rater)
    names = [shown.item for shown in made.next_items(rater, 3)]
    marks = [mark(name, k, IQ=k + 1, IF=3) for k, name in enumerate(names)]
    file = tmp_path / "saved.json"
    file.write_text(json.dumps({"marks": marks, "consented": "en"}))
    assert cli("study", "take", tmp_path, file) == 0
    assert cli("study", "take", tmp_path, file) == 0
    assert "3 marks read, 0 were there before\n0 marks read, 3 were there" in capsys.readouterr().out
    file.write_text(json.dumps({"marks": [mark("nobody's", 9, IQ=1, IF=1), 7]}))
    assert cli("study", "take", tmp_path, file) == 1
    assert len((tmp_path / "marks.jsonl").read_text().splitlines()) == 3


def test_disputed_items_go_to_one_person_who_is_one_more_rater(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 4), overlap=2)
    first, second = made.raters.add(), made.raters.add()
    answer_all(made, first, lambda item, shown: {"IQ": 4, "IF": 4})
    answer_all(made, second, lambda item, shown: {"IQ": 4, "IF": 2 if item.case.endswith("1") else 3})
    assert disputed(made) == ["case001-0"]
    assert cli("study", "adjudicate", tmp_path, "--name", "Eve") == 0
    judge = Study.open(tmp_path).raters.all["adjudicated"]
    assert answer_all(made, judge, lambda item, shown: {"IQ": 4, "IF": 3}) == 1
    rows = [row for row in read(made).rows if row.rater == "adjudicated"]
    assert [(row.case, row.metric, row.value) for row in rows] == [("case001", "IQ", 4), ("case001", "IF", 3)]
    assert made.status().covered == {2: 4}
    other = made.raters.add(role="adjudicator")  # a second one, who is not a rater either
    answer_all(made, other, lambda item, shown: {"IQ": 4, "IF": 3})
    assert {row.rater for row in read(made).rows} == {"r01", "r02", "adjudicated"}


def test_what_the_owner_tries_out_is_no_mark(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2), overlap=1)
    answer_all(made, made.raters.add(role="owner"), GOOD)
    assert read(made).rows == () and made.status().covered == {0: 2}


def test_unsure_is_a_mark_and_no_number(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2), overlap=1)
    answer_all(made, made.raters.add(), lambda item, shown: {"IQ": "unsure", "IF": 3})
    assert {(row.metric, row.value) for row in read(made).rows} == {("IQ", None), ("IF", 3.0)}


def test_a_picture_that_changed_is_not_shown(tmp_path: Path) -> None:
    items = rate_items(tmp_path, 2)
    made = study(tmp_path, items)
    for item in items:
        Path(item.outputs[0].pictures[0].file).write_bytes(Path(item.inputs[0].file).read_bytes())
    rater = made.raters.add()
    slot = made.next_items(rater)[0].pictures[-1]
    assert slot.role == "output" and (slot.width, slot.height) == (0, 0)
    refused = made.picture(rater, slot.name)
    assert isinstance(refused, Refusal) and refused.kind == "picture"


def test_a_mark_has_a_browsers_id(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="id"):
        Mark(id="../../etc", rater="r", item="i")


def test_items_that_were_changed_after_a_mark_are_told(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2, ("alpha", "beta")))
    items, rater = tmp_path / "items.jsonl", made.raters.add()
    whole = items.read_text()
    exchanged = whole.replace('"alpha"', '"other"').replace('"beta"', '"alpha"').replace('"other"', '"beta"')
    items.write_text(exchanged)
    assert Study.open(tmp_path).items["case000-0"].models == ("beta",)  # nobody has marked anything yet
    items.write_text(whole)
    made.take(rater, mark(made.next_items(rater, 1)[0].item, 1, IQ=4, IF=2))
    assert len(list(Study.open(tmp_path).marks.given())) == 1
    items.write_text(exchanged)
    with pytest.raises(RefBenchError, match=r"items\.jsonl is not what the marks were given about: restore it"):
        Study.open(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"item": "gone"},
        {"values": {"IQ": 1e308, "IF": 4}},
        {"values": {"IQ": -99, "IF": 4}},
        {"values": {"IQ": 4, "IF": "good"}},
        {"values": {"IQ": 4, "IF": 4, "other": 1}},
        {"order": [0, 0]},
    ],
)
def test_a_mark_that_nobody_can_have_given_is_a_line_that_cannot_be_read(
    changed: dict[str, object], tmp_path: Path
) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3))
    rater = made.raters.add()
    for number, shown in enumerate(made.next_items(rater, 3)):
        made.take(rater, mark(shown.item, number, IQ=4, IF=2))
    first, *others = (tmp_path / "marks.jsonl").read_text().splitlines()
    lines = [json.dumps({**json.loads(first), **changed}), *others]
    (tmp_path / "marks.jsonl").write_text("\n".join(lines) + "\n")
    after = Study.open(tmp_path)
    assert after.marks.broken == 1 and "1 lines of marks.jsonl" in after.status().notes[0]
    assert {row.value for row in read(after).rows} == {4, 2}
    assert cli("study", "status", tmp_path) == 0
