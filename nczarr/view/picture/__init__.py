"""Draw a variable: select its part, read it on a grid, and make images, lines or tables of it.

Import the modules of this package one by one: each loads only its own libraries.
"""
