"""LocalVLM: a judge whose weights are on this machine, `local:REPOSITORY`, loaded once and asked in batches.

`Weights` is a vision-language model of transformers that answers a batch in one thread and knows no event loop.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from refbench.calls.prices import FREE
from refbench.calls.weights import DTYPES, HalvedBatches, Library, LoadedWeights, Remedies, content_of, default_dtype
from refbench.chat.adapters import adapter_in, laid_on
from refbench.chat.vlm import VLM, ChatRequest, ChatText, Pictures, Reply
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.machine import threads, use_threads
from refbench.pictures import read_pixels
from refbench.record import RefBenchError, canonical_json
from refbench.specs import Spec, family_of, judge_options

_SMALLER = "send smaller pictures (--max-side 1024)"
_TRANSFORMERS = Library("local", "neural", ("torch", "transformers"))


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
        self._torch = _TRANSFORMERS.load("torch")
        self._tokenizer: Any = self.processor.tokenizer
        settings: Any = self.model.generation_config
        ends = settings.eos_token_id if settings.eos_token_id is not None else self._tokenizer.eos_token_id
        self._ends = frozenset(ends if isinstance(ends, list | tuple) else [ends])
        self._pad = next((p for p in (self._tokenizer.pad_token_id, *self._ends) if p is not None), 0)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.convert_ids_to_tokens(self._pad)
        self.context: int | None = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self._batches = HalvedBatches(_TRANSFORMERS, source.device, self._together, self._failed)
        self._system = self._system_shape()

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """One answer for each question, in their order; whatever is wrong with one stays with that one."""
        replies: dict[int, Reply] = {}
        shown: dict[int, _Shown] = {}
        for place, question in enumerate(questions):
            images = _images(question)
            if isinstance(images, Failure):
                replies[place] = Reply(None, images)
            else:
                shown[place] = _Shown(question, images)
        # Several processors refuse a batch in which some questions have pictures and some have none.
        for with_pictures in (True, False):
            places = [place for place, item in shown.items() if bool(item.images) == with_pictures]
            replies |= zip(places, self._batches.run([shown[place] for place in places]), strict=True)
        return [replies[place] for place in range(len(questions))]

    def _together(self, shown: list[_Shown]) -> list[Reply]:
        inputs = self._inputs(shown)
        lengths: list[int] = inputs["attention_mask"].sum(dim=1).tolist()
        room = float("inf") if self.context is None else self.context
        long = [n + item.question.limit > room for n, item in zip(lengths, shown, strict=True)]
        if any(long):
            rest = iter(self._batches.run([item for item, over in zip(shown, long, strict=True) if not over]))
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
        torch, transformers = self._torch, _TRANSFORMERS.load("transformers")
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

    def _read(self, ids: list[int], input_tokens: int) -> Reply:
        """The reply in the new tokens of one row; behind its end there is only padding."""
        end = next((place for place, token in enumerate(ids) if token in self._ends), None)
        used = ids if end is None else ids[: end + 1]
        text = self._tokenizer.decode(used, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        failure = None if text.strip() else Failure(kind="empty_reply", detail=f"{len(used)} tokens without text")
        return Reply(
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
        turns = zip(("user", "assistant"), request.opening or (), strict=False)
        messages = [{"role": role, "content": [{"type": "text", "text": said}]} for role, said in turns]
        messages.append({"role": "user", "content": content})
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

    def _failed(self, item: _Shown, why: str, full: bool) -> Reply:
        if full:
            where, count = self.source.device, len(item.images)
            why = f"a single request with {count} pictures does not fit in the memory of {where}: {_SMALLER} ({why})"
        return Reply(None, Failure(kind="api_error", detail=why))

    def _too_long(self, length: int, limit: int) -> Reply:
        detail = (
            f"the request has {length} tokens and its reply may have {limit}, more than the context of {self.context} "
            f"tokens: {_SMALLER} or lower max_tokens"
        )
        return Reply(None, Failure(kind="api_error", detail=detail), input_tokens=length)


def _images(question: Question) -> list[Image.Image] | Failure:
    images = []
    for part in question.request.pictures:
        pixels = read_pixels(question.pictures[part.sha256].path)
        if isinstance(pixels, Failure):
            return pixels
        images.append(Image.fromarray(pixels))
    return images


def _drawn(torch: Any, temperature: float, seeds: list[int]) -> Callable[[Any, Any], Any]:
    """Sampling as the largest of logits plus Gumbel noise, each row's from a generator of its own.

    transformers draws all rows from one generator, so that a sample would depend on the batch it was in.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(ids: Any, scores: Any) -> Any:
        noise = [torch.empty(scores.shape[1], dtype=torch.float64).exponential_(generator=g) for g in generators]
        return scores.float() / temperature - torch.stack(noise).log().to(scores.device, torch.float32)

    return draw


