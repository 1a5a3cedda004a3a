"""What is put around a pipeline of diffusers by options of the spec: a LoRA, an IP-Adapter, FLUX.1 Redux, and the
diptych of ICEdit. Each says what the pipeline then takes, loads its weights, and changes the arguments of a call.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from refbench.calls.weights import Library, Remedies, content_of
from refbench.models.diffusers.pipelines import Shape
from refbench.record import RefBenchError
from refbench.specs import Options
from refbench.text.files import users_path

# ICEdit's LoRA was trained with this sentence before the instruction (README of River-Zhang/ICEdit): other words are
# another model.
_DIPTYCH = (
    "A diptych with two side-by-side images of the same scene. "
    "On the right, the scene is exactly the same as on the left but {}"
)
_LORA_FILE = "pytorch_lora_weights.safetensors"  # what diffusers calls the file when it saves one
_CLIP_OF_FLUX = "openai/clip-vit-large-patch14"  # of XLabs' adapters for FLUX.1, whose repositories hold no encoder
_KINDS = ("lora", "ip_adapter", "ip_encoder", "redux")


@dataclass(frozen=True)
class Part:
    """Weights beside the pipeline's: a path, or `OWNER/NAME[/FILE][@REVISION]` on the hub."""

    option: str
    said: str

    @property
    def here(self) -> Path | None:
        path = users_path(self.said, f"{self.option}={self.said}")
        if path.exists():
            return path
        if self.said.startswith((".", "/", "~")) or "/" not in self.said:
            raise RefBenchError(f"{self.option}={self.said}: there is no such file or directory")
        return None

    @property
    def identity(self) -> str:
        """Its name in records: local weights by their content, those of the hub as they were written."""
        path = self.here
        if path is None:
            return self.said
        folder, files = (path, path.rglob("*")) if path.is_dir() else (path.parent, iter([path]))
        return f"{path.resolve().name}@{content_of(folder, files)}"

    def fetched(self, library: Library, *, folder: bool = False, file: str = "") -> Path:
        """Where it lies on this machine. A `folder` is fetched without pickles; `file` where none is named."""
        path = self.here
        if path is not None:
            path = path / file if file and path.is_dir() else path
            if path.is_dir() != folder:
                raise RefBenchError(f"{self.option}={self.said}: name the {'directory' if folder else 'file'}")
            return path
        written, _, revision = self.said.partition("@")
        owner, name, *inside = written.split("/")
        repository, place = f"{owner}/{name}", "/".join(inside)
        hub = library.load("huggingface_hub")
        try:
            if not folder:
                return Path(hub.hf_hub_download(repository, place or file, revision=revision or None))
            wanted = [f"{place}/{kind}" if place else kind for kind in ("*.json", "*.safetensors")]
            return Path(hub.snapshot_download(repository, allow_patterns=wanted, revision=revision or None)) / place
        except Exception as error:
            lacks = f"has no {place or file}: name the file, {repository}/FILE"
            remedies = Remedies(
                repository, revision or None, "cpu", library, "", "", otherwise="it cannot be fetched", no_index=lacks
            )
            raise RefBenchError(f"{self.option}={self.said} cannot be used: {remedies.of(error)}") from error


@dataclass(frozen=True)
class Additions:
    """What the spec puts around its pipeline; nothing, usually."""

    parts: Mapping[str, Part]
    ip_scale: float = 1.0
    diptych: int | None = None
    """Width of one of the two panels."""

    def canonical(self) -> dict[str, object]:
        known: dict[str, object] = {name: part.identity for name, part in self.parts.items()}
        scale = self.ip_scale if "ip_adapter" in self.parts else None
        return {**known, "ip_scale": scale, "diptych": self.diptych}

    def shaped(self, shape: Shape, where: str) -> Shape:
        """What the pipeline takes with all this around it."""
        several: dict[str, Any] = {"several": True, "together": False}
        if "lora" in self.parts and importlib.util.find_spec("peft") is None:
            raise RefBenchError(f"{where}: lora= needs peft: pip install 'refbench[lora]'")
        if "ip_adapter" in self.parts:
            if shape.pictures is not None or "ip_adapter_image" not in shape.parameters:
                raise RefBenchError(f"{where}: {shape.name} takes no ip_adapter=")
            entry = shape.entry.model_copy(update=several)
            shape = replace(shape, entry=entry, pictures="ip_adapter_image", needed=True)
        if "redux" in self.parts:
            if shape.name != "FluxPipeline" or shape.pictures is not None:
                raise RefBenchError(f"{where}: redux= is for a FluxPipeline without ip_adapter=, not {shape.name}")
            shape = replace(shape, entry=shape.entry.model_copy(update=several), pictures="image", needed=True)
        if self.diptych is not None:
            if shape.name != "FluxFillPipeline":
                raise RefBenchError(f"{where}: diptych= is for a FluxFillPipeline, not {shape.name}")
            entry = shape.entry.model_copy(update={"follows": False, "together": False})
            shape = replace(shape, entry=entry, mask=None)
        return shape

    def loaded(self, pipeline: Any, library: Library) -> Added:
        """Their weights, in the pipeline or beside it; before it is moved to its device."""
        found: dict[str, str] = {}
        if "lora" in self.parts:
            path = found_at(self.parts["lora"].fetched(library, file=_LORA_FILE), found, "lora")
            with _fitting(self.parts["lora"], pipeline):
                pipeline.load_lora_weights(str(path.parent), weight_name=path.name)
            if not pipeline.get_list_adapters():  # diffusers only warns of weights that fit nowhere
                raise RefBenchError(f"lora={self.parts['lora'].said} has no weights for {type(pipeline).__name__}")
        if "ip_adapter" in self.parts:
            with _fitting(self.parts["ip_adapter"], pipeline):
                self._load_ip_adapter(pipeline, library, found)
        prior = None
        if "redux" in self.parts:
            diffusers = library.load("diffusers")
            folder = found_at(self._redux_folder(diffusers, library), found, "redux")
            names = ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2")
            # Without text encoders it would ignore the instruction.
            with _fitting(self.parts["redux"], pipeline):
                prior = diffusers.FluxPriorReduxPipeline.from_pretrained(
                    str(folder), torch_dtype=pipeline.dtype, **{name: getattr(pipeline, name) for name in names}
                )
        return Added(self.diptych, "ip_adapter" in self.parts, prior, found)

    def _redux_folder(self, diffusers: Any, library: Library) -> Path:
        part = self.parts["redux"]
        if part.here is not None:
            return part.here
        repository, _, revision = part.said.partition("@")
        return Path(diffusers.FluxPriorReduxPipeline.download(repository, revision=revision or None))

    def _load_ip_adapter(self, pipeline: Any, library: Library, found: dict[str, str]) -> None:
        path = found_at(self.parts["ip_adapter"].fetched(library), found, "ip_adapter")
        folder = found_at(self.parts["ip_encoder"].fetched(library, folder=True), found, "ip_encoder")
        vision = library.load("transformers").CLIPVisionModelWithProjection
        pipeline.register_modules(image_encoder=vision.from_pretrained(str(folder), dtype=pipeline.dtype).eval())
        pipeline.load_ip_adapter(str(path.parent), subfolder="", weight_name=path.name)
        pipeline.set_ip_adapter_scale(self.ip_scale)


