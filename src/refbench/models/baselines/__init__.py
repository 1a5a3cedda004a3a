"""What any model is measured against: the golden picture, a copy, a collage, a blend."""
