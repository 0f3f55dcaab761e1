"""Prints docs/breaks.md or, with the argument `recompiles`, docs/recompile_reasons.md."""

import sys

from stator.diagnostics.catalogue import all_reasons, all_recompile_reasons
from stator.diagnostics.catalogue.pages import document, recompiles_document

if sys.argv[1:] == ["recompiles"]:
    sys.stdout.write(recompiles_document(all_recompile_reasons()))
else:
    sys.stdout.write(document(all_reasons()))
