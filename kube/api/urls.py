"""URLs as Go's net/url reads them, as far as the CEL functions of Kubernetes look at one. A value, no network."""

import re
from dataclasses import dataclass

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(r"(?::[0-9]*)?")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})", re.DOTALL)
_USER_INFO = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_PATH = _UNRESERVED | frozenset(b"$&+,/:;=@")
_HOST = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
#: what a path may hold as written without being escaped again
_WRITTEN = _PATH | frozenset(b"!'()*[]%")


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URI or an absolute path."""

    scheme: str
    host: str
    raw_path: str
    raw_query: str

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host = self.host.removesuffix(f":{self.port}") if self.port else self.host.removesuffix(":")
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def port(self) -> str:
        """Empty where there is none."""
        after = self.host.rpartition("]")[2]
        _, colon, port = after.rpartition(":")
        return port if colon else ""

    @property
    def escaped_path(self) -> str:
        """As written where that is a valid encoding, else escaped."""
        raw = self.raw_path.encode()
        if all(byte in _WRITTEN for byte in raw) or self.raw_path == "*":
            return self.raw_path
        return "".join(chr(byte) if byte in _PATH else f"%{byte:02X}" for byte in _unescaped(raw))

    @property
    def query(self) -> dict[str, list[str]]:
        """The values of each key; what cannot be read is left out, as there."""
        found: dict[str, list[str]] = {}
        for part in self.raw_query.split("&"):
            key, _, value = part.partition("=")
            if part and ";" not in part and not _ESCAPE.search(part):
                found.setdefault(_plus(key), []).append(_plus(value))
        return found


def parse_url(text: str) -> Url:
    """Raises ValueError with Go's reason."""
    whole = f'parse "{text}": '
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise ValueError(f"{whole}net/url: invalid control character in URL")
    if not text:
        raise ValueError(f"{whole}empty url")
    if text.startswith(":"):
        raise ValueError(f"{whole}missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest = text[match.end() :] if match else text
    try:
        return _after_scheme(scheme, rest)
    except ValueError as error:
        raise ValueError(f"{whole}{error}") from None


def _after_scheme(scheme: str, rest: str) -> Url:
    if rest == "*" and not scheme:
        return Url("", "", "*", "")
    # A request's URI has no fragment, so it is checked with what comes after "#", and read without.
    uri, _, _ = rest.partition("?")
    if not uri.startswith("/"):
        if scheme:
            return Url(scheme, "", "", rest.partition("#")[0].partition("?")[2])
        raise ValueError("invalid URI for request")
    _checked_authority(scheme, uri)
    path, _, query = rest.partition("#")[0].partition("?")
    host, path = _checked_authority(scheme, path)
    return Url(scheme, host, path, query)


def _checked_authority(scheme: str, path: str) -> tuple[str, str]:
    host = ""
    if scheme and path.startswith("//"):
        authority, slash, rest = path[2:].partition("/")
        host, path = _host(authority), slash + rest
    bad = _ESCAPE.search(path)
    if bad:
        raise ValueError(f'invalid URL escape "{bad[0]}"')
    return host, path


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER_INFO.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        # Only the last colon begins a port; what is before it is judged with the rest of the host.
        port = host[host.rfind(":") :] if ":" in host else ""
        if host.count(":") > 1:
            port = host[host.find(":") :]
    if not _PORT.fullmatch(port):
        raise ValueError(f'invalid port "{port}" after host')
    for byte in host.encode():
        if byte < 0x80 and byte not in _HOST and byte != ord("%"):
            raise ValueError(f'invalid character "{chr(byte)}" in host name')
    escape = re.search(r"%.{0,2}", host)
    if escape and not host.startswith("["):
        raise ValueError(f'invalid URL escape "{escape[0]}"')
    return host


def _unescaped(raw: bytes) -> bytes:
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), raw)


def _plus(text: str) -> str:
    return _unescaped(text.replace("+", " ").encode()).decode(errors="replace")
