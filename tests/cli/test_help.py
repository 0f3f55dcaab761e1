"""What the command line says when it is not understood, and how shells complete it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stator.cli import main
from stator.cli.completion import script
from stator.cli.parser import EDITORS, MODULES, SHELLS, made, options_of
from stator.report import EDITORS as LINKS
from stator.report import build
from tests.cli.compare import run


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    found = capsys.readouterr()
    return status, found.out, found.err


def test_nothing_asks_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said([], capsys)
    assert (status, err) == (0, "")
    assert out.startswith("usage: stator")
    assert all(f"stator {name}" in out for name in ("run", "explain", "why", "doctor"))


MISTAKES = {
    "rnu train.py": ("usage: stator [-h]", "no command 'rnu'; did you mean 'run'?"),
    "explian a.py::f": ("usage: stator [-h]", "did you mean 'explain'?"),
    "frobnicate": ("usage: stator [-h]", "no command 'frobnicate'; `stator --help`"),
    "run --fulgraph a.py": ("usage: stator run ", "--fulgraph; did you mean --fullgraph?"),
    "run --report-to=x a.py": ("usage: stator run ", "no option --report-to"),
    "explain --guard=1 --inptus b.py a.py::f": ("usage: stator explain ", "argument --guards"),
    "explain --inptus b.py a.py::f": ("usage: stator explain ", "did you mean --inputs?"),
    "why SB0001 SB0002": ("usage: stator why ", "'SB0002' is one argument too many"),
    "bench --jsno": ("usage: stator bench ", "did you mean --json?"),
    "doctor --nothing": ("usage: stator doctor ", "no option --nothing"),
    "run --editor emacs a.py": ("usage: stator run ", "'emacs'"),
    "completion tcsh": ("usage: stator completion ", "'tcsh'"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_the_usage_of_that_command(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage, hint = MISTAKES[text]
    status, out, err = said(text.split(), capsys)
    assert (status, out) == (2, "")
    assert err.startswith(usage)
    assert hint in err.splitlines()[-1]


def test_options_behind_the_script_are_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.argv[1:])")
    found = run(["-m", "stator", "run", "--quiet", "program.py", "--fulgraph", "-x"], tmp_path)
    assert found.recorded() == "['--fulgraph', '-x']\nexit status 0\n", found.errors


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from stator.cli import main; "


@pytest.mark.parametrize("command", [["bench"], ["explain", "a.py::f"], ["run", "a.py"]])
def test_without_torch(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(): pass\n")
    found = run(["-c", f"{WITHOUT_TORCH}sys.exit(main({command!r}))"], tmp_path)
    assert (found.status, found.output) == (2, "")
    (line,) = found.errors.splitlines()
    assert line.startswith(f"stator {command[0]}: torch is not installed here; `pip install torch`")


# ---------------------------------------------------------------------- shells

COMPLETED = {
    "ru": ["run"],
    "run --r": ["--report"],
    "run --editor v": ["vscode"],
    "explain --g": ["--guards"],
    "completion ": ["--help", *SHELLS],
    "completion z": ["zsh"],
    "--v": ["--version"],
    "report --o": ["--output"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("typed", COMPLETED)
def test_bash(typed: str) -> None:
    words = ["stator", *typed.split(" ")]
    program = (
        f"{script('bash')}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_stator\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == COMPLETED[typed], done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_everything_is_completed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(["completion", shell], capsys)
    assert status == 0
    for name, command in made()[1].items():
        assert re.search(rf"\b{name}\b", out)
        for option in options_of(command):
            assert option in out or f"-l {option.removeprefix('--')}" in out
    assert made()[1].keys() == MODULES.keys()
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=out, text=True, check=True)


# ---------------------------------------------------------------------- editors


def test_editors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(LINKS) == EDITORS
    page = build([], tmp_path / "page.html")
    assert "vscode:" not in page.read_text()
    build([], page, editor="vscode")
    assert '"editor":"vscode://file{file}:{line}"' in page.read_text()
    with pytest.raises(ValueError, match="no links for 'emacs'"):
        build([], page, editor="emacs")
    (tmp_path / "stator-1.jsonl").write_text('{"kind": "start", "format": 1}\n')
    status, _, err = said(["report", str(tmp_path), "-o", str(page), "--editor", "pycharm"], capsys)
    assert status == 0, err
    assert "pycharm://open?file={file}" in page.read_text().replace("\\u0026", "&")