@contextmanager
def _fitting(part: Part, pipeline: Any) -> Iterator[None]:
    try:
        yield
    except RefBenchError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        kind = type(pipeline).__name__
        raise RefBenchError(f"{part.option}={part.said} does not fit in {kind} ({words})") from error


NOTHING = Additions({})


def additions(options: Options, pipeline: str, where: str) -> Additions:
    """Those of a spec whose pipeline is of that class."""
    parts = {name: Part(name, options[name]) for name in _KINDS if options[name] is not None}
    if "ip_adapter" not in parts and "ip_encoder" in parts:
        raise RefBenchError(f"{where}: ip_encoder= is of an ip_adapter=, which is not there")
    if "ip_adapter" in parts and "ip_encoder" not in parts:
        written, at, revision = parts["ip_adapter"].said.partition("@")
        beside = f"{written.rpartition('/')[0]}/image_encoder{at}{revision}"
        parts["ip_encoder"] = Part("ip_encoder", _CLIP_OF_FLUX if pipeline.startswith("Flux") else beside)
    if "redux" in parts and options["offload"] != "none":
        raise RefBenchError(f"{where}: redux= shares its text encoders with the pipeline: write offload=none")
    if options["diptych"] is not None and options["width"] is not None:
        raise RefBenchError(f"{where}: diptych={options['diptych']} is the width: leave width and height out")
    return Additions(parts, options["ip_scale"], options["diptych"])


def found_at(path: Path, found: dict[str, str], name: str) -> Path:
    """The path; where it lies in the hub's cache, the commit it has there is noted."""
    if "snapshots" in path.parts:
        found[name] = path.parts[path.parts.index("snapshots") + 1]
    return path


@dataclass(frozen=True)
class Added:
    """Additions whose weights are loaded: what they make of the arguments of a call, and of its picture."""

    diptych: int | None
    ip_adapter: bool
    prior: Any
    commits: Mapping[str, str]

    def to(self, device: str) -> None:
        if self.prior is not None:
            self.prior.to(device)

    def arguments(self, given: dict[str, Any], step: int) -> dict[str, Any]:
        """The arguments of one request. `step` divides every width and height that the pipeline can make."""
        if self.ip_adapter:  # a list for each adapter, of all the pictures that it is shown
            given = {**given, "ip_adapter_image": [given["ip_adapter_image"]]}
        if self.prior is not None:
            given = dict(given)
            told = self.prior(given.pop("image"), prompt=given.pop("prompt"))
            given |= {"prompt_embeds": told.prompt_embeds, "pooled_prompt_embeds": told.pooled_prompt_embeds}
        if self.diptych is not None:
            given |= _panels(given["image"], self.diptych, step)
            given["prompt"] = _DIPTYCH.format(given["prompt"])
        return given

    def picture(self, image: Any) -> Any:
        """The right panel of a diptych; else the picture."""
        return image if self.diptych is None or image is None else np.asarray(image)[:, self.diptych :]


def _panels(image: Image.Image, width: int, step: int) -> dict[str, Any]:
    """The picture twice, the right one to be painted anew."""
    height = max(step, int(image.height * width / image.width) // step * step)
    panel = image.resize((width, height), Image.Resampling.BICUBIC)
    both, mask = Image.new("RGB", (2 * width, height)), Image.new("L", (2 * width, height))
    both.paste(panel, (0, 0))
    both.paste(panel, (width, 0))
    mask.paste(255, (width, 0, 2 * width, height))
    return {"image": both, "mask_image": mask, "width": 2 * width, "height": height}
