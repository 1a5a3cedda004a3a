"""MICo-Bench: pictures composed of two to ten others."""
