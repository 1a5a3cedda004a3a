"""`openai:` image models: what goes over the wire, and what replies, refusals and garbage become."""

from __future__ import annotations

import asyncio
import io
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.openai import OPENAI
from refbench.failure import Failure
from refbench.models.api import model as api_model_module
from refbench.models.api import openai as openai_images_module
from refbench.models.api.model import ApiModel
from refbench.models.api.openai import openai_images
from refbench.models.api.pictures import decoded
from refbench.models.model import Commission, ImageModel, Painted, Shown
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.image_server import ImageServer, Told, b64, openai_reply, png
from support.raw_server import Asked, RawServer, http

KEY = "sk-test-0123456789abcdef"
QUICK = RetryPolicy(attempts=3, first=0.01, longest=0.05)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def using(
    server: ImageServer,
    work: Callable[[ApiModel], Awaitable[Any]],
    options: str = "",
    model: str = "gpt-image-1",
    timeout: float = 60,
) -> Any:
    async def run() -> Any:
        async with Transport(policy=QUICK, timeout=timeout) as transport:
            spec = Spec.parse(f"m=openai:{model}?base_url={server.url}/v1{options}", "--model")
            made = openai_images(spec, transport)
            try:
                return await work(made)
            finally:
                await made.close()

    return asyncio.run(run())


def paint(server: ImageServer, commission: Commission, options: str = "", seed: int = 0, **how: Any) -> Painted:
    painted = using(server, lambda model: model.generate(commission, seed), options, **how)
    assert isinstance(painted, Painted)
    assert KEY not in repr(painted)
    return painted


def shown(folder: Path, *roles: str, size: tuple[int, int] = (12, 8)) -> tuple[Shown, ...]:
    """Pictures that differ, with every byte there is behind the end of the file, line ends and boundaries included."""
    found = []
    for number, role in enumerate(roles):
        noise = random.Random(number).randbytes(600) + bytes(range(256)) + b"\r\n--x--\r\n"
        path = folder / f"{number}-{role}.png"
        path.write_bytes(png(10 * number, size) + noise)
        found.append(Shown(path, role))
    return tuple(found)


def files(pictures: tuple[Shown, ...]) -> list[bytes]:
    return [picture.path.read_bytes() for picture in pictures]


def kind(painted: Painted) -> str | None:
    return painted.failure.kind if painted.failure else None


# --- what is sent ----------------------------------------------------------------------------------------------


def test_text_alone_goes_to_generations() -> None:
    with ImageServer() as server:
        painted = paint(server, Commission('A "red" fox\nin snow', n_pictures=3), "&quality=high&background=opaque")
        (seen,) = server.requests
    assert (seen.method, seen.path) == ("POST", "/v1/images/generations")
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert seen.body == {
        "model": "gpt-image-1",
        "prompt": 'A "red" fox\nin snow',
        "n": 3,
        "quality": "high",
        "background": "opaque",
    }
    assert painted.pictures == (png(100), png(101), png(102))
    assert painted.failure is None
    assert painted.seconds is not None


