"""Specs: how users name image models and judges, `[name=]kind:what[?key=value&...]`, and what each kind's options are.

The grammar, the declared kinds and the reading of options are here, once. What a kind does with them is in `models/`
and `chat/`. A wrapper is `kind(MODEL; option=value; ...)`; a table in TOML says the same as either.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from refbench.failure import without_keys
from refbench.record import Record, RefBenchError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Form:
    """What may be written as an option's value (`says` completes "write ..."), and how it is read."""

    says: str
    read: Callable[[str], Any]
    """Raises ValueError for anything else."""


def _matching(
    says: str, pattern: str, convert: Callable[[str], Any], fits: Callable[[Any], bool] = lambda value: True
) -> Form:
    """Texts of a pattern whose value fits."""

    def read(text: str) -> Any:
        if not re.fullmatch(pattern, text) or not fits(value := convert(text)):
            raise ValueError(text)
        return value

    return Form(says, read)


def one_of(*words: str) -> Form:
    """One of a few words."""
    return _matching(_alternatives(words), "|".join(map(re.escape, words)), str)


def whole(least: int = 1, most: int = 10**9) -> Form:
    """A whole number."""
    says = f"a whole number from {least}" + (f" to {most}" if most < 10**9 else "")
    return _matching(says, r"[0-9]{1,10}", int, lambda number: least <= number <= most)


def size_or(*words: str) -> Form:
    """A word, or a size as WIDTHxHEIGHT. The text itself is kept."""
    return _matching(_alternatives((*words, "WIDTHxHEIGHT")), "|".join([*map(re.escape, words), _SIZE]), str)


