"""Show text on terminals: harmless, coloured, a screen at a time, with progress."""
