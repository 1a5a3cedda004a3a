"""Files that lie about themselves, and what is no file at all: refused with a sentence, before anything is decoded."""

from __future__ import annotations

import io
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.machine import connections
from refbench.models.returned import encoded
from refbench.pictures import decode, facts_of, picture_bytes, read_facts, read_pixels, verified
from refbench.pictures import pixels as decoding
from refbench.pictures.facts import limit_from
from refbench.record import RefBenchError
from support.hostile_pictures import changed, chunk, full_rows, png, sound, strangers

IN_LITTLE_MEMORY = """
import resource, sys
sys.path[:0] = sys.argv[1:2]
from refbench.pictures import decode
from support.hostile_pictures import liars, peak, sound
for data in sound().values():
    decode(data)
before = peak()
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for name, data in liars():
    decode(data)
    taken = peak() - before
    assert taken < 64 << 10, f"{name} of {len(data)} bytes took {taken} kB"
"""


def test_no_false_length_makes_a_decoder_take_memory() -> None:
    tests = str(Path(__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", IN_LITTLE_MEMORY, tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_false_length_is_named_with_its_chunk() -> None:
    found = decode(png(4, 4, rows=full_rows(4, 4, 24), more=chunk(b"teSt", b"", 0xFFFF0000)))
    assert isinstance(found, Failure)
    assert "cut off" in found.detail and "teSt" in found.detail


def test_every_sound_file_decodes_and_every_stranger_is_a_failure() -> None:
    for name, data in sound().items():
        assert not isinstance(verified(data), Failure), name
    for name, data in strangers():
        if name != "gif-in-png":  # a GIF with something behind its end
            assert isinstance(verified(data), Failure), name


@pytest.mark.parametrize("name", ["webp", "webp-lossless", "webp-animated", "webp-turned"])
def test_a_webp_is_what_pillow_says_without_its_canvases(name: str) -> None:
    facts, opened = facts_of(sound()[name]), Image.open(io.BytesIO(sound()[name]))
    assert not isinstance(facts, Failure)
    assert (facts.width, facts.height, facts.mode) == (*opened.size, opened.mode)
    assert facts.orientation == opened.getexif().get(0x0112, 1)
    assert facts.animated == getattr(opened, "is_animated", False)


def test_a_content_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = decoding.decode
    monkeypatch.setattr(decoding, "decode", lambda data, **more: decoded.append(1) or real(data, **more))
    data = sound(seed=11)["jpeg"]
    assert verified(data) == verified(bytes(bytearray(data))) == facts_of(data)
    assert len(decoded) == 1


def test_sixteen_bits_and_alpha_are_converted_alike_in_bands_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.random.default_rng(0).integers(0, 65536, (37, 23, 4), dtype=np.uint16)
    data = cv2.imencode(".png", stored)[1].tobytes()
    whole = decode(data)
    monkeypatch.setattr(decoding, "_BAND", 50)
    assert np.array_equal(whole, decode(data))
    eight = ((stored.astype(np.int64) * 255 + 32767) // 65535)[:, :, [2, 1, 0, 3]]
    opacity = eight[:, :, 3:]
    assert np.array_equal(whole, (eight[:, :, :3] * opacity + 255 * (255 - opacity) + 127) // 255)


def test_out_of_memory_is_not_the_fault_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> object:
        raise MemoryError

    monkeypatch.setattr(cv2, "imdecode", no_memory)
    found = decode(sound(seed=12)["png"])
    assert isinstance(found, Failure) and found.kind == "machine_error" and found.transient


def test_the_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_MAX_PIXELS", "1_000")
    assert limit_from("REFBENCH_MAX_PIXELS", 5) == 1000
    monkeypatch.setenv("REFBENCH_MAX_PIXELS", "many")
    with pytest.raises(RefBenchError, match="REFBENCH_MAX_PIXELS=many: give a whole number"):
        limit_from("REFBENCH_MAX_PIXELS", 5)


def special(folder: Path) -> dict[str, Path]:
    """What a path may lead to that is no file: each would hang, never end, or be another's memory."""
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "kernel.png").symlink_to("/proc/kcore")
    (folder / "made-up.png").symlink_to("/proc/self/environ")
    with (folder / "sparse.png").open("wb") as file:
        file.truncate(1 << 40)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket.png"))
    return {path.stem: path for path in folder.iterdir()}


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may have 107 characters
    for name, path in special(Path()).items():
        for read in (picture_bytes, read_pixels, read_facts):
            found = read(path)
            if name == "made-up" and read is picture_bytes:
                assert found == b""
                continue
            assert isinstance(found, Failure) and found.kind == "unreadable_picture", name
            assert name in ("made-up",) or found.detail.startswith(path.name), found


def test_a_picture_waits_for_a_file_handle(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(saved_png := sound()["png"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.dup(0))
        given_back = threading.Timer(0.2, lambda: [os.close(taken.pop()) for _ in range(3)])
        given_back.start()
        assert picture_bytes(path) == saved_png
        given_back.join()
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_handle_that_never_comes_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refbench.machine._HANDLE_PATIENCE_S", 0.1)
    (tmp_path / "picture.png").write_bytes(sound()["png"])
    for number in (24, 23, 5, 116, 12):  # EMFILE, ENFILE, EIO, ESTALE, ENOMEM

        def refused(*_: object, number: int = number) -> int:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refused)
            found = picture_bytes(tmp_path / "picture.png")
        assert isinstance(found, Failure)
        assert found.kind == "machine_error" and found.transient, number


def test_connections_leave_handles_for_pictures() -> None:
    assert connections(8) == 8
    code = "from refbench.machine import connections; print(connections(400), connections(30))"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 256; exec {sys.executable} -c '{code}'"], capture_output=True, check=True
    )
    assert done.stdout.split() == [b"160", b"30"]


@pytest.mark.parametrize(
    "kind", ["tiff-deflate", "png-animated", "webp-lossless", "jpeg", "jpeg-progressive", "png", "gif"]
)
def test_damage_that_decoders_pass_over_is_a_failure(kind: str) -> None:
    data = sound(96)[kind]
    middle = {"png-animated": data.find(b"IDAT") + 60, "png": data.find(b"IDAT") + 60, "gif": 0}.get(
        kind, len(data) // 2
    )
    wrong = {"gif": data[:-1] + b"\x77;"}.get(kind, changed(data, middle, b"\xff\xc1\xff\xee" * 6))
    assert not isinstance(decode(data), Failure)
    assert isinstance(decode(wrong), Failure)


def test_a_model_that_gives_back_a_pipe_is_answered_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    found = encoded(tmp_path / "pipe.png")
    assert isinstance(found, Failure) and "not a regular file" in found.detail


def test_a_place_that_is_a_fraction_is_a_failure() -> None:
    data = sound()["tiff"]
    (start,) = struct.unpack_from("<I", data, 4)
    rows = next(at for at in range(start + 2, len(data), 12) if data[at : at + 2] == struct.pack("<H", 273))
    fraction = data[:rows] + struct.pack("<HHIf", 273, 11, 1, 8.5) + data[rows + 12 :]
    assert isinstance(decode(fraction), Failure)
