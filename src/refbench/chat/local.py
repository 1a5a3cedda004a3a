"""LocalVLM: a judge whose weights are on this machine, `local:REPO`. Loads them once, and asks them in batches.

What happens inside a batch is in local_worker.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from refbench.chat.families import family_of
from refbench.chat.local_worker import Question, Source, Weights, package
from refbench.chat.provider import Said
from refbench.chat.request import ChatRequest
from refbench.chat.spec import Spec
from refbench.chat.vlm import Pictures
from refbench.evidence import Evidence
from refbench.machine import threads, use_threads
from refbench.record import RefBenchError, canonical_json

_OPTIONS = ("dtype", "device", "batch", "max_tokens", "seed", "temperature", "revision", "family")
_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
_FLUSH_S = 0.05
_SMALL, _WEIGHTS = (".json", ".jinja", ".txt", ".model"), (".safetensors", ".bin")
_SAMPLES, _SAMPLE = 64, 16384


class LocalVLM:
    """One model of Hugging Face transformers. `json_schema` of a request is not enforced here."""

    def __init__(self, spec: Spec) -> None:
        unknown = sorted(set(spec.options) - set(_OPTIONS))
        if unknown:
            raise RefBenchError(f"local judge {spec.name}: no option {unknown[0]!r}: there are {', '.join(_OPTIONS)}")
        for name in ("torch", "transformers"):
            if importlib.util.find_spec(name) is None:
                raise RefBenchError(f"local:{spec.what} needs {name}: pip install 'refbench[neural]'")
        self.name = spec.name
        self.family = spec.options.get("family") or family_of(spec.what.rstrip("/"))
        self.batch = _whole(spec, "batch", 8, least=1)
        self.seed = _whole(spec, "seed", 0, least=0)
        self.max_tokens = _whole(spec, "max_tokens", 0, least=1)
        device = _device(spec)
        dtype = spec.options.get("dtype") or ("bf16" if device.startswith("cuda") else "fp32")
        if dtype not in _DTYPES:
            raise RefBenchError(f"local judge {spec.name}: dtype={dtype}: choose {' or '.join(_DTYPES)}")
        revision = spec.options.get("revision")
        where, self.model = _named(spec, revision)
        self._source = Source(where, revision, device, dtype, _temperature(spec))
        self._weights: Weights | None = None
        self._unloadable = ""
        self._closed = False
        self._waiting: list[tuple[Question, asyncio.Future[Said]]] = []
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

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        return 0.0

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        canonical = self.canonical(request, repeat)
        answer: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
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

    def close(self) -> None:
        """Stop at the next token, and give the worker and the memory back."""
        self._closed = True
        self._worker.shutdown()
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

    def _answer(self, questions: list[Question]) -> list[Said]:
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


def _whole(spec: Spec, option: str, default: int, least: int) -> int:
    text = spec.options.get(option)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < least:
        raise RefBenchError(f"local judge {spec.name}: {option}={text}: write a whole number from {least}")
    return int(text)


def _temperature(spec: Spec) -> float:
    text = spec.options.get("temperature", "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise RefBenchError(f"local judge {spec.name}: temperature={text}: write a number from 0")
    return value


def _device(spec: Spec) -> str:
    device = spec.options.get("device", "auto")
    if device == "auto":
        return "cuda:0" if package("torch").cuda.is_available() else "cpu"
    if device == "cpu" or device.removeprefix("cuda:").isdecimal():
        return device
    raise RefBenchError(f"local judge {spec.name}: device={device}: write auto, cpu or cuda:0")


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
