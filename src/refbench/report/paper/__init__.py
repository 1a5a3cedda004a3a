"""What a paper needs of several runs: one table, an appendix, the bibliography, a figure of cases drawn by lot."""
