"""A cluster to operate: real etcd, API server, controller manager and default scheduler, and a node agent that runs
podium's pods as processes.

The agent does for podium's pods what a kubelet does: mounts the ConfigMap, shows the ServiceAccount's token, starts the
container's arguments, probes over HTTPS, tells the API server whether the pod is ready, and ends it when it is deleted.
There is no container, and every other pod runs nothing. Used by tests of this folder only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.conformance.api import STRATEGIC_MERGE_PATCH, Api, Json, UnexpectedAnswerError
from tests.conformance.find import Binaries
from tests.conformance.podium_process import create_nodes
from tests.conformance.server import Server
from tests.conformance.start import ADMIN, LOOPBACK, ControlPlane, free_ports, kube_scheduler
from tests.deploy.rendering import KUBECTL

SYSTEM = "/api/v1/namespaces/kube-system/pods"
TRANSCRIPTS = "PODIUM_TRANSCRIPTS"


class Running:
    """One podium pod as a process. Owner: the agent."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self.name = name
        self.process = process
        self.port = port
        self.log = log
        self.ready: bool | None = None


class NodeAgent:
    """Runs pods whose container is podium."""

    def __init__(self, plane: ControlPlane, api: Api, folder: Path) -> None:
        self._plane = plane
        self._api = api
        self._folder = folder
        self.running: dict[str, Running] = {}

    async def run(self) -> None:
        """Until cancelled; ends every process then."""
        try:
            while True:
                with contextlib.suppress(UnexpectedAnswerError):
                    await self._look()
                await asyncio.sleep(0.2)
        finally:
            for each in self.running.values():
                if each.process.returncode is None:
                    each.process.kill()
                await each.process.wait()

    async def _look(self) -> None:
        pods = {p["metadata"]["uid"]: p for p in (await self._api.get(SYSTEM))["items"] if p["spec"].get("nodeName")}
        for uid, pod in pods.items():
            if "deletionTimestamp" in pod["metadata"]:
                await self._end(uid, pod["metadata"]["name"])
            elif uid not in self.running and pod["spec"]["containers"][0]["name"] in {
                "podium",
                "kube-second-scheduler",
            }:
                self.running[uid] = await self._start(pod)
            elif uid in self.running:
                await self._probe(self.running[uid], pod)
        for uid in self.running.keys() - pods.keys():
            await self._kill(uid)

    async def _start(self, pod: Json) -> Running:
        (container,) = pod["spec"]["containers"]
        name, account = pod["metadata"]["name"], pod["spec"]["serviceAccountName"]
        folder = self._folder / name
        words = [*container.get("command", [])[1:], *container.get("args", [])]
        for mount in container.get("volumeMounts", []):
            target = await self._mounted(pod, mount["name"], folder)
            words = [word.replace(mount["mountPath"], str(target)) for word in words]
        kubeconfig = await self._plane.service_account_kubeconfig("kube-system", account)
        [port] = free_ports(1)
        words += [f"--kubeconfig={kubeconfig}", f"--bind-address={LOOPBACK}", f"--secure-port={port}"]
        log = folder / "log"
        with log.open("ab") as stream:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "podium", *words),
                stdout=stream,
                stderr=stream,
                env={**os.environ, "KUBERNETES_SERVICE_HOST": "", "HOSTNAME": name},
            )
        return Running(name, process, port, log)

    async def _mounted(self, pod: Json, volume: str, folder: Path) -> Path:
        (source,) = (each for each in pod["spec"]["volumes"] if each["name"] == volume)
        content = await self._api.get(f"/api/v1/namespaces/kube-system/configmaps/{source['configMap']['name']}")
        target = folder / volume
        target.mkdir(parents=True, exist_ok=True)
        for key, text in content["data"].items():
            (target / key).write_text(text)
        return target

    async def _probe(self, each: Running, pod: Json) -> None:
        (container,) = pod["spec"]["containers"]
        probe = container["readinessProbe"]["httpGet"]
        assert probe["scheme"] == "HTTPS"
        ready = each.process.returncode is None and await self.status(each, probe["path"]) == 200
        if ready != each.ready:
            each.ready = ready
            condition = {"type": "Ready", "status": "True" if ready else "False"}
            state = {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}
            told = {
                "name": container["name"],
                "ready": ready,
                "restartCount": 0,
                "image": "",
                "imageID": "",
                "state": state,
            }
            status = {"phase": "Running", "conditions": [condition], "containerStatuses": [told]}
            await self._api.patch(f"{SYSTEM}/{each.name}/status", {"status": status}, STRATEGIC_MERGE_PATCH)

    async def status(self, each: Running, path: str, token: str = "") -> int:
        """What a podium says to somebody with that token; 0 where nobody answers."""
        return (await self.fetch(each, path, token))[0]

    async def fetch(self, each: Running, path: str, token: str = "") -> tuple[int, str]:
        """(code, text) of the secure port."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http,
                http.get(f"https://{LOOPBACK}:{each.port}{path}", headers=headers, ssl=False) as answer,
            ):
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return 0, ""

    async def _end(self, uid: str, name: str) -> None:
        """As a kubelet: the signal, the wait, and the last word about the pod."""
        each = self.running.pop(uid, None)
        if each is not None and each.process.returncode is None:
            each.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(each.process.wait(), 30)
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._api.request("DELETE", f"{SYSTEM}/{name}", now)

    async def _kill(self, uid: str) -> None:
        each = self.running.pop(uid)
        if each.process.returncode is None:
            each.process.kill()
        await each.process.wait()


class Operator:
    """Somebody at a terminal. Every command and what it said goes into the transcript."""

    def __init__(self, plane: ControlPlane, api: Api, agent: NodeAgent, folder: Path, title: str) -> None:
        self.plane = plane
        self.api = api
        self.agent = agent
        self.folder = folder
        self._kubeconfig = plane.kubeconfig(ADMIN)
        self._transcript = Path(os.environ.get(TRANSCRIPTS) or folder) / f"{title}.txt"
        self._transcript.write_text("")

    async def kubectl(self, words: str, stdin: str = "", *, fails: bool = False) -> str:
        """Run kubectl; its output. Fails the test where kubectl does, unless that is expected."""
        assert KUBECTL is not None
        return await self._run(f"kubectl {words}", (KUBECTL, f"--kubeconfig={self._kubeconfig}"), words, stdin, fails)

    async def podium(self, words: str) -> str:
        """Run podium as a command; its output."""
        return await self._run(f"podium {words}", (sys.executable, "-m", "podium"), words, "", fails=False)

    async def shell(self, lines: str) -> str:
        """Run lines of a page as they stand there, with kubectl and podium on the path; their output."""
        tools = self.folder / "bin"
        if not tools.exists():
            tools.mkdir()
            (tools / "kubectl").symlink_to(str(KUBECTL))
            (tools / "podium").write_text(f'#!/bin/sh\nexec {sys.executable} -m podium "$@"\n')
            (tools / "podium").chmod(0o755)
        path = f"{tools}:{os.environ['PATH']}"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", lines),
            cwd=self.folder,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(self._kubeconfig)},
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = (await asyncio.wait_for(process.communicate(), 150))[0].decode()
        self.note(lines.rstrip("\n").replace("\n", "\n> "), said)
        assert process.returncode == 0, said
        return said

    async def _run(self, shown: str, program: tuple[str, ...], words: str, stdin: str, fails: bool) -> str:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(*program, *words.split()), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
        said = (await asyncio.wait_for(process.communicate(stdin.encode()), 150))[0].decode()
        self.note(shown, "(a token)" if " create token " in shown else said)
        assert (process.returncode != 0) == fails, said
        return said

    def note(self, what: str, said: str) -> None:
        """A step and its outcome, in the transcript."""
        with self._transcript.open("a") as file:
            file.write(f"$ {what}\n{said}".rstrip("\n").replace(str(self.folder), "…") + "\n\n")

    @property
    def podiums(self) -> list[Running]:
        """Those that run."""
        return [each for each in self.agent.running.values() if each.process.returncode is None]

    async def until(self, holds: Callable[[], object], what: str, timeout: float = 60) -> None:
        """Wait for something that no watch tells."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            logs = "\n".join(each.log.read_text()[-2000:] for each in self.agent.running.values())
            raise AssertionError(f"never: {what}\n{logs}") from None

    async def placed(self, namespace: str, count: int, timeout: float = 60) -> Json:
        """Wait until so many pods of the namespace are bound, and none is not."""
        return await self.api.wait_until(
            f"/api/v1/namespaces/{namespace}/pods",
            f"{count} bound",
            lambda body: [bool(p["spec"].get("nodeName")) for p in body["items"]] == [True] * count,
            timeout,
        )

    async def replaced(self, namespace: str, count: int, scheduler: str) -> None:
        """Pods that run nothing are gone only when somebody says so: until so many are left, all of that scheduler."""
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        path = f"/api/v1/namespaces/{namespace}/pods"
        async with asyncio.timeout(60):
            while True:
                items = (await self.api.get(path))["items"]
                ending = [pod["metadata"]["name"] for pod in items if "deletionTimestamp" in pod["metadata"]]
                asking = [pod["spec"]["schedulerName"] for pod in items]
                if not ending and asking == [scheduler] * count:
                    return
                for name in ending:
                    await self.api.request("DELETE", f"{path}/{name}", now)
                await asyncio.sleep(0.2)

    async def holder(self, lease: str = "podium") -> Running:
        """The podium that leads."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{lease}"
        pids = {each.process.pid: each for each in self.podiums}

        def leading(body: Json) -> bool:
            return int(re.sub(r".*_", "", body["spec"].get("holderIdentity") or "_0")) in pids

        body = await self.api.wait_until(path, "held by one that runs", leading, 60)
        return pids[int(re.sub(r".*_", "", body["spec"]["holderIdentity"]))]

    async def leftovers(self) -> list[str]:
        """Everything in the cluster whose name says podium, events left out: they go by themselves."""
        found = []
        for root in (
            "/api/v1",
            *[f"/apis/{g['preferredVersion']['groupVersion']}" for g in (await self.api.get("/apis"))["groups"]],
        ):
            for resource in (await self.api.get(root))["resources"]:
                if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] != "events":
                    items = (await self.api.get(f"{root}/{resource['name']}"))["items"]
                    found += [
                        f"{resource['name']}/{i['metadata']['name']}"
                        for i in items or []
                        if "podium" in i["metadata"]["name"]
                    ]
        return sorted(set(found))


@asynccontextmanager
async def operated(binaries: Binaries, folder: Path, title: str) -> AsyncIterator[Operator]:
    """A clean cluster of three nodes."""
    async with ControlPlane(binaries) as plane, plane.api() as api, kube_scheduler(plane), _controllers(plane):
        agent = NodeAgent(plane, api, folder)
        await create_nodes(api, "node", 3)
        async with asyncio.TaskGroup() as group:
            working = group.create_task(agent.run())
            try:
                yield Operator(plane, api, agent, folder, title)
            finally:
                working.cancel()


@asynccontextmanager
async def _controllers(plane: ControlPlane) -> AsyncIterator[None]:
    """The real controllers of Deployments, ReplicaSets, budgets, namespaces, and the collector of what nobody owns."""
    assert plane.binaries.kube_controller_manager is not None
    [port] = free_ports(1)
    command: list[str | Path] = [
        plane.binaries.kube_controller_manager,
        f"--kubeconfig={plane.kubeconfig(ADMIN)}",
        "--leader-elect=false",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        *(["--port=0"] if plane.version < (1, 24) else []),
        f"--cert-dir={plane.folder}",
        "--controllers=deployment,replicaset,disruption,garbagecollector,namespace",
    ]
    server = Server("kube-controller-manager", command, plane.folder / "kube-controller-manager.log")
    server.start()
    try:
        yield
    finally:
        server.kill_now()
