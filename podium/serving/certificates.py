"""The server's side of TLS: the certificate that was given, read again when it is rotated, or one made here.

Owner: the Guard of a secure endpoint, which calls `refresh` now and then. Private keys stay in memory and are never
written to a disk or a log.
"""

from __future__ import annotations

import datetime
import functools
import logging
import os
import re
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

log = logging.getLogger(__name__)

#: how long a certificate made here is valid, and when it is replaced; seconds
LIFETIME = 365 * 86_400.0
RENEWAL = 300 * 86_400.0

MIN_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
#: the names that Kubernetes' flags use -> OpenSSL's. Those of TLS 1.3 are accepted, but cannot be chosen among.
CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
}

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class CertificateError(Exception):
    """A certificate, key or CA bundle that cannot be used; one line that names the file."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What the flags say. Without a pair of files a certificate is made."""

    certificate: Path | None = None
    key: Path | None = None
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    cipher_suites: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class ServingCertificate:
    """One TLS context for the listener, behind which the current certificate and client CAs can be exchanged."""

    def __init__(self, settings: TlsSettings, client_ca: bytes = b"") -> None:
        self._settings = settings
        self._pair = _given(settings) or _made(settings.hosts)
        self._made_at = time.time()
        self._client_ca = client_ca
        self._current = self._build(self._pair, client_ca)
        #: for the listener
        self.context = self._empty()
        self.context.sni_callback = self._choose

    def refresh(self, client_ca: bytes) -> bool:
        """Read the files again; whether something is new. What cannot be used is logged, and the old stays."""
        try:
            pair = _given(self._settings) or self._renewed()
            if (pair, client_ca) == (self._pair, self._client_ca):
                return False
            self._current = self._build(pair, client_ca)
        except CertificateError as problem:
            log.error("%s; the certificate from before stays in use", problem)
            return False
        self._pair, self._client_ca = pair, client_ca
        log.info("serving certificate and client CAs reloaded")
        return True

    def _renewed(self) -> tuple[bytes, bytes]:
        if time.time() - self._made_at < RENEWAL:
            return self._pair
        self._made_at = time.time()
        return _made(self._settings.hosts)

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called in each handshake, whether or not the client names a host."""
        connection.context = self._current

    def _build(self, pair: tuple[bytes, bytes], client_ca: bytes) -> ssl.SSLContext:
        context = self._empty()
        source = self._settings.certificate or "the certificate made here"
        try:
            with _in_memory(pair[0]) as certificate, _in_memory(pair[1]) as key:
                context.load_cert_chain(certificate, key)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{source}: expected a PEM certificate and its key: {_reason(error)}") from error
        if client_ca:
            try:
                context.load_verify_locations(cadata=client_ca.decode("ascii", "replace"))
            except (ssl.SSLError, ValueError) as error:
                raise CertificateError(f"client CA bundle: expected PEM certificates: {_reason(error)}") from error
        return context

    def _empty(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._settings.min_version
        names = [CIPHER_SUITES[name] for name in self._settings.cipher_suites if CIPHER_SUITES[name]]
        if names:
            context.set_ciphers(":".join(names))
        # Asked for and not required: tokens are the other way to say who one is.
        context.verify_mode = ssl.CERT_OPTIONAL
        # Each certificate of the bundle is trusted for itself, as in Go, also one that another has signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


def _given(settings: TlsSettings) -> tuple[bytes, bytes] | None:
    """The pair of files that the flags name, as it is now."""
    if settings.certificate is None or settings.key is None:
        return None
    return read(settings.certificate), read(settings.key)


def read(path: Path) -> bytes:
    """A file, or CertificateError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror or error}") from error


@functools.lru_cache(maxsize=8)
def certificates_of(bundle: bytes) -> frozenset[bytes]:
    """Those of a PEM bundle, as DER. Raises CertificateError where there is something else in it, or nothing."""
    try:
        found = frozenset(map(ssl.PEM_cert_to_DER_cert, _PEM.findall(bundle.decode("ascii"))))
    except ValueError as error:
        raise CertificateError(f"client CA bundle: expected PEM certificates: {error}") from error
    if bundle.strip() and not found:
        raise CertificateError("client CA bundle: expected PEM certificates, found none")
    return found


def _made(hosts: Iterable[str]) -> tuple[bytes, bytes]:
    """A self-signed certificate and its key. The library is imported here, for it is slow to load."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "podium")])
    now = datetime.datetime.now(datetime.UTC)
    names = dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour earlier, for clocks that are late.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(seconds=LIFETIME))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


def _general_name(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path that can be opened, without a file on a disk where the system can do so: the root may be read-only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("podium")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)
