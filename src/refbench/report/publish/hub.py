"""A published folder on the Hugging Face Hub, by its own client."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from refbench.failure import redact
from refbench.record import RefBenchError

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def repository_of(to: str) -> str | None:
    """USER/NAME of `hub:USER/NAME`; None for anything else."""
    if not to.startswith("hub:"):
        return None
    repository = to.removeprefix("hub:")
    if not _REPOSITORY.fullmatch(repository) or ".." in repository or "--" in repository:
        raise RefBenchError(f"--to {to}: write it as hub:USER/NAME, with letters, digits, dots, dashes and underscores")
    return repository


def upload(folder: Path, repository: str, *, private: bool) -> str:
    """Make the dataset if it is not there, and put the folder into one commit; gives the address of the commit."""
    hub = _client()
    try:
        api = hub.HfApi(library_name="refbench")
        api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        made = api.upload_folder(
            folder_path=folder,
            repo_id=repository,
            repo_type="dataset",
            commit_message="Publish an evaluation with RefBench",
            delete_patterns=["evidence/*", "pictures/*"],  # of what was published there before
        )
    except Exception as error:
        raise RefBenchError(f"{repository} was not published: {_said(error)}") from error
    return str(made.commit_url)


def _client() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise RefBenchError("--to hub: needs an extra: pip install 'refbench[hub]'") from error


def _said(error: Exception) -> str:
    """What went wrong in one sentence, without keys; who may not write is told how to."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403) or type(error).__name__ == "LocalTokenNotFoundError":
        return "the Hub takes nothing without a token that may write there: set HF_TOKEN, or run hf auth login"
    words = " ".join(redact(str(error)).split())
    return words[:300] or type(error).__name__
