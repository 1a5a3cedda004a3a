"""What is left when somebody is forgotten while others rate: a whole file, everybody else's marks, and no way back."""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path

import pytest

from refbench.record import RefBenchError
from refbench.studies.study import Study
from refbench.studies.taking import take_file
from support.studies import mark, rate_items, study


def test_a_disk_that_is_full_in_the_middle_costs_nobody_a_mark(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 6))
    gone, stays = made.raters.add(name="Ann"), made.raters.add()
    for who, rater in enumerate((gone, stays)):
        for number, shown in enumerate(made.next_items(rater, 6)):
            sent = {**mark(shown.item, 10 * who + number, IQ=4, IF=2), "comment": "my words " * 20}
            made.take(rater, sent)
    before = (tmp_path / "marks.jsonl").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # the system writes no file beyond this
    try:
        with pytest.raises(RefBenchError, match="marks"):
            made.forget(gone.id)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "marks.jsonl").read_bytes() == before
    Study.open(tmp_path).forget(gone.id)
    after = Study.open(tmp_path)
    assert len(list(after.marks.given())) == 12
    assert {m.comment for m in after.marks.of(gone.id)} == {""}
    assert not list(tmp_path.glob("*.part*")) and {m.comment for m in after.marks.of(stays.id)} == {"my words " * 20}


def test_lines_that_cannot_be_read_and_the_mode_of_the_file_stay(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))
    rater = made.raters.add()
    made.take(rater, {**mark(made.next_items(rater)[0].item, 1, IQ=4, IF=2), "comment": "mine"})
    strange = b'{"of": "a later version"}\n\xff\xfe torn'
    with (tmp_path / "marks.jsonl").open("ab") as file:
        file.write(strange)
    (tmp_path / "raters.jsonl").chmod(0o600)
    made.forget(rater.id)
    assert (tmp_path / "marks.jsonl").read_bytes().endswith(strange + b"\n")
    assert (tmp_path / "raters.jsonl").stat().st_mode & 0o777 == 0o600
    assert made.marks.broken == 2 and len(list(made.marks.given())) == 1


def test_who_is_forgotten_is_out_of_a_running_server_also_when_the_file_grew_since(tmp_path: Path) -> None:
    cli = study(tmp_path, rate_items(tmp_path, 4))
    gone = cli.raters.add(name="Ann")
    server = Study.open(tmp_path)
    assert server.rater(gone.token or "") is not None
    Study.open(tmp_path).forget(gone.id)
    links = [Study.open(tmp_path).raters.add(name=f"new {k}") for k in range(3)]
    assert server.rater(gone.token or "") is None
    assert all(server.rater(link.token or "") is not None for link in links)


def test_what_others_skipped_once_still_comes_back(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3))
    gone, stays = made.raters.add(), made.raters.add()
    server = Study.open(tmp_path)
    server.take(gone, {**mark(server.next_items(gone, 1)[0].item, 1, IQ=4, IF=4), "comment": "words"})
    server.take(stays, {"id": "browser-skip", "item": server.next_items(stays, 1)[0].item, "skip": True})
    assert server.progress(stays).done == 0 and len(server.next_items(stays, 9)) == 3
    Study.open(tmp_path).forget(gone.id)
    assert server.progress(stays).done == 0 and len(server.next_items(stays, 9)) == 3


@pytest.mark.parametrize("name", ["marks.jsonl", "raters.jsonl", "leases.jsonl", "versions.jsonl", "secret"])
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    study(tmp_path, rate_items(tmp_path, 1))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(RefBenchError, match=f"{name} cannot be read: it is no regular file"):
        Study.open(tmp_path)


def test_a_package_that_comes_back_later_does_not_undo_it(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))
    gone = made.raters.add(name="Ann")
    sent = {**mark(made.next_items(gone, 1)[0].item, 1, IQ=4, IF=4), "comment": "Ann, 555-1234"}
    (tmp_path / "back.json").write_text(json.dumps({"consented": True, "marks": [sent]}))
    Study.open(tmp_path).forget(gone.id)
    before = (tmp_path / "raters.jsonl").read_bytes()
    later = Study.open(tmp_path)
    taken = take_file(later, tmp_path / "back.json")
    assert (taken.new, len(taken.refused)) == (0, 1) and "withdrawn" in taken.refused[0]
    assert not list(later.marks.given()) and (tmp_path / "raters.jsonl").read_bytes() == before


def _sent(folder: Path) -> list[bytes]:
    """All that a rater is sent, by a study that is opened now."""
    opened = Study.open(folder)
    rater = opened.raters.add()
    answers = [opened.picture(rater, slot.name) for one in opened.next_items(rater, 9) for slot in one.pictures]
    return [answer for answer in answers if isinstance(answer, bytes)]


def test_a_study_from_elsewhere_cannot_have_our_files_sent_to_raters(tmp_path: Path) -> None:
    made = study(tmp_path / "s", rate_items(tmp_path / "s", 2), overlap=99)
    secret = tmp_path / "private.key"
    secret.write_text("very secret")
    honest = _sent(tmp_path / "s")
    assert len(honest) == 4 and all(data[:2] == b"\xff\xd8" for data in honest)
    shown = made.items["case000-0"].outputs[0].pictures[0]
    kept = tmp_path / "s" / "shown" / shown.sha256[:2] / f"{shown.sha256}-2048.jpg"
    kept.unlink()
    kept.symlink_to(secret)
    assert sorted(_sent(tmp_path / "s")) == sorted(honest) and secret.read_text() == "very secret"
    kept.unlink()
    kept.write_text("very secret")  # in its place, but no picture
    assert sorted(_sent(tmp_path / "s")) == sorted(honest)
    kept.unlink()
    os.mkfifo(kept)  # would be waited for
    assert sorted(_sent(tmp_path / "s")) == sorted(honest)
    shutil.copytree(kept.parent, tmp_path / "away")
    shutil.rmtree(kept.parent)
    kept.parent.symlink_to(tmp_path / "away")
    assert len(_sent(tmp_path / "s")) == 3
    items = tmp_path / "s" / "items.jsonl"
    items.write_text(items.read_text().replace(shown.sha256, str(tmp_path / "private.key")))
    with pytest.raises(RefBenchError, match="line 1: it is no item"):
        Study.open(tmp_path / "s")
