"""VolumeBinding: finds volumes for a pod's claims and binds them before the pod is bound.

`plugin` is what the framework calls. `claims` sorts a pod's claims, `finder` judges nodes, `assume_cache` remembers
what was decided and not yet written, `binder` writes it and waits, `scoring` prefers nodes by free storage.
"""

from plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
