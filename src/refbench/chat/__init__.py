"""Chat: vision-language models, what they are asked, and who answers: providers, local weights, functions, replays."""

from refbench.chat.vlm import ChatPicture, ChatRequest, ChatText

__all__ = ["ChatPicture", "ChatRequest", "ChatText"]
