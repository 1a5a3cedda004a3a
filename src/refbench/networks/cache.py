"""The feature cache: what a network said about a picture, by content, for all runs of one user.

One SQLite file for each network, its version and its weights; the key is the hash of the picture's bytes and the
view it was seen through. Only finished values go in, so a kill costs what was in flight.
"""

from __future__ import annotations

import io
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench.failure import Failure
from refbench.networks.network import Feature, NetworkInfo, network_info
from refbench.record import content_key

_COMPRESS = 65536
"""Arrays above this many bytes are masks and maps, which shrink well."""
_AT_ONCE = 500


def cache_folder() -> Path | None:
    """$REFBENCH_CACHE, else the user's cache folder; None when it says `off`."""
    named = os.environ.get("REFBENCH_CACHE")
    if named == "off":
        return None
    if named:
        return Path(named) / "features"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "refbench" / "features"


class FeatureCache:
    """Get and put many features at a time. Without a folder, or where it cannot be written, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._open: dict[str, sqlite3.Connection | None] = {}
        self._lock = threading.Lock()

    def get(self, info: NetworkInfo, dtype: str, keys: Sequence[str]) -> dict[str, Feature | Failure]:
        """Those of the keys that are known."""
        with self._lock:
            db = self._database(info, dtype)
            if db is None:
                return {}
            features: dict[str, Feature | Failure] = {}
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                asked = f"SELECT key, kind, value FROM feature WHERE key IN ({marks})"
                for key, kind, value in db.execute(asked, part):
                    features[key] = _feature(kind, value)
            return features

    def put(self, info: NetworkInfo, dtype: str, features: Mapping[str, Feature | Failure]) -> None:
        """Keep them; failures too, unless trying again could help."""
        rows: list[tuple[str, str, bytes]] = []
        for key, feature in features.items():
            if isinstance(feature, Failure):
                if not feature.transient:
                    rows.append((key, feature.kind, feature.detail.encode()))
            else:
                rows.append((key, "", _bytes(feature)))
        with self._lock:
            db = self._database(info, dtype)
            if db is not None and rows:
                try:
                    with db:
                        db.executemany("INSERT OR IGNORE INTO feature VALUES (?, ?, ?)", rows)
                except sqlite3.OperationalError:  # a full disk costs the cache, not the run
                    self._open[_name(info, dtype)] = None

    def _database(self, info: NetworkInfo, dtype: str) -> sqlite3.Connection | None:
        name = _name(info, dtype)
        if name not in self._open:
            self._open[name] = self._connect(name)
        return self._open[name]

    def _connect(self, name: str) -> sqlite3.Connection | None:
        if self._folder is None:
            return None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self._folder / f"{name}.sqlite", timeout=60, check_same_thread=False)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("CREATE TABLE IF NOT EXISTS feature (key TEXT PRIMARY KEY, kind TEXT, value BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error):  # no place to keep things: everything is computed anew
            return None
        return db

    def close(self) -> None:
        with self._lock:
            for db in self._open.values():
                if db is not None:
                    db.close()
            self._open.clear()


def _name(info: NetworkInfo, dtype: str) -> str:
    """Weights and version are in the name: after either changes, nothing old is found."""
    return f"{info.name}-{dtype}-{weights_key(info.name)}"


def weights_key(name: str) -> str:
    """Stands for a network's version and weights: another key, other values."""
    info = network_info(name)
    weights: list[Any] = [file.sha256 for file in info.weights]
    weights += [info.hub.model_dump()] if info.hub else []
    return content_key([info.version, weights])[:12]


def _bytes(feature: Feature) -> bytes:
    file = io.BytesIO()
    save = np.savez_compressed if sum(a.nbytes for a in feature.values()) > _COMPRESS else np.savez
    save(file, **feature)  # type: ignore[arg-type]
    return file.getvalue()


def _feature(kind: str, value: bytes) -> Feature | Failure:
    if kind:
        return Failure.model_validate({"kind": kind, "detail": value.decode()})
    with np.load(io.BytesIO(value), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
