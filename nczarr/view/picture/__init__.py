"""Make pictures of variables: rasters, lines, maps, their colours, and their drawing into files and terminals."""
