"""Image models that users write: Python functions, and programs that are started or kept alive."""
