"""MultiRef-Bench (arXiv 2508.06905): follow references of ten kinds, or combine pictures as a person asked for."""