def test_eight_pictures_go_to_edits_in_their_order(tmp_path: Path) -> None:
    pictures = shown(tmp_path, *(["subject"] * 8))
    with ImageServer() as server:
        painted = paint(server, Commission("All of them at a table, “so”", pictures), "&quality=low")
        (seen,) = server.requests
    assert seen.path == "/v1/images/edits"
    assert seen.named("image[]") == files(pictures)
    assert [part.mime for part in seen.parts if part.filename] == ["image/png"] * 8
    assert not any("subject" in (part.filename or "") for part in seen.parts), "names of files tell what is in them"
    assert seen.field("prompt") == "All of them at a table, “so”"
    assert (seen.field("model"), seen.field("n"), seen.field("quality")) == ("gpt-image-1", "1", "low")
    assert seen.named("response_format") == [], "the gpt-image models refuse it"
    assert painted.pictures == (png(100),)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_form_has_the_parts_that_the_sdk_sends(tmp_path: Path, count: int) -> None:
    openai = pytest.importorskip("openai")
    pictures = shown(tmp_path, *(["subject"] * count))
    with ImageServer() as server:
        paint(server, Commission("Put them together", pictures, n_pictures=2), "&quality=low&output_format=png")
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
        opened = [("x.png", data, "image/png") for data in files(pictures)]
        reply = client.images.edit(
            image=opened if count > 1 else opened[0],
            prompt="Put them together",
            model="gpt-image-1",
            n=2,
            quality="low",
            output_format="png",
        )
        client.close()
        ours, theirs = server.requests
    assert ours.path == theirs.path
    assert sorted((p.name, p.data) for p in ours.parts) == sorted((p.name, p.data) for p in theirs.parts)
    assert [p.data for p in ours.parts if p.filename] == [p.data for p in theirs.parts if p.filename]
    assert [p.mime for p in ours.parts if p.filename] == [p.mime for p in theirs.parts if p.filename]
    # And what this server answers is what the SDK reads: the format of the other tests is the real one.
    assert [decoded(image.b64_json) for image in reply.data] == [png(100), png(101)]
    assert reply.usage.input_tokens_details.image_tokens == 1000


def test_the_mask_is_transparent_where_it_is_white(tmp_path: Path) -> None:
    source, reference = shown(tmp_path, "source", "subject")
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[:, 3:] = 255
    (tmp_path / "mask.png").write_bytes(encode(pixels))
    with ImageServer() as server:
        painted = paint(
            server, Commission("Add it here", (source, Shown(tmp_path / "mask.png", "mask"), reference)), "&mask=field"
        )
        (seen,) = server.requests
    assert seen.named("image[]") == files((source, reference))
    (sent,) = seen.named("mask")
    image = Image.open(io.BytesIO(sent))
    assert (image.format, image.mode, image.size) == ("PNG", "RGBA", (12, 8)), "as large as the first picture"
    alpha = np.asarray(image)[:, :, 3]
    assert (alpha[:, 6:] == 0).all()
    assert (alpha[:, :6] == 255).all()
    assert painted.provenance["mask"] == "sent as the mask of the first picture"


@pytest.mark.parametrize(
    ("roles", "options"),
    [
        (("subject", "mask"), "&mask=field"),  # the first picture is none that the mask is for
        (("mask",), "&mask=field"),
        (("source", "mask", "mask"), "&mask=field"),
        (("source", "mask"), "&mask=picture"),
        (("source", "mask"), ""),  # not OpenAI's own address: servers are known that drop a mask unread
    ],
)
def test_a_mask_that_is_not_for_the_first_picture_is_a_picture_among_the_others(
    tmp_path: Path, roles: tuple[str, ...], options: str
) -> None:
    pictures = shown(tmp_path, *roles)
    with ImageServer() as server:
        paint(server, Commission("Edit", pictures), options)
        (seen,) = server.requests
    assert [part.data for part in seen.parts if part.filename] == files(pictures)
    assert seen.named("mask") == []


