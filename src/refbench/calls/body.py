"""Reading a response's body: at most so many bytes, counted after decompression, so that no server fills the memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import aiohttp

from refbench.failure import Failure

ENCODINGS = "gzip, deflate"
"""What is asked for. Each is unpacked piece by piece up to the cap; others are not."""
_MOST_OF_AN_ERROR = 1 << 20  # bytes: nobody reads on
_PIECE = 1 << 16


class UnusableBodyError(Exception):
    """The server answered, and what it sends cannot be taken: another try would be paid for and fare no better."""

    def __init__(self, failure: Failure, begun: bytes = b"") -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.begun = begun


class CutBodyError(Exception):
    """The body ended early or is damaged."""


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The whole body; of an error page the beginning, as far as it can be read."""
    if response.status < 300:
        return await _read(response, most)
    try:
        return await _read(response, _MOST_OF_AN_ERROR)
    except (UnusableBodyError, CutBodyError, aiohttp.ClientPayloadError) as error:
        return error.begun if isinstance(error, UnusableBodyError) else b""


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    unpack = _Unpacker(response)
    body = bytearray()
    async for chunk in response.content.iter_chunked(_PIECE):
        for piece in unpack(chunk):
            body += piece
            if len(body) > most:
                words = f"the reply is larger than {most / (1 << 20):g} MiB and was not read on (--reply-megabytes)"
                raise UnusableBodyError(Failure(kind="api_error", detail=words), bytes(body[:_MOST_OF_AN_ERROR]))
    body += unpack.end()
    return bytes(body)


class _Unpacker:
    """From the bytes on the wire to those of the reply, in pieces that are never larger than asked for."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        words = ",".join(response.headers.getall("Content-Encoding", [])).lower().split(",")
        given = [word.strip() for word in words if word.strip() not in ("", "identity")]
        if len(given) > 1 or any(word not in ("gzip", "x-gzip", "deflate") for word in given):
            shown = ", ".join(given)[:60]
            detail = f"HTTP {response.status}: the reply is encoded as {shown}, which nobody asked for"
            raise UnusableBodyError(Failure(kind="api_error", detail=detail))
        self._encoded = bool(given)
        self._unpacking: zlib._Decompress | None = None

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        if not self._encoded:
            yield chunk
            return
        while chunk:
            if self._unpacking is None or self._unpacking.eof:  # a gzip file may have several members
                if self._unpacking is not None and not (chunk := chunk.lstrip(b"\0")):  # and be filled up with zeros
                    return
                raw = chunk[0] & 0x0F != 8 and chunk[0] != 0x1F  # deflate without its two bytes of header
                self._unpacking = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
            try:
                yield self._unpacking.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise CutBodyError(f"the reply is damaged ({error})") from error
            chunk = self._unpacking.unconsumed_tail or self._unpacking.unused_data

    def end(self) -> bytes:
        """What was held back, at most a piece."""
        held = b"" if self._unpacking is None or self._unpacking.eof else self._unpacking.decompress(b"", _PIECE)
        if self._unpacking is not None and not self._unpacking.eof:
            raise CutBodyError("the compressed reply ends early")
        return held
