"""The server of a study: who has no link gets nothing, who has one gets that link's items and no word of the owner's;
and what was acknowledged is there after any kill."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from PIL import Image, PngImagePlugin

from refbench.record import RefBenchError
from refbench.studies.design import Source
from refbench.studies.server import ServeOptions, StudyServer, as_script
from refbench.studies.study import Study
from support.campaigns import size, slow
from support.commands import called
from support.study_screens import MODELS, five_criteria, screen_study
from support.study_server import KilledServer

Visit = Callable[[aiohttp.ClientSession, StudyServer], Awaitable[None]]
SCREENS = ("rate", "set", "questions", "pair", "reference", "review")


def visit(study: Study, work: Visit, options: ServeOptions | None = None, **server: Any) -> None:
    """Start a server and do something with it, as a browser that keeps cookies."""

    async def all_of_it() -> None:
        made = StudyServer(study, options, **server)
        await made.start()
        try:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                await work(session, made)
        finally:
            await made.stop()

    asyncio.run(all_of_it())


async def enter(session: aiohttp.ClientSession, server: StudyServer, token: str | None = None) -> str:
    """Open a link; the address of its pages. Without a token, that of a new rater."""
    token = token or server.study.raters.add().token
    async with session.get(f"http://127.0.0.1:{server.port}/r/{token}") as answer:
        assert answer.status == 200, await answer.text()
        return str(answer.url)


async def told(session: aiohttp.ClientSession, address: str, given: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON of an answer; None where it is no JSON."""
    if given is None:
        request = session.get(address, headers=headers)
    else:
        request = session.post(address, json=given, headers=headers)
    async with request as answer:
        data = await answer.read()
        return answer.status, json.loads(data) if answer.content_type == "application/json" else None


async def items(session: aiohttp.ClientSession, base: str, n: int = 3) -> list[dict[str, Any]]:
    status, said = await told(session, f"{base}items", {"n": n, "held": []})
    assert status == 200
    return list(said["items"])


def mark_of(item: Mapping[str, Any], number: int = 0, value: float = 4) -> dict[str, Any]:
    """An answer to everything that an item asks."""
    values: dict[str, Any] = {}
    for entry in item["entries"]:
        if entry["kind"] == "choice":
            values[entry["name"]] = entry["options"][0]
        elif entry["kind"] != "edit":
            values[entry["name"]] = 1 if entry["kind"] == "yes_no" else value
    return {"id": f"browser-{number:08d}", "item": item["item"], "values": values, "active": 2.5, "wall": 3.0}


def lines(study: Study) -> list[dict[str, Any]]:
    path = study.path / "marks.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_link_becomes_a_cookie_that_scripts_other_sites_and_other_links_cannot_use(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 2)
    token = str(study.raters.add().token)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        async with session.get(f"{server.address}/r/{token}", allow_redirects=False) as answer:
            assert answer.status == 303
            place, cookie = answer.headers["Location"], answer.headers["Set-Cookie"]
        assert token not in place and "HttpOnly" in cookie and "SameSite=Strict" in cookie and f"Path={place}" in cookie
        async with session.get(f"{server.address}{place}") as answer:
            assert answer.status == 200 and token not in await answer.text()

    visit(study, work)
    kept = (tmp_path / "raters.jsonl").read_text("utf-8")
    assert token not in kept and hashlib.sha256(token.encode()).hexdigest() in kept
    assert len(token) * 6 >= 192


def test_without_a_link_there_is_nothing_but_an_empty_page(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 2)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        async with aiohttp.ClientSession() as stranger:
            for path in (
                "/",
                "/study",
                "/r/guess",
                "/r/",
                "/c/guess",
                "/c/guess?PROLIFIC_PID=x",
                "/o/0/status",
                "/nothing",
            ):
                status, said = await told(stranger, f"{server.address}{path}")
                assert status in (403, 404) and said is None, path
            status, said = await told(stranger, f"{place}study")
            assert (status, said) == (403, None)
            for path in ("items", "marks", "undo", "finish", "consent"):
                status, said = await told(stranger, f"{place}{path}", {"n": 1, "held": [], "marks": [{}]})
                assert (status, said) == (403, None), path
            async with stranger.get(place) as answer:  # the page itself holds nothing, and is the same for everyone
                assert answer.status == 200 and "several references" not in await answer.text()

    visit(study, work)


