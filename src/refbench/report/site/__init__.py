"""The pages: a static site, or the same pages served live."""