def test_what_image_apis_refuse_is_sent_as_png_and_noted(tmp_path: Path) -> None:
    image = Image.fromarray(np.full((8, 12, 3), 90, dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    image.save(tmp_path / "still.gif")
    image.save(tmp_path / "old.bmp")
    pictures = tuple(Shown(tmp_path / name, "subject") for name in ("turned.jpg", "still.gif", "old.bmp"))
    with ImageServer() as server:
        painted = paint(server, Commission("Edit", pictures))
        (seen,) = server.requests
    sent = [Image.open(io.BytesIO(data)) for data in seen.named("image[]")]
    assert [image.format for image in sent] == ["PNG"] * 3
    assert [image.size for image in sent] == [(8, 12), (12, 8), (12, 8)], "upright"
    assert [painted.provenance[f"picture {n}"] for n in (1, 2, 3)] == [
        "turned upright",
        "gif re-encoded as PNG",
        "bmp re-encoded as PNG",
    ]


@pytest.mark.parametrize(
    ("options", "wanted", "size"),
    [
        ("", (640, 400), "640x400"),  # a compatible server is told what is wanted
        ("", None, None),
        ("&size=exact", (640, 400), "640x400"),
        ("&size=1024x1536", (640, 400), "1024x1536"),
        ("&size=auto", (640, 400), "auto"),
    ],
)
def test_the_size_is_the_cases_or_the_users(options: str, wanted: tuple[int, int] | None, size: str | None) -> None:
    with ImageServer() as server:
        painted = paint(server, Commission("A fox", size=wanted), options)
        (seen,) = server.requests
    assert seen.body.get("size") == size
    assert painted.provenance.get("size") == size


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> Callable[[ImageServer], None]:
    """The server stands in for OpenAI's own address."""

    def stand_in(server: ImageServer) -> None:
        monkeypatch.setattr(openai_images_module, "OPENAI", replace(OPENAI, base_url=f"{server.url}/v1"))

    return stand_in


@pytest.mark.parametrize(
    ("model", "wanted", "size", "exactly"),
    [
        ("gpt-image-1.5", (640, 400), "1536x1024", "640x400"),
        ("gpt-image-1.5", (1100, 1000), "1024x1024", "1100x1000"),
        ("gpt-image-2", (1010, 1500), "1008x1504", "1008x1504"),
        ("gpt-image-2", (512, 512), "816x816", None),  # too few pixels
        ("gpt-image-2.5-flare", (3840, 2160), "3840x2160", "3840x2160"),
        ("gpt-image-2", (4000, 1000), "3840x1280", None),  # wider than 3:1
    ],
)
def test_openais_own_models_are_asked_for_the_nearest_of_their_sizes(
    official: Callable[[ImageServer], None], model: str, wanted: tuple[int, int], size: str, exactly: str | None
) -> None:
    with ImageServer() as server:
        official(server)
        paint(server, Commission("A fox", size=wanted), model=model)
        exact = paint(server, Commission("A fox", size=wanted), "&size=exact", model=model)
        sent = [seen.body["size"] for seen in server.requests]
    assert sent == [size, exactly] if exactly else sent == [size]
    assert kind(exact) == (None if exactly else "unsupported")


def test_no_more_pictures_are_asked_for_than_openai_makes_at_once(official: Callable[[ImageServer], None]) -> None:
    with ImageServer() as server:
        official(server)
        painted = paint(server, Commission("A story", n_pictures=12))
        assert server.requests[0].body["n"] == 10
    assert painted.failure == Failure(kind="missing_output", detail="10 of 12 pictures came")


@pytest.mark.parametrize(
    ("model", "prices"),
    [("gpt-image-1", (5, 10, 40)), ("gpt-image-1.5", (5, 8, 32)), ("gpt-image-9-unheard-of", None)],
)
def test_openais_tokens_of_pictures_have_prices_of_their_own(
    official: Callable[[ImageServer], None], model: str, prices: tuple[int, int, int] | None
) -> None:
    """The list prices for a million tokens of text in, pictures in, pictures out, by hand."""
    pytest.importorskip("genai_prices")
    untold = openai_reply(png(1))
    del untold["usage"]["input_tokens_details"]
    with ImageServer() as server:
        official(server)
        painted = paint(server, Commission("A fox"), model=model)
        server.answers = [Told(body=untold), Told(body=untold)]
        unknown = paint(server, Commission("A fox"), model=model)
        piece = paint(server, Commission("A fox"), "&price=0.07", model=model)
    expected = prices and pytest.approx((100 * prices[0] + 1000 * prices[1] + 4160 * prices[2]) / 1e6)
    assert painted.cost_usd == expected
    assert unknown.cost_usd is None, "text and pictures are not told apart, and cost differently"
    assert piece.cost_usd == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("model", "options", "sent"),
    [
        ("Qwen/Qwen-Image", "", 7),
        ("gpt-image-1", "", None),  # a gateway to OpenAI
        ("gpt-image-1", "&seed=send", 7),
        ("Qwen/Qwen-Image", "&seed=omit", None),
    ],
)
def test_seeds_are_sent_to_servers_that_may_know_them(model: str, options: str, sent: int | None) -> None:
    with ImageServer() as server:
        painted = paint(server, Commission("A fox"), options, seed=7, model=model)
        (seen,) = server.requests
    assert seen.body.get("seed") == sent
    assert painted.provenance.get("seed") == ("not sent" if sent is None else None)


def test_other_models_are_asked_for_base64_and_an_empty_option_takes_that_back() -> None:
    with ImageServer() as server:
        paint(server, Commission("A fox"), model="Qwen/Qwen-Image")
        paint(server, Commission("A fox"), "&response_format=", model="Qwen/Qwen-Image")
        first, second = server.requests
    assert first.body["response_format"] == "b64_json"
    assert "response_format" not in second.body


# --- what comes back -------------------------------------------------------------------------------------------


def test_links_are_followed_on_the_same_host_only() -> None:
    with ImageServer() as server:
        server.files = {"/v1/files/1.png": png(1), "/out/2.png": png(2)}
        links = [{"url": f"{server.url}/v1/files/1.png"}, {"url": "/out/2.png"}]
        server.answers = [Told(body={"data": links}), Told(body={"data": [{"url": "http://localhost:9/1.png"}]})]
        both = paint(server, Commission("A fox", n_pictures=2))
        elsewhere = paint(server, Commission("A fox"))
        assert [seen.path for seen in server.requests if seen.method == "GET"] == ["/v1/files/1.png", "/out/2.png"]
    assert both.pictures == (png(1), png(2))
    assert both.failure is None
    assert kind(elsewhere) == "api_error"
    assert "localhost" in str(elsewhere.failure)
    assert "b64_json" in str(elsewhere.failure)


def test_a_link_to_nothing_is_a_failure() -> None:
    with ImageServer(answers=[Told(body={"data": [{"url": "/gone.png"}]})]) as server:
        painted = paint(server, Commission("A fox"))
    assert kind(painted) == "api_error"
    assert "404" in str(painted.failure)


@pytest.mark.parametrize(("extra", "first"), [("first", 0), ("last", 38), ("fail", 0)])
def test_of_more_links_than_pictures_asked_for_no_more_are_fetched(extra: str, first: int) -> None:
    with ImageServer(files={f"/{n}.png": png(n) for n in range(40)}) as server:
        server.answers = [Told(body={"data": [{"url": f"/{n}.png"} for n in range(40)]})]
        painted = paint(server, Commission("A fox", n_pictures=2), f"&extra={extra}")
        fetched = [seen.path for seen in server.requests if seen.path.endswith(".png")]
    assert fetched == [f"/{first}.png", f"/{first + 1}.png"]
    assert painted.pictures == (png(first), png(first + 1))
    assert ("40 pictures came, 2 asked for" in str(painted.failure)) == (extra == "fail")


def test_all_links_of_a_reply_share_the_bytes_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_model_module, "MEGABYTE", 1)
    monkeypatch.setattr(api_model_module, "PICTURES", len(png(1)) + len(png(2)) + 9)
    with ImageServer(files={f"/{n}.png": png(n) for n in range(4)}) as server:
        server.answers = [Told(body={"data": [{"url": f"/{n}.png"} for n in (1, 2, 3)]})]
        painted = paint(server, Commission("A story", n_pictures=3))
    assert painted.pictures == (png(1), png(2))
    assert "picture 3 of 3: the reply is larger" in str(painted.failure)


