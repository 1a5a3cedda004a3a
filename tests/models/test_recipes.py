"""Recipes: each worker as a real process, against a stand-in with the upstream package's names and parameters."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.models.model import Commission, Painted, Shown
from refbench.models.process.command import CommandModel
from refbench.specs import Spec

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*_worker.py"))

# As much of torch as the recipes use, on arrays of numpy.
TORCH = """
import contextlib
import numpy as np
bfloat16 = "bfloat16"
class Generator:
    def __init__(self, device): self.device = device
    def manual_seed(self, seed): self.seed = seed; return self
seeds = []
def manual_seed(seed): seeds.append(seed)
no_grad = contextlib.nullcontext
def full(shape, value, device): return np.full(shape, value)
def cat(parts, dim): return np.concatenate(parts, axis=dim)
def clamp(x, min, max): return np.clip(x, min, max)
def tensor(x, device): return np.array(x)
"""
NOTE = """
import json, os
from PIL import Image
def note(**given): print(json.dumps(given, default=str), file=open(os.environ["NOTED"], "a"))
def picture(size=(32, 24), colour="green"): return Image.new("RGB", size, colour)
class Result:
    def __init__(self, images): self.images = images
"""

STAND_INS = {
    "omnigen2_worker": {
        "omnigen2/pipelines/omnigen2/pipeline_omnigen2.py": """
            class OmniGen2Pipeline:
                @classmethod
                def from_pretrained(cls, path, torch_dtype, trust_remote_code): print("loading", path); return cls()
                def to(self, device): return self
                def __call__(self, prompt, input_images, width, height, num_inference_steps, max_sequence_length,
                             text_guidance_scale, image_guidance_scale, negative_prompt, num_images_per_prompt, generator,
                             output_type):
                    note(prompt=prompt, images=[i.size for i in input_images or []], size=[width, height], seed=generator.seed,
                         settings=[num_inference_steps, text_guidance_scale, image_guidance_scale])
                    return Result([picture((width, height))])
            """
    },
    "acepp_worker": {
        "scepter/modules/utils/config.py": "class Config:\n    def __init__(self, cfg_dict=None, load=False, cfg_file=None): self.file = cfg_file",
        "scepter/modules/utils/file_system.py": "class FS:\n    @staticmethod\n    def init_fs_client(config): pass",
        "inference/ace_plus_diffusers.py": """
            class ACEPlusDiffuserInference:
                def init_from_cfg(self, cfg): assert cfg.file.endswith("config/ace_plus_diffuser_infer.yaml")
                def __call__(self, reference_image, edit_image, edit_mask, prompt, output_height, output_width, sampler,
                             sample_steps, guide_scale, repainting_scale, lora_path, seed):
                    given = [i and [i.mode, i.size] for i in (reference_image, edit_image, edit_mask)]
                    note(prompt=prompt, images=given, size=[output_width, output_height], seed=seed,
                         settings=[sample_steps, guide_scale, repainting_scale, lora_path])
                    return picture((output_width, output_height)), seed
            """,
    },
    "dreamomni2_worker": {
        "dreamomni2/pipeline_dreamomni2.py": """
            class DreamOmni2Pipeline:
                @classmethod
                def from_pretrained(cls, base, torch_dtype): return cls()
                def to(self, device): return self
                def load_lora_weights(self, path, adapter_name): assert path.endswith("_lora")
                def set_adapters(self, names, adapter_weights): self.adapter = names[0]
                def __call__(self, images, height, width, prompt, num_inference_steps, guidance_scale, generator):
                    note(prompt=prompt, images=[i.size for i in images], size=[width, height], seed=generator.seed,
                         settings=[self.adapter, num_inference_steps, guidance_scale])
                    return Result([picture((width, height))])
            """,
        "transformers.py": """
            class Inputs(dict):
                input_ids = [[1, 2]]
                def to(self, device): return self
            class AutoProcessor:
                @classmethod
                def from_pretrained(cls, path): return cls()
                def apply_chat_template(self, messages, tokenize, add_generation_prompt): return messages[0]["content"][-1]["text"]
                def __call__(self, text, images, videos, padding, return_tensors): self.text = text[0]; return Inputs(ids=1)
                def batch_decode(self, rows, skip_special_tokens, clean_up_tokenization_spaces):
                    assert rows == [[3]]; return ["<edit>" + self.text + "</edit>"]
            class Qwen2_5_VLForConditionalGeneration:
                @classmethod
                def from_pretrained(cls, path, torch_dtype): return cls()
                def to(self, device): return self
                def generate(self, ids, do_sample, max_new_tokens): return [[1, 2, 3]]
            """,
        "utils/vprocess.py": """
            def process_vision_info(messages): return [c for c in messages[0]["content"] if c["type"] == "image"], None
            def resizeinput(image): return image.resize((64, 48))
            """,
    },
    "bagel_worker": {
        "accelerate.py": """
            import contextlib
            init_empty_weights = contextlib.nullcontext
            def load_checkpoint_and_dispatch(model, checkpoint, device_map, dtype, force_hooks): return model
            """,
        "data/data_utils.py": "def add_special_tokens(tokenizer): return tokenizer, {}, 0",
        "data/transforms.py": "class ImageTransform:\n    def __init__(self, largest, smallest, stride): pass",
        "modeling/autoencoder.py": """
            class Autoencoder:
                def to(self, device): return self
            def load_ae(local_path): return Autoencoder(), {}
            """,
        "modeling/qwen2.py": "class Qwen2Tokenizer:\n    @classmethod\n    def from_pretrained(cls, path): return cls()",
        "modeling/bagel.py": """
            class Configuration:
                num_hidden_layers = 27
                @classmethod
                def from_json_file(cls, path): return cls()
            class Qwen2Config(Configuration): pass
            class SiglipVisionConfig(Configuration): pass
            class BagelConfig:
                def __init__(self, visual_gen, visual_und, llm_config, vit_config, vae_config, vit_max_num_patch_per_side,
                             connector_act, latent_patch_size, max_latent_size):
                    assert vit_config.num_hidden_layers == 26 and llm_config.qk_norm and not vit_config.rope
            class Qwen2ForCausalLM:
                def __init__(self, config): pass
            class Part:
                def __getattr__(self, name): return Part()
                def convert_conv2d_to_linear(self, config, meta): assert meta
            class SiglipVisionModel(Part):
                def __init__(self, config): pass
            class Bagel:
                def __init__(self, language, vision, config): self.vit_model = vision
                def eval(self): return self
            """,
        "inferencer.py": """
            import torch
            class InterleaveInferencer:
                def __init__(self, model, vae_model, tokenizer, vae_transform, vit_transform, new_token_ids): pass
                def interleave_inference(self, input_lists, think, max_think_token_n, cfg_text_scale, cfg_interval, timestep_shift,
                                         num_timesteps, cfg_renorm_min, cfg_renorm_type, cfg_img_scale=1.5, image_shapes=(1024, 1024)):
                    size = image_shapes[::-1]
                    images = [one.size for one in input_lists if not isinstance(one, str)]
                    assert isinstance(input_lists[-1], str)
                    note(prompt=input_lists[-1], images=images, size=images[-1] if images else size, seed=torch.seeds[-1],
                         settings=[num_timesteps, cfg_text_scale, cfg_img_scale, cfg_interval[0], cfg_renorm_type])
                    return (["a plan"] if think else []) + [picture(images[-1] if images else size)]
            """,
    },
    "step1x_edit_worker": {
        "inference.py": """
            class ImageGenerator:
                def __init__(self, dit_path, ae_path, qwen2vl_model_path, max_length, quantized, offload):
                    assert dit_path.endswith("step1x-edit-i1258.safetensors")
                def generate_image(self, prompt, negative_prompt, ref_images, num_steps, cfg_guidance, seed, num_samples,
                                   show_progress, size_level):
                    note(prompt=prompt, images=[ref_images.size], size=ref_images.size, seed=seed,
                         settings=[num_steps, cfg_guidance, size_level])
                    return [picture(ref_images.size)]
            """
    },
    "showo_worker": {
        "omegaconf.py": """
            class Node(dict):
                __getattr__ = dict.__getitem__
            class OmegaConf:
                @staticmethod
                def load(path):
                    read = lambda d: Node({k: read(v) for k, v in d.items()}) if isinstance(d, dict) else d
                    return read(json.load(open(path)))
            """,
        "configs/showo_demo.yaml": json.dumps(
            {
                "model": {
                    "showo": {
                        "llm_model_path": "llm",
                        "pretrained_model_path": "showo",
                        "num_vq_tokens": 4,
                        "codebook_size": 8192,
                    },
                    "vq_model": {"vq_model_name": "magvit"},
                },
                "dataset": {"preprocessing": {"max_seq_length": 128}, "params": {"resolution": 32}},
                "training": {"cond_dropout_prob": 0.1},
            }
        ),
        "transformers.py": """
            class AutoTokenizer:
                @classmethod
                def from_pretrained(cls, path, padding_side): return cls()
                def __len__(self): return 1000
            """,
        "training/utils.py": """
            import numpy as np
            class Tensor(np.ndarray):
                def to(self, device): return self
            def image_transform(image, resolution):
                return np.asarray(image.resize((resolution, resolution))).transpose(2, 0, 1).astype(float).view(Tensor)
            """,
        "training/prompting_utils.py": """
            class UniversalPrompting:
                def __init__(self, tokenizer, max_text_len, special_tokens, ignore_id, cond_dropout_prob):
                    assert "<|soi|>" in special_tokens and len(special_tokens) == 9
                    self.text_tokenizer, self.sptids_dict = tokenizer, {"<|pad|>": [0], "<|soi|>": [1], "<|eoi|>": [2]}
                    self.sptids_dict = {k: v[0] for k, v in self.sptids_dict.items()}
                def __call__(self, given, task): assert task == "t2i_gen"; self.said = given[0][0] or self.said; return given[1], None
            def create_attention_mask_predict_next(ids, pad_id, soi_id, eoi_id, rm_pad_in_image): return ids
            """,
        "models.py": """
            import numpy as np, torch
            class Loaded:
                @classmethod
                def from_pretrained(cls, path): return cls()
                def to(self, device): return self
                def eval(self): return self
            class Image(np.ndarray):
                def float(self): return self
                def cpu(self): return self
                def numpy(self): return np.asarray(self)
            class MAGVITv2(Loaded):
                def get_code(self, images): assert images.shape == (1, 3, 32, 32); return np.arange(4)[None]
                def decode_code(self, codes): return np.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32).view(Image)
            class Showo(Loaded):
                class config: mask_token_id = 9999
                def t2i_generate(self, input_ids, uncond_input_ids, attention_mask, guidance_scale, temperature, timesteps,
                                 noise_schedule, noise_type, seq_len, uni_prompting, config):
                    note(prompt=uni_prompting.said, images=input_ids.tolist(), size=[32, 32], seed=torch.seeds[-1],
                         settings=[guidance_scale, timesteps, temperature, len(attention_mask)])
                    return np.zeros((1, seq_len))
            def get_mask_chedule(name): assert name == "cosine"; return name
            """,
    },
}

# What each is shown, and what must reach the model: pictures, size, settings.
SHOWN = {
    "omnigen2_worker": (("subject", "style"), [[40, 20], [40, 20]], [64, 48], [50, 5.0, 2.0]),
    "acepp_worker": (
        ("source", "mask", "subject"),
        [["RGB", [40, 20]], ["RGB", [40, 20]], ["L", [40, 20]]],
        [64, 48],
        [28, 50, 1.0, None],
    ),
    "dreamomni2_worker": (("source", "subject"), [[64, 48], [64, 48]], [64, 48], ["edit", 30, 3.5]),
    "bagel_worker": (("source", "subject"), [[40, 20], [40, 20]], [40, 20], [50, 4.0, 2.0, 0.0, "text_channel"]),
    "step1x_edit_worker": (("source",), [[40, 20]], [40, 20], [28, 6.0, 512]),
    "showo_worker": (("source", "mask"), [[1000, 1001, 9999, 9999]], [32, 32], [1.75, 18, 0.7, 2]),
}


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOTED", str(tmp_path / "noted"))
    return tmp_path / "clone"


def stand_in(name: str, clone: Path) -> None:
    for place, body in {**STAND_INS[name], "torch.py": TORCH}.items():
        path = clone / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTE + textwrap.dedent(body) if place.endswith(".py") else body)


def shown(folder: Path, roles: tuple[str, ...]) -> tuple[Shown, ...]:
    pictures = []
    for number, role in enumerate(roles):
        pixels = np.zeros((20, 40, 4), np.uint8)
        pixels[10:] = 255  # the lower half is opaque white: as a mask it covers the last two of four tokens
        Image.fromarray(pixels if role != "mask" else pixels[:, :, 0]).save(folder / f"{number}.png")
        pictures.append(Shown(folder / f"{number}.png", role))
    return tuple(pictures)


def ask(name: str, clone: Path, *asked: Commission, seed: int = 7) -> list[Painted]:
    line = shlex.join([sys.executable, str(RECIPES / f"{name}.py"), "--repository", str(clone)])
    model = CommandModel(Spec.parse(f"mine=command:{line}?mode=worker&timeout=60", "--model"))

    async def one_after_another() -> list[Painted]:
        try:
            return [await model.generate(one, seed) for one in asked]
        finally:
            await model.close()

    return asyncio.run(one_after_another())


def noted(clone: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (clone.parent / "noted").read_text().splitlines()]


def test_every_recipe_is_tested_here_and_listed() -> None:
    assert list(NAMES) == sorted(STAND_INS) == sorted(SHOWN)
    listed = (RECIPES / "README.md").read_text()
    assert all(f"`{name}.py`" in listed for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_paints_what_it_is_shown(name: str, upstream: Path, tmp_path: Path) -> None:
    stand_in(name, upstream)
    roles, images, size, settings = SHOWN[name]
    (made,) = ask(name, upstream, Commission("A quiet boat.", shown(tmp_path, roles), (64, 48)))
    assert made.failure is None, made.failure
    (call,) = noted(upstream)
    assert call["prompt"].startswith("A quiet boat.")
    assert call["images"] == images
    assert call["size"] == size
    assert call["seed"] == 7
    assert call["settings"] == settings
    (picture,) = made.pictures
    assert Image.open(io.BytesIO(picture)).size == tuple(size)
    assert made.provenance["repository"] == str(upstream)


@pytest.mark.parametrize("name", ["omnigen2_worker", "acepp_worker", "bagel_worker", "showo_worker"])
def test_a_recipe_paints_from_words_alone(name: str, upstream: Path) -> None:
    stand_in(name, upstream)
    (made,) = ask(name, upstream, Commission("A quiet boat."))
    assert made.failure is None, made.failure


@pytest.mark.parametrize(
    ("name", "roles", "said"),
    [
        ("acepp_worker", ("subject", "subject"), "one reference, not 2 pictures"),
        ("dreamomni2_worker", (), "at least one picture"),
        ("step1x_edit_worker", (), "edits one picture, not 0"),
        ("step1x_edit_worker", ("source", "subject"), "not 2"),
        ("showo_worker", ("subject",), "not subject"),
    ],
)
def test_what_a_model_cannot_do_is_said_and_not_painted(
    name: str, roles: tuple[str, ...], said: str, upstream: Path, tmp_path: Path
) -> None:
    stand_in(name, upstream)
    (made,) = ask(name, upstream, Commission("x", shown(tmp_path, roles)))
    assert made.pictures == ()
    assert made.failure is not None
    assert made.failure.kind == "missing_output"
    assert said in made.failure.detail


def test_dreamomni2_generates_where_there_is_no_source(upstream: Path, tmp_path: Path) -> None:
    stand_in("dreamomni2_worker", upstream)
    (made,) = ask("dreamomni2_worker", upstream, Commission("x", shown(tmp_path, ("subject",))))
    assert made.failure is None
    (call,) = noted(upstream)
    assert call["prompt"] == "x It is generation task."
    assert call["size"] == [1024, 1024]
    assert call["settings"][0] == "generate"


def test_transparent_pictures_are_shown_on_white(tmp_path: Path) -> None:
    (picture,) = shown(tmp_path, ("subject",))
    code = f"from worker import upright; i = upright({str(picture.path)!r}); print(i.mode, i.getpixel((0, 0)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=RECIPES, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "RGB (255, 255, 255)"


HELPER = """
import sys; sys.path.insert(0, {recipes!r})
from worker import RefusedError, serve
class OutOfMemoryError(RuntimeError): pass
def load():
    print("noise while loading")
    if "broken" in sys.argv: raise OSError("no weights in ./w")
    def paint(request):
        print("noise", request.instruction)
        if request.instruction == "refuse": raise RefusedError("not this")
        if request.instruction == "full": raise OutOfMemoryError("CUDA out of memory")
        if request.instruction == "cuda": raise RuntimeError("CUDA error: gone")
        if request.instruction == "number": return 42
        from PIL import Image
        return [Image.new("RGB", (9, 8))] * request.n_pictures
    return paint
serve(load, {{"weights": "mine", "steps": 4}})
"""


def test_the_helper_tells_every_end_of_a_request(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HELPER.format(recipes=str(RECIPES)))
    line = shlex.join([sys.executable, str(path)])
    model = CommandModel(Spec.parse(f"mine=command:{line}?mode=worker", "--model"))
    words = ("refuse", "full", "cuda", "number", "boat")

    async def all_of_them() -> list[Painted]:
        try:
            return [await model.generate(Commission(word, n_pictures=2), 0) for word in words]
        finally:
            await model.close()

    refuse, full, cuda, number, boat = asyncio.run(all_of_them())
    kinds = [made.failure.kind if made.failure else "" for made in (refuse, full, cuda, number, boat)]
    assert kinds == ["refused", "worker_died", "worker_died", "missing_output", ""]
    assert len(boat.pictures) == 2
    assert boat.provenance == {"weights": "mine", "steps": "4"}


def test_the_helper_runs_without_any_package_and_on_old_pythons() -> None:
    source = (RECIPES / "worker.py").read_text()
    compile(source, "worker.py", "exec", dont_inherit=True)
    import ast

    ast.parse(source, feature_version=(3, 8))
    subprocess.run([sys.executable, "-I", "-S", "-c", source], check=True)
