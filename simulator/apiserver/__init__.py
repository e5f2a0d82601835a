"""An embedded Kubernetes API server: in memory, over HTTP, with the real one's rules. Start at `server.py`."""

from simulator.apiserver.errors import ApiError
from simulator.apiserver.server import ApiServer

__all__ = ["ApiError", "ApiServer"]
