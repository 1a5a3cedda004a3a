"""What tests share: checkouts made on the spot, and the real data where it is at hand."""