def _alternatives(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _amounts(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _sound(amounts: Sequence[float]) -> bool:
    return all(0 <= amount < float("inf") for amount in amounts)


_SIZE = r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}"
_NUMBER = r"[0-9]+(\.[0-9]*)?|\.[0-9]+"
_TRUTH = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
_PICTURE_PRICE = "dollars for one picture, for example 0.04"
_TOKEN_PRICE = "for a million input and output tokens, for example"

TEXT = Form("text", str)
_FORMS = {
    "text": TEXT,
    "yes or no": _matching("yes or no", "|".join(_TRUTH), _TRUTH.get),
    "size": _matching(
        "width x height, for example 1024x768", _SIZE, lambda text: tuple(int(side) for side in text.split("x"))
    ),
    "names": Form(
        "names with commas between them", lambda text: tuple(n.strip() for n in text.split(",") if n.strip())
    ),
    "device": _matching("auto, cpu or cuda:0", r"auto|cpu|cuda:[0-9]+", str),
    "number": _matching("a number from 0", _NUMBER, float),
    "number above 0": _matching("a number above 0", _NUMBER, float, lambda number: number > 0),
    "random or a number": _matching(
        "random or a whole number from 1 to 64",
        r"random|[1-9]|[1-5][0-9]|6[0-4]",
        lambda text: None if text == "random" else int(text),
    ),
    "picture price": _matching(_PICTURE_PRICE, r"[^,]+", _amounts, _sound),
    "token price": _matching(f"dollars {_TOKEN_PRICE} 0.4,1.6", r"[^,]+,[^,]+", _amounts, _sound),
    "price": _matching(f"{_PICTURE_PRICE}, or {_TOKEN_PRICE} 5,40", r"[^,]+(,[^,]+)?", _amounts, _sound),
}


@dataclass(frozen=True)
class Option:
    """An option of a kind: what it is for and how it is written."""

    name: str
    help: str
    form: Form = TEXT
    needed: bool = False
    default: str | None = None
    """What holds without it, as it would be written."""


@dataclass(frozen=True)
class Kind:
    """A kind of image model or judge as users name it."""

    name: str
    help: str
    what: str = ""
    """What stands behind the colon, in capitals; "" for wrappers."""
    options: tuple[Option, ...] = ()
    others: str = ""
    """Where options that are not declared go; "" where there are none, so that a misspelt one is refused."""
    vlm: str = ""
    """The name under which a wrapper takes a VLM."""

    @property
    def usage(self) -> str:
        if self.what:
            return f"{self.name}:{self.what}"
        return (
            f"{self.name}(MODEL{f'; {self.vlm}=VLM' if self.vlm else ''}; ...)"
            if self.options or self.vlm
            else (f"{self.name}(MODEL)")
        )


@dataclass(frozen=True)
class Options:
    """The options of a spec, read as its kind declares them: values by name, and the texts of all others."""

    values: Mapping[str, Any]
    others: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def model_options(spec: Spec) -> Options:
    """The options of an image model or a wrapper of a shipped kind."""
    kind = MODELS.get(spec.kind) or WRAPPERS.get(spec.kind) or MODELS["http"]  # https is no kind of its own
    return read_options(spec, kind, f"--model {spec.name}")


def judge_options(spec: Spec) -> Options:
    """The options of a VLM of a shipped kind."""
    return read_options(spec, JUDGES[spec.kind], f"judge {spec.name}")


def read_options(spec: Spec, kind: Kind, where: str) -> Options:
    """The options of a spec as its kind declares them; a wrong value or an unknown name is said with the remedy."""
    declared = {option.name: option for option in kind.options}
    for name in spec.options:
        if name in declared:
            continue
        if _SECRET.fullmatch(name):
            raise RefBenchError(
                f"{where}: {without_keys(name)}= would be recorded with every request: put the key into a variable and "
                "name it with key_env="
            )
        if name in RENAMED and RENAMED[name] in declared:
            raise RefBenchError(f"{where}: {name}= is called {_renamed(declared[RENAMED[name]], spec.options[name])}")
        # Other options go to the server as they are, so a misspelt one of ours would be sent and never be heard.
        if not kind.others or difflib.get_close_matches(name, declared, 1, _MISSPELT):
            raise RefBenchError(
                f"{where}: {kind.name} has no option {without_keys(name)!r}: {nearest(name, list(declared))}"
            )
    values = {name: _value(option, spec.options.get(name), where) for name, option in declared.items()}
    return Options(values, {name: text for name, text in spec.options.items() if name not in declared})


_MISSPELT = 0.85
"""How alike names are of which one is the other misspelt: base_ur and base_url, not min_tokens and max_tokens."""
_SECRET = re.compile(
    r"(?i).*(?:(?:api|access|private|subscription)[-_]?key|secret|credential|header|authorization|bearer|passw).*"
    # Tokens are counted, and named by their numbers, more often than they are secret.
    r"|.*token(?!s|[-_]?(?:id|count|type|field)).*|.*(?:api|access|auth|refresh|session|bearer)[-_]?tokens?.*"
    r"|(?:x-)?(?:goog-)?key"
)
"""Names of options whose values are secrets."""


def _renamed(option: Option, text: str) -> str:
    """The new name of an option, with the value it had where that still serves: a judge's price is for tokens."""
    try:
        option.form.read(text)
    except ValueError:
        return f"{option.name}= now, and {without_keys(text)} does not serve: write {option.form.says}"
    return f"{option.name}= now: write {option.name}={without_keys(text)}"


def _value(option: Option, text: str | None, where: str) -> Any:
    if text is None and option.needed:
        raise RefBenchError(f"{where} needs {option.name}=: write {option.form.says}")
    if text is None:
        text = option.default
    if text is None:
        return None
    try:
        return option.form.read(text)
    except ValueError:
        raise RefBenchError(f"{where}: {option.name}={without_keys(text)}: write {option.form.says}") from None


MODEL_PLUG_INS, JUDGE_PLUG_INS = "refbench.models", "refbench.judges"
"""Entry point groups under which installed packages name kinds: callables from a Spec to an ImageModel or a VLM."""

DECLARED = ("revision", "quantization", "template")
"""What a user says of the weights behind a judge's server: keyed and recorded like a parameter, and sent to nobody."""
WEIGHTS = ("root", "parent", "meta")
"""What a server may tell of them: another value is another judge."""

RENAMED = {"usd_a_picture": "price", "open": "open_weights"}
"""Options that had another name before they were the same for image models and judges."""


def _declared() -> Iterator[dict[str, Kind]]:
    """Models, wrappers and judges as `specs.toml` declares them."""
    tables = tomllib.loads(Path(__file__).with_name("specs.toml").read_text("utf-8"))
    for section in ("models", "wrappers", "judges"):
        kinds = {}
        for name, table in tables[section].items():
            shared = [tables["groups"][group] for group in table.pop("groups", ())]
            options = [_option(*item) for group in (*shared, table.pop("options", {})) for item in group.items()]
            kinds[name] = Kind(name, options=tuple(options), **table)
        yield kinds


def _option(name: str, table: Mapping[str, Any]) -> Option:
    forms: dict[str, Callable[..., Form]] = {"choices": one_of, "whole": whole, "sizes": size_or}
    written = next((make(*table[key]) for key, make in forms.items() if key in table), None)
    form = written or _FORMS[table.get("form", "text")]
    return Option(name, table["help"], form, table.get("needed", False), table.get("default"))


MODELS, WRAPPERS, JUDGES = _declared()
POLICIES = ("error", "skip", "truncate", "collage")
"""Of `overflow`; each is short for a wrapper of its own."""


class Spec(Record):
    """A parsed spec. `name` is what tables show; without one it is made from what was asked for."""

    name: str
    kind: str
    what: str
    options: Mapping[str, str] = {}
    model: Spec | None = None
    """The model that a wrapper is around."""
    vlm: Spec | None = None
    """The VLM that a wrapper asks."""

    @property
    def innermost(self) -> Spec:
        """The model at the bottom of all wrappers."""
        return self if self.model is None else self.model.innermost

    @classmethod
    def parse(cls, text: str, option: str = "--model") -> Spec:
        """A spec in one line, wrapped or plain; errors name `option`.

        `truncate(M)` is short for `overflow(M; policy=truncate)`.
        """
        where = f"{option} {without_keys(text)}"
        match = _WRAPPER.fullmatch(text)
        if match is None:
            if _WRAPPER_BEGINS.match(text):  # a plain spec has a colon before any bracket
                raise RefBenchError(f"{where}: a bracket is not closed")
            return _plain(text.strip(), where)
        if text.count("(") > _MOST_BRACKETS:
            raise RefBenchError(f"{option} {without_keys(text[:60])}...: it has more than {_MOST_BRACKETS} brackets")
        given: dict[str, str] = {}
        for argument in _arguments(match[3], where):
            key, value = _key_and_value(argument)
            if key in given:
                raise RefBenchError(f"{where}: {key} is given twice")
            given[key] = value
        return _wrapped(_checked_name(match[1] or "", where), match[2], given, where)

    @classmethod
    def read(cls, given: str | Mapping[str, Any] | Spec, option: str = "--model", name: str = "") -> Spec:
        """A spec that is given as a line, as a table, or ready; `name` is the key under which it stands."""
        if isinstance(given, Spec):
            return given if not name else given.model_copy(update={"name": name})
        if isinstance(given, str):
            return cls.parse(f"{name}={given}" if name else given, option)
        return cls.from_table(given, name, option)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], name: str = "", where: str = "") -> Spec:
        """A table such as TOML's `[models.A] kind = "ipr", planner = "openai:gpt-5", model = ...`.

        `model` and the VLM are specs in one line or tables of their own. A kind that wraps nothing has `what` and its
        options.
        """
        where = where or f"[models.{name}]"
        if not isinstance(table, Mapping) or not isinstance(table.get("kind"), str):
            raise RefBenchError(f'{where}: give a table with kind = "...", or a spec in one line')
        kind = table["kind"]
        name = _checked_name(str(table.get("name", name)), where)
        rest = {key: value for key, value in table.items() if key not in ("kind", "name")}
        if kind in WRAPPERS or kind in POLICIES or "model" in rest:
            return _wrapped(name, kind, rest, where)
        what = rest.pop("what", None)
        if not isinstance(what, str) or not what:
            raise RefBenchError(f'{where}: {kind} needs what = "...": a model, a folder, an address')
        options = {key: _as_text(value, f"{where} {key}") for key, value in rest.items()}
        return cls(name=name or _last_part(what.partition("?")[0]), kind=kind, what=what, options=options)