def test_two_links_in_one_browser_are_two_raters(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 4)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        first, second = await enter(session, server), await enter(session, server)
        (mine,), (theirs,) = await items(session, first, 1), await items(session, second, 1)
        assert first != second and mine["item"] != theirs["item"]
        await told(session, f"{first}marks", {"marks": [mark_of(mine)]})
        assert (await told(session, f"{first}study"))[1]["progress"]["done"] == 1
        assert (await told(session, f"{second}study"))[1]["progress"]["done"] == 0

    visit(study, work)


def test_another_links_items_pictures_and_pages_are_refused(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 4)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
            elsewhere = await enter(other, server)
            (theirs,) = await items(other, elsewhere, 1)
        await items(session, place)
        _, said = await told(session, f"{place}marks", {"marks": [mark_of(theirs)]})
        assert said["acknowledged"] == [] and said["refused"][0]["kind"] == "unknown"
        assert (await told(session, f"{place}pictures/{theirs['pictures'][0]['name']}"))[0] == 404
        assert (await told(session, f"{elsewhere}study"))[0] == 403
        assert (await told(session, f"{elsewhere}items", {"n": 1, "held": []}))[0] == 403

    visit(study, work)
    assert lines(study) == []


def test_a_withdrawn_link_is_refused_from_the_next_request_on(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 2)
    rater = study.raters.add()

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server, rater.token)
        (item,) = await items(session, place, 1)
        study.raters.change(rater.id, revoked=True)
        assert (await told(session, f"{place}study"))[0] == 403
        assert (await told(session, f"{place}marks", {"marks": [mark_of(item)]}))[0] == 403
        assert (await told(session, f"{server.address}/r/{rater.token}"))[0] == 403

    visit(study, work)
    assert lines(study) == []


def test_a_crowds_link_needs_the_studys_own_word_and_makes_each_worker_one_rater(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 2)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        places = []
        for worker in ("worker-one", "worker-two", "worker-one"):
            async with session.get(f"{server.crowd_url}?PROLIFIC_PID={worker}&STUDY_ID=s&SESSION_ID=t") as answer:
                assert answer.status == 200
                places.append(str(answer.url))
        assert places[0] == places[2] != places[1]
        assert (await told(session, f"{places[0]}study"))[0] == 200
        assert (await told(session, server.crowd_url))[0] == 403  # who is it?
        assert (await told(session, f"{server.crowd_url}x?PROLIFIC_PID=worker-three"))[0] == 403

    visit(study, work)
    kept = (tmp_path / "raters.jsonl").read_text("utf-8")
    assert "worker-one" not in kept and len(study.raters.all) == 2


# --- the owner --------------------------------------------------------------------------------------------------------


def test_the_owners_page_opens_with_the_owners_link_alone_and_on_this_machine_alone(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 3)
    owner = study.raters.add(role="owner")

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        for token in (server.owner_token, owner.token):
            place = await enter(session, server, token)
            status, said = await told(session, f"{place}status")
            assert status == 200 and said["items"] == 3
            assert (await told(session, f"{place.replace('/o/', '/s/')}items", {"n": 1, "held": []}))[0] == 403
            for header in ("X-Forwarded-For", "Forwarded", "X-Forwarded-Host"):  # it came through a proxy
                assert (await told(session, f"{place}status", **{header: "for=203.0.113.9"}))[0] == 403
        rater = await enter(session, server)
        assert (await told(session, f"{rater.replace('/s/', '/o/')}status"))[0] == 403
        assert (await told(session, f"{rater}status"))[0] == 404

    visit(study, work)


