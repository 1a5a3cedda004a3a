"""A run logged with the trackers' own packages, offline, and read back by what they read with."""

from __future__ import annotations

import gc
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from refbench.record import RefBenchError
from refbench.report.trackers import mlflow, tensorboard, wandb
from refbench.report.trackers.kinds import Receipt, log_run
from refbench.report.trackers.logged import Wanted
from support.brief_runs import evaluated

VALUE, MISSING = "A/eye/corrected/total/value", "B/eye/corrected/total/failed_missing_output"
# The packages of others warn of each other, and leave files to the collector.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = {"A": (0.8, 0.5, 0), "B": (0.3, 0.5, 2)}
    return evaluated(tmp_path_factory.mktemp("logged"), models, cases=6)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is asked of the network, and nothing is written but below the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("MLFLOW_DISABLE_TELEMETRY", "HF_HUB_OFFLINE", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    yield
    gc.collect()


def logs(run: Path, to: str, *, again: bool = False, **wanted: Any) -> Receipt:
    return log_run(run, to, Wanted(worst=1, **wanted), again=again, draws=100)


def stopped_once(monkeypatch: pytest.MonkeyPatch, tracker: Any, within: str, run: Path, to: str, **wanted: Any) -> None:
    """Log and be stopped in the middle, as by an interrupt, a kill or a full disk."""

    def stopped(*given: Any) -> None:
        raise OSError("stopped in the middle")

    with monkeypatch.context() as patched, pytest.raises(RefBenchError, match="stopped in the middle"):
        patched.setattr(tracker, within, stopped)
        logs(run, to, **wanted)


class TestTensorBoard:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("tensorboard")

    def read(self, folder: str) -> Any:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        read = EventAccumulator(folder, size_guidance={"scalars": 0, "images": 0, "tensors": 0})
        return read.Reload()

    def test_its_reader_finds_numbers_pictures_and_words(self, run: Path) -> None:
        place = logs(run, "tensorboard:tb").place
        read = self.read(place)
        assert read.Scalars(VALUE)[0].value > 1 and read.Scalars(MISSING)[0].value == 2
        assert read.Images("worst/A/01")[0].width == 24
        words = read.Tensors("worst/A/01/words")[0].tensor_proto
        assert b"instruction_alignment" in words.string_val[0]
        assert "fingerprint" in read.Tensors("config")[0].tensor_proto.string_val[0].decode()

    def test_the_same_numbers_are_logged_once_and_others_beside_them(self, run: Path) -> None:
        first, second = logs(run, "tensorboard:tb"), logs(run, "tensorboard:tb")
        assert second.known and second.place == first.place
        assert len(self.read(first.place).Scalars(VALUE)) == 1
        assert logs(run, "tensorboard:tb", models=("A",)).place != first.place
        assert logs(run, "tensorboard:tb", again=True).place != first.place

    def test_numbers_half_written_are_not_taken_for_logged(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stopped_once(monkeypatch, tensorboard, "_texts", run, "tensorboard:tb")
        place = logs(run, "tensorboard:tb")
        assert not place.known and "config" in self.read(place.place).Tags()["tensors"]

    def test_checkpoints_are_steps_of_a_series(self, run: Path) -> None:
        for step, model in ((2000, "B"), (1000, "A")):
            place = logs(run, "tensorboard:tb", models=(model,), series="mine", step=step).place
        values = self.read(place).Scalars("mine/eye/corrected/total/value")
        assert {one.step for one in values} == {1000, 2000}
        assert logs(run, "tensorboard:tb", models=("A",), series="mine", step=1000).known
        with pytest.raises(Exception, match="step 1000 of the series mine was logged with other numbers"):
            logs(run, "tensorboard:tb", models=("B",), series="mine", step=1000)


class TestMLflow:
    @pytest.fixture
    def to(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        """A database of MLflow's; the second test takes the folder of files that older versions made."""
        pytest.importorskip("mlflow")
        pytest.importorskip("sqlalchemy")
        yield f"mlflow:sqlite:///{tmp_path}/ml.db?experiment=eval"

    def client(self, tmp_path: Path) -> Any:
        from mlflow.tracking import MlflowClient

        return MlflowClient(f"sqlite:///{tmp_path}/ml.db")

    def runs(self, client: Any) -> list[Any]:
        return list(client.search_runs([client.get_experiment_by_name("eval").experiment_id]))

    def test_a_database_has_metrics_parameters_tables_and_steps(self, run: Path, to: str, tmp_path: Path) -> None:
        assert not logs(run, to).known and logs(run, to).known
        client = self.client(tmp_path)
        (found,) = self.runs(client)
        assert found.data.metrics[VALUE] > 1 and found.data.metrics[MISSING] == 2
        assert found.data.params["benchmark"] == "own" and found.data.params["fingerprint"]
        assert found.info.status == "FINISHED"
        files = Path(client.download_artifacts(found.info.run_id, ""))
        table = json.loads((files / "scores.json").read_text())
        assert "ci95_low" in table["columns"] and len(table["data"]) > 10
        assert (files / "worst/A/01.jpg").read_bytes()[:2] == b"\xff\xd8"
        assert "instruction_alignment" in (files / "worst/A/01.txt").read_text()
        # Checkpoints go on in one run.
        for step, model in ((2000, "B"), (1000, "A")):
            logs(run, to, models=(model,), series="mine", step=step)
        assert logs(run, to, models=("A",), series="mine", step=1000).known
        with pytest.raises(Exception, match="was logged with other numbers"):
            logs(run, to, models=("B",), series="mine", step=1000)
        (series,) = [one for one in self.runs(client) if one.info.run_name == "mine"]
        history = client.get_metric_history(series.info.run_id, "mine/eye/corrected/total/value")
        assert sorted(one.step for one in history) == [1000, 2000]
        assert not logs(run, to, again=True).known and len(self.runs(client)) == 3

    def test_numbers_half_written_are_not_taken_for_logged(
        self, run: Path, to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stopped_once(monkeypatch, mlflow, "_files", run, to)
        assert not logs(run, to).known and logs(run, to).known
        (found,) = self.runs(self.client(tmp_path))
        assert found.info.status == "FINISHED"
        stopped_once(monkeypatch, mlflow, "_files", run, to, models=("A",), series="mine", step=1)
        assert not logs(run, to, models=("A",), series="mine", step=1).known

    def test_a_server_that_is_not_there_is_one_sentence(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("mlflow")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with pytest.raises(Exception, match="MLflow did not take the numbers: "):
            logs(run, "mlflow:http://127.0.0.1:9")


def offline_records(path: Path) -> Iterator[Any]:
    """What W&B recorded: a LevelDB log of protocol buffers behind a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield Record.FromString(whole)
            whole = b""


class TestWandB:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("wandb")

    def test_its_offline_record_has_everything_once(self, run: Path, tmp_path: Path) -> None:
        first = logs(run, "wandb:team/eval")
        second = logs(run, "wandb:team/eval")
        import_module("wandb").teardown()  # its service writes the last records when it ends, as it does with a process
        assert not first.known and second.known and second.place in str(Path(first.place))
        (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
        records = list(offline_records(file))
        (history,) = [record.history for record in records if record.WhichOneof("record_type") == "history"]
        logged = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in history.item}
        assert logged[VALUE] > 1 and logged[MISSING] == 2
        assert logged["tables/scores/_type"] == "table-file"
        assert "instruction_alignment" in logged["worst/A/01/caption"]
        (started,) = [record.run for record in records if record.WhichOneof("record_type") == "run"][:1]
        config = {item.key: json.loads(item.value_json) for item in started.config.update}
        assert started.project == "eval" and started.entity == "team" and config["benchmark"] == "own"
        assert not list(tmp_path.glob("wandb/offline-run-*/files/requirements.txt"))

    def test_numbers_half_written_are_not_taken_for_logged(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stopped_once(monkeypatch, wandb, "_opened", run, "wandb:team/eval")
        assert not logs(run, "wandb:team/eval").known and logs(run, "wandb:team/eval").known


class TestTrackio:
    def test_its_database_has_everything_once_and_steps_in_their_place(self, run: Path, tmp_path: Path) -> None:
        """In a process of its own: Trackio reads where its database lies when it is imported."""
        pytest.importorskip("trackio")
        asked = subprocess.run(
            [sys.executable, "-c", _TRACKIO, str(run), str(tmp_path / "db")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        found = json.loads(asked.stdout.strip().splitlines()[-1])
        assert found["known"] == [False, True, False, False, True]
        (entry,) = found["plain"]
        assert entry[VALUE] > 1 and entry[MISSING] == 2
        assert entry["worst/A/01"]["caption"].startswith("case") and entry["tables/scores"]["_type"] == "trackio.table"
        assert found["config"]["benchmark"] == "own"
        assert sorted(one["step"] for one in found["series"]) == [1000, 2000]


_TRACKIO = """
import json, os, sys
from pathlib import Path
os.environ["TRACKIO_DIR"] = sys.argv[2]
from refbench.report.trackers.kinds import log_run
from refbench.report.trackers.logged import Wanted
def logs(**wanted):
    return log_run(Path(sys.argv[1]), "trackio:eval", Wanted(worst=1, **wanted), draws=100).known
known = [logs(), logs()]
known += [logs(models=(m,), series="mine", step=s) for m, s in (("B", 2000), ("A", 1000), ("A", 1000))]
from trackio.sqlite_storage import SQLiteStorage as storage
plain, series = (storage.get_logs("eval", name) for name in ("run", "mine"))
print(json.dumps({"known": known, "plain": plain, "series": series, "config": storage.get_run_config("eval", "run")}, default=str))
"""


def test_the_command_says_where_it_went_and_that_it_was_there(
    run: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    pytest.importorskip("tensorboard")
    assert run_cli("log", run, "--to", "tensorboard:tb")[:2] == (0, f"{run} is logged: tb/run\n")
    code, said, _ = run_cli("log", run, "--to", "tensorboard:tb")
    assert code == 0 and "logged already, with the same numbers" in said