_MOST_BRACKETS = 100
"""In a wrapped spec, each of which may be a wrapper around another."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
_WRAPPER = re.compile(r"\s*(?:([^=:(\s]+)=)?([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_WRAPPER_BEGINS = re.compile(r"\s*(?:[^=:(\s]+=)?[A-Za-z_]\w*\s*\(")
_KEYED = re.compile(r"([a-z_]+)\s*=(.*)", re.DOTALL)
_KEYS = {"model", *(key for kind in WRAPPERS.values() for key in (kind.vlm, *(o.name for o in kind.options)))}


def _plain(text: str, where: str) -> Spec:
    head, _, query = text.partition("?")
    name, equals, rest = head.partition("=")
    if not equals or ":" in name:
        name, rest = "", head
    kind, colon, what = rest.partition(":")
    if not colon or not kind or not what:
        example = "judge=openai:gpt-4o" if "judge" in where.partition(" ")[0] else "mine=folder:outputs"
        if not colon and example.startswith("mine") and ("/" in rest or _is_folder(rest)):
            example = f"{name}=folder:{rest}" if name else f"folder:{rest}"
        raise RefBenchError(f"{where}: write it as [name=]kind:what, for example {example}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    return Spec(name=_checked_name(name, where) or _last_part(what), kind=kind, what=what, options=options)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:  # too long for a name
        return False


def _wrapped(name: str, kind: str, given: Mapping[str, Any], where: str) -> Spec:
    options = dict(given)
    prefix = kind
    if kind in POLICIES:
        kind, options = "overflow", {"policy": kind, **options}
    elif kind == "overflow":
        prefix = str(options.get("policy", kind))
    wrapper = WRAPPERS.get(kind)
    if wrapper is None:
        raise RefBenchError(f"{where}: no wrapper is called {kind!r}: {nearest(kind, [*WRAPPERS, *POLICIES])}")
    if "model" not in options:
        raise RefBenchError(f"{where}: {kind} wraps a model: write {kind}(MODEL; ...) or model = ...")
    model = Spec.read(options.pop("model"), where)
    vlm = None
    if wrapper.vlm:
        if wrapper.vlm not in options:
            raise RefBenchError(f"{where}: {kind} asks a VLM: give {wrapper.vlm}=, for example openai:gpt-4o")
        vlm = Spec.read(options.pop(wrapper.vlm), where)
        if vlm.model is not None:
            raise RefBenchError(f"{where}: {wrapper.vlm} is a VLM and cannot be wrapped")
    known = [option.name for option in wrapper.options]
    for key in options:
        if key not in known:
            there = ", ".join(["model", *([wrapper.vlm] if wrapper.vlm else []), *known])
            raise RefBenchError(f"{where}: {kind} has no {key}=, it has {there}")
    return Spec(
        name=name or f"{prefix}+{model.name}",
        kind=kind,
        what=f"{model.innermost.kind}:{model.innermost.what}",
        options={key: _as_text(value, f"{where} {key}") for key, value in options.items()},
        model=model,
        vlm=vlm,
    )


def _arguments(text: str, where: str) -> list[str]:
    """What stands between semicolons, those inside brackets and double quotes not counted."""
    arguments, start, depth, quoted, escaped = [], 0, 0, False, False
    for at, sign in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = sign == "\\", sign != '"'
        elif sign == '"':
            quoted = True
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            if depth < 0:
                break
        elif sign == ";" and depth == 0:
            arguments.append(text[start:at])
            start = at + 1
    if depth or quoted:
        raise RefBenchError(f"{where}: a {'quotation mark' if quoted else 'bracket'} is not closed")
    return [argument.strip() for argument in [*arguments, text[start:]] if argument.strip()]


def _key_and_value(argument: str) -> tuple[str, str]:
    """`option=value`, else the model, which may have a name of its own: `nano=gemini:...`."""
    keyed = _KEYED.fullmatch(argument)
    if keyed is None or (keyed[1] not in _KEYS and ":" in keyed[2]):
        return "model", _unquoted(argument)
    return keyed[1], _unquoted(keyed[2].strip())


def _unquoted(value: str) -> str:
    """A value in double quotes is taken as it stands between them."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value, strict=False))
        except ValueError:
            return value[1:-1]
    return value