def test_all_links_of_a_reply_share_the_time_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_model_module, "_PATIENCE", 0.01)
    over = threading.Event()

    def answer(asked: Asked) -> Iterator[bytes]:
        if asked.method == "GET":
            over.wait()
        yield http({"data": [{"url": f"/{n}.png"} for n in range(4)]})

    with RawServer(answer) as server:
        painted = paint(server, Commission("A story", n_pictures=4))  # type: ignore[arg-type]
        assert sum(asked.path.endswith(".png") for asked in server.requests) == 1
        over.set()
    assert "did not come within" in str(painted.failure)


def test_a_data_url_is_a_picture_like_any_other() -> None:
    reply = {"data": [{"url": "data:image/png;base64," + b64(png(5))}]}
    with ImageServer(answers=[Told(body=reply)]) as server:
        assert paint(server, Commission("A fox")).pictures == (png(5),)


def test_too_few_pictures_are_kept_and_said() -> None:
    with ImageServer(answers=[Told(body=openai_reply(png(1), png(2)))]) as server:
        painted = paint(server, Commission("A fox", n_pictures=4))
    assert painted.pictures == (png(1), png(2))
    assert painted.failure == Failure(kind="missing_output", detail="2 of 4 pictures came")


def test_too_many_pictures_are_a_failure_until_the_user_says_which_to_take() -> None:
    reply = Told(body=openai_reply(png(1), png(2)))
    with ImageServer(answers=[reply, reply, reply]) as server:
        kept = paint(server, Commission("A fox"))
        first = paint(server, Commission("A fox"), "&extra=first")
        last = paint(server, Commission("A fox"), "&extra=last")
    assert len(kept.pictures) == 2
    assert kind(kept) == "missing_output"
    assert "2 pictures came, 1 asked for" in str(kept.failure)
    assert (first.pictures, first.failure) == ((png(1),), None)
    assert (last.pictures, last.failure) == ((png(2),), None)


