"""A judge of one's own: tiny random models of three architectures learn people's marks, and go on after a kill."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.builders.filter_judge.dataset import FilterSet, Sample, write_set
from refbench.builders.filter_judge.gate import read_gate
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.screening import marks_of, rubric
from refbench.calls.transport import Transport
from refbench.chat.local import LocalVLM, Source, load
from refbench.pictures import encode, read_pixels
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.blend import drawing
from support.commands import called
from support.filter_marks import write_marks
from support.tiny_vlms import MAKERS

REASON = "training needs the extra train: pip install 'refbench[train]'"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)
pytest.importorskip("peft", reason=REASON)
tensors = pytest.importorskip("safetensors.torch", reason=REASON)

from refbench.builders.filter_judge import training  # noqa: E402
from refbench.builders.filter_judge.training import Learner, Training, _Run, error_of, train  # noqa: E402

Base = Callable[[str], Path]
COLOURS = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255))
EPOCHS = {"qwen": 60, "llava": 50, "idefics": 40}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    transformers.utils.logging.disable_progress_bar()
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            texts = [rubric(name).text for name in ("canny", "caption")]
            made[kind] = MAKERS[kind](transformers, tmp_path_factory.mktemp(kind), texts)
            path = made[kind] / "config.json"
            config = json.loads(path.read_text())
            config["text_config"]["max_position_embeddings"] = 4000  # a reply may have 1,000
            path.write_text(json.dumps(config))
        return made[kind]

    return make


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> FilterSet:
    """References whose colour is their mark, of 45 originals that say nothing of it."""
    root = tmp_path_factory.mktemp("planted")
    pictures = root / "pictures"
    pictures.mkdir()
    rows = ["type,metric,rater,score,original,reference"]
    for number in range(45):
        level = 1 + number % 5
        noise = np.random.default_rng(number).integers(-8, 9, (64, 64, 3))
        colour = np.clip(COLOURS[level - 1] + noise, 0, 255).astype(np.uint8)
        (pictures / f"{number}.png").write_bytes(encode(drawing(number)))
        (pictures / f"{number}-canny.png").write_bytes(encode(colour))
        for rater, mark in enumerate((level, min(level + 1, 5))):
            ends = f"r{rater},{mark},{number}.png,{number}-canny.png"
            rows += [f"canny,{axis},{ends}" for axis in ("alignment", "quality")]
    (root / "marks.csv").write_text("\n".join(rows) + "\n")
    write_set(root / "marks.csv", pictures, root / "set", made=0.0)
    return FilterSet(root / "set")


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> FilterSet:
    root = tmp_path_factory.mktemp("marked")
    write_set(write_marks(root, 12), root / "pictures", root / "set", made=0.1)
    return FilterSet(root / "set")


def learner(folder: Path, held: FilterSet) -> Learner:
    return Learner(load(Source(str(folder), None, "cpu", "fp32", 0.0)), held.root)


def settings(held: FilterSet, base: Path, out: Path, **more: Any) -> Training:
    plain = {"epochs": 1, "step": 4, "batch": 4, "rank": 8, "rate": 1e-2, "device": "cpu", "keep_every": 2}
    return Training(held.root, **{**plain, "base": str(base), "out": out, **more})


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_trained_on_is_what_screening_sends_token_by_token(
    kind: str, base: Base, held: FilterSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vlm = LocalVLM(Spec.parse(f"tiny=local:{base(kind)}?device=cpu&dtype=fp32&max_tokens=2", "--judge"))
    sent: list[Any] = []

    async def ask(sample: Sample) -> None:
        async with Transport(timeout=10) as transport, Interviews(tmp_path / sample.id, transport) as interviews:
            given = sample.caption if sample.reference is None else held.root / sample.reference
            await marks_of(interviews, vlm, "a", sample.type, held.root / sample.original, given)

    samples = [next(s for s in held.samples if s.type == name and not s.made) for name in ("canny", "caption")]
    teacher = learner(base(kind), held)
    real = type(teacher.weights)._inputs
    monkeypatch.setattr(
        type(teacher.weights), "_inputs", lambda self, shown: sent.append(real(self, shown)) or sent[-1]
    )
    for sample in samples:
        sent.clear()
        asyncio.run(ask(sample))
        asked, trained = sent[0], teacher.inputs([sample])
        shape = teacher.shape(sample)
        assert trained["input_ids"][0, : -shape.length].tolist() == asked["input_ids"][0].tolist()
        assert torch.equal(trained["pixel_values"], asked["pixel_values"])
        reply = trained["input_ids"][0, -shape.length :].tolist()
        assert teacher.tokenizer.decode(reply, skip_special_tokens=True) == sample.reply()
        digits = [teacher.tokenizer.decode([reply[place]]) for place in shape.digits]
        assert digits == [c for c in sample.reply() if c.isdigit()]
    asyncio.run(vlm.close())


# --- what is learnt ------------------------------------------------------------------------------------------------


class Learnt:
    """A base, and what one training made of it."""

    def __init__(self, kind: str, base: Path, held: FilterSet, out: Path) -> None:
        more = {"epochs": EPOCHS[kind], "step": 32, "batch": 32, "rank": 16, "dropout": 0.0, "keep_every": 1000}
        untouched = learner(base, held)
        self.run = _Run(settings(held, base, out, **more, merge=True), held, learner(base, held), lambda line: None)
        self.samples = self.run.fitted
        self.before = untouched.expected(untouched.weights.model, self.samples)
        self.fresh = self.run.learner.expected(self.run.model, self.samples)
        self.about = self.run.go(None)
        self.out = out
        self.after = said_by(out, held, self.samples)


def said_by(folder: Path, held: FilterSet, samples: Sequence[Sample]) -> Any:
    """What is said by the judge that lies in a folder, as `local:` loads it."""
    teacher = learner(folder, held)
    return teacher.expected(teacher.weights.model, samples)


@pytest.fixture(scope="module")
def learnt(base: Base, planted: FilterSet, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Learnt]:
    made: dict[str, Learnt] = {}

    def make(kind: str) -> Learnt:
        if kind not in made:
            made[kind] = Learnt(kind, base(kind), planted, tmp_path_factory.mktemp("learnt") / kind)
        return made[kind]

    return make


def distance(said: Any, samples: Sequence[Sample]) -> float:
    """Kullback and Leibler's of people's labels from what was learnt, on average."""
    each = [
        sum(p * np.log(p / q) for p, q in zip(labels, said[s.id][axis], strict=True) if p)
        for s in samples
        for axis, labels in s.labels.items()
    ]
    return float(np.mean(each))


def constant_error(samples: Sequence[Sample]) -> float:
    """The least mean absolute error that one mark for all can have."""
    means = [mean for s in samples for mean in s.means().values()]
    return float(np.mean(np.abs(np.array(means) - np.median(means))))


@pytest.mark.parametrize("kind", MAKERS)
def test_people_s_marks_are_learnt_of_the_pictures_and_loaded_as_they_were_learnt(
    kind: str, learnt: Callable[[str], Learnt], planted: FilterSet, tmp_path: Path
) -> None:
    one = learnt(kind)
    assert one.fresh == one.before, "a fresh adapter is the base"
    assert len(one.samples) >= 30
    assert distance(one.before, one.samples) > 0.5
    assert distance(one.after, one.samples) < 0.05
    unseen = [*planted.part("calibration"), *planted.part("test")]
    assert error_of(said_by(one.out, planted, unseen), unseen) < 0.5 * constant_error(unseen)
    # merged in place by the run itself, loaded from whole weights, and loaded as an adapter
    for other, most in (
        (one.run.learner.expected(one.run.learner.weights.model, one.samples), 1e-5),
        (said_by(one.out / "merged", planted, one.samples), 1e-3),
    ):
        assert all(np.allclose(one.after[s.id][a], other[s.id][a], atol=most) for s in one.samples for a in s.labels)

    shutil.copytree(planted.root, tmp_path / "grey")
    for path in (tmp_path / "grey" / "pictures").iterdir():
        path.write_bytes(encode(np.full_like(read_pixels(path), 128)))
    blind = said_by(one.out, FilterSet(tmp_path / "grey"), one.samples)
    assert error_of(one.after, one.samples) < 0.3 * constant_error(one.samples)
    assert error_of(blind, one.samples) >= 0.95 * constant_error(one.samples)


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.fixture
def trained(base: Base, held: FilterSet, tmp_path: Path) -> Path:
    """A judge after two steps, on a base of its own that may be spoilt."""
    shutil.copytree(base("idefics"), tmp_path / "base")
    train(settings(held, tmp_path / "base", tmp_path / "judge", step=16, batch=16), lambda line: None)
    return tmp_path / "judge"


def refused(folder: Path, options: str = "") -> str:
    with pytest.raises(RefBenchError) as raised:
        LocalVLM(Spec.parse(f"local:{folder}?device=cpu{options}", "--judge"))
        load(Source(str(folder), None, "cpu", "fp32", 0.0))
    return str(raised.value)


def test_an_adapter_that_does_not_fit_or_changes_nothing_and_a_changed_base_are_refused(trained: Path) -> None:
    path = trained / "adapter_model.safetensors"
    good = tensors.load_file(path)
    load(Source(str(trained), None, "cpu", "fp32", 0.0))
    tensors.save_file({name.replace(".text_model.", ".language_model."): one for name, one in good.items()}, path)
    assert "does not fit its base" in refused(trained), "a wrong prefix"
    tensors.save_file({name: one for name, one in good.items() if ".layers.1." not in name}, path)
    assert "does not fit its base" in refused(trained), "a part would change logits, and not be what was trained"
    tensors.save_file({name: one * ("lora_B" not in name) for name, one in good.items()}, path)
    assert "changes nothing" in refused(trained)
    tensors.save_file(good, path)
    assert "was trained on" in refused(trained, "&revision=abc")
    weights = trained.parent / "base" / "model.safetensors"
    tensors.save_file({name: 2 * one for name, one in tensors.load_file(weights).items()}, weights, {"format": "pt"})
    assert "whose content has changed" in refused(trained)
    shutil.rmtree(trained.parent / "base")
    assert "which is not there" in refused(trained)


def test_a_judge_of_another_set_or_of_other_requests_is_refused(
    trained: Path, held: FilterSet, planted: FilterSet, tmp_path: Path
) -> None:
    judge = f"local:{trained}?device=cpu&dtype=fp32"
    code, _, err = called("filter", "test", planted.root, judge, "--out", tmp_path / "report")
    assert (code, "was trained on another set" in err) == (2, True)
    path = trained / "training.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "prompts": {**about["prompts"], "canny": "0"}}))
    for words in (("filter", "test", held.root, judge), ("calibrate", held.root, "--judge", judge)):
        code, _, err = called(*words, "--out", tmp_path / "other")
        assert (code, "the request about canny has changed" in err) == (2, True)
    out = ("--out", tmp_path / "blend", "--judge", judge, "--types", "canny,caption")
    code, _, err = called("blend", "build", held.root / "pictures", *out)
    assert (code, "the request about canny has changed" in err) == (2, True)
    with pytest.raises(RefBenchError, match="is an adapter itself"):
        train(settings(held, trained, tmp_path / "twice"), lambda line: None)


# --- the whole way ------------------------------------------------------------------------------------------------


def test_a_trained_judge_is_calibrated_on_what_it_has_not_seen_and_tested_beside_people(
    base: Base, planted: FilterSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_OTHERS", 1.0)  # random weights have yet to learn what a reply looks like
    Learnt("idefics", base("idefics"), planted, tmp_path / "own")
    judge = f"own=local:{tmp_path / 'own'}?device=cpu&dtype=fp32&max_tokens=60"
    most = ("--max-failed", 0.6)  # nor do two layers always end it
    code, out, err = called("calibrate", planted.root, "--judge", judge, "--out", tmp_path / "judge", *most)
    assert (code, "No cut holds for canny" in out) == (0, True), err
    gate = read_gate(tmp_path / "judge")
    assert 2 <= gate.cuts["canny"].n <= len(planted.part("calibration")), "and not the training part"
    code, _, err = called("filter", "test", planted.root, tmp_path / "judge", "--out", tmp_path / "report", *most)
    assert code == 0, err
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    errors = {row["judge"]: row["mae"]["value"] for row in report["agreement"] if row["axis"] == "alignment"}
    assert errors["own"] < 0.5 * errors["constant"]


# --- going on -----------------------------------------------------------------------------------------------------


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()


def test_a_killed_training_goes_on_to_the_same_bytes(base: Base, held: FilterSet, tmp_path: Path) -> None:
    whole, cut = (settings(held, base("llava"), tmp_path / name, epochs=1) for name in ("whole", "cut"))
    train(whole, lambda line: None)
    assert train(cut, lambda line: None, most_steps=3) is None
    told: list[str] = []
    train(cut, told.append)
    assert told[0].startswith("going on at step 3 ")
    assert digest(tmp_path / "cut") == digest(tmp_path / "whole")
    with pytest.raises(RefBenchError, match="is of another training"):
        train(settings(held, base("llava"), tmp_path / "cut", epochs=2), told.append)
