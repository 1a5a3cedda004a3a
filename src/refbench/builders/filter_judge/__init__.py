"""A filter judge of one's own: from people's marks of references to a judge that keeps, drops or asks people.

`marks` reads what people said, `parts` splits it without leaks, `negatives` makes bad references of good ones,
`dataset` writes all that; `calibration` turns a judge's marks into two cuts that hold what they promise.
"""
