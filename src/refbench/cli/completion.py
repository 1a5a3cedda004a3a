"""`refbench completion`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter


def completion_command(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell")]) -> int:
    """Print what makes your shell complete refbench's commands and options.

    bash: `refbench completion bash >> ~/.bashrc`; zsh: into a file `_refbench` in a folder of $fpath; fish: into
    ~/.config/fish/completions/refbench.fish.
    """
    from refbench.cli.app import app

    print(app.generate_completion(prog_name="refbench", shell=shell))
    return 0
