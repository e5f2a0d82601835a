from tests.fixtures_apiserver import api_server, http

__all__ = ["api_server", "http"]