WHOLE = png(9, (64, 64))
GARBAGE: list[tuple[Any, str, str]] = [
    (b"<html>busy</html>", "api_error", "no JSON object"),
    (b"", "api_error", "no JSON object"),
    ([1, 2], "api_error", "no JSON object"),
    ({"data": "what"}, "api_error", "unknown shape"),
    ({"data": [{"b64_json": None}]}, "api_error", "neither b64_json nor url"),
    ({"data": []}, "missing_output", "0 of 1 pictures came"),
    ({}, "missing_output", "0 of 1 pictures came"),
    ({"data": [{"b64_json": b64(WHOLE)[:-5]}]}, "unreadable_picture", "base64"),
    ({"data": [{"b64_json": "!!! no picture !!!"}]}, "unreadable_picture", "no whole base64"),
    ({"data": [{"b64_json": b64(WHOLE[:-20])}]}, "unreadable_picture", "cut off"),
    ({"data": [{"b64_json": b64(b"<svg/>")}]}, "unreadable_picture", "<svg/>"),
    ({"data": [{"respect_moderation": False}]}, "refused", "moderation"),
    ({"error": {"code": "content_policy_violation", "message": "no"}}, "refused", "content_policy"),
    ({"error": {"message": "out of memory"}}, "api_error", "out of memory"),
]


@pytest.mark.parametrize(("body", "failure", "says"), GARBAGE)
def test_garbage_is_a_failure_that_says_what_came(body: Any, failure: str, says: str) -> None:
    with ImageServer(answers=[Told(body=body)]) as server:
        painted = paint(server, Commission("A fox"))
    assert (painted.pictures, kind(painted)) == ((), failure)
    assert says in str(painted.failure)


def test_pictures_behind_an_unreadable_one_do_not_move_up() -> None:
    reply = openai_reply(png(1), WHOLE[:-20], png(3))
    with ImageServer(answers=[Told(body=reply)]) as server:
        painted = paint(server, Commission("A story", n_pictures=3))
    assert painted.pictures == (png(1),)
    assert kind(painted) == "unreadable_picture"
    assert "picture 2 of 3" in str(painted.failure)


BLOCKED = {  # as the gpt-image models say it
    "error": {
        "message": "Your request was rejected by the safety system. safety_violations=[violence].",
        "type": "image_generation_user_error",
        "param": None,
        "code": "moderation_blocked",
    }
}
ERRORS = [
    (400, BLOCKED, "refused", "safety_violations=[violence]"),
    (403, BLOCKED, "refused", "moderation_blocked"),
    (400, {"error": {"message": "prompt too long", "code": "string_above_max_length"}}, "api_error", "too long"),
    (413, b"too large", "api_error", "HTTP 413: too large"),
    (422, {"detail": "no"}, "api_error", "HTTP 422"),
    (308, b"", "api_error", "HTTP 308"),
]


