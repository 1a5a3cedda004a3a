"""What is measured for a case: the metrics of its task, by the networks of the paper and by those of a laptop."""

from __future__ import annotations

from collections.abc import Mapping

from refbench.benchmarks.icebench.cases import ICECase, picture, task_of
from refbench.benchmarks.icebench.tasks import QA
from refbench.benchmarks.kit.definition import Measured
from refbench.case import Picture

_AGAINST_SOURCE: Mapping[str, str | tuple[str, str]] = {
    "lpips_src@lpips_alex": "lpips@lpips_alex",
    "l1_depth": "depth_l1@midas_dpt_hybrid",
    "l1_colorize": "colorize_l1",
    "colorfulness": "colorfulness",
    "ssim": "ssim",
    # Maps of edges and skeletons are mostly black: by L1 an output without any still scores near 1, so `corrected`
    # asks how much of the control is found again.
    "l1_canny": ("canny_l1", "edge_f1"),
    "l1_pose": ("pose_l1@openpose_body", "pose_f1@openpose_body"),
    "l1_pose@blazepose": ("pose_l1@blazepose", "pose_f1@blazepose"),
}
"""Part to metric; two where `paper` and `corrected` differ."""

_MATCHES = {
    "clip_src": ("image_match@clip_l14_336", "source"),
    "clip_ref": ("image_match@clip_l14_336", "reference"),
    "style_ref": ("image_match@csd_vit_l", "reference"),
    "clip_src@mobilenet_v2": ("image_match@mobilenet_v2", "source"),
    "clip_ref@mobilenet_v2": ("image_match@mobilenet_v2", "reference"),
    "face_ref": ("face_match@arcface_buffalo_l", "reference"),
    "face_ref@dlib_face": ("face_match@dlib_face", "reference"),
}
"""Part to metric and to the picture that the output is matched with: the metrics call it their reference."""

_SUBJECTS = {
    "dino_ref": ("image_match@dinov2_giant", "masked_image_match@dinov2_giant", "subject_match@dinov2_giant"),
    "dino_ref@mobilenet_v2": ("image_match@mobilenet_v2", "subject_match@mobilenet_v2", "subject_match@mobilenet_v2"),
}
"""Part to metric: without a mask, and with one in `paper` and in `corrected`."""


def measuring(case: ICECase) -> list[Measured]:
    """One entry a part, or one for each protocol where they measure differently; `qa` is asked, not measured."""
    found: list[Measured] = []
    for part in task_of(case).parts:
        if part != QA:
            found += _measured(case, part)
    return found


def _measured(case: ICECase, part: str) -> list[Measured]:
    source, mask, reference = picture(case, "source"), picture(case, "mask"), picture(case, "reference")
    if part == "aes":
        return [Measured(part, "aesthetic@siglip_aesthetic_v25")]
    if part == "img":
        return [Measured(part, "musiq@musiq_koniq")]
    if part == "clip_cap":
        return [Measured(part, "text_image_match@clip_l14_336", facts={"caption": case.details.target_caption})]
    if part == "text@ppocr":
        wanted = case.details.wanted_text
        return [Measured(part, "text_match@ppocr", facts={"caption": wanted})] if wanted else []
    if part == "l1_raw":
        name = "l1" if mask is None else "l1_masked"
        return [Measured(part, name, _pictures(source=source, mask=mask))]
    if part in _SUBJECTS:
        return _subject(part, mask, reference)
    if part in _MATCHES:
        metric, role = _MATCHES[part]
        return [Measured(part, metric, _pictures(reference=source if role == "source" else reference))]
    metrics = _AGAINST_SOURCE[part]
    if isinstance(metrics, str):
        return [Measured(part, metrics, _pictures(source=source))]
    paper, corrected = metrics
    return [
        Measured(part, paper, _pictures(source=source), protocol="paper"),
        Measured(part, corrected, _pictures(source=source), protocol="corrected"),
    ]


def _subject(part: str, mask: Picture | None, reference: Picture | None) -> list[Measured]:
    """The subject of the reference in the output; inside the mask where there is one.

    The released code paints everything outside the mask white and crops the middle, which can cut the subject
    away; `corrected` crops to the mask.
    """
    whole, paper, corrected = _SUBJECTS[part]
    if mask is None:
        return [Measured(part, whole, _pictures(reference=reference))]
    both = _pictures(reference=reference, mask=mask)
    if paper == corrected:  # one name, under which each protocol has its own view of the mask
        return [Measured(part, paper, both)]
    return [Measured(part, paper, both, protocol="paper"), Measured(part, corrected, both, protocol="corrected")]


def _pictures(**said: Picture | None) -> dict[str, Picture]:
    """Those that the case has; a metric that needs another is undefined and says which."""
    return {name: picture for name, picture in said.items() if picture is not None}
