"""Serve the viewer's page to the browser with Panel and Bokeh.

``server`` starts the server. ``viewer`` builds the page from components that can be tested without a browser. Import
the modules individually: each imports different parts of Panel or Bokeh.
"""
