"""Hosts that train together: their number, their meeting point, and the address of each."""

import errno
import ipaddress
import math
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from roadseg.errors import ConfigError, RoadsegError

if sys.platform != "win32":
    import fcntl

HOSTS = "ROADSEG_HOSTS"  # Variable that tells the processes how many hosts were asked for.
AGAIN = "run the same command on all hosts"
_TRY_S = 2.0  # Seconds between two connections, and that one may take.
_LOST_S = 20.0  # Seconds without a connection after which a host counts as lost.
_PORTS = range(1, 65_536)
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR of Linux


@dataclass(frozen=True)
class Hosts:
    """Hosts that train together.

    Attributes:
        least: number of hosts without which the training waits.
        most: number of hosts that it begins with, if all of them are there.
        meeting: name or address, as all hosts know it, of the one where they meet.
    """

    least: int
    most: int
    meeting: str
    port: int

    def __str__(self) -> str:
        """Return the meeting point as in `--rendezvous`."""
        return f"{self.meeting}:{self.port}"


@dataclass(frozen=True)
class Place:
    """Place of this host among the others.

    Attributes:
        address: by which the others reach this host.
        interface: name of the network interface with this address; empty if it is not known.
        is_meeting: whether the hosts meet here.
        is_loopback: whether they are several on this machine, which find out who was first.
    """

    address: str
    interface: str
    is_meeting: bool
    is_loopback: bool


class MeetingProbe:
    """MeetingProbe with the host where all meet, by connections that say nothing.

    Attributes:
        was_lost: whether `is_lost` has said so.
    """

    def __init__(self, hosts: Hosts) -> None:
        """Name where they meet."""
        self.was_lost = False
        self._at = (hosts.meeting, hosts.port)
        self._reached = False
        self._tried_s, self._failing_s = -math.inf, math.inf

    def is_lost(self) -> bool:
        """Return whether the host was reached once, and now has not been for a while."""
        now = time.monotonic()
        if now - self._tried_s < _TRY_S:
            return False
        if now - self._tried_s > _LOST_S:  # Nobody has asked meanwhile.
            self._failing_s = math.inf
        self._tried_s = now
        try:
            socket.create_connection(self._at, timeout=_TRY_S).close()
            self._reached, self._failing_s = True, math.inf
        except OSError:
            self._failing_s = min(self._failing_s, now)
        self.was_lost = self._reached and now - self._failing_s > _LOST_S
        return self.was_lost


def unreachable(meeting: object) -> str:
    """Return the message for hosts that do not reach the meeting point."""
    return (
        f"--rendezvous {meeting}: no training waits there, or none can be reached any more; check "
        "the address, the network and the firewall, and that the command runs there"
    )


def read_hosts(count: str, rendezvous: str | None) -> Hosts:
    """Read `--hosts`, such as "3" or "2:3", and `--rendezvous`, such as "node1:29400".

    Raises:
        ConfigError: if they are not written so.
    """
    least, colon, most = count.partition(":")
    most = most if colon else least
    if not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most)):
        raise ConfigError(
            f"--hosts {count}: expected the number of hosts, such as 3, or the smallest and the "
            "largest number, such as 2:3"
        )
    meeting, _, port = (rendezvous or "").rpartition(":")
    if not (meeting and port.isdecimal() and int(port) in _PORTS):
        raise ConfigError(
            f"--rendezvous {rendezvous or 'is missing'}: expected the name of one of the hosts and "
            "a free port on it, such as node1:29400; give the same on every host"
        )
    return Hosts(int(least), int(most), meeting, int(port))


def find_place(hosts: Hosts) -> Place:
    """Find the address and the interface of this host on the way to the meeting point.

    Raises:
        ConfigError: if that place has an unknown name, or one by which others cannot reach it.
        RoadsegError: if there is no way to it, or its port on this host is in use.
    """
    target = _resolve(hosts)
    is_loopback = ipaddress.ip_address(target).is_loopback
    if is_loopback and hosts.most > 1 and hosts.meeting not in {target, "localhost"}:
        raise ConfigError(
            f"--rendezvous {hosts}: on this host {hosts.meeting} is {target}, where others cannot "
            "reach it; give its address in the network, or correct /etc/hosts"
        )
    address = _address_towards(target, hosts)
    is_meeting = address == target
    if is_meeting and not is_loopback:
        _require_free_port(hosts, _family(target))
    return Place(address, _interface_of(address), is_meeting, is_loopback)


def _resolve(hosts: Hosts) -> str:
    try:
        addresses = socket.getaddrinfo(hosts.meeting, hosts.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"--rendezvous {hosts}: this host does not know the name {hosts.meeting} ({error}); "
            "give the address of the host where all meet"
        ) from error
    return str(addresses[0][4][0])


def _address_towards(target: str, hosts: Hosts) -> str:
    """Return the address of this host from which it reaches another one."""
    try:
        with socket.socket(_family(target), socket.SOCK_DGRAM) as probe:
            probe.connect((target, hosts.port))  # This sends nothing.
            return str(probe.getsockname()[0])
    except OSError as error:
        raise RoadsegError(
            f"--rendezvous {hosts}: this host has no way to {target} ({error.strerror}); check "
            "its network"
        ) from error


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _require_free_port(hosts: Hosts, family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", hosts.port))
            trial.listen()
        except OSError as error:
            reason = "in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise RoadsegError(
                f"--rendezvous {hosts}: port {hosts.port} of this host is {reason}; choose another "
                "on all hosts, or end what uses it"
            ) from error


def _interface_of(address: str) -> str:
    """Return the name of the interface with an IPv4 address, where Linux tells it."""
    if sys.platform != "linux" or ":" in address:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):  # Some interfaces have no address.
                answer = fcntl.ioctl(probe.fileno(), _ADDRESS_OF_INTERFACE, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""
