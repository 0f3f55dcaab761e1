"""`stator completion`: scripts by which shells complete commands, options and files.

In: the name of a shell. Out: a script, made from what the parser knows: each command, its options
and their choices; everything else is a file, as shells complete them.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from stator.cli.parser import made, options_of


def main(given: argparse.Namespace) -> int:
    print(script(given.shell), end="")
    return 0


def script(shell: str) -> str:
    """The script for a shell."""
    return _SCRIPTS[shell]()


def _commands() -> dict[str, argparse.ArgumentParser]:
    return made()[1]


def _choices(command: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The options that take one of some words; positional ones are called by nothing."""
    for action in command._actions:
        if action.choices is not None:
            name = action.option_strings[-1] if action.option_strings else ""
            yield name, tuple(map(str, action.choices))


def _words(command: argparse.ArgumentParser) -> list[str]:
    """What may stand behind a command, files apart."""
    return [
        *options_of(command),
        *(word for n, words in _choices(command) if not n for word in words),
    ]


# ---------------------------------------------------------------------- bash, zsh

_BASH: Final = """\
_stator() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}} $before" in
{choices}
    esac
    case "${{COMP_WORDS[1]}}" in
{words}
    esac
}}
complete -o default -F _stator stator
"""


def _reply(words: Iterable[str]) -> str:
    return f"COMPREPLY=($(compgen -W '{' '.join(words)}' -- \"$word\"))"


def _bash() -> str:
    commands = _commands()
    choices = [
        f"        '{name} {option}') {_reply(words)}; return;;"
        for name, command in commands.items()
        for option, words in _choices(command)
        if option
    ]
    words = [f"        {name}) {_reply(_words(command))};;" for name, command in commands.items()]
    return _BASH.format(
        commands=" ".join(commands), choices="\n".join(choices), words="\n".join(words)
    )


def _zsh() -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash()}"


# ---------------------------------------------------------------------- fish


def _fish() -> str:
    lines = []
    for name, command in _commands().items():
        about = re.split(r"[,:.]", command.description or "")[0].replace("\n", " ")
        lines.append(f"complete -c stator -n __fish_use_subcommand -a {name} -d '{about}'")
        behind = f"complete -c stator -n '__fish_seen_subcommand_from {name}'"
        choices = dict(_choices(command))
        for option in options_of(command):
            given = f" -x -a '{' '.join(choices[option])}'" if option in choices else ""
            lines.append(f"{behind} -l {option.removeprefix('--')}{given}")
        if "" in choices:
            lines.append(f"{behind} -f -a '{' '.join(choices[''])}'")
    return "\n".join(lines) + "\n"


_SCRIPTS: Final[dict[str, Callable[[], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
