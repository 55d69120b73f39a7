"""Serve the viewer's page in the browser, with Panel and Bokeh.

``server`` starts it, ``viewer`` puts it together from parts that can be tested without a browser. The modules are
imported one by one, since each loads its part of Panel or Bokeh.
"""
