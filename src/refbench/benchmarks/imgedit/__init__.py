"""ImgEdit-Bench, the suite Basic: nine types of edits, three marks in one call."""
