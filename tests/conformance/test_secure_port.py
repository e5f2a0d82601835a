"""The secure port of a running podium: the real API server says whose certificates count, and judges rights."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme

from tests.conformance.find import Binaries
from tests.conformance.manifests import apply_rbac
from tests.conformance.podium_process import PodiumProcess
from tests.conformance.start import ControlPlane

pytestmark = pytest.mark.conformance

RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def certificate(authority: trustme.CA | None, name: str) -> ssl.SSLContext:
    """A client that shows a certificate of that name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if authority is not None:
        authority.issue_cert(f"{name}@example.com", common_name=name).configure_cert(context)
    return context


async def test_users_and_front_proxies_of_the_cluster_are_known(binaries: Binaries, tmp_path: Path) -> None:
    users, proxies = trustme.CA(), trustme.CA()
    users.cert_pem.write_to_path(tmp_path / "users.crt")
    proxies.cert_pem.write_to_path(tmp_path / "proxies.crt")
    flags = (
        f"--client-ca-file={tmp_path}/users.crt",
        f"--requestheader-client-ca-file={tmp_path}/proxies.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    )
    async with ControlPlane(binaries, api_flags=flags) as plane:
        kubeconfig = await apply_rbac(plane)
        async with plane.api() as api:
            viewer = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "podium-viewer"}
            subjects = [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carla"},
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"},
            ]
            await api.post(RBAC, {"metadata": {"name": "readers"}, "roleRef": viewer, "subjects": subjects})
        asked = [
            (users, "carla", {}, 200),
            (users, "dora", {}, 403),
            (proxies, "front-proxy-client", {"X-Remote-User": "carla"}, 200),
            (proxies, "front-proxy-client", {"X-Remote-User": "dora", "X-Remote-Group": "readers"}, 200),
            (proxies, "front-proxy-client", {"X-Remote-User": "dora"}, 403),
            (proxies, "somebody", {"X-Remote-User": "carla"}, 403),
            (users, "dora", {"X-Remote-User": "carla"}, 403),
            (None, "", {"X-Remote-User": "carla"}, 403),
        ]
        async with PodiumProcess(kubeconfig, tmp_path / "log", secure=True) as podium:
            for authority, name, headers, code in asked:
                url, tls = f"https://127.0.0.1:{podium.secure_port}/metrics", certificate(authority, name)
                async with aiohttp.ClientSession() as http, http.get(url, headers=headers, ssl=tls) as answer:
                    assert (name, headers, answer.status) == (name, headers, code), await answer.text()
        assert "forbidden" not in podium.log