def test_behind_a_proxy_raters_come_in_by_its_name_and_the_owner_does_not(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 3)
    rater, public = study.raters.add(), "https://rate.example.org"
    headers = {"Host": "rate.example.org", "X-Forwarded-For": "203.0.113.9"}

    async def doors(session: aiohttp.ClientSession, server: StudyServer, token: str) -> tuple[int, str]:
        address = f"http://127.0.0.1:{server.port}/r/{token}"
        async with session.get(address, headers=headers, allow_redirects=False) as answer:
            return answer.status, answer.headers.get("Set-Cookie", "")

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        assert server.rater_url("t") == f"{public}/r/t"
        status, cookie = await doors(session, server, str(rater.token))
        assert status == 303 and "Secure" in cookie
        assert (await doors(session, server, server.owner_token))[0] == 403
        body = {"n": 1, "held": []}
        place = f"http://127.0.0.1:{server.port}{cookie.split('Path=')[1].split(';')[0]}"
        token = {"Cookie": cookie.split(";")[0]}
        assert (await told(session, f"{place}items", body, **headers, **token, Origin=public))[0] == 200
        for origin in ("http://rate.example.org", "https://evil.example", "null"):
            assert (await told(session, f"{place}items", body, **headers, **token, Origin=origin))[0] == 403

    async def said(session: aiohttp.ClientSession, server: StudyServer) -> None:
        assert (await doors(session, server, server.owner_token))[0] == 303

    visit(study, work, ServeOptions(public=public))
    visit(study, said, ServeOptions(public=public, owner_public=True))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (ServeOptions(host="0.0.0.0"), "--public"),
        (ServeOptions(host="192.0.2.1"), "--public"),
        (ServeOptions(public="http://rate.example.org"), "https"),
        (ServeOptions(public="https://rate.example.org/study"), "without a path"),
        (ServeOptions(public="https://"), "https"),
        (ServeOptions(port=70000), "--port"),
    ],
    ids=str,
)
def test_marks_do_not_cross_a_network_in_the_clear(tmp_path: Path, options: ServeOptions, word: str) -> None:
    study = screen_study(tmp_path, "rate", 1)
    with pytest.raises(RefBenchError, match=word):
        StudyServer(study, options)


# --- other sites ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:1"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_other_sites_get_nothing_and_mark_nothing_even_with_the_cookie(tmp_path: Path, headers: dict[str, str]) -> None:
    study = screen_study(tmp_path, "rate", 2)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        (item,) = await items(session, place, 1)
        picture = item["pictures"][0]["name"]
        assert (await told(session, f"{place}study", **headers))[0] == 403
        assert (await told(session, f"{place}pictures/{picture}", **headers))[0] == 403
        assert (await told(session, f"{place}marks", {"marks": [mark_of(item)]}, **headers))[0] == 403

    visit(study, work)
    assert lines(study) == []


def test_a_link_may_be_followed_from_a_mail_or_a_crowds_page(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 1)
    rater = study.raters.add()
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        async with session.get(f"{server.address}/r/{rater.token}", headers=headers) as answer:
            assert answer.status == 200 and "/s/" in str(answer.url)
        rebound = {**headers, "Host": "evil.example"}
        async with session.get(f"{server.address}/r/{rater.token}", headers=rebound) as answer:
            assert answer.status == 403 and not answer.cookies

    visit(study, work)


def test_a_form_of_another_site_cannot_speak_json(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 1)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        (item,) = await items(session, place, 1)
        body = json.dumps({"marks": [mark_of(item)]})
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            async with session.post(f"{place}marks", data=body, headers={"Content-Type": kind}) as answer:
                assert answer.status == 415, kind

    visit(study, work)
    assert lines(study) == []


# --- bodies, paths, too much ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{", b'{"marks": {}}', b'{"marks": []}', b"[" * 30000, b'{"marks": [' + b"1," * 60 + b"1]}", b"\xff"],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
def test_bodies_that_are_none_are_refused(tmp_path: Path, body: bytes) -> None:
    study = screen_study(tmp_path, "rate", 1)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        headers = {"Content-Type": "application/json"}
        async with session.post(f"{place}marks", data=body, headers=headers) as answer:
            assert answer.status == 400
        asked = body if b"marks" not in body else b'{"n": 1000000, "held": []}'
        async with session.post(f"{place}items", data=asked, headers=headers) as answer:
            assert answer.status == 400

    visit(study, work)


@pytest.mark.parametrize("mark", [None, 7, "x", {}, {"id": "../../etc/passwd", "item": "x"}, {"id": "browser-1", "item": "x", "values": {"k": "v" * 9}, "path": "/etc"}], ids=str)  # fmt: skip
def test_marks_that_are_none_are_refused_with_a_sentence(tmp_path: Path, mark: Any) -> None:
    study = screen_study(tmp_path, "rate", 1)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        status, said = await told(session, f"{place}marks", {"marks": [mark]})
        assert status == 200 and said["acknowledged"] == [] and said["refused"][0]["sentence"]

    visit(study, work)
    assert lines(study) == []


