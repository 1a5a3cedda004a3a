"""The weights folder and the registry: where files lie, what is refused."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from refbench.networks import NetworkInfo, WeightsFile, networks
from refbench.networks.network import is_here, missing_weights, weights_folder, weights_paths
from refbench.record import RefBenchError

GOOD = b"the weights"


def some_network(data: bytes = GOOD, file: str = "some.onnx") -> NetworkInfo:
    sha256 = hashlib.sha256(data).hexdigest()
    weights = WeightsFile(
        file=file, sha256=sha256, bytes=len(data), index="pypi", package="some-weights", version="1.0",
        archive="some_weights-1.0-py3-none-any.whl", archive_sha256="0" * 64, member="some_weights/some.onnx",
    )  # fmt: skip
    return NetworkInfo(name="some", gives="score", purpose="p", factory="a:B", licence="MIT", weights=(weights,))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    return tmp_path


def test_the_folder_is_the_chosen_one_else_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path / "w"))
    assert weights_folder() == tmp_path / "w"
    monkeypatch.delenv("REFBENCH_WEIGHTS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert weights_folder() == tmp_path / "cache/refbench/weights"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert weights_folder() == Path.home() / ".cache/refbench/weights"


def test_missing_files_are_named_without_reading_any(folder: Path) -> None:
    assert missing_weights(some_network()) == ["some.onnx"]
    (folder / "some.onnx").write_bytes(b"not read for this question")
    assert missing_weights(some_network()) == []


def test_a_file_with_the_registrys_hash_is_given_by_name(folder: Path) -> None:
    (folder / "some.onnx").write_bytes(GOOD)
    assert weights_paths(some_network()) == {"some.onnx": folder / "some.onnx"}


def test_a_damaged_file_is_refused_with_the_command_that_fetches_it_again(folder: Path) -> None:
    (folder / "some.onnx").write_bytes(GOOD[:-1])
    with pytest.raises(RefBenchError, match=r"some\.onnx is damaged .*: refbench fetch some$"):
        weights_paths(some_network())


def test_a_file_that_changes_after_it_was_checked_is_checked_again(folder: Path) -> None:
    path = folder / "some.onnx"
    path.write_bytes(GOOD)
    assert is_here(some_network().weights[0])
    path.write_bytes(GOOD[::-1])
    os.utime(path, ns=(1, 1))
    assert not is_here(some_network().weights[0])


@pytest.mark.parametrize("file", ["../some.onnx", "a/b", ".hidden", "", "a\\b", "c:d"])
def test_a_registry_entry_cannot_name_a_path_outside_of_the_folder(file: str) -> None:
    with pytest.raises(ValidationError, match="no plain file name"):
        some_network(file=file)


def test_every_network_says_where_its_weights_come_from_under_which_licence_and_hash() -> None:
    hashes: dict[str, str] = {}
    for info in networks().values():
        assert info.licence and info.purpose
        for weights in info.weights:
            for value in (weights.sha256, weights.archive_sha256, *([weights.kept_sha256] if weights.convert else [])):
                assert re.fullmatch("[0-9a-f]{64}", value), (info.name, value)
            assert weights.version in weights.archive
            assert bool(weights.convert) == bool(weights.kept_sha256) == (Path(weights.file).suffix == ".safetensors")
            # Files of all networks share one folder.
            assert hashes.setdefault(weights.file, weights.here_sha256) == weights.here_sha256


def test_every_local_network_may_be_used_commercially() -> None:
    local = [info for info in networks().values() if info.group == "local"]
    assert {"u2netp", "yolov4_tiny", "lpips_alex", "lpips_vgg", "mobilenet_v2", "open_nsfw"} <= {i.name for i in local}
    assert all(info.commercial and info.weights for info in local)


def test_every_factory_is_there() -> None:
    for info in networks().values():
        module, _, name = info.factory.partition(":")
        assert callable(getattr(importlib.import_module(module), name))
