"""A small vision-language model trained on people's marks: LoRA on its language part, people's distribution as the
target of each mark's digit. `local:` loads the result.

A run that is killed and begun again ends with the same bytes on the same machine: every step's draws belong to its
number, and what has been learnt is kept at the end of each stretch.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from refbench.builders.filter_judge.dataset import FilterSet, Sample, mean_of, prompts, reply_of
from refbench.builders.filter_judge.marks import LEVELS, axes_of
from refbench.builders.kit.draws import draw, shuffled
from refbench.builders.kit.folder import as_json, write_file
from refbench.builders.refblend.types import Type
from refbench.calls.weights import Library, content_of, default_dtype
from refbench.chat.adapters import ABOUT, Trained, adapter_in
from refbench.chat.local import Source, Weights, load
from refbench.chat.vlm import ChatPicture, ChatRequest, ChatText
from refbench.failure import Failure
from refbench.pictures import read_pixels
from refbench.record import RefBenchError, content_key
from refbench.runs.disk import disk_error

_LIBRARY = Library("train", "train", ("torch", "transformers", "peft", "safetensors"))
TARGETS = re.compile(r"(.*\.)?(language_model|text_model)\.layers\.\d+\.(self_attn|mlp)\.\w+_proj")
"""What LoRA is laid on, by the whole name: leaf names alone would hit the vision tower too."""
_OTHERS = 0.1
"""Weight of the reply's other tokens, so that it stays one that any reader of judges reads."""
_VALIDATION = 0.1
_WARM_UP = 0.03
Tell = Callable[[str], None]
Distributions = dict[str, dict[str, tuple[float, ...]]]
"""Over the five levels, by sample and axis."""


@dataclass(frozen=True)
class Training:
    """How a judge is trained. The text below a field is its help on the command line."""

    dataset: Path
    """Folder that refbench filter data has written"""
    _: KW_ONLY
    base: str
    """Repository on the hub or directory of a vision-language model that transformers loads"""
    out: Path
    """Folder of the trained judge; the same command goes on after a kill"""
    revision: str | None = None
    """Revision of the repository"""
    epochs: int = 3
    """Rounds over as many draws as there are training samples"""
    rate: float = 1e-4
    """Highest learning rate; a cosine after 3 % of warm-up"""
    rank: int = 16
    """Rank of the adapter; its alpha is twice that"""
    dropout: float = 0.05
    """Dropout of the adapter"""
    step: int = 32
    """Samples of a step"""
    batch: int = 8
    """Samples computed at once"""
    keep_every: int = 50
    """Steps between states that a killed run goes on from"""
    merge: bool = False
    """Write whole weights too, for servers: out/merged"""
    seed: int = 0
    """Fixes draws, dropout and the adapter's first values"""
    device: str = "auto"
    """auto, cpu or cuda:0"""
    dtype: str | None = None
    """fp32, bf16 or fp16; bf16 on a GPU by default"""

    def __post_init__(self) -> None:
        counts = (self.epochs, self.rank, self.step, self.batch, self.keep_every)
        if min(counts) < 1 or not self.rate > 0 or not 0 <= self.dropout < 1:
            raise RefBenchError(
                "--epochs, --rank, --step, --batch and --keep-every take 1 or more, --rate a number above 0, --dropout "
                "one from 0 to below 1"
            )


@dataclass(frozen=True)
class Shape:
    """How the replies about a type are spelt in tokens."""

    length: int
    """Tokens of a reply with its end."""
    digits: tuple[int, ...]
    """The place of each axis's digit, from the reply's first token."""
    levels: tuple[tuple[int, ...], ...]
    """The tokens of 1 to 5 there, by axis."""


