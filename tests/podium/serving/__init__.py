"""How the endpoints are served."""
