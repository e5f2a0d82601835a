"""podium's rights are just those that it needs: on the real API server, for groups that 1.20 does not have as well."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.conformance.api import Api
from tests.conformance.find import Binaries
from tests.conformance.manifests import apply_rbac, deploy_objects
from tests.conformance.newer import API_FLAGS, NewerServer, Right, define
from tests.conformance.podium_process import PodiumProcess
from tests.conformance.start import NOBODY, ControlPlane
from tests.conformance.work import GATES, configuration, everything, prepare, undone
from tests.podium.extender_server import ExtenderServer, serving

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

Json = dict[str, Any]
#: of the ClusterRole that is bound to podium's own account, and the Role beside it
ROLES = ("podium", "podium-leader-election")

#: the one right that comes from a role of the cluster itself, extension-apiserver-authentication-reader
OF_THE_CLUSTER = Right("get", "", "configmaps")


def roles() -> list[Json]:
    """The roles that podium's account has."""
    return [i for i in deploy_objects() if i["kind"] in {"ClusterRole", "Role"} and i["metadata"]["name"] in ROLES]


def rules() -> list[Any]:
    """(role, index of the rule) of every rule, named after what it grants."""
    return [
        pytest.param(role["metadata"]["name"], index, rule, id=f"{'/'.join(rule['verbs'])} {','.join(names(rule))}")
        for role in roles()
        for index, rule in enumerate(role["rules"])
    ]


def names(rule: Json) -> list[str]:
    """Resources as kubectl writes them."""
    groups = [f".{group}" if group else "" for group in rule["apiGroups"]]
    return [f"{resource}{group}" for group in groups for resource in rule["resources"]]


def granted() -> set[Right]:
    """Every verb on every resource, one by one."""
    return {
        Right(verb, group, resource)
        for role in roles()
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """One whose roles may be taken apart, with the groups that came after it."""
    if binaries.kubernetes_version() >= (1, 34):
        pytest.skip("a server of this version has the newer groups itself: custom resources cannot stand for them")
    async with ControlPlane(binaries, api_flags=API_FLAGS) as own:
        async with own.api() as api:
            await define(api)
            await prepare(api)
        yield own


@asynccontextmanager
async def working(
    plane: ControlPlane, name: str, folder: Path, without: tuple[str, int] | None = None
) -> AsyncIterator[tuple[Api, NewerServer, PodiumProcess]]:
    """podium with its rights (or all but one rule), and everything to do."""
    path = await apply_rbac(plane, without=without, lease=name)
    every = ExtenderServer(filter=lambda body: {"nodes": body["Nodes"]})
    async with plane.api() as api, NewerServer(plane) as server, serving(every), everything(api, name):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig(path.read_text()))
        flags = (
            f"--config={configuration(folder, every.url)}",
            f"--feature-gates={GATES}",
            f"--leader-elect-resource-name={name}",
        )
        podium = PodiumProcess(kubeconfig, folder / "log", *flags, secure=True)
        await podium.start(wait=False)
        try:
            yield api, server, podium
        finally:
            await podium.kill()


def refused(podium: PodiumProcess) -> str:
    """Lines of the log that say so."""
    return "\n".join(line for line in podium.log.splitlines() if "forbidden" in line.lower())


async def outcome(plane: ControlPlane, api: Api, podium: PodiumProcess, name: str) -> str:
    """What podium was refused, as soon as it was; "" once everything is done without."""
    left: list[str] = []
    try:
        async with asyncio.timeout(60):
            while not (said := refused(podium)) and (left := await undone(api, name)):
                await asyncio.sleep(0.2)
            if not said:
                token = yaml.safe_load(plane.kubeconfig(NOBODY).read_text())["users"][0]["user"]["token"]
                # Known, and without a right to it: both reviews were answered.
                assert await podium.secure_status("/metrics", token) == 403 or refused(podium)
    except TimeoutError:
        raise AssertionError(f"never: {left}\n{podium.log[-4000:]}") from None
    return refused(podium)


async def test_every_right_is_used_and_none_is_missing(plane: ControlPlane, tmp_path: Path) -> None:
    """Verb by verb and resource by resource."""
    async with working(plane, "all-rights", tmp_path) as (api, server, podium):
        assert await outcome(plane, api, podium, "all-rights") == ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                # The lease is renewed, and an event that comes again is counted up.
                while granted() - server.used:
                    await asyncio.sleep(0.2)
        assert sorted(granted() - server.used) == []
        assert sorted(server.used - granted()) == [OF_THE_CLUSTER]


@pytest.mark.parametrize(("role", "index", "rule"), rules())
async def test_no_rule_can_be_spared(plane: ControlPlane, role: str, index: int, rule: Json, tmp_path: Path) -> None:
    name = f"without-{role.rpartition('-')[2]}-{index}"
    async with working(plane, name, tmp_path, (role, index)) as (api, _, podium):
        said = await outcome(plane, api, podium, name)
    assert any(f'resource "{resource}"' in said for resource in rule["resources"]), said or "nothing was refused"


async def test_devices_and_gangs_go_through_the_real_server(plane: ControlPlane, tmp_path: Path) -> None:
    name = "newer-work"
    async with working(plane, name, tmp_path) as (api, _, podium):
        assert await outcome(plane, api, podium, name) == ""
        claims = (await api.get(f"/apis/resource.k8s.io/v1/namespaces/{name}/resourceclaims"))["items"]
        given = {
            result["device"]: claim["status"]["reservedFor"][0]["name"]
            for claim in claims
            for result in claim["status"]["allocation"]["devices"]["results"]
        }
        gang = await api.get(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{name}/podgroups/gang")
        labelled = await api.get(f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{name}/podgroups/gang")
    assert sorted(given) == ["gpu-0", "gpu-1"]
    assert sorted(given.values()) == ["unlucky", "with-claim"]
    (condition,) = gang["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodGroupInitiallyScheduled", "True")
    assert labelled["status"]["phase"] == "Scheduling"


async def test_readiness_names_what_a_missing_right_keeps_away(plane: ControlPlane, tmp_path: Path) -> None:
    """As docs/troubleshoot.md says: the page names the resource, the log has the word."""
    (index,) = (each.values[1] for each in rules() if each.values[2]["resources"] == ["poddisruptionbudgets"])
    podium = PodiumProcess(await apply_rbac(plane, without=("podium", index)), tmp_path / "log")
    await podium.start(wait=False)
    try:
        async with asyncio.timeout(30):
            while not refused(podium):
                await asyncio.sleep(0.1)
            # The others are there a moment later.
            while await podium.page("/readyz") != (500, "not synced: poddisruptionbudgets.policy\n"):
                await asyncio.sleep(0.1)
    finally:
        await podium.kill()
