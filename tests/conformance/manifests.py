"""The manifests of deploy/ as objects, and podium's rights from them on a real API server.

Used by the conformance fixtures and by tests/deploy. Renders nothing: what kustomize adds is tested by tests/deploy.
"""

from pathlib import Path

import yaml

from tests.conformance.api import Json
from tests.conformance.start import ControlPlane

DEPLOY = Path(__file__).parents[2] / "deploy" / "base"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def deploy_objects(folder: Path = DEPLOY) -> list[Json]:
    """The objects of a kustomize base as they are written, without what kustomize adds."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    texts = [(folder / name).read_text() for name in kustomization["resources"]]
    return [item for text in texts for item in yaml.safe_load_all(text) if item]


async def apply_rbac(
    plane: ControlPlane, folder: Path = DEPLOY, without: tuple[str, int] | None = None, lease: str = ""
) -> Path:
    """Create the ServiceAccount, roles and bindings of deploy/; returns a kubeconfig with the account's token.

    `lease`: the name that the Role is for, instead of the one in the manifest.
    `without` = (name of a ClusterRole or Role, index of a rule) leaves that rule out, to show that it is needed.
    """
    items = [item for item in deploy_objects(folder) if item["kind"] in RIGHTS]
    for item in items:
        for rule in item.get("rules", ()):
            if lease and "resourceNames" in rule:
                rule["resourceNames"] = [lease]
        if without and item["kind"] in {"ClusterRole", "Role"} and item["metadata"]["name"] == without[0]:
            del item["rules"][without[1]]
    async with plane.api() as client:
        await client.apply(items)
    (account,) = (item["metadata"] for item in items if item["kind"] == "ServiceAccount")
    return await plane.service_account_kubeconfig(account["namespace"], account["name"])
