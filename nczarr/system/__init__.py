"""Deal with the operating system: locks, temporary names, syncing, forked processes, closing at exit, environment.

Import the modules of this package one by one: each loads only its own libraries.
"""
