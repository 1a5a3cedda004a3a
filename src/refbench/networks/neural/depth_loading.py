"""Networks of transformers with several parts, some without fused attention: each part gets the best that it has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refbench.networks.neural.place import Place, package
from refbench.record import RefBenchError


def network_of(kind: str, config: Any, state: Mapping[str, Any], place: Place, path: Path, network: str) -> Any:
    """The model of transformers of that class with these weights, all of them, on the device and ready to run.

    `weights.transformer` asks for fused attention, which these refuse for a part of theirs; here transformers chooses.
    """
    transformers = package("transformers")
    logging = transformers.utils.logging
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with place.loading(network):
            model, report = getattr(transformers, kind).from_pretrained(
                None,
                config=config,
                state_dict=dict(state),
                dtype=place.torch_dtype,
                ignore_mismatched_sizes=True,  # told below, with the name of the weight
                output_loading_info=True,
            )
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
    lacking = sorted([*report["missing_keys"], *(str(key[0]) for key in report["mismatched_keys"])])
    if lacking:
        raise RefBenchError(f"{path} is not the file of {network}: it lacks {lacking[0]}; run refbench fetch {network}")
    return model.eval().requires_grad_(False).to(place.device)
