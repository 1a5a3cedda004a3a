"""What a command prints, as a picture for the documentation: `terminal_picture.py WIDTH refbench ... > FILE.svg`."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys

from rich.console import Console
from rich.text import Text


def main(width: int, command: list[str]) -> str:
    environment = {**os.environ, "COLUMNS": str(width), "FORCE_COLOR": "1", "REFBENCH_QUIET": "1"}
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {shlex.join(command)}\n\n{said.rstrip()}"))
    picture = console.export_svg(title="", unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # fetched from elsewhere


if __name__ == "__main__":
    print(main(int(sys.argv[1]), sys.argv[2:]))
