"""Implement the command ``nczarr``."""

from nczarr.cli.main import main

__all__ = ["main"]
