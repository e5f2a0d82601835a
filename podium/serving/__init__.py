"""How podium's endpoints are served: TLS, who may ask, how much and for how long, and what they say of the process.

Built by `podium run` and handed to `podium.http`. Knows nothing of scheduling.
"""
