"""Tiny vision-language models with random weights, saved as the hub holds them: three real architectures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

REASON = "local judges need the extra neural: pip install 'refbench[neural]'"
SPECIAL = [
    "<|start|>",
    "<|stop|>",
    "<|pad|>",
    "<image>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<|from|>",
    "<|to|>",
    "<fake_token_around_image>",
]
SPECIAL += ["<global-img>", "<end_of_utterance>", *(f"<row_{r}_col_{c}>" for r in range(1, 4) for c in range(1, 4))]

TURN = "{% for c in m['content'] %}{% if c['type'] == 'image' %}PICTURE{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|stop|>"
WITH_SYSTEM = "{% for m in messages %}<|start|>{{ m['role'] }} " + TURN + "{% endfor %}<|start|>assistant "
WITHOUT_SYSTEM = (
    "<|from|>{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "USER: " + TURN + "{% endfor %}ASSISTANT:"
)


def tokenizer(transformers: Any, texts: Sequence[str] = (), **tokens: str) -> Any:
    """One token a letter of ASCII, and the special ones; what the texts repeat is joined up to whole sentences, so that
    they are few tokens. Digits stay alone."""
    tokenizers = pytest.importorskip("tokenizers", reason=REASON)
    split = tokenizers.pre_tokenizers
    vocabulary = {letter: place for place, letter in enumerate([*map(chr, range(33, 127)), "Ġ", "Ċ"])}
    plain = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    plain.pre_tokenizer = split.ByteLevel(add_prefix_space=False)
    if texts:
        sentences = split.ByteLevel(add_prefix_space=False, use_regex=False)
        plain.pre_tokenizer = split.Sequence([split.Digits(individual_digits=True), sentences])
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=3000, min_frequency=1, initial_alphabet=list(vocabulary), show_progress=False
        )
        plain.train_from_iterator([*texts] * 3, trainer)
    plain.decoder = tokenizers.decoders.ByteLevel()
    names = {"eos_token": "<|stop|>", "pad_token": "<|pad|>", **tokens}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **names)
    made.add_special_tokens({"additional_special_tokens": [token for token in SPECIAL if token not in names.values()]})
    return made


def save(
    transformers: Any, folder: Path, config: Any, words: Any, template: str, images: Any, processor: dict[str, Any]
) -> Path:
    """A repository as the hub holds them: weights, tokenizer, template, and how pictures are prepared."""
    torch = pytest.importorskip("torch", reason=REASON)
    torch.manual_seed(0)
    transformers.AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    words.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(template)
    images.save_pretrained(folder)
    if processor:
        (folder / "processor_config.json").write_text(json.dumps(processor))
    return folder


TEXT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 400,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
SEES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "initializer_range": 0.2}


def qwen(transformers: Any, folder: Path, texts: Sequence[str] = ()) -> Path:
    """Its processor has a part for videos, which needs torchvision; pictures keep their size."""
    words = tokenizer(transformers, texts)
    token = words.convert_tokens_to_ids
    ends = {"bos_token_id": None, "eos_token_id": token("<|stop|>"), "pad_token_id": token("<|pad|>")}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
    sees = {"depth": 2, "num_heads": 2, "out_hidden_size": 32, "window_size": 56, "fullatt_block_indexes": [1]}
    sees |= {key: value for key, value in SEES.items() if key != "num_attention_heads"}
    config = transformers.Qwen2_5_VLConfig(
        text_config={**TEXT, **ends, "vocab_size": len(words), "rope_parameters": rope},
        vision_config=sees,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|from|>"),
        vision_end_token_id=token("<|to|>"),
    )
    template = WITH_SYSTEM.replace("PICTURE", "<|from|><|image_pad|><|to|>")
    images = transformers.Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=84 * 84)
    return save(transformers, folder, config, words, template, images, {})


def llava(transformers: Any, folder: Path, texts: Sequence[str] = ()) -> Path:
    """Its template begins with the first token and knows no system role; pictures are cropped to one size."""
    words = tokenizer(transformers, texts, bos_token="<|from|>")
    token = words.convert_tokens_to_ids
    ends = {"bos_token_id": token("<|from|>"), "eos_token_id": token("<|stop|>"), "pad_token_id": token("<|pad|>")}
    config = transformers.LlavaConfig(
        text_config={**TEXT, **ends, "model_type": "llama", "vocab_size": len(words)},
        vision_config={
            **SEES,
            "model_type": "clip_vision_model",
            "num_hidden_layers": 2,
            "image_size": 28,
            "patch_size": 14,
        },
        image_token_id=token("<image>"),
        image_seq_length=4,
    )
    template = WITHOUT_SYSTEM.replace("PICTURE", "<image>")
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    how = {"processor_class": "LlavaProcessor", "patch_size": 14, "image_token": "<image>"}
    how |= {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return save(transformers, folder, config, words, template, images, how)


def idefics(transformers: Any, folder: Path, texts: Sequence[str] = ()) -> Path:
    """Cuts pictures into tiles, and pads a batch with empty pictures to the same number."""
    words = tokenizer(transformers, texts)
    token = words.convert_tokens_to_ids
    ends = {"bos_token_id": None, "eos_token_id": token("<|stop|>"), "pad_token_id": token("<|pad|>")}
    config = transformers.Idefics3Config(
        text_config={**TEXT, **ends, "model_type": "llama", "vocab_size": len(words)},
        vision_config={**SEES, "num_hidden_layers": 2, "image_size": 28, "patch_size": 14},
        image_token_id=token("<image>"),
        pad_token_id=token("<|pad|>"),
        scale_factor=2,
    )
    images = transformers.Idefics3ImageProcessorPil(size={"longest_edge": 56}, max_image_size={"longest_edge": 28})
    how = {"processor_class": "Idefics3Processor", "image_seq_len": 1}
    return save(transformers, folder, config, words, WITH_SYSTEM.replace("PICTURE", "<image>"), images, how)


MAKERS: dict[str, Callable[..., Path]] = {"qwen": qwen, "llava": llava, "idefics": idefics}
