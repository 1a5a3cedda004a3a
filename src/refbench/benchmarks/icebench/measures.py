"""What is measured for a case: the metrics of its task, by the networks of the paper and by those of a laptop."""

from __future__ import annotations

from refbench.benchmarks.icebench.cases import ICECase, picture, task_of
from refbench.benchmarks.icebench.tasks import BY_PART, QA
from refbench.benchmarks.kit.definition import Measured
from refbench.case import Picture

_IN_MASK = {
    "dino_ref": ("masked_image_match@dinov2_giant", "subject_match@dinov2_giant"),
    "dino_ref@mobilenet_v2": ("subject_match@mobilenet_v2", "subject_match@mobilenet_v2"),
}
"""Part to metric where there is a mask, in `paper` and in `corrected`: the subject of the reference in the output.

The released code paints everything outside the mask white and crops the middle, which can cut the subject away;
`corrected` crops to the mask.
"""


def measuring(case: ICECase) -> list[Measured]:
    """One entry a part, or one for each protocol where they measure differently; `qa` is asked, not measured."""
    return [measured for part in task_of(case).parts if part != QA for measured in _measured(case, part)]


def _measured(case: ICECase, name: str) -> list[Measured]:
    part = BY_PART[name]
    metric = part.metric or ""
    source, mask, reference = picture(case, "source"), picture(case, "mask"), picture(case, "reference")
    if part.reads == "caption":
        return [Measured(name, metric, facts={"caption": case.details.target_caption})]
    if part.reads == "wanted text":
        wanted = case.details.wanted_text
        return [Measured(name, metric, facts={"caption": wanted})] if wanted else []
    if name == "l1_raw":
        return [Measured(name, metric if mask is None else "l1_masked", _pictures(source=source, mask=mask))]
    if name in _IN_MASK and mask is not None:
        return _both(name, *_IN_MASK[name], _pictures(reference=reference, mask=mask))
    given = {
        None: {},
        "source": _pictures(source=source),
        "source as reference": _pictures(reference=source),
        "reference": _pictures(reference=reference),
    }
    return _both(name, metric, part.corrected or metric, given[part.reads])


def _both(name: str, paper: str, corrected: str, pictures: dict[str, Picture]) -> list[Measured]:
    if paper == corrected:  # one name, under which each protocol may have its own view
        return [Measured(name, paper, pictures)]
    ways = {"paper": paper, "corrected": corrected}
    return [Measured(name, metric, pictures, protocol=protocol) for protocol, metric in ways.items()]


def _pictures(**said: Picture | None) -> dict[str, Picture]:
    """Those that the case has; a metric that needs another is undefined and says which."""
    return {name: picture for name, picture in said.items() if picture is not None}
