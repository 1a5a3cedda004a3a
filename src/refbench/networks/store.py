"""The weights folder of the user: which files are there, and whether they are what the registry says."""

from __future__ import annotations

from pathlib import Path

from refbench.networks.network import NetworkInfo


def missing_weights(info: NetworkInfo) -> list[str]:
    """Files of the network that are not in the weights folder."""
    raise NotImplementedError


def weights_paths(info: NetworkInfo) -> dict[str, Path]:
    """The network's files by name, their hashes checked."""
    raise NotImplementedError