class Learner:
    """Weights that are trained or looked at: replies scored by the tokens of their digits."""

    def __init__(self, weights: Weights, root: Path) -> None:
        self.weights = weights
        self.root = root
        self.torch: Any = _LIBRARY.load("torch")
        self.tokenizer: Any = weights.processor.tokenizer
        self._shapes: dict[Type, Shape] = {}

    def request(self, sample: Sample) -> ChatRequest:
        """The request that screening sends; pictures stand by their place alone."""
        parts = [
            ChatText(text=part) if isinstance(part, str) else ChatPicture(sha256="") for part in sample.shown(self.root)
        ]
        return ChatRequest(parts=tuple(parts))

    def shape(self, sample: Sample) -> Shape:
        if sample.type not in self._shapes:
            self._shapes[sample.type] = self._spelt(sample)
        return self._shapes[sample.type]

    def _spelt(self, sample: Sample) -> Shape:
        prompt, axes = self.weights.prompt(self.request(sample)), axes_of(sample.type)
        before = self._ids(prompt)

        def ids(marks: Mapping[str, int]) -> list[int]:
            whole = self._ids(prompt + reply_of(marks) + self.tokenizer.eos_token)
            if whole[: len(before)] != before:
                raise RefBenchError(
                    "the base's tokenizer joins the end of the request with the reply: take another base"
                )
            return whole[len(before) :]

        plain = dict.fromkeys(axes, 1)
        first, places, levels = ids(plain), [], []
        for axis in axes:
            variants = [ids({**plain, axis: level}) for level in LEVELS]
            apart = {k for other in variants[1:] for k in range(len(first)) if other[k : k + 1] != first[k : k + 1]}
            if len(apart) != 1 or any(len(other) != len(first) for other in variants):
                raise RefBenchError("the base's tokenizer joins digits with what stands around them: take another base")
            places.append(apart.pop())
            levels.append(tuple(variant[places[-1]] for variant in variants))
        return Shape(len(first), tuple(places), tuple(levels))

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def inputs(self, samples: Sequence[Sample]) -> Any:
        """Requests and replies as the weights get them, padded on the left so that all replies end together."""
        texts = [self.weights.prompt(self.request(s)) + s.reply() + self.tokenizer.eos_token for s in samples]
        first = self.tokenizer.bos_token
        made = self.weights.processor(
            text=texts,
            images=[self._images(sample) for sample in samples],
            padding=True,
            padding_side="left",
            return_tensors="pt",
            add_special_tokens=not (first and texts[0].startswith(first)),
        )
        return made.to(self.weights.source.device, dtype=self.weights.model.dtype)

    def _images(self, sample: Sample) -> list[Image.Image]:
        images = []
        for part in sample.shown(self.root):
            if isinstance(part, Path):
                pixels = read_pixels(part)
                if isinstance(pixels, Failure):
                    raise RefBenchError(f"{part} cannot be used: {pixels.detail}")
                images.append(Image.fromarray(pixels))
        return images

    def replies(self, model: Any, samples: Sequence[Sample]) -> Any:
        """The log-probabilities of every token of each reply, and the tokens themselves."""
        inputs = self.inputs(samples)
        most = max(self.shape(sample).length for sample in samples)
        logits = model(**inputs, use_cache=False, logits_to_keep=most + 1).logits[:, -(most + 1) : -1]
        said = inputs["input_ids"][:, -most:]
        pairs = zip(logits.float(), said, samples, strict=True)
        return [(row[-self.shape(s).length :], ids[-self.shape(s).length :], s) for row, ids, s in pairs]

    def loss(self, model: Any, samples: Sequence[Sample]) -> Any:
        """Cross-entropy with people's distribution over the five digits, and a little of the rest of the reply."""
        torch, total = self.torch, 0.0
        for logits, said, sample in self.replies(model, samples):
            shape = self.shape(sample)
            for place, tokens, labels in zip(shape.digits, shape.levels, sample.labels.values(), strict=True):
                of_levels = torch.log_softmax(logits[place][list(tokens)], dim=0)
                wanted = torch.tensor(labels, dtype=of_levels.dtype, device=of_levels.device)
                total = total - (wanted * of_levels).sum() / len(shape.digits)
            each = torch.log_softmax(logits, dim=-1).gather(1, said[:, None])[:, 0]
            total = total - _OTHERS * each.mean()
        return total

    def expected(
        self, model: Any, samples: Sequence[Sample], batch: int = 8
    ) -> dict[str, dict[str, tuple[float, ...]]]:
        """The distribution over the five digits, by sample and axis."""
        torch, found = self.torch, {}
        model.eval()
        with torch.inference_mode():
            for start in range(0, len(samples), batch):
                for logits, _, sample in self.replies(model, samples[start : start + batch]):
                    shape = self.shape(sample)
                    rows = [
                        tuple(torch.softmax(logits[place][list(tokens)], dim=0).tolist())
                        for place, tokens in zip(shape.digits, shape.levels, strict=True)
                    ]
                    found[sample.id] = dict(zip(sample.labels, rows, strict=True))
        return found


