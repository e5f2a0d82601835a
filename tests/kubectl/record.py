"""`python -m tests.kubectl.record [NAME…]`: run transcripts against an embedded server and write what they print.

For whoever writes or changes a transcript: the outcome is to be read before it is kept. Uses the newest client.
"""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from simulator.apiserver import ApiServer
from tests.kubectl.clients import clients
from tests.kubectl.transcript import Shell, Transcript, transcripts


async def record(path: Path) -> None:
    transcript = Transcript.read(path)
    with tempfile.TemporaryDirectory() as folder:
        async with ApiServer() as server:
            shell = Shell(clients()[0], server.write_kubeconfig(Path(folder) / "kubeconfig"), Path(folder))
            transcript.steps = [replace(step, output=await shell.run(step.command)) for step in transcript.steps]
    path.write_text(str(transcript))


def main() -> None:
    for path in transcripts():
        if path.stem in sys.argv[1:] or len(sys.argv) == 1:
            asyncio.run(record(path))
            print(path)


if __name__ == "__main__":
    main()
