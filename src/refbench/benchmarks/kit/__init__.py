"""What all benchmarks share: the record, the one constructor, data sets, published numbers, rows of files."""
