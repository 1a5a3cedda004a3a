"""Which references an output uses: read off the replies of judges and the measurements of networks."""
