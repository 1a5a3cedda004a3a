"""Models around models: they change what the inner model is told, or how often it is asked."""
