"""Kubernetes' rules for the names a configuration may contain: label keys and values, resource names.

Each function returns what is wrong with the text, or "" when nothing is.
"""

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NATIVE = "kubernetes.io/"


def qualified_name_fault(text: str) -> str:
    """Check a label key or a resource name: an optional DNS prefix, a slash, and a name."""
    prefix, slash, name = text.rpartition("/")
    if slash and (not _DNS.fullmatch(prefix) or len(prefix) > 253):
        return "the part before the slash must be a DNS subdomain in lower case"
    if not _NAME.fullmatch(name):
        return "must be 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
    return ""


def label_value_fault(text: str) -> str:
    """Check a label's value, which may be empty."""
    if text and not _NAME.fullmatch(text):
        return "must be at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
    return ""


def extended_resource_fault(text: str) -> str:
    """Check the name of an extended resource: with a domain, and not one of Kubernetes' own."""
    fault = qualified_name_fault(text)
    if fault:
        return fault
    prefix = text.rpartition("/")[0] + "/"
    if prefix == "/" or prefix.endswith(_NATIVE) or text.startswith("requests."):
        return "must be an extended resource: a domain other than kubernetes.io, a slash and a name"
    return ""
