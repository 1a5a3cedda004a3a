"""Keys: read from the environment, refused before anything is sent where they cannot work, and cut by value from
everything that a server says.
"""

from __future__ import annotations

import html
import json
import os
import re
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from urllib.parse import quote, quote_plus, unquote, urlsplit

from refbench.failure import CUT, without_keys
from refbench.record import RefBenchError

_TOLD = 8
"""Characters from which a value can be told from words: shorter ones (EMPTY, none) are cut from errors only."""
_WORD = 4
_FEWEST = 3
"""Characters of a value beside a mask from which it is told."""
_SPELLING = ("%", "&", "\\")
"""One of these is in every text in which characters are spelt otherwise."""
_MASK = r"(?:[*•·…]+|\.{3,}|[xX]{3,})"


class Secrets:
    """Values that reach no record, page or message, in the forms in which servers and libraries quote them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        given = dict.fromkeys(value for value in values if len(value) >= _WORD)
        self._values = [value for value in given if len(value) >= _TOLD]
        self._words = [value for value in given if len(value) < _TOLD]
        forms = {form for value in self._values for form in _forms(value) if len(form) >= _TOLD}
        self._forms = sorted(forms, key=len, reverse=True)

    def cut(self, text: str) -> str:
        """The text with every secret replaced: whole, encoded, masked in the middle, or broken off."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, CUT)
        if any(sign in text for sign in _SPELLING):
            for spelt in self._spelt:
                text = spelt.sub(CUT, text)
        for broken in self._parts:
            text = broken.sub(CUT, text)
        if any(end in text for end, _ in self._backwards):
            text = text[::-1]
            for _, broken in self._backwards:
                text = broken.sub(CUT[::-1], text)
            text = text[::-1]
        return text

    def cut_message(self, text: str) -> str:
        """For errors: short secrets go too, where they stand alone."""
        text = self.cut(text)
        for word in self._words:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", CUT, text)
        return text

    def within(self, data: bytes) -> bool:
        """Whether a file holds one."""
        return any(form.encode() in data for form in self._forms)

    # What is left of a value when its middle is masked or one of its ends is missing. Every pattern begins with plain
    # characters, which are searched for in a text of any length as fast as it is read; so ends are searched backwards.

    @cached_property
    def _spelt(self) -> list[re.Pattern[str]]:
        return [re.compile("".join(map(_spellings, value))) for value in self._values]

    @cached_property
    def _parts(self) -> list[re.Pattern[str]]:
        return [re.compile(pattern) for value in self._values for pattern in _beginnings(value)]

    @cached_property
    def _backwards(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(value[-_FEWEST:], re.compile(pattern)) for value in self._values for pattern in _endings(value[::-1])]


def _spellings(sign: str) -> str:
    """A character as it is, or as URLs, JSON and HTML spell it, also twice. Which ones are spelt differs: Python's
    `quote` leaves slashes, JavaScript's `encodeURI` plus signs too, and PHP's JSON puts a backslash before a slash."""
    byte, named = f"{ord(sign):02x}", html.escape(sign)
    ways = [rf"\\{{0,4}}{re.escape(sign)}", rf"%(?:25)*(?i:{byte})", rf"\\{{1,4}}(?i:u00{byte}|x{byte})"]
    ways.append(rf"&(?:amp;)*\#(?i:0*{ord(sign)}|x0*{byte});")
    if named != sign:
        ways.append(rf"&(?:amp;)*{named[1:]}")
    return f"(?:{'|'.join(ways)})"


def _forms(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    yield value
    for text in (quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")):
        yield from (text, re.sub(r"%..", lambda match: match[0].lower(), text))
    yield html.escape(value)
    yield from (json.dumps(value)[1:-1], repr(value)[1:-1], value[::-1])
    yield from (data.hex(), data.hex().upper())
    yield b64encode(data).decode()
    # Base64 of a longer text has the value in one of three alignments; what its neighbours share of it is left out.
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        encoded = b64encode(bytes(before) + data).decode().rstrip("=")
        whole = encoded[skipped : len(encoded) if (before + len(data)) % 3 == 0 else -1]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))


def _begun(value: str, fewest: int) -> str:
    """The beginning of a value, all but one character of it or fewer, as many as there are."""
    more = "|".join(re.escape(value[fewest:n]) for n in range(len(value) - 1, fewest - 1, -1))
    return rf"{re.escape(value[:fewest])}(?:{more})"


def _beginnings(value: str) -> Iterator[str]:
    tails = "|".join(re.escape(value[-n:]) for n in range(len(value) - 1, _FEWEST - 1, -1))
    yield rf"{_begun(value, _FEWEST)}{_MASK}(?:{tails})?"
    yield _begun(value, max(_TOLD, len(value) // 2))


def _endings(backwards: str) -> Iterator[str]:
    first = re.escape(backwards[:_FEWEST])
    yield rf"{first}(?<!\w{first}){_begun(backwards, _FEWEST).removeprefix(first)}{_MASK}"
    yield _begun(backwards, max(_TOLD, len(backwards) // 2))


def secrets_of(*keys: str | None) -> Secrets:
    """These keys, and the passwords of this machine's proxies."""
    values = [key for key in keys if key]
    for proxy in urllib.request.getproxies().values():
        user, colon, password = _user_of(proxy).partition(":")
        if colon and password:
            values += [f"{user}:{password}", f"{unquote(user)}:{unquote(password)}", password, unquote(password)]
    return Secrets(values)


def proxy_for(url: str) -> str | None:
    """The proxy of the environment for an address. Passwords in ~/.netrc are not used: none was given for it."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or urllib.request.proxy_bypass(parts.netloc):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _user_of(url: str) -> str:
    """What stands before the host."""
    try:
        return urlsplit(url if "://" in url else f"http://{url}").netloc.rpartition("@")[0]
    except ValueError:
        return ""


def key_of(variables: Sequence[str], name: str, *, needed: bool) -> str | None:
    """The key in the first of the variables that is set; a missing or impossible one is said before anything is
    spent."""
    for variable in variables:
        key = os.environ.get(variable)
        if not key and (not re.fullmatch(r"[A-Za-z_]\w*", variable) or without_keys(variable) != variable):
            raise RefBenchError(
                f"{name}: key_env= is the name of a variable that holds the key, for example key_env=MY_KEY; what is "
                "given is none"
            )
        if not key:
            continue
        wrong = (
            "begins or ends with a space or a line break"
            if key != key.strip()
            else "has a space, a line break or a character that is no plain letter, digit or sign"
            if not re.fullmatch(r"[!-~]+", key)
            else ""
        )
        if wrong:
            raise RefBenchError(f"{name}: the key in {variable} {wrong}: set it without")
        return key
    if needed:
        raise RefBenchError(f"{name} needs a key: set {' or '.join(variables)} in the environment")
    return None


def checked_address(url: str, name: str) -> str:
    """The address, which is written into records and messages and therefore may hold no secret."""
    if _user_of(url):
        raise RefBenchError(
            f"{name}: the address holds a password, and addresses are recorded: put the key into a variable and name "
            "it with key_env="
        )
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or re.search(r"[\s\x00-\x1f\x7f\\]", url):
        shown = repr(without_keys(url)) if "@" not in url else "what is given"
        raise RefBenchError(f"{name}: {shown} is no address: write it as http://host:8000/v1")
    if parts.query or parts.fragment:
        raise RefBenchError(f"{name}: the address has more behind ? or #: give it without, and keys with key_env=")
    return url.rstrip("/")