def _as_text(value: Any, where: str) -> str:
    """A value of TOML as options have it: true is yes, numbers are written out."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str | int | float):
        raise RefBenchError(f"{where}: {without_keys(repr(value))} is no text and no number")
    return str(value)


def _checked_name(name: str, where: str) -> str:
    if name and not _NAME.fullmatch(name):
        raise RefBenchError(
            f"{where}: the name {without_keys(name)!r} may have letters, digits, dot, dash, plus and underscore only"
        )
    return name


def _last_part(what: str) -> str:
    return what.rstrip("/").rsplit("/", 1)[-1]


def nearest(name: str, known: Iterable[str], more: str = "") -> str:
    """The end of a sentence about a name that is not known: the nearest one (followed by `more`), or all there are."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]}{more}?"
    return f"there is only {names[0]}" if len(names) == 1 else f"there are {', '.join(names) or 'none'}"


def entry_points(group: str) -> EntryPoints:
    """What installed packages offer under a group. All their files are read for it, so once for each state of the
    folders that they are looked for in."""
    installed: EntryPoints = _installed(tuple((folder, _changed(folder)) for folder in sys.path)).select(group=group)
    return installed


@lru_cache(maxsize=1)
def _installed(folders: tuple[tuple[str, int], ...]) -> Any:  # Python 3.11 has another type here than 3.12
    return metadata.entry_points()


