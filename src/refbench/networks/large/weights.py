"""Weights from files into networks: safetensors, or pickles read without running anything in them.

Nothing is left at random: a network whose file lacks a weight is refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from refbench.networks.large.device import Place, package
from refbench.record import RefBenchError

Paths = Mapping[str, Path] | Path
"""Files by name, or the folder that holds them."""

_STATES = (".safetensors", ".bin", ".pth", ".pt", ".ckpt")


def named(paths: Paths) -> dict[str, Path]:
    """Files by name."""
    if isinstance(paths, Path):
        return {path.name: path for path in sorted(paths.iterdir()) if path.is_file()}
    return dict(paths)


def file_of(paths: Mapping[str, Path], network: str, *names: str) -> Path:
    """The first of the names that is there."""
    for name in names:
        if name in paths:
            return paths[name]
    raise RefBenchError(f"{network} needs {' or '.join(names)}, which is not among its files: refbench fetch {network}")


def state_file(paths: Mapping[str, Path], network: str) -> Path:
    """The one file of weights: safetensors before pickles."""
    ranked = sorted(paths.values(), key=lambda p: (p.suffix != ".safetensors", p.name))
    found = next((path for path in ranked if path.suffix in _STATES), None)
    if found is None:
        raise RefBenchError(f"{network} has no file of weights ({', '.join(_STATES)}): refbench fetch {network}")
    return found


def read_state(path: Path, network: str) -> dict[str, Any]:
    """Tensors by name. Of a training checkpoint the model's part; `module.` of parallel training is dropped."""
    torch = package("torch")
    try:
        if path.suffix == ".safetensors":
            state: Any = package("safetensors.torch").load_file(path)
        else:
            with torch.serialization.safe_globals(_harmless()):
                state = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # damaged and hostile files end in any exception
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise RefBenchError(
            f"{path} is damaged, or not only weights ({type(error).__name__}): "
            f"delete it and run refbench fetch {network}"
        ) from None
    for part in ("model_state_dict", "state_dict", "params"):
        if isinstance(state, dict) and isinstance(state.get(part), dict):
            state = state[part]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise RefBenchError(f"{path} holds no weights by name: refbench fetch {network}")
    return {name.removeprefix("module."): value for name, value in state.items()}


def _harmless() -> list[Any]:
    """What the training checkpoint of CSD holds besides tensors: its arguments, and numbers of numpy 1."""
    scalar = package("numpy._core.multiarray").scalar
    return [
        argparse.Namespace,
        np.dtype,
        (scalar, "numpy.core.multiarray.scalar"),
        (scalar, "numpy._core.multiarray.scalar"),
        np.dtypes.Float64DType,
        np.dtypes.Int64DType,
    ]


def placed(state: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The tensors on the device, in its number format."""
    return {name: value.to(place.device, place.torch_dtype) for name, value in state.items()}


def need(state: Mapping[str, Any], names: Iterable[str], path: Path, network: str) -> None:
    """Refuse a file that lacks a weight."""
    absent = [name for name in names if name not in state]
    if absent:
        raise _unlike(path, network, f"{absent[0]} and {len(absent) - 1} more" if len(absent) > 1 else absent[0])


def transformer(kind: str, config: Any, state: Mapping[str, Any], place: Place, path: Path, network: str) -> Any:
    """The model of transformers of that class with these weights, all of them, on the device and ready to run."""
    transformers = package("transformers")
    with _quiet(transformers), place.loading(network):
        # Attention is left to transformers' choice: some parts of some networks refuse the fused one.
        model, report = getattr(transformers, kind).from_pretrained(
            None,
            config=config,
            state_dict=dict(state),
            dtype=place.torch_dtype,
            ignore_mismatched_sizes=True,  # told below, with the name of the weight
            output_loading_info=True,
        )
        wrong = sorted([*report["missing_keys"], *(str(key[0]) for key in report["mismatched_keys"])])
        if wrong:
            raise _unlike(path, network, wrong[0])
        return model.eval().requires_grad_(False).to(place.device)


def read_config(kind: str, path: Path, network: str) -> Any:
    """The configuration of that class of transformers."""
    try:
        return getattr(package("transformers"), kind).from_json_file(str(path))
    except (OSError, ValueError, KeyError) as error:
        raise RefBenchError(f"{path} is damaged ({type(error).__name__}): refbench fetch {network}") from None


def _unlike(path: Path, network: str, what: str) -> RefBenchError:
    return RefBenchError(f"{path} is not the file of {network}: it lacks {what}; run refbench fetch {network}")


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Unused weights (the text half, where only pictures are encoded) are no news."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