@pytest.mark.parametrize(("status", "body", "failure", "says"), ERRORS)
def test_errors_are_typed_with_the_servers_words(status: int, body: Any, failure: str, says: str) -> None:
    with ImageServer(answers=[Told(status, body)]) as server:
        painted = paint(server, Commission("A fox"))
        assert len(server.requests) == 1
    assert kind(painted) == failure
    assert says in str(painted.failure)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, "refuses the key .* set OPENAI_API_KEY"),
        (404, {"error": {"code": "model_not_found", "message": "no such model"}}, "does not know the model"),
        (405, b"", "does not know the model or the address"),
        (400, {"error": {"message": "Invalid value: 'gpt-4o'", "param": "model"}}, "makes no pictures"),
    ],
)
def test_what_no_case_can_succeed_with_ends_the_run_with_the_remedy(status: int, body: Any, says: str) -> None:
    with ImageServer(answers=[Told(status, body)]) as server, pytest.raises(RefBenchError, match=says) as raised:
        paint(server, Commission("A fox"))
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_server_without_edits_is_named_with_the_way_out(tmp_path: Path) -> None:
    with (
        ImageServer(answers=[Told(404, {"detail": "Not Found"})]) as server,
        pytest.raises(RefBenchError, match=r"takes no pictures at /v1/images/edits .* max_references=0"),
    ):
        paint(server, Commission("Edit", shown(tmp_path, "source")))


# --- limits and tries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [Told(429, {"error": "slow down"}, {"Retry-After": "0.01"}), Told(500, b"oops"), Told(503, b""), Told(cut=True)],
    ids=["429", "500", "503", "cut"],
)
def test_a_form_is_sent_again_whole(tmp_path: Path, fault: Told) -> None:
    pictures = shown(tmp_path, *(["subject"] * 8))
    with ImageServer(answers=[fault, fault]) as server:
        painted = paint(server, Commission("All of them", pictures))
        assert [seen.named("image[]") for seen in server.requests] == [files(pictures)] * 3
    assert painted.pictures == (png(100),)
    assert painted.provenance["attempts"] == "3"


def test_a_server_that_goes_on_failing_is_a_transient_failure() -> None:
    with ImageServer(always=Told(500, b"oops")) as server:
        painted = paint(server, Commission("A fox"))
        assert len(server.requests) == QUICK.attempts
    assert kind(painted) == "api_error"
    assert "HTTP 500: oops" in str(painted.failure)


def test_a_server_that_never_answers_is_a_timeout() -> None:
    with ImageServer(always=Told(hang=True)) as server:
        painted = paint(server, Commission("A fox"), timeout=0.2)
    assert kind(painted) == "timeout"


def test_no_more_calls_are_in_flight_than_the_limiter_allows() -> None:
    async def work(model: ApiModel) -> list[Painted]:
        model.transport.limiter(model.endpoint).allowed = 3
        model.transport.limiter(model.endpoint).most = 3
        return await asyncio.gather(*(model.generate(Commission(f"fox {n}"), 0) for n in range(20)))

    with ImageServer(latency=0.01) as server:
        server.together = 3
        painted = using(server, work)
        assert server.most_in_flight == 3
    assert all(one.failure is None for one in painted)


def test_judges_at_the_same_address_have_places_of_their_own() -> None:
    async def work(model: ApiModel) -> bool:
        return model.transport.limiter(model.endpoint) is not model.transport.limiter(model.base_url)

    with ImageServer() as server:
        assert using(server, work)


def test_a_picture_that_cannot_be_read_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("hello")
    with ImageServer() as server:
        broken = paint(server, Commission("Edit", (Shown(tmp_path / "text.png", "source"),)))
        absent = paint(server, Commission("Edit", (Shown(tmp_path / "absent.png", "source"),)))
        assert server.requests == []
    assert (kind(broken), kind(absent)) == ("unreadable_picture", "unreadable_picture")
    assert "absent.png" in str(absent.failure)


def test_more_pictures_than_it_takes_are_not_sent(tmp_path: Path) -> None:
    with ImageServer() as server:
        painted = paint(server, Commission("Edit", shown(tmp_path, *(["subject"] * 3))), "&max_references=2")
        assert server.requests == []
    assert kind(painted) == "unsupported"
    assert "at most 2 pictures" in str(painted.failure)


