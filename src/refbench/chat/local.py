"""Weights on this machine: a vision-language model of transformers, asked several questions at a time.

Runs in one worker thread and knows no event loop; loading, and collecting questions into batches, is in local.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import importlib.util
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from refbench.calls.prices import FREE
from refbench.chat.vlm import VLM, ChatRequest, ChatText, Pictures, Reply
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.machine import threads, use_threads
from refbench.pictures import decode
from refbench.record import RefBenchError, canonical_json
from refbench.specs import Spec, family_of, judge_options

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

    def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """One answer for each question, in their order; whatever is wrong with one stays with that one."""
        said: dict[int, Reply] = {}
        shown: dict[int, _Shown] = {}
        for place, question in enumerate(questions):
            images = _images(question)
            if isinstance(images, Failure):
                said[place] = Reply(None, images)
            else:
                shown[place] = _Shown(question, images)
        # Several processors refuse a batch in which some questions have pictures and some have none.
        for with_pictures in (True, False):
            places = [place for place, item in shown.items() if bool(item.images) == with_pictures]
            said |= zip(places, self._some([shown[place] for place in places]), strict=True)
        return [said[place] for place in range(len(questions))]

    def _some(self, shown: list[_Shown]) -> list[Reply]:
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

    def _together(self, shown: list[_Shown]) -> list[Reply]:
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

    def _failed(self, item: _Shown, told: str, *, full: bool) -> Reply:
        told = " ".join(told.split())[:300]
        if full:
            where, count = self.source.device, len(item.images)
            told = f"a single request with {count} pictures does not fit in the memory of {where}: {_SMALLER} ({told})"
        return Reply(None, Failure(kind="api_error", detail=told))

    def _too_long(self, length: int, limit: int) -> Reply:
        told = (
            f"the request has {length} tokens and its reply may have {limit}, more than the context of {self.context} "
            f"tokens: {_SMALLER} or lower max_tokens"
        )
        return Reply(None, Failure(kind="api_error", detail=told), input_tokens=length)


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


# LocalVLM: a judge whose weights are on this machine, `local:REPO`. Loads them once, and asks them in batches.
#
# What happens inside a batch is in local_worker.py.

_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
_FLUSH_S = 0.05
_SMALL, _WEIGHTS = (".json", ".jinja", ".txt", ".model"), (".safetensors", ".bin")
_SAMPLES, _SAMPLE = 64, 16384


class LocalVLM(VLM):
    """One model of Hugging Face transformers. `json_schema` of a request is not enforced here."""

    def __init__(self, spec: Spec) -> None:
        options = judge_options(spec)
        for name in ("torch", "transformers"):
            if importlib.util.find_spec(name) is None:
                raise RefBenchError(f"local:{spec.what} needs {name}: pip install 'refbench[neural]'")
        self.name = spec.name
        self.family = options["family"] or family_of(spec.what.rstrip("/"))
        self.price = FREE
        self.batch: int = options["batch"]
        self.seed: int = options["seed"]
        self.max_tokens: int | None = options["max_tokens"]
        device = options["device"]
        if device == "auto":
            device = "cuda:0" if package("torch").cuda.is_available() else "cpu"
        dtype = options["dtype"] or ("bf16" if device.startswith("cuda") else "fp32")
        revision = options["revision"]
        where, self.model = _named(spec, revision)
        self._source = Source(where, revision, device, dtype, options["temperature"])
        self._weights: Weights | None = None
        self._unloadable = ""
        self._closed = False
        self._waiting: list[tuple[Question, asyncio.Future[Reply]]] = []
        self._full = asyncio.Event()
        self._emptying: asyncio.Task[None] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="refbench-local")

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
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        question = Question(
            request=request,
            pictures=pictures,
            limit=self._limit(request),
            # Of the whole act, so that neither two repeats nor two cases are drawn with the same noise.
            seed=int.from_bytes(hashlib.sha256(canonical_json(canonical)).digest()[:7]),
            gone=lambda: answer.cancelled() or self._closed,
        )
        self._waiting.append((question, answer))
        if len(self._waiting) >= self.batch:
            self._full.set()
        if self._emptying is None or self._emptying.done():
            self._emptying = asyncio.create_task(self._empty())
        said = await answer
        noted = ["cut off at the limit of tokens"] if said.cut_off else []
        if self._weights is not None and self._weights.revision:
            noted.append(f"revision {self._weights.revision}")
        if self._source.device == "cpu":
            noted.append(f"{threads()} threads")
        return Evidence(
            kind="chat",
            request=canonical,
            reply=said.text,
            failure=said.failure,
            input_tokens=said.input_tokens,
            output_tokens=said.output_tokens,
            cost_usd=0.0,
            provenance="; ".join(noted),
        )

    async def close(self) -> None:
        """Stop at the next token, and give the worker and the memory back."""
        self._closed = True
        await asyncio.to_thread(self._worker.shutdown)
        cuda = self._weights is not None and self._source.device.startswith("cuda")
        self._weights = None
        if cuda:
            package("torch").cuda.empty_cache()

    def _limit(self, request: ChatRequest) -> int:
        return self.max_tokens or request.max_tokens or 1024

    async def _empty(self) -> None:
        """Answer all who wait, a batch at a time: a full one at once, a smaller one when no more come in 50 ms."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            if len(self._waiting) < self.batch:
                self._full = asyncio.Event()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), _FLUSH_S)
            batch = [(q, a) for q, a in self._waiting[: self.batch] if not a.done()]
            del self._waiting[: self.batch]
            if not batch:
                continue
            try:
                if self._closed:
                    raise RefBenchError(f"local judge {self.name} was closed")
                answers = await loop.run_in_executor(self._worker, self._answer, [question for question, _ in batch])
                if self._closed:  # what the weights had said by then is no reply
                    raise RefBenchError(f"local judge {self.name} was closed while it answered")
            except Exception as error:  # noqa: BLE001 - carried to those who asked
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            else:
                for (_, answer), said in zip(batch, answers, strict=True):
                    if not answer.done():
                        answer.set_result(said)

    def _answer(self, questions: list[Question]) -> list[Reply]:
        """In the worker. What cannot be loaded is not tried again: the next try would wait for the network too."""
        if self._unloadable:
            raise RefBenchError(self._unloadable)
        if self._closed:  # between the handing over and here
            return []
        if self._weights is None:
            try:
                self._weights = load(self._source)
            except RefBenchError as error:
                self._unloadable = str(error)
                raise
        return self._weights.answer(questions)


