"""EditReward-Bench of EditScore: which judges prefer the edits that people prefer."""
