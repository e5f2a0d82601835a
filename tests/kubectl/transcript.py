"""Transcripts: text files of kubectl commands and of what they print, read, written and run again.

    # a remark, or `# needs: 1.34` where older clients cannot do it
    $ kubectl get pods -o wide          what follows is its output, up to the next line that begins with `$`
    $ kubectl apply -f - < web.yaml     a manifest of `manifests/` on standard input

What differs from run to run (ages, UIDs, versions, times, addresses) is put in words, see `normal`. A command that
fails ends its output with `exit N`.
"""

import asyncio
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from tests.kubectl.clients import Client

FOLDER = Path(__file__).parent / "transcripts"
MANIFESTS = Path(__file__).parent / "manifests"
SECONDS = 30


@dataclass(frozen=True)
class Step:
    """One command and what it prints."""

    command: str
    output: str
    since: tuple[int, int] = (1, 0)


@dataclass
class Transcript:
    """One file."""

    name: str
    remark: str
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Transcript":
        blocks = re.split(r"^\$ ", path.read_text(), flags=re.MULTILINE)
        found = cls(path.stem, blocks[0])
        for block in blocks[1:]:
            command, _, output = block.partition("\n")
            command, _, needs = command.partition("  # needs: ")
            since = tuple(map(int, needs.split("."))) if needs else (1, 0)
            found.steps.append(Step(command.strip(), output.rstrip("\n"), (since[0], since[1])))
        return found

    def __str__(self) -> str:
        return self.remark + "".join(
            f"$ {step.command}{_needs(step)}\n{step.output}{chr(10) if step.output else ''}" for step in self.steps
        )


def _needs(step: Step) -> str:
    return "" if step.since == (1, 0) else "  # needs: {}.{}".format(*step.since)


def transcripts() -> list[Path]:
    """All there are."""
    return sorted(FOLDER.glob("*.txt"))


class Shell:
    """Runs commands of transcripts against one server. Its home is thrown away, so that no cache of another is read."""

    def __init__(self, client: Client, kubeconfig: Path, home: Path) -> None:
        self._client = client
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
            "KUBE_EDITOR": "sed -i s/before/after/",
        }

    async def run(self, command: str) -> str:
        """Run one command; what it printed, in normal form."""
        words, _, manifest = command.partition(" < ")
        process = await self.start(words)
        text = (MANIFESTS / manifest.strip()).read_bytes() if manifest else b""
        try:
            output, _ = await asyncio.wait_for(process.communicate(text), SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            return f"(no end within {SECONDS} s)"
        told = normal(output.decode())
        if arguments_of(command)[:1] == ["drain"]:
            # Pods are evicted side by side, and told of in the order in which that ends.
            told = "\n".join(sorted(told.splitlines()))
        return f"{told}\nexit {process.returncode}".lstrip("\n") if process.returncode else told

    async def start(self, command: str) -> asyncio.subprocess.Process:
        """Start a command that goes on; whoever starts it ends it."""
        program, *arguments = shlex.split(command)
        assert program == "kubectl", command
        return await asyncio.create_subprocess_exec(
            self._client.program,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )

    @staticmethod
    async def line(process: asyncio.subprocess.Process) -> str:
        """The next line that a started command prints."""
        assert process.stdout is not None
        return (await asyncio.wait_for(process.stdout.readline(), SECONDS)).decode()


def arguments_of(command: str) -> list[str]:
    """The words behind `kubectl`."""
    return shlex.split(command.partition(" < ")[0])[1:]


_WORDS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r'(resourceVersion"?: )"?\d+"?', r'\1"VERSION"'),
    (r'"?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"?', "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
    (r"\b10\.(96|0)\.\d{1,3}\.\d{1,3}\b", "CLUSTER-IP"),
    (r"http(s?)://127\.0\.0\.1:\d+", "SERVER"),
    (r"[ \t]{2,}(?=\S)", "  "),
    (r"[ \t]+$", ""),
)
_AGE = re.compile(r"(?<=\s)(\d+y)?(\d+d)?(\d+h)?(\d+m)?(\d+s|(?<=\d[mhdy]))(?=\s|$)|^(\d+y\d+d|\d+[dhms])(?=\s)")
_FIELD = re.compile(r"^[\s-]*[\w./ -]+:(\s|$)")  # of YAML or of `describe`: `cpu: 100m` is no age


def normal(text: str) -> str:
    """Put in words what differs from run to run; columns are parted by two spaces."""
    lines = []
    for line in text.strip("\n").splitlines():
        indent = line[: len(line) - len(line.lstrip(" "))]
        rest = line[len(indent) :]
        for pattern, word in _WORDS:
            rest = re.sub(pattern, word, rest)
        if not _FIELD.match(rest):
            rest = _AGE.sub("AGE", rest)
        lines.append(indent + rest)
    return "\n".join(lines)
