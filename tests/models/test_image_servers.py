"""Servers that speak OpenAI's paths in their own way: the bytes on the wire, assembled here from what each documents."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.openai import OPENAI
from refbench.models.api import model as model_module
from refbench.models.api import openai as openai_images_module
from refbench.models.api.model import ApiModel
from refbench.models.api.openai import openai_images
from refbench.models.api.servers import SERVERS, Sizes, server_at
from refbench.models.model import Commission, Painted, Shown
from refbench.models.papers import Gone
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.image_server import ImageServer, Told, b64, png

KEY = "ark-0123456789abcdef"
QUICK = RetryPolicy(attempts=2, first=0.01, longest=0.05)


def using(server: ImageServer, work: Callable[[ApiModel], Awaitable[Any]], options: str, model: str) -> Any:
    async def run() -> Any:
        async with Transport(policy=QUICK, timeout=60) as transport:
            return await work(
                openai_images(Spec.parse(f"m=openai:{model}?base_url={server.url}/v3{options}"), transport)
            )

    return asyncio.run(run())


def paint(server: ImageServer, commission: Commission, options: str = "", model: str = "painter") -> Painted:
    painted = using(server, lambda one: one.generate(commission, 7), options, model)
    assert isinstance(painted, Painted)
    assert KEY not in repr(painted)
    return painted


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Shown, ...]:
    for number in (1, 2):
        (tmp_path / f"{number}.png").write_bytes(png(number))
    return tuple(Shown(tmp_path / f"{number}.png", "subject") for number in (1, 2))


def url_of(shown: Shown) -> str:
    return f"data:image/png;base64,{b64(shown.path.read_bytes())}"


# --- Ark, xAI, and servers of that kind ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_seedream_is_asked_as_ark_documents_it(two: tuple[Shown, ...], count: int) -> None:
    with ImageServer() as server:
        painted = paint(
            server, Commission("A fox", two[:count], (1024, 768)), "&server=ark&size=2K", "doubao-seedream-4-5-251128"
        )
        (seen,) = server.requests
    urls = [url_of(shown) for shown in two[:count]]
    assert (seen.path, seen.headers["Authorization"]) == ("/v3/images/generations", f"Bearer {KEY}")
    assert seen.body == {
        "model": "doubao-seedream-4-5-251128",
        "prompt": "A fox",
        "image": urls[0] if count == 1 else urls,
        "size": "2K",
        "response_format": "b64_json",
        "watermark": False,
        "sequential_image_generation": "disabled",
    }
    assert (painted.pictures, painted.provenance["seed"]) == ((png(100),), "not sent")


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("doubao-seedream-4-5-251128", "2217x1663"),  # 1024x768 has 786,432 pixels, 3,686,400 are the least
        ("seedream-5-0-260128", "2217x1663"),
        ("doubao-seedream-4-0-250828", "1109x832"),  # 921,600 the least
    ],
)
def test_a_case_that_is_too_small_for_seedream_is_asked_for_in_its_own_ratio(model: str, sent: str) -> None:
    with ImageServer() as server:
        painted = paint(server, Commission("A fox", size=(1024, 768)), "&server=ark&watermark=true", model)
        (seen,) = server.requests
    wide, high = map(int, seen.body["size"].split("x"))
    assert seen.body["size"] == sent == painted.provenance["size"]
    assert SERVERS["ark"].sizes_of(model).makes((wide, high)) and wide / high == pytest.approx(4 / 3, rel=0.001)  # type: ignore[union-attr]
    assert seen.body["watermark"] is True, "what the spec says comes first"


def test_what_ark_says_of_a_reply_and_its_pictures() -> None:
    blocked = {"error": {"code": "OutputImageSensitiveContentDetected", "message": "blocked"}}
    usage = {"generated_images": 1, "output_tokens": 16384, "total_tokens": 16384}
    answers = [
        Told(body={"data": [blocked]}),
        Told(body={"data": [{"b64_json": b64(png(1))}], "usage": usage}),
        Told(status=400, body={"error": {"code": "InputTextSensitiveContentDetected", "message": "no"}}),
        Told(body={"data": [{"error": {"code": "InternalServiceError", "message": "sorry"}}]}),
    ]
    with ImageServer(answers=answers) as server:
        first, second, third, fourth = (paint(server, Commission("A fox"), "&server=ark&price=0.03") for _ in range(4))
    assert (first.failure and first.failure.kind, first.cost_usd) == ("refused", None)
    assert (second.pictures, second.cost_usd) == ((png(1),), 0.03)
    assert third.failure and third.failure.kind == "refused"
    assert fourth.failure and str(fourth.failure) == "api_error: HTTP 200: InternalServiceError sorry"


@pytest.mark.parametrize("count", [1, 2])
def test_grok_is_asked_as_xai_documents_it(two: tuple[Shown, ...], count: int) -> None:
    with ImageServer() as server:
        paint(server, Commission("A fox", two[:count], (640, 360)), "&server=xai", "grok-imagine-image-2.0")
        (seen,) = server.requests
    shown = [{"type": "image_url", "url": url_of(one)} for one in two[:count]]
    assert seen.path == "/v3/images/edits"
    assert seen.body == {
        "model": "grok-imagine-image-2.0",
        "prompt": "A fox",
        "n": 1,
        "aspect_ratio": "16:9",
        "response_format": "b64_json",
        **({"image": shown[0]} if count == 1 else {"images": shown}),
    }


@pytest.mark.parametrize(
    ("options", "path", "name"),
    [
        ("&pictures=json", "generations", "image"),
        ("&pictures=json&path=edits", "edits", "image"),
        ("&pictures=json&field=input_images", "generations", "input_images"),
    ],
)
def test_a_gateway_can_be_given_references_as_json(two: tuple[Shown, ...], options: str, path: str, name: str) -> None:
    with ImageServer() as server:
        paint(server, Commission("A fox", two), options)
        (seen,) = server.requests
    assert (seen.path, seen.body[name]) == (f"/v3/images/{path}", [url_of(one) for one in two])
    assert (seen.body["n"], seen.body["seed"]) == (1, 7)


def test_servers_are_known_by_their_hosts_and_by_no_name_that_only_looks_like_one() -> None:
    names = {
        "https://ark.cn-beijing.volces.com/api/v3": "ark",
        "https://ark.ap-southeast.bytepluses.com/api/v3": "ark",
        "https://api.x.ai/v1": "xai",
        "https://api.notx.ai/v1": "other",
        "https://x.ai.example.com/v1": "other",
    }
    assert {url: server_at(url) for url in names} == names


# --- masks -----------------------------------------------------------------------------------------------------------


def masked(folder: Path) -> Commission:
    for number, role in enumerate(("source", "mask")):
        (folder / f"{role}.png").write_bytes(png(250 * number))
    return Commission("Here", tuple(Shown(folder / f"{role}.png", role) for role in ("source", "mask")))


@pytest.mark.parametrize("options", ["", "&server=vllm-omni", "&server=sglang", "&pictures=json", "&server=ark"])
def test_off_openais_address_a_mask_is_a_picture_and_the_record_says_which(tmp_path: Path, options: str) -> None:
    commission = masked(tmp_path)
    with ImageServer() as server:
        painted = paint(server, commission, options)
        (seen,) = server.requests
    mask = commission.pictures[1]
    assert seen.named("image[]")[1:] == [mask.path.read_bytes()] or seen.body["image"][1] == url_of(mask)
    assert painted.provenance["mask"] == "sent as picture 2 of 2"


def test_at_openais_own_address_and_at_a_gateway_to_it_a_mask_is_a_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ImageServer() as server:
        paint(server, masked(tmp_path), "&server=openai", "gpt-image-2")
        monkeypatch.setattr(openai_images_module, "OPENAI", replace(OPENAI, base_url=f"{server.url}/v3"))
        paint(server, masked(tmp_path), "", "gpt-image-2")
        assert [len(seen.named("mask")) for seen in server.requests] == [1, 1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("&server=vllm-omni&mask=field", "vllm-omni takes the form's mask and never looks at it"),
        ("&server=sglang&mask=field", "leave mask=field out"),
        ("&server=sglang&steps=40", "sglang drops steps= without a word: it is called num_inference_steps= there"),
        ("&pictures=json&mask=field", "pictures=json has no field for a mask"),
        ("&path=edits", "path= and field= are for pictures=json"),
        ("&server=xai&size=exact", "takes a ratio of sides"),
        ("&server=openai&input_fidelity=high", "gpt-image-2 has no input_fidelity"),
    ],
)
def test_what_would_be_lost_without_a_word_is_refused_before_anything_is_sent(options: str, says: str) -> None:
    with ImageServer() as server, pytest.raises(RefBenchError) as raised:
        paint(server, Commission("A fox"), options, "gpt-image-2")
    assert says in str(raised.value) and server.requests == []


@pytest.mark.parametrize(
    ("owner", "options", "says"),
    [
        ("vllm", "&mask=field", "vllm-omni takes the form's mask and never looks at it"),
        ("sglang", "&steps=4", "it is called num_inference_steps= there"),
        ("vllm", "&num_inference_steps=4", ""),
        ("me", "&mask=field&steps=4", ""),
        (None, "&mask=field", ""),  # it lists nothing
    ],
)
def test_a_server_that_says_who_it_is_is_believed(owner: str | None, options: str, says: str) -> None:
    listed = {"object": "list", "data": [{"id": "painter", "owned_by": owner}]}
    with ImageServer() as server:
        if owner:
            server.files = {"/v3/models": json.dumps(listed).encode()}
        if says:
            with pytest.raises(RefBenchError, match=says):
                using(server, lambda model: model.start(), options, "painter")
        else:
            using(server, lambda model: model.start(), options, "painter")
        assert [seen.path for seen in server.requests] == ["/v3/models"]


# --- links -----------------------------------------------------------------------------------------------------------


def test_a_link_to_another_host_is_followed_where_the_user_allows_it_and_without_the_key() -> None:
    with ImageServer() as server:
        port = server.url.rpartition(":")[2]
        server.files = {"/1.png": png(1)}
        link = {"data": [{"url": f"http://localhost:{port}/1.png"}]}
        server.answers = [Told(body=link), Told(body=link), Told(body=link)]
        refused = paint(server, Commission("A fox"))
        allowed = paint(server, Commission("A fox"), "&links=localhost")
        below = paint(server, Commission("A fox"), "&links=host,ocalhost,other.localhost")
        fetched = [seen for seen in server.requests if seen.method == "GET"]
    assert allowed.pictures == (png(1),)
    assert [seen.headers.get("Authorization") for seen in fetched] == [None]
    for painted in (refused, below):
        assert painted.failure and "at localhost, another host" in str(painted.failure)


# --- ids that are gone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("gpt-image-1", "gpt-image-1 was shut down on 23 October 2026: score pictures that were saved with folder:"),
        ("dall-e-3", "dall-e-3 was shut down on 12 May 2026"),
        ("gpt-image-1.5", ""),  # only announced
        ("gpt-image-2", ""),
    ],
)
def test_an_id_that_is_gone_is_said_before_anything_is_sent_to_its_provider(
    model: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ImageServer() as server:
        using(server, lambda one: one.start(), "", model)  # a gateway may have it still
        monkeypatch.setattr(openai_images_module, "OPENAI", replace(OPENAI, base_url=f"{server.url}/v3"))
        if says:
            with pytest.raises(RefBenchError, match=says):
                using(server, lambda one: one.start(), "", model)
        else:
            using(server, lambda one: one.start(), "", model)
        assert server.requests == []


def test_a_run_that_has_the_pictures_of_a_model_that_is_gone_goes_on_without_it(
    tmp_path: Path, run_cli: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"id": "c1", "instruction": "A fox"}) + "\n")
    with ImageServer() as server:
        monkeypatch.setattr(openai_images_module, "OPENAI", replace(OPENAI, base_url=f"{server.url}/v3"))
        spec = f"m=openai:gpt-image-2?base_url={server.url}/v3"
        words = ["generate", cases, "--model", spec, "--out", tmp_path / "run"]
        assert run_cli(*words)[0] == 0
        monkeypatch.setattr(model_module, "gone", lambda kind, model: Gone(said="was shut down today", now="x"))
        assert run_cli(*words)[0] == 0
        code, _, said = run_cli(*words[:3], spec.replace("m=", "n="), *words[4:])
        assert code == 2 and "gpt-image-2 was shut down today" in said
        assert len(server.requests) == 1


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [sizes for server in SERVERS.values() for sizes in server.sizes.values()] + [Sizes()], ids=str
)
def test_any_size_becomes_one_that_the_model_makes_and_one_that_it_makes_stays(sizes: Sizes) -> None:
    rng = random.Random(0)
    for _ in range(300):
        wanted = rng.randint(1, 5000), rng.randint(1, 5000)
        made = sizes.nearest(wanted)
        assert sizes.makes(made), (wanted, made)
        assert sizes.nearest(made) == made
        exact = sizes.exact(wanted) or made
        assert (
            sizes.shapes
            or exact == made
            or all(
                abs(side - given) <= max(sizes.step / 2, sizes.step - given)
                for side, given in zip(exact, wanted, strict=True)
            )
        )
