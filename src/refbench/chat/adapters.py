"""What `refbench filter train` has written, as `local:trained/` loads it: an adapter, laid on the base that it was
trained on and merged into it. One that does not fit, or changes nothing, is refused: servers load such adapters without
a word.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from refbench.calls.weights import Library, content_of
from refbench.record import Record, RefBenchError
from refbench.text.files import is_file, json_file

ABOUT, ADAPTER = "training.json", "adapter_model.safetensors"
_AGAIN = "train again with refbench filter train"
_PROBE = "Marks from 1 to 5:"
_LIBRARY = Library("local", "train", ("torch", "transformers", "peft", "safetensors"))


class Trained(Record):
    """A training, as `training.json` beside the adapter and beside merged weights has it."""

    base: str
    """A directory, or the id of a repository on the hub."""
    revision: str | None
    """The commit of a repository."""
    base_content: str
    """The hash of a directory; empty for a repository, whose commit says as much."""
    set_sha256: str
    prompts: Mapping[str, str]
    """The hash of the request about each type."""
    options: Mapping[str, str] = {}
    samples: int
    held_out: int
    errors: tuple[float, ...]
    """Mean absolute errors on what was held out of training, by epoch."""
    chosen_epoch: int

    def check_base(self, folder: Path, revision: str | None) -> None:
        """Refuse a base that has changed since the training."""
        if revision not in (None, self.revision):
            raise RefBenchError(
                f"local:{folder} was trained on {self.base} at revision {self.revision or 'none'}, not {revision}: "
                "leave revision out"
            )
        if not self.base_content:
            return
        base = Path(self.base)
        if not (base / "config.json").is_file():
            raise RefBenchError(f"local:{folder} was trained on {base}, which is not there: put it back, or {_AGAIN}")
        if content_of(base, base.iterdir()) != self.base_content:
            raise RefBenchError(
                f"local:{folder} was trained on {base}, whose content has changed: put it back, or {_AGAIN}"
            )


def trained_in(folder: Path) -> Trained | None:
    """The training whose adapter or merged weights lie in a folder; None where there are none."""
    path = folder / ABOUT
    if not is_file(path):
        return None
    try:
        return Trained.model_validate(json_file(path, _AGAIN))
    except ValidationError as error:
        what = error.errors()[0]
        raise RefBenchError(f"{path}: {'.'.join(map(str, what['loc']))}: {what['msg']}; {_AGAIN}") from error


def adapter_in(folder: Path) -> Trained | None:
    """The training of an adapter that has to be laid on its base; None for whole weights."""
    return trained_in(folder) if is_file(folder / ADAPTER) and not is_file(folder / "config.json") else None


def laid_on(model: Any, tokenizer: Any, folder: Path) -> Any:
    """The model with the adapter of the folder merged in."""
    torch, peft, tensors = _LIBRARY.load("torch"), _LIBRARY.load("peft"), _LIBRARY.load("safetensors.torch")
    probe = tokenizer(_PROBE, return_tensors="pt")["input_ids"].to(model.device)
    with torch.inference_mode():
        plain = model(input_ids=probe).logits
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing tensors, which are an error here
            adapted = peft.PeftModel.from_pretrained(model, str(folder))
            there, used = set(tensors.load_file(folder / ADAPTER)), set(peft.get_peft_model_state_dict(adapted))
    except (RuntimeError, ValueError, OSError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())[:200]
        raise RefBenchError(f"local:{folder}: the adapter cannot be laid on its base ({why}): {_AGAIN}") from error
    if there != used:
        name = min(there ^ used)
        raise RefBenchError(
            f"local:{folder}: the adapter does not fit its base ({len(there ^ used)} tensors, first {name}): {_AGAIN}"
        )
    merged = adapted.merge_and_unload()
    with torch.inference_mode():
        changed = float((merged(input_ids=probe).logits - plain).abs().max())
    if not changed > 0:
        raise RefBenchError(f"local:{folder}: the adapter changes nothing of what its base says: {_AGAIN}")
    return merged
