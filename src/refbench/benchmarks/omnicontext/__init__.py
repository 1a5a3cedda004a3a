"""OmniContext: people, objects and scenes from one to three pictures, judged for instruction and identity."""
