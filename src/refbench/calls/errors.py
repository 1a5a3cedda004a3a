"""Providers' error bodies, read in one place for chat and image models: what a status and its words mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refbench.calls.keys import Secrets
from refbench.calls.said import at, table, text
from refbench.failure import Failure, redact
from refbench.record import RefBenchError

# How providers and gateways say that it was the content: in codes (content_policy_violation, moderation_blocked) and
# in sentences.
_POLICY = (
    *("content_policy", "content policy", "content_filter", "content filter", "moderation", "responsible ai"),
    *("sensitivecontentdetected", "sensitive content", "datainspectionfailed"),  # Ark, DashScope
    *("safety system", "safety_violation", "safety filter", "safety polic", "image_safety", "prohibited_content"),
)
_LONGEST = 20_000  # characters of an error that are looked at
_BAD_KEY = ("api key not valid", "api_key_invalid", "invalid api key", "invalid_api_key")  # Gemini says it with a 400


@dataclass(frozen=True)
class ProviderError:
    """An answer that is an error: its status, its words without the key, and the fields that some providers add."""

    status: int
    message: str
    code: str = ""
    param: str = ""

    @property
    def refused(self) -> bool:
        """Whether the provider declined the content."""
        return self.says(_POLICY)

    @property
    def failure(self) -> Failure:
        if self.refused:
            return Failure(kind="refused", detail=self.message[:400])
        if 300 <= self.status < 400:
            words = "the server names another address, and keys are not sent on: give the new one as base_url="
            return Failure(kind="api_error", detail=f"HTTP {self.status}: {words}")
        return Failure(kind="api_error", detail=f"HTTP {self.status}: {self.message[:400]}")

    @property
    def words(self) -> str:
        """Status and message in one short line, for sentences that end a run."""
        return f"HTTP {self.status}: {' '.join(redact(self.message).split())[:200]}"

    def says(self, phrases: Sequence[str]) -> bool:
        message = self.message.casefold()
        return any(phrase in message for phrase in phrases)

    def stop_if_key_refused(self, where: str, variables: Sequence[str]) -> None:
        """A key that is refused once is refused always: the run ends with the remedy."""
        if self.status in (401, 403) or self.says(_BAD_KEY):
            variable = " or ".join(variables) or "key_env"
            raise RefBenchError(f"{where} refuses the key ({self.words}): set {variable} to a valid one")


def read_error(status: int, body: Any, secrets: Secrets) -> ProviderError:
    """The error in what an answer says, where OpenAI, Gemini, Anthropic and gateways put it."""
    error, fields = at(body, "error"), table(body, "error")
    words = [str(fields[name]) for name in ("code", "type", "status", "message") if fields.get(name)]
    message = " ".join(dict.fromkeys(words)) or (str(error) if error and not fields else "")
    # Servers made with FastAPI say it as `detail`; some providers put code and message at the top.
    beside = [str(said) for name in ("code", "message", "detail") if (said := at(body, name))]
    message = message or " ".join(beside) or (body if isinstance(body, str) else "" if body is None else str(body))
    code, param = fields.get("code"), text(fields, "param")
    return ProviderError(status, secrets.cut_message(message[:_LONGEST]), str(code or "")[:100], param)


def without_secrets(failure: Failure | None, secrets: Secrets) -> Failure | None:
    """A failure whose words were put together from several texts of a server."""
    return failure and failure.model_copy(update={"detail": secrets.cut_message(failure.detail)})
