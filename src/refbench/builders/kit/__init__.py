"""What all builders share: settings, sources, pictures, prompts and replies, the flow of a build, review and card."""
