"""Stores in zip files, local ones and those that are keys of another store.

``reader`` reads any archive. ``store`` appends to one of nczarr's without moving its members.
"""
