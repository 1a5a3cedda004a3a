"""Pipelines of diffusers on this machine."""
