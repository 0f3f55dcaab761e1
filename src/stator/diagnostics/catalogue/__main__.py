"""Prints docs/breaks.md."""

import sys

from stator.diagnostics.catalogue import all_reasons
from stator.diagnostics.catalogue.pages import document

sys.stdout.write(document(all_reasons()))
