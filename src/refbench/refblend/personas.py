"""Personas: whose voice an instruction is rewritten in; from a user's file, or a small list of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from refbench.record import RefBenchError, clean_text
from refbench.refblend.draws import pick

_SHIPPED = Path(__file__).with_name("data") / "personas.txt"
_LONGEST = 1000


def load_personas(path: Path | None = None) -> tuple[str, ...]:
    """One persona a line, or `{"persona": "..."}` a line, or a JSON list of such objects; each once, in order.

    Lines that are empty or begin with # do not count.
    """
    path = path or _SHIPPED
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RefBenchError(f"{path} cannot be read as a file of personas: {error}") from error
    found: dict[str, None] = {}
    for where, said in _said(path, text):
        persona = " ".join(clean_text(said).split())
        if len(persona) > _LONGEST:
            raise RefBenchError(f"{where}: a persona has at most {_LONGEST} characters, this one {len(persona)}")
        if persona:
            found[persona] = None
    if not found:
        raise RefBenchError(f"{path} holds no persona: write one a line")
    return tuple(found)


def _said(path: Path, text: str) -> list[tuple[str, str]]:
    if text.lstrip().startswith("["):
        items = _json(text, str(path))
        return [(f"{path}, entry {number}", _persona(item, f"{path}, entry {number}")) for number, item in items]
    found = []
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        where = f"{path}, line {number}"
        if line.startswith("{"):
            found.append((where, _persona(_json(f"[{line}]", where)[0][1], where)))
        elif line and not line.startswith("#"):
            found.append((where, line))
    return found


def _json(text: str, where: str) -> list[tuple[int, Any]]:
    try:
        return list(enumerate(orjson.loads(text), 1))
    except orjson.JSONDecodeError as error:
        raise RefBenchError(f"{where} is not valid JSON: {error}") from error


def _persona(item: Any, where: str) -> str:
    said = item.get("persona") if isinstance(item, dict) else item
    if not isinstance(said, str):
        raise RefBenchError(f'{where}: give a text, or an object with a text under "persona"')
    return said


def persona_for(personas: tuple[str, ...], sample_id: str, seed: int = 0) -> str:
    """The persona that belongs to the seed and the sample."""
    return personas[pick(len(personas), seed, sample_id, "persona")]