class LocalVLM(VLM):
    """One model of Hugging Face transformers. `json_schema` of a request is not enforced here."""

    def __init__(self, spec: Spec) -> None:
        options = judge_options(spec)
        _TRANSFORMERS.check_installed(spec.what)
        self.name = spec.name
        self.family = options["family"] or family_of(spec.what.rstrip("/"))
        self.price = FREE
        self.batch: int = options["batch"]
        self.seed: int = options["seed"]
        self.max_tokens: int | None = options["max_tokens"]
        device, revision = _TRANSFORMERS.device(options["device"]), options["revision"]
        where, self.model = _named(spec.what, revision)
        dtype = options["dtype"] or default_dtype(device)
        self._source = Source(where, revision, device, dtype, options["temperature"])
        self._loaded: LoadedWeights[Weights, Question, Reply] = LoadedWeights(
            f"local judge {self.name}",
            lambda: load(self._source),
            lambda weights, jobs: weights.answer([replace(job.request, gone=job.abandoned.is_set) for job in jobs]),
            batch=self.batch,
        )

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        parameters = {
            "dtype": self._source.dtype,
            "max_tokens": self._limit(request),
            "temperature": self._source.temperature,
            "seed": self.seed,
        }
        return request.canonical("local", self.model, repeat, parameters)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        canonical = self.canonical(request, repeat)
        # Of the whole act, so that neither two repeats nor two cases are drawn with the same noise.
        seed = int.from_bytes(hashlib.sha256(canonical_json(canonical)).digest()[:7])
        reply = await self._loaded.ask(Question(request, pictures, self._limit(request), seed))
        noted = ["cut off at the limit of tokens"] if reply.cut_off else []
        if self._loaded.weights is not None and self._loaded.weights.revision:
            noted.append(f"revision {self._loaded.weights.revision}")
        if self._source.device == "cpu":
            noted.append(f"{threads()} threads")
        return Evidence(
            kind="chat",
            request=canonical,
            reply=reply.text,
            failure=reply.failure,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd=0.0,
            provenance="; ".join(noted),
        )

    async def close(self) -> None:
        """Stop at the next token, and give the worker and the memory back."""
        was_loaded = self._loaded.weights is not None
        await self._loaded.close()
        if was_loaded:
            _TRANSFORMERS.free_memory(self._source.device)

    def _limit(self, request: ChatRequest) -> int:
        return self.max_tokens or request.max_tokens or 1024


def load(source: Source) -> Weights:
    """The weights, ready to be asked. Code of a repository is never run."""
    torch, transformers = _TRANSFORMERS.load("torch"), _TRANSFORMERS.load("transformers")
    use_threads()
    adapter = Path(source.where)
    if (trained := adapter_in(adapter)) is not None:
        trained.check_base(adapter, source.revision)
        source = replace(source, where=trained.base, revision=trained.revision)
    try:
        folder = source.where if Path(source.where).is_dir() else _fetched(source)
        processor = _processor(transformers, folder)
        dtype = getattr(torch, DTYPES[source.dtype])
        model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype)
        model = model.to(source.device).eval()
    except Exception as error:
        remedies = Remedies(
            source.where,
            source.revision,
            source.device,
            _TRANSFORMERS,
            too_large="dtype=bf16 or choose a smaller model",
            own_code="serve it and use openai:MODEL?base_url=URL",
            otherwise="give a vision-language model that transformers knows",
        )
        raise RefBenchError(f"local:{source.where} cannot be used: {remedies.of(error)}") from error
    if not processor.chat_template:
        raise RefBenchError(f"local:{source.where} has no chat template: choose an instruction-tuned model")
    if trained is not None:
        model = laid_on(model, processor.tokenizer, adapter)
    # What the repository sets for transformers' own sampling; ours is in `_drawn`.
    model.generation_config.update(do_sample=False, temperature=None, top_p=None, top_k=None, max_length=None)
    return Weights(source, processor, model, revision="" if folder == source.where else Path(folder).name)


def _fetched(source: Source) -> str:
    """The repository's directory in the hub's cache. transformers would fetch it too, but hides why it could not."""
    hub = _TRANSFORMERS.load("huggingface_hub")
    files = ["*.json", "*.jinja", "*.txt", "*.model", "*.safetensors"]
    twice = ["consolidated*", "original/*"]  # the same weights again, in the maker's own layout
    return str(
        hub.snapshot_download(source.where, revision=source.revision, allow_patterns=files, ignore_patterns=twice)
    )


def _processor(transformers: Any, folder: str) -> Any:
    """The processor, with pictures always resized by Pillow: the same pixels whether torchvision is there or not."""
    images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    try:
        processor = transformers.AutoProcessor.from_pretrained(folder)
    except ImportError:  # most often the part for videos, which needs torchvision and which no request uses
        processor = _without_videos(transformers, folder, images)
    processor.image_processor = images
    processor.chat_template = processor.chat_template or processor.tokenizer.chat_template
    return processor


def _without_videos(transformers: Any, folder: str, images: Any) -> Any:
    """The same processor with the part for pictures standing where the one for videos would be, never to be asked."""
    settings, _ = transformers.ProcessorMixin.get_processor_dict(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    name = settings.get("processor_class")
    base: Any = getattr(transformers, name) if name else transformers.PROCESSOR_MAPPING[type(config)]

    class PicturesOnly(base):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument_name == "video_processor":
                return type(argument)
            return super().check_argument_for_proper_class(argument_name, argument)

    parts = {"image_processor": images, "video_processor": images}
    if "tokenizer" in base.get_attributes():
        parts["tokenizer"] = transformers.AutoTokenizer.from_pretrained(folder)
    return PicturesOnly.from_args_and_dict([parts[part] for part in base.get_attributes()], settings)


def _named(where: str, revision: str | None) -> tuple[str, str]:
    """Where the weights are, and their name in evidence: other weights are another judge, also in the same place."""
    folder = _TRANSFORMERS.folder(where)
    if folder is None:
        return where, f"{where}@{revision}" if revision else where
    if (trained := adapter_in(folder)) is not None:
        trained.check_base(folder, revision)  # told before anything is asked
    elif not (folder / "config.json").is_file():
        raise RefBenchError(f"local:{where} has no config.json: give the directory that hf download wrote")
    return str(folder), f"{folder.resolve().name}@{content_of(folder, folder.iterdir())}"
