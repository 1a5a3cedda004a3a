"""Weights on this machine: a vision-language model of transformers, asked several questions at a time.

Runs in one worker thread and knows no event loop; loading, and collecting questions into batches, is in local.py.
"""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from refbench.chat.provider import Said
from refbench.chat.request import ChatRequest, ChatText
from refbench.chat.vlm import Pictures
from refbench.failure import Failure
from refbench.pictures import decode
from refbench.record import RefBenchError

_SMALLER = "send smaller pictures (--max-side 1024)"


def package(name: str) -> Any:
    """A package of the extra `neural`, imported where it is needed and never before: torch alone takes seconds."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RefBenchError(f"local judges need {name} ({error}): pip install 'refbench[neural]'") from error


@dataclass(frozen=True)
class Source:
    """Which weights, and how they are held."""

    where: str
    """A directory or the id of a repository on the hub."""
    revision: str | None
    device: str
    dtype: str
    temperature: float


@dataclass(frozen=True)
class Question:
    """One request as the weights get it."""

    request: ChatRequest
    pictures: Pictures
    limit: int
    """The most tokens that the reply may have."""
    seed: int
    gone: Callable[[], bool] = lambda: False
    """Whether nobody waits for the reply any more."""


@dataclass(frozen=True)
class _Shown:
    """A question whose pictures are decoded."""

    question: Question
    images: list[Image.Image]


class Weights:
    """A loaded model with its processor. Not to be used by two threads at once."""

    def __init__(self, source: Source, processor: Any, model: Any, revision: str = "") -> None:
        self.source = source
        self.revision = revision
        self.processor = processor
        self.model = model
        self._torch = package("torch")
        self._tokenizer: Any = self.processor.tokenizer
        settings: Any = self.model.generation_config
        ends = settings.eos_token_id if settings.eos_token_id is not None else self._tokenizer.eos_token_id
        self._ends = frozenset(ends if isinstance(ends, list | tuple) else [ends])
        self._pad = next((p for p in (self._tokenizer.pad_token_id, *self._ends) if p is not None), 0)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.convert_ids_to_tokens(self._pad)
        self.context: int | None = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self._most: int | None = None
        """The largest batch that is tried, once a larger one did not fit in memory."""
        self._system = self._system_shape()

    def answer(self, questions: Sequence[Question]) -> list[Said]:
        """One answer for each question, in their order; whatever is wrong with one stays with that one."""
        said: dict[int, Said] = {}
        shown: dict[int, _Shown] = {}
        for place, question in enumerate(questions):
            images = _images(question)
            if isinstance(images, Failure):
                said[place] = Said(None, images)
            else:
                shown[place] = _Shown(question, images)
        # Several processors refuse a batch in which some questions have pictures and some have none.
        for with_pictures in (True, False):
            places = [place for place, item in shown.items() if bool(item.images) == with_pictures]
            said |= zip(places, self._some([shown[place] for place in places]), strict=True)
        return [said[place] for place in range(len(questions))]

    def _some(self, shown: list[_Shown]) -> list[Said]:
        """Answer together, or in halves when that fails: for want of memory, or because of one of the questions."""
        if not shown:
            return []
        if self._most is None or len(shown) <= self._most:
            try:
                return self._together(shown)
            except Exception as error:  # noqa: BLE001 - any trouble of one question is told as that question's failure
                full = self._is_full(error)
                told = f"{type(error).__name__}: {error}"
            # Only here, outside the handler, has the traceback let go of the tensors of the failed try.
            if full and self.source.device.startswith("cuda"):
                self._torch.cuda.empty_cache()
            if len(shown) == 1:
                return [self._failed(shown[0], told, full=full)]
            if full:
                self._most = len(shown) // 2
        half = (len(shown) + 1) // 2
        return self._some(shown[:half]) + self._some(shown[half:])

    def _together(self, shown: list[_Shown]) -> list[Said]:
        inputs = self._inputs(shown)
        lengths: list[int] = inputs["attention_mask"].sum(dim=1).tolist()
        room = float("inf") if self.context is None else self.context
        long = [n + item.question.limit > room for n, item in zip(lengths, shown, strict=True)]
        if any(long):
            rest = iter(self._some([item for item, over in zip(shown, long, strict=True) if not over]))
            return [
                self._too_long(n, s.question.limit) if over else next(rest)
                for n, s, over in zip(lengths, shown, long, strict=True)
            ]
        width = inputs["input_ids"].shape[1]
        rows = self._generate(inputs.to(self.source.device, dtype=self.model.dtype), [s.question for s in shown])
        return [
            self._read(row[width:].tolist()[: item.question.limit], length)
            for row, item, length in zip(rows, shown, lengths, strict=True)
        ]

    def _inputs(self, shown: list[_Shown]) -> Any:
        prompts = [self.prompt(item.question.request) for item in shown]
        first = self._tokenizer.bos_token
        return self.processor(
            text=prompts,
            images=[item.images for item in shown] if shown[0].images else None,
            padding=True,
            padding_side="left",  # so that every reply starts right after its own question
            return_tensors="pt",
            # A template that writes the first token itself must not get a second one.
            add_special_tokens=not (first and prompts[0].startswith(first)),
        )

    def _generate(self, inputs: Any, questions: list[Question]) -> Any:
        torch, transformers = self._torch, package("transformers")
        width = inputs["input_ids"].shape[1]

        def enough(ids: Any, scores: Any, **_: Any) -> Any:
            """A row ends at its own limit, whatever the others may have, and when nobody waits for it."""
            made = ids.shape[1] - width
            return torch.tensor([made >= q.limit or q.gone() for q in questions], device=ids.device)

        drawing = []
        if self.source.temperature > 0:
            drawing = [_drawn(torch, self.source.temperature, [q.seed for q in questions])]
        with torch.inference_mode():
            return self.model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=max(q.limit for q in questions),
                pad_token_id=self._pad,
                logits_processor=transformers.LogitsProcessorList(drawing),
                stopping_criteria=transformers.StoppingCriteriaList([enough]),
            )

    def _read(self, ids: list[int], input_tokens: int) -> Said:
        """The reply in the new tokens of one row; behind its end there is only padding."""
        end = next((place for place, token in enumerate(ids) if token in self._ends), None)
        used = ids if end is None else ids[: end + 1]
        text = self._tokenizer.decode(used, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        failure = None if text.strip() else Failure(kind="empty_reply", detail=f"{len(used)} tokens without text")
        return Said(
            None if failure else text,
            failure,
            input_tokens=input_tokens,
            output_tokens=len(used),
            cut_off=end is None,
        )

    def prompt(self, request: ChatRequest) -> str:
        """The request in the words of the model's own chat template."""
        content = [
            {"type": "text", "text": part.text} if isinstance(part, ChatText) else {"type": "image"}
            for part in request.parts
        ]
        system = request.system or ""
        if system and self._system is None:
            content.insert(0, {"type": "text", "text": f"{system}\n\n"})
        messages = [{"role": "user", "content": content}]
        if system and self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system(system)})
        return self._render(messages)

    def _render(self, messages: list[dict[str, Any]]) -> str:
        return str(self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _system_shape(self) -> Callable[[str], Any] | None:
        """How the template wants a system message, found by trying; None when it refuses one or leaves it out."""
        word = secrets.token_hex(8)
        shapes: tuple[Callable[[str], Any], ...] = (lambda text: [{"type": "text", "text": text}], lambda text: text)
        for shape in shapes:
            messages = [
                {"role": "system", "content": shape(word)},
                {"role": "user", "content": [{"type": "text", "text": "?"}]},
            ]
            try:
                prompt = self._render(messages)
            except Exception:  # noqa: BLE001 - templates refuse with errors of any kind
                continue
            if word in prompt and f"'text': '{word}'" not in prompt:  # the latter: Python's spelling of the list
                return shape
        return None

    def _is_full(self, error: Exception) -> bool:
        told = str(error).casefold()
        return isinstance(error, MemoryError | self._torch.OutOfMemoryError) or "can't allocate memory" in told

    def _failed(self, item: _Shown, told: str, *, full: bool) -> Said:
        told = " ".join(told.split())[:300]
        if full:
            where, count = self.source.device, len(item.images)
            told = f"a single request with {count} pictures does not fit in the memory of {where}: {_SMALLER} ({told})"
        return Said(None, Failure(kind="api_error", detail=told))

    def _too_long(self, length: int, limit: int) -> Said:
        told = (
            f"the request has {length} tokens and its reply may have {limit}, more than the context of {self.context} "
            f"tokens: {_SMALLER} or lower max_tokens"
        )
        return Said(None, Failure(kind="api_error", detail=told), input_tokens=length)


def _images(question: Question) -> list[Image.Image] | Failure:
    found = []
    for part in question.request.pictures:
        path = question.pictures[part.sha256].path
        try:
            pixels = decode(path.read_bytes())
        except OSError as error:  # a picture that vanished between preparing and asking
            return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}")
        if isinstance(pixels, Failure):
            return pixels
        found.append(Image.fromarray(pixels))
    return found


def _drawn(torch: Any, temperature: float, seeds: list[int]) -> Callable[[Any, Any], Any]:
    """Sampling as the largest of logits plus Gumbel noise, each row's from a generator of its own.

    transformers draws all rows from one generator, so that a sample would depend on the batch it was in.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(ids: Any, scores: Any) -> Any:
        noise = [torch.empty(scores.shape[1], dtype=torch.float64).exponential_(generator=g) for g in generators]
        return scores.float() / temperature - torch.stack(noise).log().to(scores.device, torch.float32)

    return draw
