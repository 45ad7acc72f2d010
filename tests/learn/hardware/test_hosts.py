"""Hosts that train together: what is asked for, and where this one stands."""

import socket
from contextlib import closing

import pytest

from roadseg.errors import ConfigError, RoadsegError
from roadseg.learn.hardware import hosts as module
from roadseg.learn.hardware.hosts import Hosts, MeetingProbe, find_place, read_hosts


@pytest.fixture
def own_address(monkeypatch):
    """Give the address that this machine has in a network on paper."""
    monkeypatch.setattr(module, "_address_towards", lambda *_: "192.0.2.7")
    return "192.0.2.7"


@pytest.mark.parametrize(
    ("count", "expected"), [("3", (3, 3)), ("2:3", (2, 3)), ("1:8", (1, 8)), ("1", (1, 1))]
)
def test_hosts_are_a_number_or_two(count, expected):
    hosts = read_hosts(count, "node1:29400")
    assert (hosts.least, hosts.most) == expected
    assert (hosts.meeting, hosts.port, str(hosts)) == ("node1", 29400, "node1:29400")


@pytest.mark.parametrize("count", ["0", "3:2", "two", "", "2:", "2:3:4", "-1"])
def test_other_numbers_of_hosts_are_refused(count):
    with pytest.raises(ConfigError, match=f"^--hosts {count}: expected the number of hosts"):
        read_hosts(count, "node1:29400")


@pytest.mark.parametrize("rendezvous", ["node1", "node1:", ":29400", "node1:port", "node1:65536"])
def test_a_rendezvous_without_host_or_port_is_refused(rendezvous):
    with pytest.raises(ConfigError, match=f"^--rendezvous {rendezvous}: expected the name"):
        read_hosts("2", rendezvous)


def test_hosts_need_a_rendezvous():
    with pytest.raises(ConfigError, match=r"^--rendezvous is missing: expected"):
        read_hosts("2", None)


def test_the_host_where_all_meet_knows_it_and_others_do_not(own_address):
    here = find_place(Hosts(2, 2, own_address, 29_417))
    assert (here.address, here.is_meeting, here.is_loopback) == (own_address, True, False)
    assert here.interface == ""  # as no interface has it
    there = find_place(Hosts(2, 2, "192.0.2.1", 29_417))
    assert (there.address, there.is_meeting) == (own_address, False)


def test_a_port_in_use_is_told_where_all_meet(own_address):
    with closing(socket.create_server(("", 0))) as server:
        port = server.getsockname()[1]
        with pytest.raises(RoadsegError, match=f"port {port} of this host is in use; choose"):
            find_place(Hosts(2, 2, own_address, port))


def test_a_name_that_nobody_knows_is_told():
    with pytest.raises(ConfigError, match=r"does not know the name node\.invalid"):
        find_place(Hosts(2, 2, "node.invalid", 29_417))


def test_a_name_that_leads_back_to_this_host_alone_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_resolve", lambda _: "127.0.1.1")
    with pytest.raises(ConfigError, match=r"node1 is 127\.0\.1\.1, where others cannot reach it"):
        find_place(Hosts(2, 2, "node1", 29_417))


def test_several_on_one_machine_meet_at_localhost():
    place = find_place(Hosts(2, 2, "127.0.0.1", 29_417))
    assert (place.address, place.is_loopback) == ("127.0.0.1", True)
    assert place.interface in {"lo", ""}  # which only Linux tells


@pytest.fixture
def clock(monkeypatch):
    """Give a clock in a list, which stands until a test moves it."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def lost_after(contact, clock, *seconds):
    """Ask for the contact at some times; return what it says at each."""
    found = []
    for clock[0] in seconds:
        found.append(contact.is_lost())
    return found


def test_a_host_that_was_reached_once_is_lost_after_20_seconds_without_an_answer(clock):
    with socket.create_server(("127.0.0.1", 0)) as server:
        contact = MeetingProbe(Hosts(2, 2, *server.getsockname()))
        assert lost_after(contact, clock, 0, 4) == [False, False]
    assert lost_after(contact, clock, 8, 18, 28) == [False, False, False]
    assert not contact.was_lost
    assert lost_after(contact, clock, 28.1, 31) == [False, True]  # The first one asks too early.
    assert contact.was_lost


def test_a_host_that_was_never_reached_is_not_lost(clock):
    with socket.create_server(("127.0.0.1", 0)) as server:
        contact = MeetingProbe(Hosts(2, 2, *server.getsockname()))
    assert lost_after(contact, clock, 0, 15, 30, 45) == [False] * 4


def test_a_host_is_not_lost_before_it_was_asked_for_20_seconds_again(clock):
    with socket.create_server(("127.0.0.1", 0)) as server:
        contact = MeetingProbe(Hosts(2, 2, *server.getsockname()))
        lost_after(contact, clock, 0)
    assert lost_after(contact, clock, 5, 1000, 1015, 1030) == [False, False, False, True]
