"""Image models behind an endpoint: OpenAI's, Gemini's, and servers that speak our own protocol."""
