"""The report: one HTML file that shows what a run of stator has done.

Stage: after the program, also elsewhere. In: events of the journal (docs/report.md). Out: a page
that needs nothing but a browser. No torch here, and nothing of the program.

    build(journal.read("trace"), "out.html")
"""

from stator.report.page import EDITORS, build

__all__ = ["EDITORS", "build"]
