"""What the command line understands, and the help that teaches it.

In: arguments. Out: a namespace with `command`. Loads nothing of stator but this file.
"""

import argparse
import difflib
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

MODULES: Final = {
    "run": "running",
    "explain": "explaining",
    "why": "why",
    "doctor": "doctor",
    "bench": "bench",
    "report": "reporting",
    "cache": "cache",
    "completion": "completion",
}

EDITORS: Final = ("vscode", "cursor", "pycharm")
SHELLS: Final = ("bash", "zsh", "fish")

_ABOUT: Final = """\
stator captures PyTorch programs as graphs, in place of TorchDynamo.

  stator run train.py --epochs 3      run a program that uses torch.compile, on stator
  stator explain model.py::forward    what became of a function: graphs, breaks, guards
  stator why SB0013                   what a reason for a graph break means, and the fix
  stator doctor                       is everything here that stator needs to be fast?
  stator bench                        what a compiled call costs on this machine
  stator report trace -o page.html    a page to look at, made from a run
  stator cache ls                     what is kept for the next process
"""
_RUN: Final = """\
Runs a program, unchanged, with torch.compile, torch.compiler and torch._dynamo meaning stator.
What the program prints and its exit status are its own; at the end a summary of what was compiled
goes to standard error.

  stator run train.py --epochs 3           options behind the script are the script's
  stator run -m mypackage.train            a module, as with python -m
  stator run --report page.html train.py   and a page that shows everything
  stator run --trace traces train.py       events into a folder, for `stator report`
  stator run --backend eager train.py      is it the backend? (replaces all backends)
  stator run --fullgraph train.py          the first graph break is an error

Processes that the program starts through multiprocessing run on stator, too. Under torchrun:

  torchrun --no-python stator run train.py
"""
_EXPLAIN: Final = """\
Imports a file, calls one of its functions, and tells what became of it: the graphs, where and why
the program was split, the guards, what was compiled again.

  stator explain model.py::forward
  stator explain model.py::model                        an nn.Module, or Class.method
  stator explain model.py::forward --inputs inputs.py

The arguments come from `arguments` or `example_inputs`, in the file given with --inputs or else in
the file itself. It is a value, or a function without parameters that returns one:

  a tuple or a list     positional arguments
  a dict                keyword arguments
  (tuple, dict)         both
  anything else         the only argument

  # inputs.py
  import torch
  def arguments():
      return torch.randn(8, 16), torch.ones(8)

A function without parameters needs none. Instead of arguments, the file may have a function `main`
with one parameter: it gets the function that is explained, and calls it as often as it likes. A
dict `options` next to it has options of stator.compile. The file is imported, so what stands under
`if __name__ == "__main__":` does not run.
"""
_WHY: Final = """\
Shows the page of a reason for a graph break or a recompile: what the program does, why it matters,
what to change, and a program before and after. Without a number: all of them.

  stator why SB0013       as in the messages; 13 and sb13 will do
  stator why sleep        reasons that speak of it
  stator why torch.relu   what happens to a call of it: in the graph, evaluated, run, a break
  stator why              the list
"""
_DOCTOR: Final = """\
Looks at this installation: versions, the native core, the compiler that Inductor needs, GPU, and
what the environment sets. Each line is ok, slow or missing; with what to do about it.
The exit status is 1 if something is missing.
"""
_BENCH: Final = """\
Measures on this machine what a compiled call costs beside the graph itself, and how long a compile
takes, next to torch.compile. The backend does nothing, so that only the front end counts.
Takes less than a minute. Close other programs: it measures time.
"""
_REPORT: Final = """\
Makes one HTML file from the events of a run, which needs nothing but a browser.

  STATOR_TRACE=traces python train.py      or: stator run --trace traces train.py
  stator report traces -o page.html        a folder, or single files
"""

