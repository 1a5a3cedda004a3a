"""Weights from files into networks: safetensors, or pickles read without running anything in them.

Nothing is left at random: a network whose file lacks a weight is refused.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refbench.networks.large.device import TorchDevice, package
from refbench.networks.large.preprocess import Preparation, preparation
from refbench.record import RefBenchError

Paths = Mapping[str, Path] | Path
"""Files by name, or the folder that holds them."""

_STATES = (".safetensors", ".bin", ".pth", ".pt", ".ckpt")


@dataclass(frozen=True)
class Checkpoint:
    """The files of one network, and the device that its weights go to."""

    network: str
    files: Mapping[str, Path]
    place: TorchDevice

    @classmethod
    def of(cls, network: str, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 32) -> Checkpoint:
        if isinstance(paths, Path):
            paths = {path.name: path for path in sorted(paths.iterdir()) if path.is_file()}
        return cls(network, paths, TorchDevice(device, dtype, batch))

    def file(self, *names: str) -> Path:
        """The first of the names that is there."""
        for name in names:
            if name in self.files:
                return self.files[name]
        raise RefBenchError(
            f"{self.network} needs {' or '.join(names)}, which is not among its files: refbench fetch {self.network}"
        )

    @property
    def weights(self) -> Path:
        """The one file of weights: safetensors before pickles."""
        ranked = sorted(self.files.values(), key=lambda path: (path.suffix != ".safetensors", path.name))
        for path in ranked:
            if path.suffix in _STATES:
                return path
        raise RefBenchError(
            f"{self.network} has no file of weights ({', '.join(_STATES)}): refbench fetch {self.network}"
        )

    def state(self, needed: Iterable[str] = ()) -> dict[str, Any]:
        """The weights by name; refuses a file that does not fit into memory or lacks one of those needed."""
        self.place.check_room(self.network, [self.weights])
        state = read_state(self.weights, self.network)
        self.need(state, needed)
        return state

    def need(self, state: Mapping[str, Any], names: Iterable[str]) -> None:
        """Refuse a file that lacks a weight."""
        absent = [name for name in names if name not in state]
        if absent:
            raise self._unlike(f"{absent[0]} and {len(absent) - 1} more" if len(absent) > 1 else absent[0])

    def placed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors on the device, in its number format."""
        return {name: value.to(self.place.device, self.place.torch_dtype) for name, value in state.items()}

    def preparation(self, **changes: Any) -> Preparation:
        """How the repository says that pictures are prepared."""
        return preparation(self.file("preprocessor_config.json"), **changes)

    def config(self, kind: str) -> Any:
        """The configuration, of that class of transformers."""
        path = self.file("config.json")
        try:
            return getattr(package("transformers"), kind).from_json_file(str(path))
        except (OSError, ValueError, KeyError) as error:
            raise RefBenchError(f"{path} is damaged ({type(error).__name__}): refbench fetch {self.network}") from None

    def model(self, kind: str, config: Any, state: Mapping[str, Any] | None = None) -> Any:
        """The model of transformers of that class with all of its weights, on the device and ready to run."""
        transformers = package("transformers")
        state = self.state() if state is None else state
        with _quiet(transformers), self.place.loading(self.network):
            # Attention is left to transformers' choice: some parts of some networks refuse the fused one.
            model, report = getattr(transformers, kind).from_pretrained(
                None,
                config=config,
                state_dict=dict(state),
                dtype=self.place.torch_dtype,
                ignore_mismatched_sizes=True,  # told below, with the name of the weight
                output_loading_info=True,
            )
            wrong = sorted([*report["missing_keys"], *(str(key[0]) for key in report["mismatched_keys"])])
            if wrong:
                raise self._unlike(wrong[0])
            return model.eval().requires_grad_(False).to(self.place.device)

    def _unlike(self, lacks: str) -> RefBenchError:
        return RefBenchError(
            f"{self.weights} is not the file of {self.network}: it lacks {lacks}; run refbench fetch {self.network}"
        )


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


def folded(
    weight: Any, state: Mapping[str, Any], norm: str, eps: float, *, transposed: bool = False
) -> tuple[Any, Any]:
    """Weight and bias of a convolution with the batch normalisation behind it multiplied in."""
    scale, shift, mean, variance = (
        state[f"{norm}.{part}"].double() for part in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / (variance + eps).sqrt()
    # A transposed convolution has its outputs in the second place.
    across = (1, -1, 1, 1) if transposed else (-1, 1, 1, 1)
    return (weight.double() * factor.view(across)).float(), (shift - mean * factor).float()


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Unused weights (the text half, where only pictures are encoded) are not worth a warning."""
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
