"""Change the model of a dataset before it is written: choose parts, rename nodes, set chunks and codecs.

Each function returns a new dataset that reads its data through the given one, and refuses requests that it cannot
fulfil before anything is written.
"""
