"""CEL device selectors: Kubernetes' environment as far as they use it, and what is answered without the library."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from kube.api import cel
from kube.api.cel_cost import MAX_COST
from kube.api.resource import DeviceAttribute, DeviceCapacity

DEVICE = cel.device_values(
    "gpu.example.com",
    {
        "model": DeviceAttribute(string="a100"),
        "index": DeviceAttribute(integer=2),
        "slow": DeviceAttribute(boolean=True),
        "driverVersion": DeviceAttribute(version="550.54.14"),
        "topo.example.com/numa": DeviceAttribute(integer=0),
    },
    {"memory": DeviceCapacity(value="80Gi"), "sms": DeviceCapacity(value="132"), "share": DeviceCapacity(value="500m")},
    allow_multiple_allocations=False,
)
GPU = 'device.attributes["gpu.example.com"]'
SIZE = 'device.capacity["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', True),
        ("device.allowMultipleAllocations", False),
        (f'{GPU}.model == "a100"', True),
        (f'{GPU}["index"] in [0, 2]', True),
        (f"{GPU}.index % 2 == 0 && {GPU}.index < 2.5", True),
        (f"!{GPU}.slow", False),
        ('device.attributes["topo.example.com"].numa < 1', True),
        # domains and names that are not there
        ('device.attributes["absent.example.com"] == {}', True),
        ('"absent.example.com" in device.attributes', False),
        ('"gpu.example.com" in device.attributes', True),
        ("device.attributes.size() == 2", True),
        ('device.attributes.exists(domain, domain == "topo.example.com")', True),
        (f'"kind" in {GPU}', False),
        (f"has({GPU}.slow) ? {GPU}.slow : false", True),
        (f"has({GPU}.kind)", False),
        ("has(device.driver) && has(device.capacity)", True),
        (f"{GPU}.?kind.orValue('x') == 'x'", True),
        (f'{GPU}[?"slow"].hasValue()', True),
        ('cel.bind(gpu, device.attributes["absent"], gpu.size() == 0)', True),
        ("device.attributes[device.driver].index == 2", True),
        # quantities
        (f'{SIZE}.memory == quantity("80Gi")', True),
        (f'{SIZE}.memory == quantity("81920Mi")', True),
        (f'{SIZE}.memory.compareTo(quantity("40Gi")) > 0', True),
        (f'{SIZE}.memory.isLessThan(quantity("40Gi"))', False),
        (f'{SIZE}.memory.add(quantity("1Gi")).sub(1).isGreaterThan(quantity("80Gi"))', True),
        (f"{SIZE}.sms.asInteger() == 132 && {SIZE}.share.asApproximateFloat() == 0.5", True),
        (f"{SIZE}.sms.isInteger() && !{SIZE}.share.isInteger()", True),
        (f"sign({SIZE}.sms) == 1", True),
        ('isQuantity("1Gi") && !isQuantity("1GiB")', True),
        # versions
        (f'{GPU}.driverVersion.isGreaterThan(semver("540.0.0"))', True),
        (f'{GPU}.driverVersion == semver("550.54.14+build")', True),
        (f"{GPU}.driverVersion.major() == 550 && {GPU}.driverVersion.patch() == 14", True),
        ('semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))', True),
        ('semver("1.0.0-rc.2").compareTo(semver("1.0.0-rc.10")) < 0', True),
        ('isSemver("v1.0", true) && !isSemver("v1.0")', True),
        ('semver("v1.02", true) == semver("1.2.0")', True),
        (f"{GPU}.driverVersion == '550.54.14'", False),
        # libraries
        (f'{GPU}.model.upperAscii() == "A100" && {GPU}.model.startsWith("a")', True),
        ('device.driver.split(".")[0] == "gpu"', True),
        ('["a100", "h100"].exists(x, x == device.attributes["gpu.example.com"].model)', True),
        ("sets.contains([1, 2], [1]) && [1, 2].all(i, v, i < v)", True),
        ("[3, 1].max() == 3 && [1, 2].sum() == 3 && [1, 2].isSorted()", True),
        ('"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1".find("[0-9]") == "1"', True),
        ('"a1(b2".findAll("(a|b)[0-9]|[(]b") == ["a1", "(b"] && "(x)".find("\\\\((?P<in>x)") == "(x"', True),
        ('"a1b2c3".findAll("[0-9]", 2) == ["1", "2"]', True),
        ('"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab".find("(a+)+$") == ""', True),
        ('"a100".matches("^a[0-9]+$")', True),
        ('"abcab".indexOf("ab") == 0 && "abcab".indexOf("ab", 1) == 3 && "abcab".indexOf("x") == -1', True),
        ('"abcab".lastIndexOf("ab") == 3 && "abcab".lastIndexOf("ab", 2) == 0', True),
        ('[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && ["a"].indexOf("b") == -1', True),
        ('{"a": 1}.transformMap(k, v, v + 1) == {"a": 2} && [1].transformList(i, v, v + i) == [1]', True),
        ('{"a": 1, "b": 2}.transformMap(k, v, v > 1, [v]) == {"b": [2]}', True),
        ('{"a": 1}.transformMapEntry(k, v, {v: k}) == {1: "a"}', True),
        # URLs
        ('isURL("https://user:pass@example.com:80/path?query=val#fragment") && isURL("/absolute-path")', True),
        ('isURL("https://a:b:c/") || isURL("../relative-path") || isURL("") || isURL("http://a b/")', False),
        ('url("HTTPS://example.com:80/").getScheme() == "https" && url("/path").getScheme() == ""', True),
        ('url("https://[::1]:80/").getHost() == "[::1]:80" && url("https://[::1]/").getHostname() == "::1"', True),
        ('url("https://example.com:80/").getPort() == "80" && url("https://example.com/").getPort() == ""', True),
        ('url("https://a/with spaces/%41").getEscapedPath() == "/with%20spaces/A"', True),
        ('url("https://a/b%20c").getEscapedPath() == "/b%20c" && url("https://a").getEscapedPath() == ""', True),
        ('url("https://a/p?k1=a&k2=b&k2=c+d#f").getQuery() == {"k1": ["a"], "k2": ["b", "c d"]}', True),
        ('url("https://a/path?").getQuery() == {}', True),
        # addresses
        ('isIP("127.0.0.1") && isIP("::1")', True),
        (
            'isIP("127.0.0.256") || isIP(":::1") || isIP("::ffff:1.2.3.4") || isIP("fe80::1%eth0") || isIP("01.2.3.4")',
            False,
        ),
        ('ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD")', True),
        ('ip("127.0.0.1").family() == 4 && ip("::1").family() == 6 && ip("::1") == ip("0:0::1")', True),
        ('ip("0.0.0.0").isUnspecified() && ip("127.0.0.1").isLoopback() && ip("::1").isLoopback()', True),
        ('ip("224.0.0.1").isLinkLocalMulticast() && ip("ff02::1").isLinkLocalMulticast()', True),
        ('ip("224.0.1.1").isLinkLocalMulticast() || ip("fd00::1").isLinkLocalMulticast()', False),
        ('ip("169.254.1.1").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()', True),
        ('ip("192.168.0.1").isGlobalUnicast() && ip("2001:db8::abcd").isGlobalUnicast()', True),
        ('ip("255.255.255.255").isGlobalUnicast() || ip("ff00::1").isGlobalUnicast()', False),
        ('isCIDR("192.168.0.0/16") && isCIDR("::1/128")', True),
        ('isCIDR("192.168.0.0/33") || isCIDR("::1/129") || isCIDR("10.0.0.0") || isCIDR("10.0.0.0/08")', False),
        ('cidr("192.168.0.0/24").containsIP(ip("192.168.0.1")) && cidr("10.0.0.0/8").containsIP("10.1.2.3")', True),
        ('cidr("192.168.0.0/24").containsIP("192.168.1.1") || cidr("::/0").containsIP("10.1.2.3")', False),
        ('cidr("192.168.0.0/16").containsCIDR(cidr("192.168.10.0/24"))', True),
        ('cidr("192.168.0.0/24").containsCIDR("192.168.0.0/16")', False),
        ('cidr("192.168.0.1/24").ip() == ip("192.168.0.1") && cidr("::1/128").prefixLength() == 128', True),
        ('cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24")', True),
        ('string(cidr("10.1.2.3/8").masked()) + string(ip("0::1")) + string(1) == "10.0.0.0/8::11"', True),
    ],
)
def test_selectors(expression: str, expected: bool) -> None:
    assert cel.selector(expression).matches(DEVICE) is expected


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{GPU}.kind == 1", "CEL runtime error: no such key: kind"),
        (f"{GPU}.index / 0 == 1", "CEL runtime error: division by zero"),
        (f"{GPU}.model && true", "CEL runtime error: no such overload"),
        (f"{GPU}.model", "CEL runtime error: CEL result of type string could not be converted to bool"),
        ("lists.range(20000).all(x, x >= 0)", "CEL runtime error: operation cancelled: actual cost limit exceeded"),
        ('quantity("x") == quantity("1")', "CEL runtime error: "),
        ('"a".find("(") == ""', "CEL runtime error: illegal regex: "),
        ("device.nothing == 1", "CEL compile error: compilation failed: ERROR: <input>:1:7: undeclared reference"),
        ("device.driver", "CEL compile error: must evaluate to bool or the unknown type, not string"),
        ("1 +", "CEL compile error: compilation failed: "),
        (f'{SIZE}.memory.sub(quantity("1")).sign() == 1', "CEL compile error: compilation failed: "),
        (f'{SIZE}.memory > quantity("1")', "CEL compile error: compilation failed: ERROR: <input>:1:"),
        (f'{SIZE}.memory.isLessThan(semver("1.0.0"))', "CEL compile error: compilation failed: ERROR: <input>:1:"),
        ('quantity("1")', "CEL compile error: must evaluate to bool or the unknown type, not kubernetes.Quantity"),
        (
            'url("../x").getHost() == ""',
            'CEL runtime error: URL parse error during conversion from string: parse "../x": invalid URI for request',
        ),
        ('url("http://a:b/").getHost() == ""', "CEL runtime error: URL parse error during conversion from string: "),
        (
            'ip("1.2.3").family() == 4',
            'CEL runtime error: IP Address "1.2.3" parse error during conversion from string: ',
        ),
        (
            'ip("::ffff:1.2.3.4").family() == 4',
            'CEL runtime error: IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
        ),
        ('ip("fe80::1%a").family() == 6', 'CEL runtime error: IP address "fe80::1%a" with zone value is not allowed'),
        (
            'cidr("10.0.0.0/33").prefixLength() == 33',
            "CEL runtime error: network address parse error during conversion from string: "
            "network address parse error during conversion from string: ",
        ),
        (
            'string([ip("::1")]) == ""',
            "CEL compile error: compilation failed: ERROR: <input>:1:15: found no matching overload for 'string'",
        ),
        ('"ab".indexOf("a", 5) == 0', "CEL runtime error: index out of range: 5"),
        ('{"a": 1, "b": 1}.transformMapEntry(k, v, {v: k}) == {}', "CEL runtime error: insert failed: key 1 already"),
        (
            "[1].indexOf([1]) == 0",
            "CEL compile error: compilation failed: ERROR: <input>:1:15: found no matching overload for 'indexOf'",
        ),
        ('"' + "x" * 10240 + '" == ""', "CEL compile error: too long: may not be more than 10240 bytes"),
    ],
)
def test_errors_name_their_phase(expression: str, error: str) -> None:
    with pytest.raises(cel.SelectorError) as raised:
        cel.selector(expression).matches(DEVICE)
    assert str(raised.value).startswith(error)


# --- cost: worst cases that Kubernetes' own estimator gives, and what is not evaluated for it ----------------------

DOMAIN = 'device.attributes["dra.example.com"]'
TENS = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested(levels: int) -> str:
    """A loop over ten numbers in a loop, and so on."""
    inner = "int('1'.find('[0-9]*')) < 100"
    for level in range(levels):
        inner = f"{TENS}.all(x{level}, {inner})"
    return inner


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ('"no-such-domain" in device.attributes', 3),
        ('device.driver == ""', 2),
        ('device.driver == "dra.example.com"', 4),
        ("device.allowMultipleAllocations == true", 3),
        (f"{DOMAIN}.name", 4),
        (f'{DOMAIN}["name"]', 4),
        (f"cel.bind(dra, {DOMAIN}, dra.name)", 15),
        (f'{DOMAIN}.name == "fish"', 5),
        (f"{DOMAIN}.name > 0", 5),
        (f'{DOMAIN}.name.isGreaterThan(semver("0.0.1"))', 6),
        (f'{DOMAIN}.name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)', 7),
        ('device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))', 6),
        ('!("name" in device.capacity["dra.example.com"])', 5),
        (f"{DOMAIN}.name.exists(x, x > 0)", 5 + 6 * 64),
        (f'{DOMAIN}.names.all(x, x != "")', 5 + 4 * 64),
        (f"1 in {DOMAIN}.names", 4 + 64),
        ('device.attributes.exists_one(x, x == "dra.example.com")', 164),
        (f'{DOMAIN}.exists_one(x, x == "services")', 133),
        (f'{DOMAIN}.services.split("example").size() >= 2', 19),
        (f'{DOMAIN}.services.matches("[^a]?sym")', 18),
        (nested(7), 85555551),
    ],
)
def test_the_worst_case_cost_of_a_selector(expression: str, cost: int) -> None:
    assert cel.selector(expression).worst_case == cost


@pytest.mark.parametrize(
    "expression",
    [
        nested(7),
        "lists.range(int(string(3) + string(4))).all(x, x >= 0)",
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a < d))))",
        f'cel.bind(a, {GPU}.model.replace("", {GPU}.model), a.replace("", a).replace("", a)) == ""',
    ],
)
def test_what_may_cost_too_much_is_not_evaluated(expression: str) -> None:
    assert cel.selector(expression).worst_case > MAX_COST
    with pytest.raises(cel.SelectorError) as raised:
        cel.selector(expression).matches(DEVICE)
    assert str(raised.value) == "CEL runtime error: operation cancelled: actual cost limit exceeded"


def test_a_malformed_version_fails_every_selector_of_the_device() -> None:
    device = cel.device_values("d", {"v": DeviceAttribute(version="1.x")}, {}, allow_multiple_allocations=False)
    with pytest.raises(cel.SelectorError, match="CEL runtime error: attribute v: parse semantic version"):
        cel.selector('device.driver == "d"').matches(device)


# --- without the library -----------------------------------------------------------------------------------------

SIMPLE = (
    'device.driver == "gpu.example.com"',
    "device.driver == 'other'",
    f'device.driver == "gpu.example.com" && {GPU}.model == "a100"',
    f"{GPU}.index == 2 && {GPU}.slow == true",
    f"{GPU}.slow == 1",
    f'{GPU}.index == "2"',
    'device.attributes["absent"].kind == "x" && device.driver == "other"',
    f'{GPU}.kind == "x"',
)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    cel.forget_environment()
    yield
    monkeypatch.undo()
    cel.forget_environment()


def answer(expression: str) -> bool | str:
    try:
        return cel.Selector(expression).matches(DEVICE)
    except cel.SelectorError as error:
        return str(error)


WITH_LIBRARY = {expression: answer(expression) for expression in SIMPLE}


@pytest.mark.parametrize("expression", SIMPLE)
def test_simple_selectors_have_the_same_answer_without_it(expression: str, no_library: None) -> None:
    assert answer(expression) == WITH_LIBRARY[expression]


@pytest.mark.parametrize(
    "expression",
    [
        f"{GPU}.index > 1",
        f'{GPU}.model == "a" || true',
        'device.driver == "a\\n"',
        f"has({GPU}.slow)",
        "device.nothing == 1",
    ],
)
def test_any_other_selector_is_refused_with_one_line(expression: str, no_library: None) -> None:
    assert answer(expression) == (
        "CEL compile error: needs the CEL library, which is not installed: pip install 'podium[dra]'"
    )