def _changed(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


def kinds(shipped: Mapping[str, Kind], group: str) -> dict[str, Kind]:
    """The kinds that are shipped, and those that installed packages add under an entry point group."""
    return {**shipped, **{point.name: _plug_in_kind(point) for point in entry_points(group=group)}}


def declares(*options: Option, what: str = "WHAT", others: str = "") -> Callable[[F], F]:
    """Decorates what an entry point names, a callable from a Spec: its options, which are read so."""

    def declared(make: F) -> F:
        make.__refbench_kind__ = Kind("", "", what, options, others)  # type: ignore[attr-defined]
        return make

    return declared


def from_plug_in(spec: Spec, group: str, wanted: type[Any], where: str) -> Any:
    """The model or judge that an installed package makes of a spec; None where no package names its kind.

    Options that it does not declare, or that are not written as it declares them, are refused before it is called.
    """
    for point in entry_points(group=group):
        if point.name == spec.kind:
            make = _loaded(point)
            read_options(spec, _plug_in_kind(point), where)
            made = make(spec)
            if not isinstance(made, wanted):
                gave = "None" if made is None else f"{_article(name := type(made).__name__)} {name}"
                article = _article(wanted.__name__)
                raise RefBenchError(
                    f"{where}: the plug-in {point.value} gave back {gave}, not {article} {wanted.__name__}"
                )
            return made
    return None


def plug_in_named(name: str, group: str) -> Callable[..., Any]:
    """What an installed package offers under that name, which is one of `plug_ins`."""
    return _loaded(next(point for point in entry_points(group=group) if point.name == name))


def plug_in_identity(spec: Spec) -> dict[str, str]:
    """What is recorded of a plug-in's model or judge beside what it says of itself: other options are another one."""
    options = {f"option {key}": value for key, value in sorted(spec.options.items())}
    return {"plug-in": f"{spec.kind}:{spec.what}", **options}


def _article(word: str) -> str:
    return "an" if word[0] in "aeiouAEIO" else "a"


def plug_ins(group: str) -> list[str]:
    return sorted(point.name for point in entry_points(group=group))


def _loaded(point: EntryPoint) -> Callable[..., Any]:
    try:
        make: Callable[..., Any] = point.load()
    except Exception as error:
        raise RefBenchError(f"{point.name}: the plug-in {point.value} cannot be loaded: {error}") from error
    return make


def _plug_in_kind(point: EntryPoint) -> Kind:
    """The kind of a plug-in: what it declares, and the first line of its docstring."""
    try:
        make = _loaded(point)
    except RefBenchError as error:
        return Kind(point.name, str(error), "WHAT")
    declared: Kind = getattr(make, "__refbench_kind__", Kind("", "", "WHAT", others="to the plug-in"))
    help_text = (inspect.getdoc(make) or "").partition("\n")[0]
    return replace(declared, name=point.name, help=help_text or f"from {point.value}")


_FAMILIES = {
    "openai": r"gpt|chatgpt|o[134](?:-|$)|dall-?e|sora",
    "google": r"gemini|gemma|imagen|nano-?banana|paligemma",
    "anthropic": r"claude",
    "alibaba": r"qwen|qvq|wan\d",
    "baai": r"emu\d|omnigen",
    "meta": r"llama|muse|emu(?!\d)",
    "mistral": r"mistral|pixtral|magistral",
    "bytedance": r"seed|bagel|doubao",
    "black-forest-labs": r"flux",
    "xai": r"grok",
    "internvl": r"internvl",
    "stability": r"stable|sd\d|sdxl",
    "zhipu": r"glm|cogv|cogview",
}


def family_of(model: str) -> str:
    """Who made a model, by its name, or "unknown", which is never guessed further: judges may favour their own kin."""
    name = model.rsplit("/", 1)[-1].casefold()
    for family, pattern in _FAMILIES.items():
        if re.match(pattern, name):
            return family
    return "unknown"
