"""Weights from a hub: found in either place, fetched from a server on this machine, and every way that can fail."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from refbench.networks import networks
from refbench.networks.hub import fetch_hub, hub_folder, hub_paths, missing, wanted
from refbench.networks.network import HubFiles, NetworkInfo
from refbench.record import RefBenchError

constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra neural")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = b"weights " * 1000
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def info(*files: str, revision: str = COMMIT, commercial: bool = True) -> NetworkInfo:
    return NetworkInfo(
        name="some_net",
        gives="embedding",
        purpose="",
        factory="x:y",
        licence="MIT",
        commercial=commercial,
        hub=HubFiles(repository="owner/net", revision=revision, files=files),
    )


@dataclass
class Hub:
    """A hub with one repository: what it serves, or the status that it refuses with."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: {"config.json": b"{}", "model.safetensors": WEIGHTS})
    status: int = 0
    error: str = ""
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            state.asked.append(self.path)
            if state.status:
                text = json.dumps({"error": state.error}).encode()
                self.send_response(state.status)
                self.send_header("X-Error-Code", state.error)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                if body:
                    self.wfile.write(text)
                return
            data = state.files.get(self.path.rpartition("/")[2])
            self.send_response(404 if data is None else 200)
            if data is None:
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{listening.server_address[1]}"
    monkeypatch.setenv("HF_ENDPOINT", state.url)
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield state
    listening.shutdown()
    listening.server_close()
    thread.join()


def test_what_is_fetched_is_found_without_asking_again(server: Hub) -> None:
    net = info("config.json", f"model.safetensors#sha256={SHA256}")
    assert missing(net) == ["config.json", "model.safetensors"]
    fetch_hub(net)
    asked = len(server.asked)
    assert missing(net) == []
    assert hub_paths(net)["model.safetensors"].read_bytes() == WEIGHTS
    assert COMMIT in hub_paths(net)["model.safetensors"].parts
    fetch_hub(net)
    assert len(server.asked) == asked


def test_the_first_of_two_names_that_there_is_serves(server: Hub) -> None:
    net = info("model.safetensors|pytorch_model.bin")
    del server.files["model.safetensors"]
    server.files["pytorch_model.bin"] = b"pickle"
    fetch_hub(net)
    assert list(hub_paths(net)) == ["pytorch_model.bin"]


def test_files_of_one_s_own_come_first_and_need_no_network(server: Hub) -> None:
    net = info("config.json", f"model.safetensors#sha256={SHA256[:8]}")
    server.status = 500
    hub_folder(net).mkdir(parents=True)
    (hub_folder(net) / "config.json").write_text("{}")
    assert missing(net) == ["model.safetensors"]
    (hub_folder(net) / "model.safetensors").write_bytes(WEIGHTS)
    assert set(hub_paths(net).values()) == {hub_folder(net) / n for n in ("config.json", "model.safetensors")}
    fetch_hub(net)
    assert server.asked == []


def test_weights_that_are_not_here_name_the_command(server: Hub) -> None:
    with pytest.raises(RefBenchError, match=r"not here: refbench fetch some_net$"):
        hub_paths(info("config.json"))
    with pytest.raises(RefBenchError, match=r"refbench fetch some_net --accept-licence$"):
        hub_paths(info("config.json", commercial=False))


def test_a_wrong_hash_is_refused(server: Hub) -> None:
    net = info(f"model.safetensors#sha256={'0' * 64}")
    with pytest.raises(RefBenchError, match="not the file that our registry names"):
        fetch_hub(net)
    hub_folder(net).mkdir(parents=True)
    (hub_folder(net) / "model.safetensors").write_bytes(b"other")
    with pytest.raises(
        RefBenchError, match=r"model.safetensors is damaged or of another version .* refbench fetch some_net"
    ):
        hub_paths(net)


def test_a_damaged_file_in_the_cache_is_fetched_again(server: Hub) -> None:
    net = info(f"model.safetensors#sha256={SHA256}")
    (path,) = fetch_hub(net)
    path.resolve().write_bytes(b"cut off")
    with pytest.raises(RefBenchError, match="damaged"):
        hub_paths(net)
    fetch_hub(net)
    assert hub_paths(net)["model.safetensors"].read_bytes() == WEIGHTS


@pytest.mark.parametrize(("status", "error"), [(401, "GatedRepo"), (403, "GatedRepo"), (401, "")])
def test_a_gated_repository_names_the_page_and_the_token(server: Hub, status: int, error: str) -> None:
    server.status, server.error = status, error
    with pytest.raises(
        RefBenchError, match=r"owner/net is gated: accept its terms .* HF_TOKEN .* refbench fetch some_net"
    ):
        fetch_hub(info("model.safetensors"))


def test_a_file_that_the_repository_has_not_is_said(server: Hub) -> None:
    with pytest.raises(RefBenchError, match=r"has no other.safetensors or more.bin at revision"):
        fetch_hub(info("other.safetensors|more.bin"))


def test_without_a_network_the_folder_to_fill_is_named(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    net = info("model.safetensors")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)  # between its retries
    with pytest.raises(
        RefBenchError, match=r"owner/net cannot be reached: .* or put model.safetensors into .*hub/some_net"
    ):
        fetch_hub(net)


def test_offline_mode_is_named_as_the_reason(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RefBenchError, match="cannot be reached"):
        fetch_hub(info("model.safetensors"))


def test_a_file_at_an_address_lands_in_the_folder_of_one_s_own(server: Hub) -> None:
    net = info(f"{server.url}/models/head.pth#sha256={SHA256[:8]}")
    server.files["head.pth"] = WEIGHTS
    assert missing(net) == ["head.pth"]
    seen: list[tuple[str, int, int]] = []
    assert fetch_hub(net, told=lambda *said: seen.append(said)) == [hub_folder(net) / "head.pth"]
    assert seen[-1] == ("head.pth", len(WEIGHTS), len(WEIGHTS))
    assert hub_paths(net)["head.pth"].read_bytes() == WEIGHTS
    assert [path.name for path in hub_folder(net).iterdir()] == ["head.pth"]


def test_an_address_that_fails_leaves_nothing_behind(server: Hub) -> None:
    net = info(f"{server.url}/models/head.pth#sha256={SHA256[:8]}")
    with pytest.raises(RefBenchError, match="answered with status 404"):
        fetch_hub(net)
    server.files["head.pth"] = b"something else"
    with pytest.raises(RefBenchError, match="not the file that our registry names"):
        fetch_hub(net)
    assert list(hub_folder(net).iterdir()) == []
    with pytest.raises(RefBenchError, match="cannot be reached"):
        fetch_hub(info("http://127.0.0.1:9/head.pth"))


def test_every_entry_of_the_registry_can_be_read() -> None:
    """A commit or main; a hash of at least eight digits where there is one; licences that are no surprise."""
    found = {name: net for name, net in networks().items() if net.hub is not None}
    assert {"clip_b16", "clip_l14_336", "siglip_so400m", "dinov2_base", "dinov2_giant", "csd_vit_l"} <= set(found)
    for net in found.values():
        assert net.hub is not None
        assert net.hub.revision in ("", "main") or len(net.hub.revision) == 40
        assert net.hub.revision == "" or net.hub.revision != "main" or "main" in net.note
        for entry in wanted(net):
            assert entry.names
            assert entry.sha256 == "" or len(entry.sha256) >= 8
    assert not networks()["siglip_aesthetic_v25"].commercial
