"""Entries of the released JSON files, whatever their spelling: the one place that is tolerant of it.

Several releases exist (combined1990.json, benchmark990v2.json and v3, final_1000_prompts_taxonomy.json) and the
form of an entry is documented for none of them in full. What cannot be understood is told, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refbench.benchmarks.multiref.details import CATEGORIES, TYPES, UNKNOWN, Box, Split, Type

Oddity = tuple[str, str, str]
"""Kind, place (a case, an entry or a file), detail."""

# Spellings of each field, best first. The first of each is the one of the specification.
_ID = ("id", "row_id", "index")
_PROMPT = ("original_prompts", "original_prompt", "prompt", "instruction")
_ENHANCED = ("enhance_prompts", "enhanced_prompts", "enhance_prompt", "enhanced_prompt")
_MAPPING = ("image_path_mapping", "image_paths", "images")
_ORIGINAL = ("original_image_path", "original_image")
_GOLDEN = (
    *("output_image_path", "output_image", "output_path", "golden_image_path", "golden_image", "golden_path"),
    *("golden", "ground_truth", "target_image_path", "target_image", "output"),
)
_CATEGORY = ("category", "taxonomy", "category_id")
_PATHS: Mapping[Type, tuple[str, ...]] = {
    name: (f"{name}_path", f"{name}_paths", f"single_{name}_path") for name in TYPES if name != "caption"
}
_ALIASES: Mapping[str, Type] = {
    **{name: name for name in TYPES},
    "bounding_box": "bbox",
    "box": "bbox",
    "semantic": "semantic_map",
    "segmentation": "semantic_map",
    "depth_map": "depth",
    "canny_edge": "canny",
    "edge": "canny",
    "art_style": "style",
    "text": "caption",
}
_CATEGORY_STARTS = {
    "elementrepl": "element_replacement",
    "elementadd": "element_addition",
    "style": "style_appearance",
    "spatial": "spatial_environment",
    "attribute": "attribute_transfer",
}
CAPTION_MARK = "caption:"
"""What a structured prompt has before its caption, which is always last."""


@dataclass(frozen=True)
class Entry:
    """One entry as it was understood. Paths are as written in the file."""

    split: Split
    number: int
    id: str | None
    prompt: str
    enhanced: tuple[str, ...]
    types: tuple[Type, ...]
    mapping: Mapping[str, str]
    """Token of the prompt to the picture that the model is shown, in the order of the file."""
    paths: Mapping[Type, tuple[str, ...]]
    """Type to the pictures that `conditions` names, the first of which the released code takes."""
    listed: frozenset[Type]
    """Types whose path is a list where the released code wants a text."""
    boxes: tuple[Box, ...]
    caption: str | None
    target: str | None
    category: str
    unknown_types: tuple[str, ...] = ()
    extractors: Mapping[str, str] = field(default_factory=dict)
    """What drew the references of a type; datasets made by RefBlend say so."""


def read_entry(item: Any, number: int) -> Entry | str:
    """The entry, or what is wrong with it."""
    if not isinstance(item, Mapping):
        return f"it is no object but {type(item).__name__}"
    inside = item.get("instructions")
    told: Mapping[str, Any] = inside if isinstance(inside, Mapping) else item
    raw_mapping = _first(told, _MAPPING) or _first(item, _MAPPING) or {}
    if not isinstance(raw_mapping, Mapping):
        return f"its image_path_mapping is no object but {type(raw_mapping).__name__}"
    mapping = {str(key).strip("<>"): path for key, value in raw_mapping.items() for path in _texts(value)[:1]}
    prompt = _first(told, _PROMPT) or _first(item, _PROMPT)
    if not isinstance(prompt, str) or not prompt.strip():
        return "it has no prompt"
    pictured = [key for key in mapping if picture_number(key) is not None]
    if pictured and not isinstance(told.get("conditions"), list):
        return _real_world(item, number, prompt, mapping)
    return _synthetic(item, told, number, prompt, mapping)


def _real_world(item: Mapping[str, Any], number: int, prompt: str, mapping: Mapping[str, str]) -> Entry:
    inputs = {key: path for key, path in mapping.items() if picture_number(key) is not None}
    others = {key: path for key, path in mapping.items() if key not in inputs}
    golden = _texts(_first(item, _GOLDEN)) or _texts(_first(others, _GOLDEN))
    return Entry(
        split="real-world",
        number=number,
        id=_id(item),
        prompt=prompt.strip(),
        enhanced=(),
        types=(),
        mapping=dict(sorted(inputs.items(), key=lambda pair: picture_number(pair[0]) or 0)),
        paths={},
        listed=frozenset(),
        boxes=(),
        caption=None,
        target=golden[0] if golden else None,
        category=_category(_first(item, _CATEGORY)),
    )


def _synthetic(
    item: Mapping[str, Any], told: Mapping[str, Any], number: int, prompt: str, mapping: Mapping[str, str]
) -> Entry | str:
    given = item.get("conditions")
    # One stage of the data engine has the paths at the top level, the others under `conditions`.
    conditions: Mapping[str, Any] = given if isinstance(given, Mapping) else item
    named = told.get("conditions")
    if not isinstance(named, list):  # the combined release may have the tokens alone
        named = [kind for key in mapping if (kind := type_of_token(key))]
        if CAPTION_MARK in prompt:
            named.append("caption")
    if not named:
        return "it names no references: neither instructions.conditions nor tokens of a known type"
    read = [(str(name), type_of(str(name))) for name in named]
    types = tuple(dict.fromkeys(kind for _, kind in read if kind is not None))
    paths: dict[Type, tuple[str, ...]] = {
        kind: tuple(_texts(_first(conditions, _PATHS[kind]))) for kind in types if kind != "caption"
    }
    original = _texts(_first(item, _ORIGINAL))
    drawn_by = item.get("extractors")
    said: Mapping[Any, Any] = drawn_by if isinstance(drawn_by, Mapping) else {}
    return Entry(
        split="synthetic",
        number=number,
        id=_id(item),
        prompt=prompt.strip(),
        enhanced=tuple(text.strip() for text in _texts(_first(told, _ENHANCED)) if text.strip()),
        types=types,
        mapping=mapping,
        paths=paths,
        listed=frozenset(k for k in types if k in ("mask", "pose") and _is_list(_first(conditions, _PATHS[k]))),
        boxes=tuple(_boxes(conditions.get("bbox_value"))),
        caption=_caption(conditions, prompt) if "caption" in types else None,
        target=original[0] if original else None,
        category="",
        unknown_types=tuple(name for name, kind in read if kind is None),
        extractors={str(kind): name for kind, name in said.items() if isinstance(name, str)},
    )


def picture_number(token: str) -> int | None:
    """7 for `image7`, the form of the real-world tokens."""
    digits = token.removeprefix("image")
    return int(digits) if digits != token and digits.isascii() and digits.isdecimal() and len(digits) < 4 else None


def type_of(name: str) -> Type | None:
    return _ALIASES.get(name.strip().casefold().replace(" ", "_").replace("-", "_"))


def type_of_token(token: str) -> Type | None:
    """The type of `<style_image>`, `<subject_1>`, `<pose_2>` and the like."""
    stem = token.removesuffix("_image")
    head, _, last = stem.rpartition("_")
    return type_of(head if last.isdecimal() else stem)


def spoken_caption(prompt: str) -> str | None:
    """The caption at the end of a structured prompt, without the full stop that the template puts behind it."""
    _, mark, caption = prompt.rpartition(CAPTION_MARK)
    return (caption.strip().removesuffix(".").strip() or None) if mark else None


def _caption(conditions: Mapping[str, Any], prompt: str) -> str | None:
    said = conditions.get("caption")
    return said.strip() if isinstance(said, str) and said.strip() else spoken_caption(prompt)


def _category(said: Any) -> str:
    """A number from 1 to 5, its text, a name of the taxonomy, or an object with one of these."""
    if isinstance(said, Mapping):
        return _category(said.get("category"))
    for name, (number, _, _) in CATEGORIES.items():
        if not isinstance(said, bool) and (said == number or str(said).strip() in (str(number), name)):
            return name
    letters = "".join(c for c in str(said).casefold() if c.isalpha())
    return next((name for start, name in _CATEGORY_STARTS.items() if letters.startswith(start)), UNKNOWN)


def _boxes(said: Any) -> Iterator[Box]:
    """`[[x1, y1, x2, y2], ...]` or one box alone; anything else is no box."""
    rows: Sequence[Any] = said if isinstance(said, list) else []
    if rows and all(isinstance(value, int | float) for value in rows):
        rows = [rows]
    for row in rows:
        if isinstance(row, list) and len(row) == 4 and all(isinstance(value, int | float) for value in row):
            x1, y1, x2, y2 = map(float, row)
            if x2 > x1 and y2 > y1:
                yield x1, y1, x2, y2


def _id(item: Mapping[str, Any]) -> str | None:
    said = _first(item, _ID)
    return str(said).strip() or None if isinstance(said, int | str) and not isinstance(said, bool) else None


def _first(item: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text.strip()]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
