"""A build removes what an earlier build wrote, and never anything else."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from refbench.builders.kit.folder import Shipment
from refbench.record import RefBenchError


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def ship(root: Path, **contents: str) -> None:
    shipment = Shipment(root / "bench")
    for name, text in contents.items():
        shipment.put(f"{name}/x.txt", text.encode())
    shipment.finish()


def test_what_people_put_beside_a_dataset_stays(tmp_path: Path) -> None:
    ship(tmp_path, a="one", b="two")
    (tmp_path / "bench/b/outputs.png").write_bytes(b"a model's")
    ship(tmp_path, a="other")
    assert files(tmp_path / "bench") == {"a/x.txt", "b/outputs.png"}
    assert (tmp_path / "bench/a/x.txt").read_text() == "other"
    ship(tmp_path)
    assert files(tmp_path / "bench") == {"b/outputs.png"}


def test_a_folder_that_is_empty_goes_with_its_last_file(tmp_path: Path) -> None:
    ship(tmp_path, a="one")
    ship(tmp_path)
    assert not (tmp_path / "bench").exists()


def test_a_record_that_points_outside_is_not_followed(tmp_path: Path) -> None:
    ship(tmp_path, a="one")
    victim = tmp_path / "thesis.txt"
    victim.write_text("years of work")
    record = tmp_path / ".build/bench.files.json"
    record.write_bytes(orjson.dumps(["../thesis.txt", str(victim), "a/x.txt"]))
    ship(tmp_path)
    assert victim.exists()
    record.write_text("{")
    with pytest.raises(RefBenchError, match="restore it"):
        ship(tmp_path, a="one")


def test_a_picture_that_is_gone_is_said(tmp_path: Path) -> None:
    shipment = Shipment(tmp_path / "bench")
    shipment.put("a.png", tmp_path / "gone.png")
    with pytest.raises(RefBenchError, match="put it back"):
        shipment.finish()
