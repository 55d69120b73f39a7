"""Run a program for netCDF4-python on nczarr: ``python -m nczarr.netcdf4 PROGRAM [ARGUMENT …]``.

PROGRAM is a script of Python, or the name of a command that a Python package has installed.
"""

import os
import runpy
import shutil
import sys

import nczarr.netcdf4


def main() -> None:
    """Run the program that the command line names; it has the other arguments."""
    del sys.argv[0]
    if not sys.argv:
        sys.exit("usage: python -m nczarr.netcdf4 PROGRAM [ARGUMENT ...]")
    program = sys.argv[0] if os.path.isfile(sys.argv[0]) else shutil.which(sys.argv[0])
    if program is None:
        sys.exit(f"{sys.argv[0]}: there is no such script, and no such command in PATH")
    # Python itself finds modules beside a script; some packages install theirs there.
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    nczarr.netcdf4.install()
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
