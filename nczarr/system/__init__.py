"""Deal with the operating system: locks, temporary names, syncing, forks, exit, settings.

Import the modules of this package one by one: each loads only its own libraries.
"""
