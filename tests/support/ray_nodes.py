"""A Ray cluster of several nodes on this machine, for tests: real daemons, small, quiet, and gone afterwards."""

from __future__ import annotations

import _socket
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SMALL = {"object_store_memory": 80 * 2**20}
SETTINGS = {
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_memory_monitor_refresh_ms": "0",  # the machine's memory is no part of what is tested
    "RAY_AUTH_MODE": "disabled",
}


@contextmanager
def ray_cluster(*nodes: dict[str, Any]) -> Iterator[Any]:
    """A head with one core and a node for each of the settings, as `ray.cluster_utils.Cluster`."""
    patch = pytest.MonkeyPatch()
    for name, value in SETTINGS.items():
        patch.setenv(name, value)
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **SMALL})
    try:
        for node in nodes:
            made.add_node(**{**SMALL, **node})
        # Nodes talk over this machine's own address, which is not loopback.
        own, guarded, real = made.address.partition(":")[0], socket.socket.connect, _socket.socket.connect
        patch.setattr(socket.socket, "connect", lambda self, to: (real if to[0] == own else guarded)(self, to))
        yield made
    finally:
        made.shutdown()
        patch.undo()
