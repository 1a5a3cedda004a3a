"""`refbench measure`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json

if TYPE_CHECKING:
    from refbench.metrics import Metric
    from refbench.metrics.measure import Measurement


def measure_command(
    metric: Annotated[str, Parameter(help="Name of a metric: refbench list metrics")],
    *,
    output: Annotated[Path, Parameter(help="The picture to measure; a folder for metrics of sets")],
    source: Annotated[Path | None, Parameter(help="The picture it was made from")] = None,
    mask: Annotated[Path | None, Parameter(help="Mask of the region to be edited, white inside")] = None,
    reference: Annotated[list[Path] | None, Parameter(help="Reference picture; may be given several times")] = None,
    caption: Annotated[str | None, Parameter(help="Text that the picture should show or match")] = None,
    box: Annotated[str | None, Parameter(help="Box in pixels of the reference, as x1,y1,x2,y2")] = None,
    output_box: Annotated[str | None, Parameter(help="Box in pixels of the output, as x1,y1,x2,y2")] = None,
    protocol: Annotated[
        Literal["paper", "corrected"], Parameter(help="As the paper's code measures, or without its faults")
    ] = "corrected",
    device: Annotated[str, Parameter(help="Where networks run: cpu, cuda, cuda:1")] = "cpu",
    dtype: Annotated[Literal["float32", "bfloat16"], Parameter(help="Number format of large networks")] = "float32",
    force: Annotated[bool, Parameter(help="Metrics of sets: also where there are too few pictures")] = False,
    json: Json = False,
) -> int:
    """Measure one picture with one metric.

    With several references the value is the mean over them, and each one's own is listed.
    """
    from refbench.metrics import find_metric
    from refbench.metrics.measure import measure
    from refbench.record import RefBenchError

    if output.is_dir():
        return _measure_set(metric, output, reference, device, force, json)
    for path in (output, source, mask, *(reference or ())):
        if path is not None and not path.is_file():
            raise RefBenchError(f"{path} is not there: give a picture")
    found = find_metric(metric, protocol)
    given = {"output": output, "source": source, "mask": mask}
    references: list[Path | None] = [*reference] if reference else [None]
    values = [
        measure(
            metric,
            protocol=protocol,
            device=device,
            dtype=dtype,
            caption=caption,
            box=_box(box),
            output_box=_box(output_box),
            **{name: path for name, path in {**given, "reference": one}.items() if path is not None},
        )
        for one in references
    ]
    return _print_values(found, protocol, values, json=json)


def _print_values(metric: Metric, protocol: str, values: Sequence[Measurement], *, json: bool) -> int:
    failure = next((value.failure for value in values if value.failure is not None), None)
    mean = None if failure else sum(value.value for value in values if value.value is not None) / len(values)
    sizes = values[0].sizes
    if json:
        report = {
            "metric": metric.id,
            "value": mean,
            "network": "+".join(metric.networks) or None,
            "protocol": protocol,
            **({"values": [value.value for value in values]} if len(values) > 1 else {}),
            **({"failure": failure.model_dump()} if failure else {}),
            **({"sizes": sizes} if sizes else {}),
        }
        print(orjson.dumps(report).decode())
    elif failure:
        print(f"{metric.id} ({protocol}): no value, {failure}")
    else:
        print(f"{metric.id} ({protocol}): {mean:.6f}, {metric.better} is better. {metric.summary}")
        if sizes:
            words = ", ".join(f"{name} {size[0]}x{size[1]}" for name, size in sizes.items())
            print(f"The pictures differ in size ({words}); they were brought together as {protocol} does.")
    return 1 if failure else 0


def _box(text: str | None) -> tuple[float, float, float, float] | None:
    from refbench.record import RefBenchError

    if text is None:
        return None
    try:
        x1, y1, x2, y2 = (float(number) for number in text.split(","))
    except ValueError:
        raise RefBenchError(f"a box is x1,y1,x2,y2 in pixels, not {text!r}") from None
    return x1, y1, x2, y2


def _measure_set(metric: str, output: Path, reference: list[Path] | None, device: str, force: bool, json: bool) -> int:
    """Metrics of two folders of pictures: the number of pictures belongs to the value."""
    from refbench.metrics.sets import measure_folders
    from refbench.record import RefBenchError

    if not reference or len(reference) != 1 or not reference[0].is_dir():
        raise RefBenchError(f"{output} is a folder: give --reference the folder to compare it with")
    value = measure_folders(metric, output, reference[0], device=device, force=force)
    if json:
        print(orjson.dumps(value.model_dump(mode="json")).decode())
    else:
        print(value)
    return 0
