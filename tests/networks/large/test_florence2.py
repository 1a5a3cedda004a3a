"""Florence-2 on tiny weights of the real architecture, against transformers' own processor and model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from PIL import Image

from refbench.failure import Failure
from refbench.networks.large import florence2
from refbench.networks.large.florence2 import Florence2, read_boxes

torch = pytest.importorskip("torch", reason="needs the extra neural")
transformers = pytest.importorskip("transformers", reason="needs the extra neural")
tokenizers = pytest.importorskip("tokenizers", reason="needs the extra neural")

CAPTION = "a red bird over the sea"
ANSWERS = [
    "</s><s>A green car<loc_54><loc_375><loc_906><loc_707> next to trees<loc_10><loc_20><loc_200><loc_300><loc_400><loc_100><loc_600><loc_500></s>",
    "</s><s>the image<loc_0><loc_0><loc_999><loc_999>a dog<loc_100><loc_200><loc_300><loc_400></s><pad>",
    "</s><s>nothing at all</s>",
    "</s><s>a cut one<loc_1><loc_2><loc_3></s>",
    "</s><s>five<loc_1><loc_2><loc_3><loc_4><loc_5>six<loc_9><loc_8><loc_700><loc_600></s>",
    "<loc_1><loc_2><loc_3><loc_4>late</s>",
]


@pytest.fixture(scope="module")
def florence_folder(tmp_path_factory: pytest.TempPathFactory, with_random_weights: Callable[[Any], Any]) -> Path:
    """A repository as transformers writes it: bytes as tokens, the marks of BART, a thousand places, the picture's."""
    folder = tmp_path_factory.mktemp("florence2")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = {token: n for n, token in enumerate([*marks, *alphabet])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([*marks, *(f"<loc_{n}>" for n in range(1000)), "<image>"])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>"},
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    tokenizer.image_token, tokenizer.image_token_id = "<image>", made.token_to_id("<image>")
    images = transformers.CLIPImageProcessorPil(
        size={"height": 64, "width": 64},
        do_center_crop=False,
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )
    images.save_pretrained(folder)
    said = orjson.loads((folder / "preprocessor_config.json").read_bytes()) | {"image_seq_length": 5, "crop_size": None}
    (folder / "preprocessor_config.json").write_bytes(orjson.dumps(said))
    (folder / "processor_config.json").write_bytes(
        orjson.dumps(
            {"post_processor_config": {"phrase_grounding": {"banned_grounding_tokens": ["the image"]}, "pure_text": {}}}
        )
    )
    config = transformers.Florence2Config(
        image_token_id=tokenizer.image_token_id,
        vision_config={
            "depths": [1, 1, 1, 1], "embed_dim": [16, 16, 32, 32], "num_heads": [2, 2, 2, 2], "num_groups": [2, 2, 2, 2],
            "window_size": 4, "projection_dim": 32, "max_position_embeddings": 8,
        },
        text_config={
            "model_type": "bart", "vocab_size": made.get_vocab_size(), "d_model": 32, "encoder_layers": 2,
            "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_attention_heads": 2,
            "decoder_attention_heads": 2, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
            "decoder_start_token_id": 2, "forced_bos_token_id": 0, "forced_eos_token_id": 2,
        },
    )  # fmt: skip
    model = with_random_weights(transformers.Florence2ForConditionalGeneration(config))
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_bos_token_id=0,
        forced_eos_token_id=2, no_repeat_ngram_size=3, num_beams=3, early_stopping=True,
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def florence(florence_folder: Path) -> Any:
    return Florence2(florence_folder)


def processor_of(folder: Path) -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.image_token, tokenizer.image_token_id = "<image>", tokenizer.convert_tokens_to_ids("<image>")
    images = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    images.image_seq_length = 5
    said = orjson.loads((folder / "processor_config.json").read_bytes())["post_processor_config"]
    return transformers.Florence2Processor(images, tokenizer, post_processor_config=said)


@pytest.mark.parametrize("task", ["<CAPTION>", f"<CAPTION_TO_PHRASE_GROUNDING>{CAPTION}"])
@pytest.mark.parametrize("size", [(64, 64), (91, 37)])
def test_florences_answer_is_that_of_transformers(
    florence: Any,
    florence_folder: Path,
    picture_by_rule: Any,
    task: str,
    size: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(florence._generation, "max_new_tokens", 24)
    picture = picture_by_rule(3, *size)
    processor = processor_of(florence_folder)
    model = transformers.Florence2ForConditionalGeneration.from_pretrained(florence_folder).eval()
    inputs = processor(text=task, images=Image.fromarray(picture), return_tensors="pt")
    with torch.no_grad():
        ids = model.generate(**inputs, num_beams=3, max_new_tokens=24, do_sample=False)
    wanted = processor.batch_decode(ids, skip_special_tokens=False)[0]
    prompt = florence2._CAPTION if task == "<CAPTION>" else florence2._GROUND.format(caption=CAPTION)
    assert florence._answer(picture, prompt) == wanted
    if task == "<CAPTION>":
        assert florence.caption(picture) == processor.post_process_generation(wanted, task="<CAPTION>")[
            "<CAPTION>"
        ].replace("<pad>", "")


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("size", [(768, 768), (91, 37)])
def test_boxes_are_read_as_transformers_reads_them(florence_folder: Path, answer: str, size: tuple[int, int]) -> None:
    task = "<CAPTION_TO_PHRASE_GROUNDING>"
    wanted = processor_of(florence_folder).post_process_generation(answer, task=task, image_size=(size[1], size[0]))[
        task
    ]
    found = read_boxes(answer, (*size, 3), frozenset({"the image"}))
    assert found["boxes"].tolist() == [[float(v) for v in box] for box in wanted["bboxes"]]
    assert [str(label) for label in found["labels"]] == wanted["labels"]
    assert found["boxes"].shape[1] == 4
    assert len(found["scores"]) == len(found["boxes"])


def test_without_a_caption_florence_makes_its_own(
    florence: Any, picture_by_rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(self: Any, picture: Any, prompt: str) -> str:
        asked.append(prompt)
        return (
            "</s><s>a blue car</s>"
            if prompt == florence2._CAPTION
            else "</s><s>a blue car<loc_0><loc_0><loc_500><loc_500></s>"
        )

    monkeypatch.setattr(Florence2, "_answer", answer)
    (found,) = florence([picture_by_rule(1, 100, 200)])
    assert asked == ["What does the image describe?", "Locate the phrases in the caption: a blue car"]
    assert found["boxes"].tolist() == [[0, 0, 100, 50]]
    assert str(found["caption"]) == "a blue car"
    empty = florence.ground(picture_by_rule(1, 100, 200), "  ")
    assert isinstance(empty, Failure)


def test_bf16_runs(florence_folder: Path, picture_by_rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Florence2(florence_folder, dtype="bfloat16")
    monkeypatch.setattr(network._generation, "max_new_tokens", 5)
    assert isinstance(network.caption(picture_by_rule(2, 64, 80)), str)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_it_runs_on_a_gpu(florence_folder: Path, picture_by_rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Florence2(florence_folder, "cuda")
    monkeypatch.setattr(network._generation, "max_new_tokens", 5)
    assert isinstance(network.caption(picture_by_rule(2, 64, 80)), str)
