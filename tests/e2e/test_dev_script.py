"""`./dev`: the one command that works in a fresh clone.

The real script runs in a copy of the repository's outline.  A stand-in for uv writes down what it is asked and gives
the virtual environment its real `task` binary, so nothing is downloaded.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASK = Path(sys.executable).with_name("task")

UV = """#!/bin/sh
echo "$*" >>"$UV_JOURNAL"
case $1 in
venv)
  mkdir -p .venv/bin && ln -sf "{python}" .venv/bin/python
  ;;
pip)
  if [ -e fail ]; then echo "no network" >&2; exit 1; fi
  if [ -e slow ]; then sleep 0.3; fi
  ln -sf "{task}" .venv/bin/task
  printf '#!/bin/sh\\nprintf "<%%s>" "$@"\\n' >.venv/bin/taskflow && chmod +x .venv/bin/taskflow
  ;;
esac
"""
TASKFILE = """version: "3"
silent: true
tasks:
  show:
    desc: Show the arguments
    cmds: ['printf "<%s>" {{.CLI_ARGS}}; pwd']
  status:
    cmds: ["exit 7"]
"""

pytestmark = pytest.mark.skipif(not TASK.exists(), reason="go-task is not installed beside this Python")


@dataclass
class Clone:
    """A repository with nothing but what `dev` looks at."""

    path: Path
    tools: Path

    def dev(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run ./dev to its end."""
        return subprocess.run(
            [str(self.path / "dev"), *arguments],
            cwd=cwd or self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """An environment where the tools of this test come first."""
        path = f"{self.tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "UV_JOURNAL": str(self.journal)}

    @property
    def journal(self) -> Path:
        """What uv was asked."""
        return self.tools / "journal"

    @property
    def installs(self) -> int:
        """How often the project was installed."""
        return sum(line.startswith("pip install") for line in self.journal.read_text().splitlines())

    def tool(self, name: str, script: str) -> None:
        """Put a program first on the path."""
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    path, tools = tmp_path / "a clone", tmp_path / "tools"
    path.mkdir()
    tools.mkdir()
    (path / "dev").write_bytes((ROOT / "dev").read_bytes())
    (path / "dev").chmod(0o755)
    (path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (path / "Taskfile.yml").write_text(TASKFILE)
    made = Clone(path, tools)
    made.tool("uv", UV.format(python=sys.executable, task=TASK))
    return made


def test_it_installs_once_and_again_when_the_project_file_changes(clone: Clone) -> None:
    """The first run makes everything, the second nothing."""
    assert clone.dev("show").returncode == 0
    assert clone.dev("show").returncode == 0
    assert clone.installs == 1

    (clone.path / "pyproject.toml").write_text('[project]\nname = "y"\n')
    assert clone.dev("show").returncode == 0
    assert clone.installs == 2


def test_an_install_that_failed_is_made_up_for(clone: Clone) -> None:
    """Nothing half done passes for done."""
    (clone.path / "fail").touch()
    failed = clone.dev("show")
    (clone.path / "fail").unlink()

    assert failed.returncode == 1
    assert "no network" in failed.stderr
    assert "run ./dev again" in failed.stderr
    assert clone.dev("show").returncode == 0
    assert clone.installs == 2


def test_two_at_the_same_time_install_once(clone: Clone) -> None:
    """The second waits for the first, then finds everything there."""
    (clone.path / "slow").touch()
    first, second = (
        subprocess.Popen([clone.path / "dev", "show"], env=clone.environment, stderr=subprocess.DEVNULL)
        for _ in range(2)
    )

    assert (first.wait(), second.wait()) == (0, 0)
    assert clone.installs == 1


def test_a_clone_that_was_moved_is_set_up_anew(clone: Clone, tmp_path: Path) -> None:
    """The scripts of a virtual environment know its path."""
    clone.dev("show")
    moved = Clone(clone.path.rename(tmp_path / "moved"), clone.tools)

    assert moved.dev("show").returncode == 0
    assert moved.journal.read_text().count("venv ") == 2


@pytest.mark.parametrize("task", ["show", "up"])
def test_arguments_arrive_as_they_were_given(clone: Clone, task: str) -> None:
    """Spaces, quotes, stars, dollars, options and nothing at all."""
    arguments = ["--port", "9000", "a  b", "it's", '"', "*", "$HOME", "", "--", "é;|&"]

    said = clone.dev(task, *arguments).stdout

    assert "".join(f"<{argument}>" for argument in arguments) in said


def test_it_works_from_anywhere(clone: Clone, tmp_path: Path) -> None:
    """Tasks run in the repository, not where they were called."""
    assert str(clone.path) in clone.dev("show", cwd=tmp_path).stdout


def test_alone_it_lists_the_tasks(clone: Clone) -> None:
    """So does asking for help."""
    for arguments in ([], ["--help"]):
        listed = clone.dev(*arguments)
        assert listed.returncode == 0
        assert "Show the arguments" in listed.stdout


def test_the_status_of_the_task_is_its_own(clone: Clone) -> None:
    """A machine can tell what happened."""
    assert clone.dev("status").returncode == 7


@pytest.mark.parametrize("wrong", ["nosuch", "--nosuch"])
def test_what_it_does_not_know_it_says(clone: Clone, wrong: str) -> None:
    """With the word, and a status other than 0."""
    said = clone.dev(wrong)

    assert said.returncode != 0
    assert wrong in said.stderr


def test_a_python_too_old_is_a_sentence(clone: Clone) -> None:
    """It names the version that is needed and the one that is there."""
    for version in ("", ".11", ".12", ".13", ".14"):
        clone.tool(f"python3{version}", '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2"\nexit 1\n')

    said = clone.dev("show")

    assert said.returncode == 1
    assert "needs Python 3.11 or later" in said.stderr
    assert "Python 3.9.2" in said.stderr


def test_a_python_without_venv_is_a_sentence(clone: Clone) -> None:
    """Debian packs it apart; the sentence names the package."""
    clone.tool("uv", "#!/bin/sh\nexit 127\n")
    real = f'exec "{sys.executable}" "$@"'
    clone.tool("python3", f"#!/bin/sh\ncase $2 in *ensurepip*) exit 1;; esac\n{real}\n")

    said = clone.dev("show")

    assert said.returncode == 1
    assert "apt-get install python3-venv" in said.stderr


def test_the_tasks_that_people_are_told_about_exist() -> None:
    """Those of the README, each with a line that says what it does."""
    plain = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "", "CI": ""}  # go-task colours what CI reads
    listed = subprocess.run([TASK, "--list"], cwd=ROOT, capture_output=True, text=True, check=True, env=plain).stdout

    for task in ("up", "test", "lint", "fmt", "bench", "clean", "setup"):
        assert f"* {task}:" in listed
