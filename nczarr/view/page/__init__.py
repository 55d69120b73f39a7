"""Serve the page of the viewer: its state, its widgets, its descriptions, and the thread that draws.

Import the modules of this package one by one: each loads only its own libraries.
"""
