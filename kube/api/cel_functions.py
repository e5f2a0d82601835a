"""The functions that Kubernetes adds to CEL, for the library of `kube.api.cel`.

Called by `kube.api.cel` to build its environments; knows nothing of devices. The library checks types of Kubernetes'
own (a quantity, an address), but has no values of them. So an expression is checked in an environment with these
types, and evaluated in another one in which they are bytes with a tag, equal exactly when the values are.

The DRA environment of Kubernetes also has `format`, which returns optional values that Python cannot make here, and the
types of an authorizer, for which it has no variable; both are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kube.api import addresses, quantity, semver
from kube.api.cel_overloads import Functions, Overload, declared, function, member
from kube.api.cel_texts import text_functions
from kube.api.urls import parse_url

#: Not UTF-8, so no bytes that come from a text look like these.
_QUANTITY, _SEMVER, _URL, _IP, _CIDR = (b"\xff%s " % name for name in (b"quantity", b"semver", b"url", b"ip", b"cidr"))


@dataclass(frozen=True, slots=True)
class Types:
    """The library's types for Kubernetes' values."""

    quantity: Any
    semver: Any
    url: Any
    ip: Any
    cidr: Any


def checked_types(t: Any) -> Types:
    """Types that an expression is checked with."""
    named = [f"kubernetes.{name}" for name in ("Quantity", "Semver", "URL")] + ["net.IP", "net.CIDR"]
    return Types(*(t.AbstractType(name) for name in named))


def evaluated_types(t: Any) -> Types:
    """What the values are when it is evaluated."""
    return Types(*(t.BYTES,) * 5)


def declarations(cel: Any, types: Types) -> list[Any]:
    """The functions, as the library wants them declared."""
    t = cel.Type
    return [
        declared(cel, name, overloads)
        for functions in (
            _amounts(t, types),
            _versions(t, types),
            _addresses(t, types),
            _urls(t, types),
            text_functions(t),
        )
        for name, overloads in functions.items()
    ]


def _amounts(t: Any, types: Types) -> Functions:
    value, text, number, yes_no = types.quantity, t.STRING, t.INT, t.BOOL
    return {
        "quantity": [function("string_to_quantity", [text], value, lambda q: from_nanos(quantity.nanos(q)))],
        "isQuantity": [function("is_quantity_string", [text], yes_no, lambda q: _succeeds(quantity.nanos, q))],
        # A plain function in Kubernetes as well, although its documentation writes it as a member.
        "sign": [function("quantity_sign", [value], number, lambda q: _sign(_nanos(q)))],
        "isInteger": [member("quantity_is_integer", [value], yes_no, lambda q: _is_integer(_nanos(q)))],
        "asInteger": [member("quantity_as_integer", [value], number, _as_integer)],
        "asApproximateFloat": [
            member("quantity_get_float", [value], t.DOUBLE, lambda q: _nanos(q) / quantity.NANOS),
        ],
        "add": [
            member("quantity_add", [value, value], value, lambda a, b: from_nanos(_nanos(a) + _nanos(b))),
            member("quantity_add_int", [value, number], value, lambda a, n: from_nanos(_nanos(a) + n * quantity.NANOS)),
        ],
        "sub": [
            member("quantity_sub", [value, value], value, lambda a, b: from_nanos(_nanos(a) - _nanos(b))),
            member("quantity_sub_int", [value, number], value, lambda a, n: from_nanos(_nanos(a) - n * quantity.NANOS)),
        ],
    }


def _versions(t: Any, types: Types) -> Functions:
    value, text, number, yes_no = types.semver, t.STRING, t.INT, t.BOOL
    return {
        "semver": [
            function("string_to_semver", [text], value, version),
            function("string_bool_to_semver", [text, yes_no], value, lambda v, tidy: version(_tidied(v, tidy))),
        ],
        "isSemver": [
            function("is_semver_string", [text], yes_no, lambda v: _succeeds(semver.parse, v)),
            function(
                "is_semver_string_bool",
                [text, yes_no],
                yes_no,
                lambda v, tidy: _succeeds(lambda each: semver.parse(_tidied(each, tidy)), v),
            ),
        ],
        "major": [member("semver_major", [value], number, lambda v: _parsed_version(v).major)],
        "minor": [member("semver_minor", [value], number, lambda v: _parsed_version(v).minor)],
        "patch": [member("semver_patch", [value], number, lambda v: _parsed_version(v).patch)],
        "compareTo": _for_both(types, "compare_to", number, _compare),
        "isGreaterThan": _for_both(types, "is_greater_than", yes_no, lambda a, b: _compare(a, b) > 0),
        "isLessThan": _for_both(types, "is_less_than", yes_no, lambda a, b: _compare(a, b) < 0),
    }


def _for_both(types: Types, name: str, returned: Any, call: Callable[[bytes, bytes], Any]) -> list[Overload]:
    return [
        member(f"quantity_{name}", [types.quantity] * 2, returned, call),
        member(f"semver_{name}", [types.semver] * 2, returned, call),
    ]


def _addresses(t: Any, types: Types) -> Functions:
    text, number, yes_no, ip, cidr = t.STRING, t.INT, t.BOOL, types.ip, types.cidr
    return {
        "ip": [
            function("string_to_ip", [text], ip, lambda s: _from_address(addresses.parse_address(s))),
            member("cidr_ip", [cidr], ip, lambda c: _from_address(_cidr(c)[0])),
        ],
        "isIP": [function("is_ip", [text], yes_no, lambda s: _succeeds(addresses.parse_address, s))],
        "ip.isCanonical": [function("ip_is_canonical", [text], yes_no, lambda s: str(addresses.parse_address(s)) == s)],
        "family": [member("ip_family", [ip], number, lambda a: _address(a).version)],
        **{
            name: [member(f"ip_{name}", [ip], yes_no, lambda a, test=test: test(_address(a)))]
            for name, test in _ADDRESS_TESTS.items()
        },
        "cidr": [function("string_to_cidr", [text], cidr, lambda s: _from_cidr(_parsed_cidr(s)))],
        "isCIDR": [function("is_cidr", [text], yes_no, lambda s: _succeeds(addresses.parse_cidr, s))],
        "containsIP": [
            member("cidr_contains_ip_string", [cidr, text], yes_no, _contains_ip),
            member("cidr_contains_ip_ip", [cidr, ip], yes_no, _contains_ip),
        ],
        "containsCIDR": [
            member("cidr_contains_cidr_string", [cidr, text], yes_no, _contains_cidr),
            member("cidr_contains_cidr", [cidr, cidr], yes_no, _contains_cidr),
        ],
        "prefixLength": [member("cidr_prefix_length", [cidr], number, lambda c: _cidr(c)[1])],
        "masked": [member("cidr_masked", [cidr], cidr, _masked)],
        # What string() is given (`kube.api.cel_source` puts it there), since the library's own cannot be added to.
        "written": [
            function("written_ip", [ip], text, _written),
            function("written_cidr", [cidr], text, _written),
            *(
                function(f"written_{kind.name().lower()}", [kind], kind, _written)
                for kind in (text, number, yes_no, t.UINT, t.DOUBLE, t.BYTES, t.TIMESTAMP, t.DURATION)
            ),
        ],
    }


def _urls(t: Any, types: Types) -> Functions:
    text, yes_no, url = t.STRING, t.BOOL, types.url
    return {
        "url": [function("string_to_url", [text], url, _from_url)],
        "isURL": [function("is_url_string", [text], yes_no, lambda s: _succeeds(parse_url, s))],
        "getScheme": [member("url_get_scheme", [url], text, lambda u: _parsed_url(u).scheme)],
        "getHost": [member("url_get_host", [url], text, lambda u: _parsed_url(u).host)],
        "getHostname": [member("url_get_hostname", [url], text, lambda u: _parsed_url(u).hostname)],
        "getPort": [member("url_get_port", [url], text, lambda u: _parsed_url(u).port)],
        "getEscapedPath": [member("url_get_escaped_path", [url], text, lambda u: _parsed_url(u).escaped_path)],
        "getQuery": [member("url_get_query", [url], t.Map(text, t.List(text)), lambda u: _parsed_url(u).query)],
    }


# --- quantities and versions -------------------------------------------------------------------------------------


def from_nanos(nanos: int) -> bytes:
    """A quantity."""
    return _QUANTITY + b"%d" % nanos


def version(text: str) -> bytes:
    """A semantic version. Raises ValueError."""
    return _SEMVER + str(semver.parse(text)).encode()


def _nanos(value: bytes) -> int:
    return int(_untagged(value, _QUANTITY))


def _parsed_version(value: bytes) -> semver.Version:
    return semver.parse(_untagged(value, _SEMVER))


def _tidied(text: str, tidy: bool) -> str:
    return semver.normalize(text) if tidy else text


def _untagged(value: bytes, tag: bytes) -> str:
    if not value.startswith(tag):
        raise ValueError("no such overload")
    return value[len(tag) :].decode()


def _compare(a: bytes, b: bytes) -> int:
    if a.startswith(_QUANTITY):
        return _sign(_nanos(a) - _nanos(b))
    x, y = _parsed_version(a).order, _parsed_version(b).order
    return int(x > y) - int(x < y)


def _sign(number: int) -> int:
    return int(number > 0) - int(number < 0)


def _is_integer(nanos: int) -> bool:
    whole, rest = divmod(nanos, quantity.NANOS)
    return rest == 0 and quantity.MIN_INT64 <= whole <= quantity.MAX_INT64


def _as_integer(value: bytes) -> int:
    nanos = _nanos(value)
    if not _is_integer(nanos):
        raise ValueError("cannot convert value to integer")
    return nanos // quantity.NANOS


def _succeeds(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


# --- addresses and URLs ------------------------------------------------------------------------------------------

_ADDRESS_TESTS: dict[str, Callable[[addresses.Address], bool]] = {
    "isUnspecified": lambda a: a.is_unspecified,
    "isLoopback": lambda a: a.is_loopback,
    "isLinkLocalMulticast": addresses.is_link_local_multicast,
    "isLinkLocalUnicast": lambda a: a.is_link_local,
    "isGlobalUnicast": addresses.is_global_unicast,
}


def _from_address(address: addresses.Address) -> bytes:
    return _IP + str(address).encode()


def _address(value: bytes) -> addresses.Address:
    return addresses.parse_address(_untagged(value, _IP))


def _from_cidr(cidr: tuple[addresses.Address, int]) -> bytes:
    return _CIDR + f"{cidr[0]}/{cidr[1]}".encode()


def _cidr(value: bytes) -> tuple[addresses.Address, int]:
    return addresses.parse_cidr(_untagged(value, _CIDR))


def _parsed_cidr(text: str) -> tuple[addresses.Address, int]:
    try:
        return addresses.parse_cidr(text)
    except ValueError as error:
        raise ValueError(f"network address parse error during conversion from string: {error}") from None


def _contains_ip(value: bytes, other: bytes | str) -> bool:
    address = addresses.parse_address(other) if isinstance(other, str) else _address(other)
    return addresses.contains(_cidr(value), address)


def _contains_cidr(value: bytes, other: bytes | str) -> bool:
    address, bits = _parsed_cidr(other) if isinstance(other, str) else _cidr(other)
    return addresses.contains(_cidr(value), address, bits)


def _masked(value: bytes) -> bytes:
    network = addresses.network(_cidr(value))
    return _from_cidr((network.network_address, network.prefixlen))


def _written(value: Any) -> Any:
    if not isinstance(value, bytes | bytearray):
        return value
    tag = next((tag for tag in (_IP, _CIDR) if value.startswith(tag)), b"")
    return _untagged(bytes(value), tag)


def _from_url(text: str) -> bytes:
    try:
        parse_url(text)
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    return _URL + text.encode()


def _parsed_url(value: bytes) -> Any:
    return parse_url(_untagged(value, _URL))
