"""Text from outside: read from users' files, and shown to people as text."""
