"""Networks as ONNX graphs, built here from bare weights, and the one way that onnxruntime is asked to run them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from refbench.record import RefBenchError

Array = NDArray[np.float32]
Item = TypeVar("Item")

# The oldest pair that has every operator used here: a new onnx may write what the installed onnxruntime cannot read.
_OPSET, _IR = 13, 8


class Graph:
    """An ONNX graph under construction. Each method adds one operator and returns the name of its result."""

    def __init__(self, **inputs: tuple[int | str, ...]) -> None:
        self._inputs = inputs
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._count = 0

    def constant(self, values: NDArray[Any], name: str = "") -> str:
        """A named constant is stored once, however often it is used."""
        name = name or f"c{len(self._constants)}"
        self._constants[name] = np.asarray(values, order="C")
        return name

    def op(self, kind: str, *arguments: str, **attributes: Any) -> str:
        helper = import_module("onnx.helper")
        self._count += 1
        result = f"{kind}{self._count}"
        self._nodes.append(helper.make_node(kind, list(arguments), [result], **attributes))
        return result

    def conv(
        self,
        x: str,
        weight: NDArray[Any],
        bias: NDArray[Any] | None = None,
        *,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        name: str = "",
    ) -> str:
        """Convolution; `weight` is (out, in, height, width)."""
        constants = [self.constant(weight.astype(np.float32), f"{name}.weight" if name else "")]
        if bias is not None:
            constants.append(self.constant(bias.astype(np.float32), f"{name}.bias" if name else ""))
        return self.op("Conv", x, *constants, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def max_pool(self, x: str, size: int, stride: int) -> str:
        return self.op("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2)

    def second_half(self, x: str, channels: int) -> str:
        """The upper half of the channels, as Darknet's grouped route takes it."""
        ends = (self.constant(np.array([n], np.int64)) for n in (channels // 2, channels, 1))
        return self.op("Slice", x, *ends)

    def twice_as_large(self, x: str) -> str:
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        modes = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        return self.op("Resize", x, "", scales, **modes)

    def model(self, **outputs: str) -> bytes:
        """The finished model; `outputs` gives each result its name."""
        helper, kept = import_module("onnx.helper"), import_module("onnx.numpy_helper")
        float32 = import_module("onnx").TensorProto.FLOAT
        nodes = [*self._nodes, *(helper.make_node("Identity", [of], [name]) for name, of in outputs.items())]
        inputs = [helper.make_tensor_value_info(n, float32, shape) for n, shape in self._inputs.items()]
        results = [helper.make_tensor_value_info(name, float32, None) for name in outputs]
        constants = [kept.from_array(values, name) for name, values in self._constants.items()]
        graph = helper.make_graph(nodes, "refbench", inputs, results, constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
        return bytes(made.SerializeToString())


def folded(weight: NDArray[Any], scale: Any, shift: Any, mean: Any, variance: Any, eps: float) -> tuple[Array, Array]:
    """Weight and bias of a convolution that does the batch normalisation after it too."""
    factor = np.asarray(scale, np.float64) / np.sqrt(np.asarray(variance, np.float64) + eps)
    bias = np.asarray(shift, np.float64) - np.asarray(mean, np.float64) * factor
    return (weight * factor[:, None, None, None]).astype(np.float32), bias.astype(np.float32)


class Session:
    """A loaded model: named arrays in, its outputs out. Safe to call from several threads."""

    def __init__(self, model: bytes | Path, device: str) -> None:
        onnxruntime = import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        # Pictures come in all sizes; the arena would keep the memory of the largest for the rest of the run.
        options.enable_cpu_mem_arena = False
        # Threads that wait by turning round took 15 to 40 % more CPU where other work runs beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        source = model if isinstance(model, bytes) else str(model)
        self._session = onnxruntime.InferenceSession(source, options, providers=_providers(device))
        self.inputs = [given.name for given in self._session.get_inputs()]

    def __call__(self, *arrays: NDArray[Any], outputs: Sequence[str] | None = None) -> list[NDArray[Any]]:
        return list(self._session.run(outputs, dict(zip(self.inputs, arrays, strict=True))))


def _providers(device: str) -> list[Any]:
    if device == "cpu":
        return ["CPUExecutionProvider"]
    onnxruntime = import_module("onnxruntime")
    name, _, number = device.partition(":")
    if name == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        # TF32 would round the products to ten bits, and values would depend on the device by more than 1e-4.
        return [("CUDAExecutionProvider", {"device_id": int(number or 0), "use_tf32": 0}), "CPUExecutionProvider"]
    raise RefBenchError(f"onnxruntime cannot run on {device} here: use cpu, or install onnxruntime-gpu for cuda")


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in pieces of at most that many."""
    return (items[start : start + size] for start in range(0, len(items), size))


def by_shape(arrays: Sequence[NDArray[Any]]) -> Mapping[tuple[int, ...], list[int]]:
    """Places of the arrays of each shape: only equal shapes can share a batch."""
    places: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, array in enumerate(arrays):
        places[array.shape].append(place)
    return places


def channels_first(pictures: Sequence[NDArray[Any]]) -> Array:
    """Pictures of one size as one batch, channels before rows, as the graphs take them."""
    return np.ascontiguousarray(np.stack(pictures).transpose(0, 3, 1, 2), dtype=np.float32)


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a safetensors file by name."""
    return dict(import_module("safetensors.numpy").load_file(path))
