from tests.fixtures_apiserver import api_server

__all__ = ["api_server"]
