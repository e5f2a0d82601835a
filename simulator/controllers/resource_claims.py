"""Claims on devices: made from templates for each pod, let go when nobody uses them, gone with their pod.

    pod with a template      ─► a claim owned by the pod, its name in the pod's status
    pod gone or finished     ─► its place in reservedFor goes; with the last the allocation, then the finalizer
    pod finished             ─► its generated claims go
    pod bound by hand        ─► it is added to reservedFor of a claim that is allocated already

It never allocates: that is the scheduler's business. Keys are pods, and claims as ("claim NAMESPACE", name).
"""

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import copy_of, key_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.informer import by_controller, controller_of
from simulator.controllers.pods import FINISHED, is_terminating, owner_reference, phase_of

CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
#: a generated name is at most 63 characters: this base, and five more
_MAX_BASE = 57
_CLAIM = "claim "


class ResourceClaimController(Controller):
    """Makes and clears claims."""

    name = "resource-claim"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.informers("pods")
        self._pods.add_index("claims", _claim_keys)
        self._pods.add_index("templates", _template_keys)
        self._claims = self.informers(CLAIMS)
        self._claims.add_index("controller", by_controller)
        self._pods.add_handler(self._on_pod)
        self._claims.add_handler(self._on_claim)
        self.informers(TEMPLATES).add_handler(self._on_template)

    # --- what is news ----------------------------------------------------------------------------------------------

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or not _uses_claims(pod):
            return
        if new is not None and (old is None or _deciding(old) != _deciding(new)):
            self.enqueue(new)
        if new is None or is_over(new):
            for namespace, name in map(_split, _claim_keys(pod)):
                self.queue.add((_CLAIM + namespace, name))

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        claim = new or old
        if claim is None:
            return
        namespace, name = key_of(claim)
        if new is not None:
            self.queue.add((_CLAIM + namespace, name))
        if new is None or old is None or bool(_allocation(old)) != bool(_allocation(new)):
            for pod in self._pods.by_index("claims", f"{namespace}/{name}"):
                self.enqueue(pod)
            owner = controller_of(claim)
            if owner is not None and owner.get("kind") == "Pod":
                self.queue.add((namespace, owner["name"]))

    def _on_template(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            namespace, name = key_of(new)
            for pod in self._pods.by_index("templates", f"{namespace}/{name}"):
                self.enqueue(pod)

    # --- a sync ----------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Bring a pod's claims into being, or clear a claim."""
        if key[0].startswith(_CLAIM):
            self._clear((key[0].removeprefix(_CLAIM), key[1]))
            return
        pod = self.api.get("pods", key)
        if pod is None or is_over(pod):
            return
        self._generate(pod)
        if pod["spec"].get("nodeName"):
            self._reserve_for_bound(pod)

    def _generate(self, pod: Object) -> None:
        """Make what is missing of a pod's claims, and tell their names in its status."""
        noted = {one["name"]: one for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        refusal: ApiError | None = None
        made: dict[str, Object] = {}
        for use in pod["spec"].get("resourceClaims") or ():
            if not use.get("resourceClaimTemplateName") or use["name"] in noted:
                continue
            try:
                claim = self._owned(pod, use["name"]) or self._create(pod, use)
                made[use["name"]] = {"name": use["name"], "resourceClaimName": claim["metadata"]["name"]}
            except ApiError as error:
                self.event(pod, "Warning", "FailedResourceClaimCreation", f"PodResourceClaim {use['name']}: {error}")
                refusal = refusal or error
        if made:
            current = self.api.get("pods", key_of(pod)) or pod
            status = current.get("status") or {}
            statuses = [*(status.get("resourceClaimStatuses") or ()), *made.values()]
            self.api.set_status("pods", pod, {**status, "resourceClaimStatuses": statuses})
        if refusal is not None:
            raise refusal

    def _owned(self, pod: Object, entry: str) -> Object | None:
        """The claim that was made for an entry before, past an informer that may lag."""
        for claim in self._claims.by_index("controller", pod["metadata"]["uid"]):
            if (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME) == entry:
                return self.api.get(CLAIMS, key_of(claim))
        return None

    def _create(self, pod: Object, use: Object) -> Object:
        namespace = pod["metadata"]["namespace"]
        wanted = use["resourceClaimTemplateName"]
        template = self.api.get(TEMPLATES, (namespace, wanted))
        if template is None:
            raise ApiError(404, "NotFound", f'resourceclaimtemplate.resource.k8s.io "{wanted}" not found')
        given = template["spec"].get("metadata") or {}
        metadata = {
            "generateName": generated_base(pod["metadata"]["name"], use["name"]),
            "namespace": namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: use["name"]},
            "ownerReferences": [owner_reference(pod)],
        }
        return self.api.create(CLAIMS, namespace, {"metadata": metadata, "spec": copy_of(template["spec"]["spec"])})

    def _reserve_for_bound(self, pod: Object) -> None:
        """Whoever set the node did not think of the claims; the kubelet insists on a reservation."""
        for key in map(_split, _claim_keys(pod)):
            claim = self.api.get(CLAIMS, key)
            if claim is None or not _allocation(claim) or is_terminating(claim):
                continue
            users = _users(claim)
            if not any(user["uid"] == pod["metadata"]["uid"] for user in users):
                users = [*users, {"resource": "pods", "name": key_of(pod)[1], "uid": pod["metadata"]["uid"]}]
                self.api.set_status(CLAIMS, claim, {**claim["status"], "reservedFor": users})

    # --- clearing --------------------------------------------------------------------------------------------------

    def _clear(self, key: Key) -> None:
        claim = self.api.get(CLAIMS, key)
        if claim is None:
            return
        users = [user for user in _users(claim) if self._still_uses(user, key[0])]
        # An allocation that nobody has used yet stays: the scheduler may be about to reserve it.
        unused = not users and (bool(_users(claim)) or is_terminating(claim))
        if len(users) < len(_users(claim)) or (unused and _allocation(claim)):
            claim = self._set_users(claim, users)
        if unused and FINALIZER in (claim["metadata"].get("finalizers") or ()):
            left = [one for one in claim["metadata"]["finalizers"] if one != FINALIZER]
            claim = self.api.set_metadata(CLAIMS, claim, finalizers=left or None)
        self._delete_if_unused(claim)

    def _set_users(self, claim: Object, users: list[Object]) -> Object:
        """The last user takes the allocation along, and what drivers reported of it."""
        dropped = ("reservedFor",) if users else ("reservedFor", "allocation", "devices")
        status = {key: value for key, value in (claim.get("status") or {}).items() if key not in dropped}
        return self.api.set_status(CLAIMS, claim, {**status, "reservedFor": users} if users else status)

    def _still_uses(self, user: Object, namespace: str) -> bool:
        if user.get("resource") != "pods" or user.get("apiGroup"):
            return True  # somebody else's business
        pod = self.api.get("pods", (namespace, user["name"]))
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not is_over(pod)

    def _delete_if_unused(self, claim: Object) -> None:
        """A generated claim serves one pod: once that has finished, nobody will use it again."""
        owner = controller_of(claim)
        if owner is None or owner.get("kind") != "Pod" or is_terminating(claim):
            return
        pod = self.api.get("pods", (claim["metadata"]["namespace"], owner["name"]))
        if pod is not None and pod["metadata"]["uid"] == owner["uid"] and is_over(pod):
            self.api.delete(CLAIMS, claim)


def is_over(pod: Object) -> bool:
    """Whether a pod will never use its claims (again): finished, or deleted before it had a node."""
    return phase_of(pod) in FINISHED or (is_terminating(pod) and not pod["spec"].get("nodeName"))


def generated_base(pod: str, entry: str) -> str:
    """What a generated claim's name begins with: both parts, shortened in proportion where they are too long."""
    too_long = len(pod) + len(entry) + 2 - _MAX_BASE
    if too_long > 0:
        share = too_long * len(entry) // (len(pod) + len(entry))
        entry, pod = entry[: len(entry) - share], pod[: len(pod) - (too_long - share)]
    return f"{pod}-{entry}-"


def claim_names(pod: Object) -> list[str]:
    """The names of a pod's claims, as far as they are known."""
    status = pod.get("status") or {}
    noted = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    uses = pod["spec"].get("resourceClaims") or ()
    named = [use.get("resourceClaimName") or noted.get(use["name"]) for use in uses]
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [name for name in [*named, extended] if name]


def _uses_claims(pod: Object) -> bool:
    return bool(pod["spec"].get("resourceClaims") or (pod.get("status") or {}).get("extendedResourceClaimStatus"))


def _deciding(pod: Object) -> tuple[object, ...]:
    return is_over(pod), pod["spec"].get("nodeName"), claim_names(pod)


def _claim_keys(pod: Object) -> list[str]:
    if not _uses_claims(pod):
        return []
    return [f"{pod['metadata']['namespace']}/{name}" for name in dict.fromkeys(claim_names(pod))]


def _template_keys(pod: Object) -> list[str]:
    uses = pod["spec"].get("resourceClaims")
    if not uses:
        return []
    names = [use.get("resourceClaimTemplateName") for use in uses]
    return [f"{pod['metadata']['namespace']}/{name}" for name in dict.fromkeys(names) if name]


def _split(key: str) -> Key:
    namespace, _, name = key.partition("/")
    return namespace, name


def _users(claim: Object) -> list[Object]:
    return (claim.get("status") or {}).get("reservedFor") or []


def _allocation(claim: Object) -> Object | None:
    found: Object | None = (claim.get("status") or {}).get("allocation")
    return found