def test_a_body_of_a_megabyte_is_refused(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 1)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        (item,) = await items(session, place, 1)
        large = io.BytesIO(json.dumps({"marks": [{**mark_of(item), "comment": "x" * (1 << 20)}]}).encode())
        async with session.post(f"{place}marks", data=large, headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 413

    visit(study, work)
    assert lines(study) == []


@pytest.mark.parametrize(
    "path",
    ["../study.toml", "..%2f..%2fstudy.toml", "pictures/../../../study.toml", "pictures/..%2f..%2fsource%2f1-of-the-owner.png", "client/..%2fserver.py", "client/../../../../study.toml", "pictures/%2fetc%2fpasswd", "pictures/%00", "client/owner.html", "client/en.json"],
)  # fmt: skip
def test_no_path_reaches_a_file(tmp_path: Path, path: str) -> None:
    study = screen_study(tmp_path, "rate", 1)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        from yarl import URL

        place = await enter(session, server)
        async with session.get(URL(f"{place}{path}", encoded=True)) as answer:
            assert answer.status in (403, 404), path
            assert b"secret" not in await answer.read()

    visit(study, work)


def test_one_link_that_asks_too_much_waits_and_others_do_not(tmp_path: Path) -> None:
    study, now = screen_study(tmp_path, "rate", 1), [0.0]

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        hasty, calm = await enter(session, server), await enter(session, server)
        answers = [(await told(session, f"{hasty}study"))[0] for _ in range(320)]
        assert answers[:300] == [200] * 300 and answers[300:] == [429] * 20
        assert (await told(session, f"{calm}study"))[0] == 200
        now[0] += 1
        assert [(await told(session, f"{hasty}study"))[0] for _ in range(41)] == [200] * 40 + [429]

    visit(study, work, clock=lambda: now[0])


def test_every_answer_is_under_a_strict_policy(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 1)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        for path in (place, f"{place}study", f"{place}client/app.js", f"{place}nothing", f"{server.address}/r/x"):
            async with session.get(path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert answer.headers["Cache-Control"] == "no-store"
                assert "Access-Control-Allow-Origin" not in answer.headers

    visit(study, work)


def test_what_ends_a_script_is_text_inside_of_one() -> None:
    data = as_script("pack", {"said": "</script><!-- \u2028 \u2029 &"})
    assert not any(one.encode() in data[:-3] for one in ("<", ">", "&", "\u2028", "\u2029"))
    assert json.loads(data[len('refbench.put("pack", ') : -3]) == {"said": "</script><!-- \u2028 \u2029 &"}


# --- what raters are sent ---------------------------------------------------------------------------------------------


def mark_pictures(folder: Path) -> None:
    """Metadata in the owner's files that names what no rater may know."""
    for path in (folder / "source").iterdir():
        info = PngImagePlugin.PngInfo()
        info.add_text("parameters", f"Steps: 30, Model: {MODELS[0]}")
        with Image.open(path) as picture:
            exif = picture.getexif()
            exif[0x010E] = f"made by {MODELS[1]}"
            picture.load()
            picture.save(path, pnginfo=info, exif=exif)


def secrets_of(study: Study) -> list[str]:
    """Words of the owner's: models, ids, cases, files, hashes of files and of links."""
    found = {*MODELS, str(study.path), "of-the-owner", "Steps: 30", ".png", "sha256"}
    for item in study.items.values():
        found |= {item.id, item.case}
        for picture in [*item.inputs, *(one for output in item.outputs for one in output.pictures)]:
            found |= {picture.sha256, picture.sha256[:12], picture.file}
    return sorted(found)


@pytest.mark.parametrize("screen", ["set", *(slow(name) for name in SCREENS if name != "set")])
def test_no_byte_that_a_rater_is_sent_names_a_model_a_path_or_a_hash(tmp_path: Path, screen: str) -> None:
    from support import study_screens

    made: list[bytes] = []
    plain = study_screens.Pictures._made

    def marked(self: study_screens.Pictures, seed: int) -> bytes:
        folder = tmp_path / "one" / "source"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "a.png").write_bytes(plain(self, seed))
        mark_pictures(tmp_path / "one")
        made.append((folder / "a.png").read_bytes())
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_screens.Pictures, "_made", marked)
        study = screen_study(tmp_path / "study", screen, 3)
    assert screen == "review" or any(MODELS[0].encode() in data and MODELS[1].encode() in data for data in made)
    sent: list[bytes] = []

    async def note(session: aiohttp.ClientSession, address: str, given: Any = None) -> Any:
        request = session.get(address) if given is None else session.post(address, json=given)
        async with request as answer:
            data = await answer.read()
            sent.extend([data, repr(answer.headers).encode(), str(answer.url).encode(), str(answer.reason).encode()])
            return json.loads(data) if answer.content_type == "application/json" else None

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        for name in ("", *(f"client/{name}" for name in server._files if not name.startswith("owner")), "study"):
            await note(session, f"{place}{name}")
        for number in range(4):
            said = await note(session, f"{place}items", {"n": 3, "held": []})
            for item in said["items"]:
                for picture in item["pictures"]:
                    await note(session, f"{place}pictures/{picture['name']}")
            for item in said["items"][:1]:
                await note(
                    session,
                    f"{place}marks",
                    {
                        "marks": [
                            mark_of(item, number),
                            {"id": "wrong-mark-1"},
                            {**mark_of(item, 90 + number), "item": "x"},
                        ]
                    },
                )
            await note(session, f"{place}nothing")
        await note(session, f"{place}undo", {})
        await note(session, f"{place}finish", {})

    visit(study, work)
    pictures = [data for data in sent if data.startswith(b"\xff\xd8")]
    assert screen == "review" or len(pictures) >= 3
    hits = [word for word in secrets_of(study) for data in sent if word.encode() in data and word != ".png"]
    assert hits == []
    assert not any(marker in data for data in pictures for marker in (b"Exif", b"http", b"c2pa", b"jumb"))


