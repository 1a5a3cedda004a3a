"""A small multi-reference benchmark: put one or two subjects in front of a background.

    DIR/cases.jsonl     {"id", "instruction", "references": [{"path", "role"}], "groups", "cluster"}
    DIR/pictures/...    the photographs

Three measurements, none of them a judge's: is the background still there, is the subject recognisable, is the face the
same person's. A model that copies one of its references does well in one and badly in another: that is the point.
"""

from pathlib import Path

from refbench.benchmarks.kit import Dataset, Measured, Total, benchmark
from refbench.benchmarks.own.cases import OwnCase, load_cases
from refbench.case import AnyCase, Picture

WHO_HAS_A_FACE = "astronaut"


def load(root: Path) -> Dataset:
    return load_cases(root / "cases.jsonl")


def pictures(case: AnyCase, role: str) -> list[Picture]:
    return [picture for picture in case.request.pictures if picture.role == role]


def measure(case: AnyCase) -> list[Measured]:
    subjects = pictures(case, "subject")
    found = [Measured("background", "ssim", {"source": pictures(case, "background")[0]})]
    for part, subject in zip(("subject", "second_subject"), subjects, strict=False):
        found.append(Measured(part, "image_match@mobilenet_v2", {"reference": subject}))
    found += [
        Measured("face", "face_match@dlib_face", {"reference": subject})
        for subject in subjects
        if WHO_HAS_A_FACE in subject.name
    ]
    return found


def not_applicable(case: AnyCase) -> dict[str, str]:
    given = {measured.part for measured in measure(case)}
    reasons = {"second_subject": "the case has one subject", "face": "nobody in the references has a face"}
    return {part: reason for part, reason in reasons.items() if part not in given}


BENCHMARK = benchmark(
    name="multireference",
    title="Subjects in front of backgrounds",
    load=load,
    measure=measure,
    measured={"background": (0, 1), "subject": (-1, 1), "second_subject": (-1, 1), "face": (0, 1)},
    not_applicable=not_applicable,
    total=Total("mean", over=("background", "subject", "second_subject"), range=(0, 1)),
    case_type=OwnCase,
    layout="cases.jsonl and pictures/",
)
