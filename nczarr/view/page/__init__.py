"""Serve the viewer's page in the browser, with Panel and Bokeh."""