# --- marks ------------------------------------------------------------------------------------------------------------


def test_a_mark_is_on_disk_before_it_is_acknowledged_and_a_resend_is_the_same_mark(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 3)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        (item,) = await items(session, place, 1)
        for again in (False, True, True):
            _, said = await told(session, f"{place}marks", {"marks": [mark_of(item, 1)]})
            assert [one["id"] for one in said["acknowledged"]] == ["browser-00000001"]
            assert said["acknowledged"][0]["again"] is again and said["progress"]["done"] == 1
            assert [line["id"] for line in lines(study)] == ["browser-00000001"]

    visit(study, work)


def test_a_mark_that_cannot_be_written_is_not_acknowledged(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 3)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        (item,) = await items(session, place, 1)
        (tmp_path / "marks.jsonl").mkdir()  # what else could not be opened for writing, also by root
        async with session.post(f"{place}marks", json={"marks": [mark_of(item, 1)]}) as answer:
            assert answer.status == 503 and str(tmp_path) not in await answer.text()
        (tmp_path / "marks.jsonl").rmdir()
        _, said = await told(session, f"{place}marks", {"marks": [mark_of(item, 1)]})
        assert said["acknowledged"][0]["again"] is False

    visit(study, work)


def test_items_that_the_page_has_are_not_sent_again_and_pages_of_a_link_agree(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 6)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        first = await items(session, place)
        _, said = await told(session, f"{place}items", {"n": 3, "held": [one["item"] for one in first]})
        assert not {one["item"] for one in first} & {one["item"] for one in said["items"]} and len(said["items"]) == 3
        assert [one["item"] for one in await items(session, place)] == [one["item"] for one in first]

    visit(study, work)


def test_a_page_that_keeps_many_marks_gets_its_next_items_and_opens_no_others(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 40)
    rater = study.raters.add()

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server, rater.token)
        kept: list[str] = []
        while len(kept) < 36:
            status, said = await told(session, f"{place}items", {"n": 3, "held": kept})
            assert status == 200 and len(said["items"]) == 3
            kept += [one["item"] for one in said["items"]]
        assert len(set(kept)) == 36
        made_up = [f"made-up-{number}" for number in range(500)]
        status, said = await told(session, f"{place}items", {"n": 1, "held": [*kept, *made_up]})
        assert status == 200 and len(said["items"]) == 1
        assert (await told(session, f"{place}items", {"n": 1, "held": [str(k) for k in range(1001)]}))[0] == 400

    visit(study, work)
    assert len(study.leases.all) == 37


def test_a_study_whose_pictures_are_gone_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "humans"
    design = {"source": Source(kind="run", path="/data/runs/cups")}
    study = screen_study(path, "pair", 2, references=0, **design)
    first, second = (output.pictures[0] for output in next(iter(study.items.values())).outputs)
    assert isinstance(study.pictures.data(first), bytes)  # who has been shown it once can be shown it again
    Path(first.file).unlink()
    Path(second.file).unlink()
    code, out, err = called("study", "serve", path)
    assert (code, out) == (2, "")
    assert f"1 of 4 pictures are gone, {second.file} first" in err
    assert "/data/runs/cups, [source] path of study.toml" in err


def test_the_code_comes_from_the_server_after_the_last_mark(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "pair", 2)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        place = await enter(session, server)
        for number in range(2):
            _, said = await told(session, f"{place}finish", {})
            assert "code" not in said and said["refused"]["kind"] == "not_yet"
            (item,) = await items(session, place, 1)
            await told(session, f"{place}marks", {"marks": [mark_of(item, number)]})
        _, said = await told(session, f"{place}finish", {})
        assert len(said["code"]) == 12
        code = said["code"]
        assert (await told(session, f"{place}finish", {}))[1]["code"] == code

    visit(study, work)