def load(source: Source) -> Weights:
    """The weights, ready to be asked. Code of a repository is never run."""
    torch, transformers = package("torch"), package("transformers")
    use_threads()
    try:
        folder = source.where if Path(source.where).is_dir() else _fetched(source)
        processor = _processor(transformers, folder)
        dtype = getattr(torch, _DTYPES[source.dtype])
        model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype)
        model = model.to(source.device).eval()
    except Exception as error:
        raise RefBenchError(f"local:{source.where} cannot be used: {_remedy(source, error)}") from error
    if not processor.chat_template:
        raise RefBenchError(f"local:{source.where} has no chat template: choose an instruction-tuned model")
    # What the repository sets for transformers' own sampling; ours is in local_worker.py.
    model.generation_config.update(do_sample=False, temperature=None, top_p=None, top_k=None, max_length=None)
    return Weights(source, processor, model, revision="" if folder == source.where else Path(folder).name)


def _fetched(source: Source) -> str:
    """The repository's directory in the hub's cache. transformers would fetch it too, but hides why it could not."""
    hub = package("huggingface_hub")
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


def _remedy(source: Source, error: Exception) -> str:
    """What went wrong with loading, in one sentence with the way out."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    told = " ".join(str(error).split())[:200]
    page = f"https://huggingface.co/{source.where}"
    if "GatedRepoError" in kinds:
        return f"its repository is gated: accept its licence at {page} and run hf auth login"
    if "RepositoryNotFoundError" in kinds:
        return f"{page} is not there or private: check the name, or run hf auth login"
    if "RevisionNotFoundError" in kinds:
        return f"{page} has no revision {source.revision}"
    if kinds & {"LocalEntryNotFoundError", "HTTPError", "ConnectionError", "TimeoutError"}:
        return (
            f"it is not on this machine and the hub cannot be reached: run hf download {source.where} --local-dir DIR "
            "where there is a network, and write local:DIR"
        )
    if "OutOfMemoryError" in kinds:
        return f"it does not fit in the memory of {source.device}: write dtype=bf16 or choose a smaller model"
    if "trust_remote_code" in str(error):
        return "it needs code of its repository, which is never run here: serve it and use openai:MODEL?base_url=URL"
    if source.device != "cpu" and "cuda" in told.casefold():
        return f"device={source.device} is not there or in trouble ({told})"
    if "ImportError" in kinds:
        return f"its processor needs one more package ({told})"
    return f"give a vision-language model that transformers knows ({told or type(error).__name__})"


def _named(spec: Spec, revision: str | None) -> tuple[str, str]:
    """Where the weights are, and their name in evidence: other weights are another judge, also in the same place."""
    path = Path(spec.what).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise RefBenchError(f"local:{spec.what} has no config.json: give the directory that hf download wrote")
        return str(path), f"{path.resolve().name}@{_content(path)}"
    if spec.what.startswith((".", "/", "~")) or spec.what.count("/") > 1:
        raise RefBenchError(f"local:{spec.what}: there is no such directory")
    return spec.what, f"{spec.what}@{revision}" if revision else spec.what


def _content(path: Path) -> str:
    """A hash of the small files whole and of samples all over the weights, whose sizes do not change in training."""
    digest = hashlib.sha256()
    for file in sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")):
        size = file.stat().st_size
        with file.open("rb") as opened:
            if file.suffix in _SMALL:
                digest.update(f"{file.name} {size}\n".encode() + opened.read())
            elif file.suffix in _WEIGHTS:
                digest.update(f"{file.name} {size}\n".encode())
                for sample in range(_SAMPLES):
                    opened.seek(max(0, size - _SAMPLE) * sample // (_SAMPLES - 1))
                    digest.update(opened.read(_SAMPLE))
    return digest.hexdigest()[:16]
