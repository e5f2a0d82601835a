"""IP addresses and networks as the CEL functions of Kubernetes take them. Values only, no network.

Addresses have no zone, and none of IPv4 is written as one of IPv6.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
_BITS = re.compile(r"0|[1-9][0-9]{0,2}")
_BROADCAST = IPv4Address("255.255.255.255")


def parse_address(text: str) -> Address:
    """Raises ValueError in Kubernetes' words."""
    try:
        address = ip_address(text)
    except ValueError:
        reason = f'ParseAddr("{text}"): unable to parse IP'
        raise ValueError(f'IP Address "{text}" parse error during conversion from string: {reason}') from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    if _is_mapped(address):
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def parse_cidr(text: str) -> tuple[Address, int]:
    """The address as written, and the length of the prefix. Raises ValueError in Kubernetes' words."""
    host, slash, bits = text.rpartition("/")
    try:
        address = ip_address(host)
        if not slash or "%" in host or not _BITS.fullmatch(bits) or int(bits) > address.max_prefixlen:
            raise ValueError
    except ValueError:
        reason = f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
        raise ValueError(f"{reason}: invalid prefix") from None
    if _is_mapped(address):
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address, int(bits)


def network(cidr: tuple[Address, int]) -> IPv4Network | IPv6Network:
    """The network without the bits after the prefix."""
    return ip_network(cidr, strict=False)


def contains(cidr: tuple[Address, int], address: Address, bits: int | None = None) -> bool:
    """Whether an address, or a network of that many bits, is in the network."""
    return address in network(cidr) and (bits is None or cidr[1] <= bits)


def is_link_local_multicast(address: Address) -> bool:
    """224.0.0.0/24, or a multicast address whose scope is the link."""
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


def is_global_unicast(address: Address) -> bool:
    """As Go has it: private addresses are global as well."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _is_mapped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None