# --- kills ------------------------------------------------------------------------------------------------------------


class Client:
    """A browser as far as marks go: sends each under an id of its own until it is acknowledged."""

    def __init__(self, server: KilledServer, token: str, number: int) -> None:
        self.server, self.token, self.number = server, token, number
        self.acknowledged: list[str] = []
        self.sent = 0
        self.resent = 0

    async def ask(self, session: aiohttp.ClientSession, path: str, given: Any) -> Any:
        """Until there is an answer: the server may be gone at any moment."""
        while True:
            try:
                async with session.post(f"{self.place}{path}", json=given) as answer:
                    if answer.status == 200:
                        return json.loads(await answer.read())
                    assert answer.status == 503, await answer.text()
            except (aiohttp.ClientError, OSError):
                self.resent += 1
                await asyncio.sleep(0.005)

    async def work(self) -> None:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(f"{self.server.address}/r/{self.token}") as answer:
                self.place = str(answer.url)
            while True:
                said = await self.ask(session, "items", {"n": 3, "held": []})
                if not said["items"]:
                    return
                for item in said["items"]:
                    self.sent += 1
                    mark = mark_of(item, self.number * 100_000 + self.sent, value=1 + self.sent % 9)
                    got = await self.ask(session, "marks", {"marks": [mark]})
                    assert not got["refused"], got
                    self.acknowledged += [one["id"] for one in got["acknowledged"]]


async def strike(server: KilledServer, clients: list[Client], kills: int, marks: int, rng: random.Random) -> int:
    """Kill the server again and again while the clients work; returns how often."""
    done = 0
    work = asyncio.gather(*(client.work() for client in clients))
    while done < kills:
        wanted = marks * (done + 1) // (kills + 1)
        while sum(len(client.acknowledged) for client in clients) < wanted and not work.done():
            await asyncio.sleep(0.001)
        await asyncio.sleep(rng.random() * 0.005)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        done += 1
    await work
    return done


@pytest.mark.parametrize(("kills", "items_each"), [(4, 6), slow(size(40, 100), size(80, 200))])
def test_no_acknowledged_mark_is_lost_or_doubled_by_kills_of_the_server(
    tmp_path: Path, kills: int, items_each: int
) -> None:
    n, rng = 5, random.Random(kills)
    study = screen_study(tmp_path, "rate", items_each, references=1, overlap=n)
    tokens = [str(study.raters.add().token) for _ in range(n)]
    with KilledServer(tmp_path) as server:
        clients = [Client(server, token, number) for number, token in enumerate(tokens)]
        struck = asyncio.run(strike(server, clients, kills, n * items_each, rng))
    acknowledged = [name for client in clients for name in client.acknowledged]
    written: dict[str, int] = {}
    for line in (tmp_path / "marks.jsonl").read_bytes().splitlines():
        try:
            name = json.loads(line)["id"]
        except ValueError:  # torn by a kill; nothing was said of it
            continue
        written[name] = written.get(name, 0) + 1
    assert struck == kills and sum(client.resent for client in clients) > 0
    assert len(acknowledged) == len(set(acknowledged)) == n * items_each
    assert {name: written.get(name, 0) for name in acknowledged} == dict.fromkeys(acknowledged, 1)
    again = Study.open(tmp_path)
    assert sum(1 for _ in again.marks.given()) == n * items_each
    places = [mark.place for mark in again.marks.given()]
    assert len(places) == len(set(places)) and len(five_criteria()) == 5


def test_what_is_nested_too_deep_to_be_read_again_is_not_acknowledged(tmp_path: Path) -> None:
    study = screen_study(tmp_path, "review", 2)

    async def work(session: aiohttp.ClientSession, server: StudyServer) -> None:
        base = await enter(session, server)
        (shown,) = await items(session, base, 1)
        deep: Any = "end"
        for _ in range(210):
            deep = [deep]
        sent = {**mark_of(shown), "values": {"decision": "edit", "edit": {"instruction": deep}}}
        status, said = await told(session, f"{base}marks", {"marks": [sent]})
        assert (status, said) == (400, None) and lines(study) == []
        status, said = await told(session, f"{base}marks", {"marks": [mark_of(shown)]})
        assert status == 200 and len(said["acknowledged"]) == len(lines(study)) == 1

    visit(study, work)
