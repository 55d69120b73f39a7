"""Run the command line as ``python -m nczarr``."""

import sys

from nczarr.cli import main

if __name__ == "__main__":
    sys.exit(main())
