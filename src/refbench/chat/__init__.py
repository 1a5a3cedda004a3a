"""Chat: what is asked of a vision-language model, as data. The models themselves are not here yet."""

from refbench.chat.vlm import ChatPicture, ChatRequest, ChatText

__all__ = ["ChatPicture", "ChatRequest", "ChatText"]
