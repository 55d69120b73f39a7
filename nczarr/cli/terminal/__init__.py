"""Print text on terminals with colours, a pager and progress bars.

Control characters in the names and texts of a dataset are escaped. The libraries for colours and the pager are imported
only if the output is a terminal; pipes get plain text.
"""
