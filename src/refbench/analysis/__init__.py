"""Questions asked of finished results: is a gap real, why do numbers differ, can a judge be trusted."""