_CACHE: Final = """\
The cache of compiled programs (docs/cache.md): in $STATOR_CACHE_DIR, or in the user's folder for
caches.

  stator cache ls         each entry: how large, when made, for what, and whether it is usable now
  stator cache verify     is each file what was written, and written by nobody else?
  stator cache clear      throw all of it away
"""
_COMPLETION: Final = """\
Prints what a shell needs to complete commands and options of stator. Once, for each kind of shell:

  stator completion bash >> ~/.bashrc
  stator completion zsh >> ~/.zshrc
  stator completion fish > ~/.config/fish/completions/stator.fish
"""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, understood; without any: the help. Exit status 2 says what can't be."""
    parser, commands = made()
    asked = sys.argv[1:] if arguments is None else list(arguments)
    if not asked:
        parser.print_help()
        parser.exit()
    given, unknown = parser.parse_known_args(asked)
    command = commands[given.command]
    if unknown:
        command.error(_unknown(command, unknown))
    if given.command == "run":
        given.module = given.m is not None
        given.program = given.m if given.module else given.program
        if not given.program:
            command.error("name a script, or a module with -m")
    return given


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """The options of a parser, by their long names."""
    names = [name for action in parser._actions for name in action.option_strings]
    return [name for name in names if name.startswith("--")]


def _unknown(command: argparse.ArgumentParser, given: Sequence[str]) -> str:
    """What there is not, and what may have been meant."""
    name = given[0].partition("=")[0]
    if not name.startswith("-"):
        return f"{name!r} is one argument too many"
    close = difflib.get_close_matches(name, options_of(command), 1)
    return f"there is no option {name}" + (f"; did you mean {close[0]}?" if close else "")


class _Parser(argparse.ArgumentParser):
    """Says what may have been meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            close = difflib.get_close_matches(str(value), list(action.choices), 1)
            hint = f"did you mean {close[0]!r}?" if close else "`stator --help` has them all"
            raise argparse.ArgumentError(None, f"there is no command {value!r}; {hint}")


def made() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and that of each command."""
    parser = _Parser(
        prog="stator",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        parser_class=argparse.ArgumentParser,
    )
    known: dict[str, argparse.ArgumentParser] = {}

    def command(name: str, short: str, text: str) -> argparse.ArgumentParser:
        known[name] = commands.add_parser(
            name,
            help=short,
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        return known[name]

    run = command("run", "run a program on stator", _RUN)
    run.usage = "stator run [options] script.py [args ...] | -m module [args ...]"
    run.add_argument("--report", metavar="FILE", help="write an HTML page about the run")
    _editor(run)
    run.add_argument("--trace", metavar="DIR", help="write the events of the run into a folder")
    run.add_argument("--backend", metavar="NAME", help="use this backend for everything")
    run.add_argument("--fullgraph", action="store_true", help="graph breaks are errors")
    run.add_argument("--quiet", action="store_true", help="no summary at the end")
    run.add_argument("-m", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module")
    run.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    explain = command("explain", "what became of one call", _EXPLAIN)
    explain.add_argument("function", metavar="FILE::NAME", help="a file and a function in it")
    explain.add_argument("--inputs", metavar="FILE", help="where the arguments are defined")
    explain.add_argument("--report", metavar="FILE", help="write an HTML page about it")
    _editor(explain)
    explain.add_argument("--backend", metavar="NAME", default="eager", help='"eager" by default')
    explain.add_argument(
        "--guards", action="store_true", help="all guards, also those that every program has"
    )

    why = command("why", "the page of a reason", _WHY)
    why.add_argument("reason", nargs="?", help="its number, a word, or the name of a callable")

    command("doctor", "look at this installation", _DOCTOR)

    bench = command("bench", "what a compiled call costs here", _BENCH)
    bench.add_argument("--json", action="store_true", help="numbers for programs")

    report = command("report", "make a page from a trace", _REPORT)
    report.add_argument("trace", nargs="+", help="folders or files that STATOR_TRACE has made")
    report.add_argument("-o", "--output", metavar="FILE", required=True, help="the page")
    _editor(report)

    cache = command("cache", "what is kept for the next process", _CACHE)
    cache.add_argument("what", choices=("ls", "clear", "verify"), help="list, empty or check it")
    cache.add_argument("--dir", metavar="DIR", help="another folder than the one in use")

    completion = command("completion", "complete commands in a shell", _COMPLETION)
    completion.add_argument("shell", choices=SHELLS, help="which one")
    return parser, known


def _editor(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--editor",
        choices=EDITORS,
        help="places in the page are links that open this editor",
    )


class _Version(argparse.Action):
    """Looks the version up when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object) -> None:
        print(f"stator {import_module('stator').__version__}")
        parser.exit()
