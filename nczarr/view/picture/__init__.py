"""Make pictures of variables: rasters, lines, maps, their colours, and their drawing into files and terminals.

A picture is data (``pictures``): ``make`` reads and lays out what a selection needs, and ``files``, ``terminal`` and
the page draw it. The modules are imported one by one, since matplotlib and Pillow are loaded by those who draw with
them.
"""
