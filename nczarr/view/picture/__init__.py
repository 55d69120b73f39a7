"""Create pictures of variables (rasters, lines, maps) and draw them to files and terminals.

A picture is data (``pictures``). ``make`` reads the values of a selection and creates the picture; ``files``,
``terminal`` and the page draw it. Import the modules individually: some import matplotlib or Pillow.
"""
