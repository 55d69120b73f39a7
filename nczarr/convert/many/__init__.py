"""Join many files into one dataset, and append files to a dataset.

All files are checked, and all conflicts listed, before anything is written. Few files are open at the same time.
"""
