"""Bodies in protobuf, as kubectl sent them, are read as the objects that JSON would have brought."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.apiserver import ApiError
from simulator.apiserver.protobuf import decode

# What `kubectl create deployment web --image=web:1 --replicas=0 --port=80` sends.
DEPLOYMENT = base64.b64decode(
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErYBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEoQBCAASDAoKCgNhcHASA3dlYhpq"
    "ChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEkoSLAoDd2ViEgV3ZWI6MSoAMgoKABAAGFAiACoAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIA"
    "SgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA"
)
# What `kubectl create pdb g --selector=a=b --min-available=50%` sends.
BUDGET = base64.b64decode(
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNgoRCgFnEgAaACIAKgAyADgAQgASFQoJCAEQABoDNTAlEggKBgoBYRIBYhoK"
    "CAAYACAAKAAwABoAIgA="
)
SECRET = base64.b64decode("azhzAAoMCgJ2MRIGU2VjcmV0Eh0KEQoBcxIAGgAiACoAMgA4AEIAEgYKAWESAWIaABoAIgA=")
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}]},
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            DEPLOYMENT,
            {
                "kind": "Deployment",
                "apiVersion": "apps/v1",
                "metadata": {"name": "web", "labels": {"app": "web"}},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
            },
            id="no replicas are said, empty strings are not",
        ),
        pytest.param(
            BUDGET,
            {
                "kind": "PodDisruptionBudget",
                "apiVersion": "policy/v1",
                "metadata": {"name": "g"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
            },
            id="a number or a word",
        ),
        pytest.param(
            SECRET,
            {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"a": "Yg=="}},
            id="bytes become base64",
        ),
    ],
)
def test_what_kubectl_sends_is_understood(body, expected):
    assert decode(body) == expected


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"{}", "does not begin as protobuf", id="JSON"),
        pytest.param(SECRET.replace(b"Secret", b"Sacred"), 'no kind "Sacred" is known in version "v1"', id="unknown"),
        pytest.param(
            b"k8s\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "does not end", id="endless number"
        ),
        pytest.param(DEPLOYMENT[:40], "longer than its message", id="cut off"),
    ],
)
def test_what_is_no_protobuf_is_refused(body, told):
    with pytest.raises(ApiError, match=told) as refusal:
        decode(body)
    assert refusal.value.code == 400


@given(st.integers(4, len(DEPLOYMENT) - 1), st.binary(max_size=8), st.integers(0, 8))
def test_spoilt_bytes_are_read_or_refused(place, junk, removed):
    spoilt = DEPLOYMENT[:place] + junk + DEPLOYMENT[place + removed :]
    with contextlib.suppress(ApiError):
        assert isinstance(decode(spoilt), dict)
