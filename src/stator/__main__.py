"""`python -m stator`: the command line."""

import sys

from stator.cli import main

if __name__ == "__main__":
    sys.exit(main())
