"""CEL device selectors: Kubernetes' environment as far as they use it, and what is answered without the library."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from kube.api import cel
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
        ("lists.range(20000).all(x, x >= 0)", "CEL runtime error: actual cost limit exceeded"),
        ('quantity("x") == quantity("1")', "CEL runtime error: "),
        ('"a".find("(") == ""', "CEL runtime error: illegal regex: "),
        ("device.nothing == 1", "CEL compile error: compilation failed: ERROR: <input>:1:7: undeclared reference"),
        ("device.driver", "CEL compile error: must evaluate to bool or the unknown type, not string"),
        ("1 +", "CEL compile error: compilation failed: "),
        (f'{SIZE}.memory.sub(quantity("1")).sign() == 1', "CEL compile error: compilation failed: "),
    ],
)
def test_errors_name_their_phase(expression: str, error: str) -> None:
    with pytest.raises(cel.SelectorError) as raised:
        cel.selector(expression).matches(DEVICE)
    assert str(raised.value).startswith(error)


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
