"""Write datasets as CDL text and as NcML.

Two styles exist: ncdump's, byte for byte, and the default style, which differs only where ncdump loses information.
Values are read and formatted one block at a time, runs of numbers without a Python loop.
"""