def error_of(said: Mapping[str, Mapping[str, Sequence[float]]], samples: Sequence[Sample]) -> float:
    """Mean absolute error of the expected marks against people's means."""
    gaps = [abs(mean_of(said[s.id][axis]) - mean) for s in samples for axis, mean in s.means().items()]
    return float(np.mean(gaps))


# --- the run ------------------------------------------------------------------------------------------------------


def train(training: Training, tell: Tell, *, most_steps: int | None = None) -> Trained | None:
    """Train, and return what `training.json` says; None where `most_steps` ended it before its time."""
    held = FilterSet(training.dataset)
    held.check_prompts()
    _LIBRARY.check_installed(training.base)
    if adapter_in(Path(training.base)) is not None:
        raise RefBenchError(f"--base {training.base} is an adapter itself: give the model that it was trained on")
    device = _LIBRARY.device(training.device)
    source = Source(training.base, training.revision, device, training.dtype or default_dtype(device), 0.0)
    learner = Learner(load(source), held.root)
    return _Run(training, held, learner, tell).go(most_steps)


class _Run:
    """A training under way."""

    def __init__(self, training: Training, held: FilterSet, learner: Learner, tell: Tell) -> None:
        self.training, self.held, self.learner, self.tell = training, held, learner, tell
        self.torch, self.peft = _LIBRARY.load("torch"), _LIBRARY.load("peft")
        self.fitted, self.validation = _parted(held.part("train"), training.seed)
        self.per_epoch = math.ceil(len(self.fitted) / training.step)
        self.steps = training.epochs * self.per_epoch
        self.torch.manual_seed(training.seed)
        self.model = self._adapted()
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = self.torch.optim.AdamW(trainable, lr=training.rate, weight_decay=0.0)
        free = ("dataset", "out", "keep_every", "merge")
        self.options = {key: value for key, value in asdict(training).items() if key not in free}
        self.key = content_key([self.options, held.sha256, learner.weights.source.dtype])
        self.errors: list[float] = []
        self.best: dict[str, Any] | None = None

    def _adapted(self) -> Any:
        model = self.learner.weights.model
        names = [name for name, _ in model.named_modules() if TARGETS.fullmatch(name)]
        if not names:
            raise RefBenchError(
                f"{self.training.base} has no language part that the adapter can be laid on: take another"
            )
        settings = self.peft.LoraConfig(
            r=self.training.rank,
            lora_alpha=2 * self.training.rank,
            lora_dropout=self.training.dropout,
            target_modules=TARGETS.pattern,
        )
        return self.peft.get_peft_model(model, settings)

    def go(self, most_steps: int | None) -> Trained | None:
        begun = self._resume()
        for step in range(begun, self.steps):
            if most_steps is not None and step - begun == most_steps:
                return None
            self._step(step)
            if (step + 1) % self.per_epoch == 0:
                self._validate()
            if (step + 1) % self.training.keep_every == 0 or (step + 1) % self.per_epoch == 0:
                self._keep(step + 1)
        return self._finish()

    def _step(self, step: int) -> None:
        torch, training = self.torch, self.training
        warm = max(1, round(_WARM_UP * self.steps))
        share = (
            (step + 1) / warm
            if step < warm
            else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, self.steps - warm)))
        )
        for group in self.optimizer.param_groups:
            group["lr"] = training.rate * share
        # Of the step's number, so that a run that goes on draws what one that never stopped would have drawn.
        torch.manual_seed(draw(training.seed, "dropout", step) >> 1)
        chance = np.array([s.weight for s in self.fitted]) / sum(s.weight for s in self.fitted)
        drawn = np.random.default_rng(draw(training.seed, "step", step)).choice(len(chance), training.step, p=chance)
        self.model.train()
        total = 0.0
        for start in range(0, training.step, training.batch):
            some = [self.fitted[k] for k in drawn[start : start + training.batch]]
            loss = self.learner.loss(self.model, some) / training.step
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.tell(f"step {step + 1} of {self.steps}: loss {total:.4f}")

    def _validate(self) -> None:
        said = self.learner.expected(self.model, self.validation, self.training.batch)
        self.errors.append(error_of(said, self.validation))
        if self.errors[-1] == min(self.errors):
            self.best = {name: tensor.clone() for name, tensor in self._adapter().items()}
        self.tell(f"epoch {len(self.errors)}: MAE {self.errors[-1]:.3f} on {len(self.validation)} samples held out")

    def _adapter(self) -> dict[str, Any]:
        found: dict[str, Any] = self.peft.get_peft_model_state_dict(self.model)
        return found

    def _keep(self, step: int) -> None:
        path = self.training.out / "state.pt"
        state = {
            "key": self.key,
            "step": step,
            "adapter": self._adapter(),
            "optimizer": self.optimizer.state_dict(),
            "errors": self.errors,
            "best": self.best,
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.torch.save(state, path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
        except OSError as error:
            raise disk_error(error, path) from error

    def _resume(self) -> int:
        path = self.training.out / "state.pt"
        if not path.is_file():
            return 0
        state = self.torch.load(path, map_location=self.learner.weights.source.device, weights_only=True)
        if state["key"] != self.key:
            raise RefBenchError(f"{path} is of another training (options, set or base): choose another --out")
        self.peft.set_peft_model_state_dict(self.model, state["adapter"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.errors, self.best = state["errors"], state["best"]
        self.tell(f"going on at step {state['step'] + 1} of {self.steps}")
        return int(state["step"])

    def _finish(self) -> Trained:
        training, out = self.training, self.training.out
        self.peft.set_peft_model_state_dict(self.model, self.best)
        self.model.save_pretrained(out)
        base = Path(training.base)
        trained = Trained(
            base=str(base.resolve()) if base.is_dir() else training.base,
            revision=self.learner.weights.revision or None,
            base_content=content_of(base, base.iterdir()) if base.is_dir() else "",
            set_sha256=self.held.sha256,
            prompts=prompts(),
            options={key: str(value) for key, value in self.options.items()},
            samples=len(self.fitted),
            held_out=len(self.validation),
            errors=tuple(round(error, 6) for error in self.errors),
            chosen_epoch=1 + self.errors.index(min(self.errors)),
        )
        about = as_json(trained.model_dump(mode="json"))
        if training.merge:
            self._write_merged(about)
        write_file(out / ABOUT, about)
        return trained

    def _write_merged(self, about: bytes) -> None:
        """Whole weights, for servers and other programs."""
        folder = self.training.out / "merged"
        self.model.merge_and_unload().save_pretrained(folder)
        base = Path(self.learner.weights.processor.tokenizer.name_or_path)
        small = (path for path in sorted(base.iterdir()) if path.suffix in (".json", ".jinja", ".txt", ".model"))
        for path in small:
            if not path.name.endswith(".index.json") and not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)
        write_file(folder / ABOUT, about)


def _parted(samples: Sequence[Sample], seed: int) -> tuple[list[Sample], list[Sample]]:
    """What is learnt, and a tenth of the originals that people marked, by which the best epoch is chosen."""
    groups = shuffled(sorted({s.group for s in samples if not s.made}), seed, "validation")
    out = set(groups[: max(1, round(_VALIDATION * len(groups)))])
    fitted = [s for s in samples if s.group not in out]
    if not fitted:
        raise RefBenchError("the training part has too few originals: mark more references")
    return fitted, [s for s in samples if s.group in out and not s.made]
