"""MultiBanana (arXiv 2511.22989): compose one to eight reference pictures, judged on five criteria in one call."""
