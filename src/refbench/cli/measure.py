"""`refbench measure`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.text.console import printable

if TYPE_CHECKING:
    from refbench.metrics import Metric
    from refbench.metrics.folders import FolderValue
    from refbench.metrics.measure import Measurement
    from refbench.metrics.sets import SetValue


def measure_command(
    metrics: Annotated[list[str], Parameter(help="Metrics: refbench list metrics; of two folders fid and kid too")],
    *,
    output: Annotated[Path, Parameter(help="The picture to measure, or a folder of them")],
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
    csv: Annotated[Path | None, Parameter(help="Of two folders: write every picture's values to this .csv")] = None,
    json: Json = False,
) -> int:
    """Measure a picture, or a folder of them against another, picture by picture.

    With several references the value is the mean over them, and each one's own is listed. Pictures of two folders
    (--source or --reference) are paired by name; printed are means with 95 % intervals over the pictures.
    """
    from refbench.metrics import find_metric
    from refbench.metrics.measure import measure
    from refbench.record import RefBenchError

    if output.is_dir():
        others = {"source": source, "reference": reference[0] if reference and len(reference) == 1 else None}
        return _measure_folders(metrics, output, others, _How(protocol, device, dtype, force), csv, json=json)
    if csv is not None or len(metrics) != 1:
        raise RefBenchError(f"{output} is one picture: give one metric and no --csv, or folders")
    (metric,) = metrics
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
        print(printable(f"{metric.id} ({protocol}): no value, {failure}", line=True))
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


class _How(NamedTuple):
    protocol: str
    device: str
    dtype: str
    force: bool


def _measure_folders(
    metrics: Sequence[str], output: Path, others: Mapping[str, Path | None], how: _How, csv: Path | None, *, json: bool
) -> int:
    """Metrics of two folders: of the sets, where the number of pictures belongs to the value, and of each pair."""
    from refbench.metrics import find_metric
    from refbench.metrics.folders import Pairs, measure_pairs
    from refbench.metrics.sets import KINDS, PLAIN, measure_folders
    from refbench.record import RefBenchError

    given = {role: folder for role, folder in others.items() if folder is not None}
    if len(given) != 1 or not (folder := next(iter(given.values()))).is_dir():
        raise RefBenchError(f"{output} is a folder: give --source or --reference, the folder to compare it with")
    sets = [name for name in metrics if name in PLAIN or name.partition("@")[0] in KINDS]
    found = [find_metric(name, how.protocol) for name in metrics if name not in sets]
    if csv is not None and not found:
        raise RefBenchError(f"--csv {csv}: {', '.join(sets)} have one value for all pictures, and none of each")
    of_sets = [measure_folders(name, output, folder, device=how.device, force=how.force) for name in sets]
    values, pairs = [], None
    if found:
        pairs = Pairs.of(output, folder)
        wanted = [(metric, _role(metric)) for metric in found]
        values = measure_pairs(wanted, pairs, protocol=how.protocol, device=how.device, dtype=how.dtype)
    if csv is not None:
        _write(csv, values, how.protocol)
    _print_folders(values, of_sets, pairs.alone if pairs else (), how.protocol, json=json)
    return 1 if any(value.failures for value in values) else 0


def _role(metric: Metric) -> str:
    """As what a metric is shown the other folder's picture."""
    from refbench.record import RefBenchError

    needed = [argument.name for argument in metric.inputs if not argument.optional and argument.kind != "network"]
    role = next((name for name in ("source", "reference") if name in needed), None)
    if role is None or set(needed) != {"output", role}:
        raise RefBenchError(f"{metric.id} does not compare two pictures: it reads {', '.join(needed)}")
    return role


def _write(path: Path, values: Sequence[FolderValue], protocol: str) -> None:
    from refbench.runs import write_rows

    rows = [
        {
            "case": name,
            "metric": value.metric.id,
            "protocol": protocol,
            "value": one.value,
            "failure": one.failure.kind if one.failure else None,
            "detail": one.failure.detail if one.failure else None,
        }
        for value in values
        for name, one in value.values.items()
    ]
    write_rows(rows, path)


def _print_folders(
    values: Sequence[FolderValue], sets: Sequence[SetValue], alone: Sequence[str], protocol: str, *, json: bool
) -> None:
    if json:
        rows = [
            {
                "metric": value.metric.id,
                "value": value.mean,
                "ci95": value.ci95,
                "n": len(value.scores),
                "protocol": protocol,
                "network": "+".join(value.metric.networks) or None,
                "failures": {name: failure.model_dump() for name, failure in value.failures.items()},
            }
            for value in values
        ]
        of_sets = [value.model_dump(mode="json") for value in sets]
        if of_sets and not rows:
            print(orjson.dumps(of_sets[0] if len(of_sets) == 1 else {"sets": of_sets}).decode())
        else:
            print(orjson.dumps({"metrics": rows, "sets": of_sets, "alone": list(alone)}).decode())
        return
    for value in values:
        mean = "no value" if value.mean is None else f"{value.mean:.6f}"
        interval = f" (95 % interval {value.ci95[0]:.6f} to {value.ci95[1]:.6f})" if value.ci95 else ""
        n, better = len(value.scores), value.metric.better
        print(f"{value.metric.id} ({protocol}): {mean}{interval}, {n} pictures, {better} is better")
        for name, failure in value.failures.items():
            print(printable(f"  {name}: {failure}", line=True))
    for one in sets:
        print(one)
    if alone:
        more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
        print(printable(f"Without a partner of the same name, and left out: {', '.join(alone[:3])}{more}", line=True))
