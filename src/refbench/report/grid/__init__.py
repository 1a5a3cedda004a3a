"""A sheet of pictures for a paper or a talk."""