# --- money and settings ----------------------------------------------------------------------------------------


def test_the_cost_is_by_tokens_or_by_the_piece_and_never_a_guess() -> None:
    with ImageServer() as server:
        unknown = paint(server, Commission("A fox", n_pictures=2))
        tokens = paint(server, Commission("A fox", n_pictures=2), "&price=5,40")
        piece = paint(server, Commission("A fox", n_pictures=2), "&price=0.04")
        server.answers = [Told(status=400, body=BLOCKED)]
        blocked = paint(server, Commission("A fox"), "&price=0.04")
    assert unknown.cost_usd is None, "a server of one's own has no list price"
    assert tokens.cost_usd == pytest.approx((1100 * 5 + 4160 * 40) / 1e6)
    assert piece.cost_usd == pytest.approx(0.08)
    assert blocked.cost_usd is None


def test_options_become_traits_and_the_rest_goes_to_the_server() -> None:
    async def work(model: ApiModel) -> tuple[Any, Any]:
        assert isinstance(model, ImageModel)
        return model.traits, model.canonical()

    options = (
        "&max_references=4&max_pictures=1&open_weights=yes&family=us&roles=source,style&price=0.1&steps=20&size=512x256"
    )
    with ImageServer() as server:
        traits, canonical = using(server, work, options, model="own/painter")
        _, other = using(server, work, options + "&max_side=512", model="own/painter")
    assert (traits.max_references, traits.max_pictures, traits.open_weights) == (4, 1, True)
    assert (traits.family, traits.roles, traits.price) == ("us", ("source", "style"), 0.1)
    assert traits.size == (512, 256)
    assert canonical == {
        "kind": "openai",
        "endpoint": f"{server.url}/v1",
        "model": "own/painter",
        "size": "512x256",
        "mask": "picture",
        "seed": "auto",
        "extra": "fail",
        "parameters": '{"steps":20}',
    }
    assert other == {**canonical, "max_side": "512"}


def test_openais_own_models_are_known_by_name() -> None:
    async def work() -> list[tuple[Any, ...]]:
        async with Transport() as transport:
            found = []
            for name in ("gpt-image-2", "gpt-image-1.5"):
                traits = openai_images(Spec.parse(f"openai:{name}", "--model"), transport).traits
                found.append((traits.family, traits.open_weights, traits.max_references, traits.max_pictures))
            return found

    assert asyncio.run(work()) == [
        ("openai", False, 16, 10),
        ("openai", False, 16, 10),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("&size=huge", "size=huge: write case, exact, auto, 1K, 2K, 4K or WIDTHxHEIGHT"),
        ("&size=0x5", "size=0x5"),
        ("&mask=yes", "mask=yes: write auto, field or picture"),
        ("&seed=7", "seed=7: write auto, send or omit"),
        ("&extra=all", "extra=all"),
        ("&price=cheap", "price=cheap: write dollars for one picture"),
        ("&price=-1", "price=-1"),
        ("&price=1,2,3", "price=1,2,3"),
        ("&max_references=many", "max_references=many: write a whole number"),
        ("&max_side=-4", "max_side=-4"),
        ("&open_weights=maybe", "open_weights=maybe: write yes or no"),
        ("&open=true", "open= is called open_weights= now: write open_weights=true"),
        ("&key_env=NOT_SET_ANYWHERE", "set NOT_SET_ANYWHERE"),
    ],
)
def test_what_an_option_cannot_be_is_said(options: str, says: str) -> None:
    with ImageServer() as server, pytest.raises(RefBenchError) as raised:
        paint(server, Commission("A fox"), options)
    assert says in str(raised.value)


def test_without_a_key_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")

    async def work() -> None:
        async with Transport() as transport:
            openai_images(Spec.parse("openai:gpt-image-1", "--model"), transport)

    with pytest.raises(RefBenchError, match="set OPENAI_API_KEY"):
        asyncio.run(work())
