"""The client asks politely, again where that helps, and takes nothing but whole answers."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest

from roadseg.errors import ConfigError, DataError
from roadseg.system.web.answers import BadAnswerError
from roadseg.system.web.client import Client, RequestPolicy

QUICK = RequestPolicy(
    per_second=5000, first_wait_s=0.01, quiet_s=0.3, longest_wait_s=2, connect_s=2
)


@pytest.fixture
def client(world):
    world.put("/fine", b"fine", "text/plain")
    with Client(world.address, policy=QUICK) as client:
        yield client


def body(answer):
    return answer.body


def refused(client, address, **options):
    with pytest.raises(DataError) as caught:
        client.get(address, body, **options)
    return str(caught.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(client, world, status):
    world.fail("/fine", status, times=2)
    assert client.get(f"{world.address}/fine", body) == b"fine"
    assert len(world.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_refusal_is_not_asked_again(client, world, status):
    world.fail("/fine", status)
    assert f"the server answers {status}" in refused(client, f"{world.address}/fine")
    assert len(world.asked) == 1


def test_a_failure_that_stays_is_told_with_the_number_of_tries(client, world):
    world.fail("/fine", 500)
    assert refused(client, f"{world.address}/fine").endswith(
        "the server answers 500 Internal Server Error (asked 4 times)"
    )


def test_a_server_that_says_how_long_to_wait_is_left_alone_that_long_by_all(client, world):
    world.fail("/fine", lambda h: h.give(429, b"", headers={"Retry-After": "2"}), times=1)
    begun, asked = time.monotonic(), []
    other = threading.Timer(1, client.get, (f"{world.address}/fine", body))
    for timer in (other, threading.Timer(1.6, lambda: asked.append(len(world.asked)))):
        timer.start()
    assert client.get(f"{world.address}/fine", body) == b"fine"
    assert time.monotonic() - begun >= 2
    assert asked == [1]
    other.join()


def test_a_server_that_asks_to_wait_too_long_is_told(client, world):
    world.fail("/fine", lambda h: h.give(503, b"", headers={"Retry-After": "3600"}))
    assert "asks to wait 3600 s; run the command again later" in refused(
        client, f"{world.address}/fine"
    )


def test_what_is_missing_is_found_to_be_so(client, world):
    assert client.find(f"{world.address}/nothing", body) is None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda h: h.give(200, b"fi", size=4), "no whole answer"),
        (
            lambda h: h.wfile.write(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfi"
            ),
            "no whole answer",
        ),
        (lambda h: h.wfile.write(b"who?\r\n\r\n"), "(who?)"),
        (lambda h: h.connection.close(), "no whole answer"),
    ],
)
def test_an_answer_cut_short_is_asked_again_and_then_told(client, world, fault, message):
    def once(handler):
        fault(handler)
        handler.close_connection = True

    world.fail("/fine", once, times=1)
    assert client.get(f"{world.address}/fine", body) == b"fine"
    world.fail("/fine", once)
    assert message in refused(client, f"{world.address}/fine")


def test_a_body_that_does_not_end_is_cut_off(client, world, maps):
    world.fail("/fine", maps.endless)
    assert "larger than expected" in refused(client, f"{world.address}/fine", largest=2**20)
    assert len(world.asked) == 1


def test_a_server_that_says_nothing_is_given_up(world):
    world.fail("/fine", lambda _: time.sleep(1))
    with Client(policy=RequestPolicy(per_second=5000, tries=1, quiet_s=0.2)) as client:
        assert "timed out" in refused(client, f"{world.address}/fine")


def test_a_body_is_no_larger_than_expected(client, world):
    assert client.get(f"{world.address}/fine", body, largest=4) == b"fine"
    assert "larger than expected" in refused(client, f"{world.address}/fine", largest=3)


def test_a_reader_that_finds_something_else_has_it_asked_again(client, world):
    def read(answer):
        if len(world.asked) < 3:
            raise BadAnswerError(f"found {answer.description}")
        return answer.body

    assert client.get(f"{world.address}/fine", read) == b"fine"


def test_a_page_is_told_by_its_first_words(client, world, maps):
    world.fail("/fine", lambda h: h.give(403, maps.PAGE, "text/html"))
    assert 'a web page that begins "Sorry Pay first."' in refused(client, f"{world.address}/fine")


def test_a_redirect_elsewhere_is_refused_unless_it_is_allowed(client, world):
    elsewhere = world.address.replace("127.0.0.1", "localhost")
    world.fail("/old", lambda h: h.give(302, b"", headers={"Location": f"{elsewhere}/fine"}))
    assert "redirects to another host, localhost" in refused(client, f"{world.address}/old")
    allowed = RequestPolicy(per_second=5000, hosts=frozenset({"localhost"}))
    with Client(world.address, ["X-Key: abcdef"], allowed) as free:
        assert free.get(f"{world.address}/old", body) == b"fine"
    assert [headers.get("X-Key") for headers in world.headers[-2:]] == ["abcdef", None]


def test_a_redirect_from_an_encrypted_address_to_another_one_is_refused(client, monkeypatch):
    plain = {"location": "http://example.org/fine"}
    answer = SimpleNamespace(status=302, headers=plain, close=lambda: None)
    monkeypatch.setattr(Client, "_open", lambda *_: answer)
    assert "which is not encrypted" in refused(client, "https://example.org/old")


def test_a_header_with_a_key_goes_to_its_host_only(world, monkeypatch):
    monkeypatch.setenv("MY_KEY", "abcdefgh")
    world.put("/fine", b"fine")
    with Client("https://other.example.org", ["X-Key: {env:MY_KEY}"], QUICK) as client:
        client.get(f"{world.address}/fine", body)
    assert "X-Key" not in world.headers[0]


def test_a_key_is_in_no_error(world, monkeypatch):
    monkeypatch.setenv("MY_KEY", "abc+/defgh")
    world.fail("/fine", lambda h: h.give(400, h.path.encode(), "text/plain"))
    address = f"{world.address}/fine?token={{env:MY_KEY}}"
    with Client(address, policy=QUICK) as client:
        told = refused(client, address)
    assert "abc" not in told
    assert "/fine?token={env:MY_KEY}" in told


def test_a_service_cannot_ask_for_keys_that_its_source_does_not_name(world, monkeypatch):
    monkeypatch.setenv("MY_KEY", "12345678")
    monkeypatch.setenv("OTHER_KEY", "abc+/defgh")
    with Client(f"{world.address}?key={{env:MY_KEY}}", policy=QUICK) as client:
        told = refused(client, f"{world.address}/fine?token={{env:OTHER_KEY}}")
    assert "asks for {env:OTHER_KEY}, which is not in the address that you gave" in told
    assert world.asked == []


@pytest.mark.parametrize("home", ["", "http://other.example.org/?k={env:MY_KEY}"])
def test_a_key_goes_to_the_host_for_which_it_was_given_only(world, monkeypatch, home):
    monkeypatch.setenv("MY_KEY", "12345678")
    home = home or f"{world.address}?k={{env:MY_KEY}}".replace("127.0.0.1", "localhost")
    with Client(home, policy=QUICK) as client:
        told = refused(client, f"{world.address}/fine?token={{env:MY_KEY}}")
    assert "asks for {env:MY_KEY}, which you gave for another host" in told
    assert world.asked == []


@pytest.mark.parametrize("place", ["{s}", "{switch:a,b,127}"])
def test_a_key_goes_to_all_hosts_of_a_template(world, monkeypatch, place):
    monkeypatch.setenv("MY_KEY", "12345678")
    world.put("/fine", b"fine")
    home = world.address.replace("127", place) + "/{z}?k={env:MY_KEY}"
    with Client(home, policy=QUICK) as client:
        client.get(f"{world.address}/fine?k={{env:MY_KEY}}", body)
    assert world.asked == ["/fine?k=12345678"]


@pytest.mark.parametrize(
    ("home", "address"),
    [
        ("https://a.org/t", "https://a.org:443/t"),
        ("https://a.org:443/t", "https://a.org/t"),
        ("http://a.org/t", "http://a.org:80/t"),
    ],
)
def test_a_host_is_the_same_with_the_usual_port(monkeypatch, home, address):
    monkeypatch.setenv("MY_KEY", "12345678")
    with Client(f"{home}?k={{env:MY_KEY}}", policy=QUICK) as client:
        assert client.with_keys(f"{address}?k={{env:MY_KEY}}") == f"{address}?k=12345678"


@pytest.mark.parametrize("wait", ["Fri, 31 Dec 99999 23:59:59 GMT", "9" * 5000, "-1", "²"])
def test_a_time_to_wait_that_cannot_be_is_not_waited_for(client, world, wait):
    world.put("/fine", b"fine")
    odd = {"Retry-After": wait.encode().decode("latin-1")}
    world.fail("/fine", lambda h: h.give(503, b"", headers=odd), times=1)
    assert client.get(f"{world.address}/fine", body) == b"fine"


@pytest.mark.parametrize(
    ("location", "told"),
    [
        *((bad, "an invalid address") for bad in ("http://[::1", "http://a:b/c", "//x:99999/")),
        ("/fine", "redirects more than 5 times"),
    ],
)
def test_a_redirect_to_no_address_or_in_a_circle_is_told(client, world, location, told):
    world.fail("/fine", lambda h: h.give(302, b"", headers={"Location": location}))
    assert told in refused(client, f"{world.address}/fine")


@pytest.mark.parametrize("length", ["many", "9" * 5000])
def test_a_length_that_is_no_number_promises_nothing(client, world, length):
    def lie(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", length)
        handler.end_headers()
        handler.wfile.write(b"fine")
        handler.close_connection = True

    world.fail("/fine", lie)
    assert client.get(f"{world.address}/fine", body) == b"fine"


def test_a_name_that_does_not_resolve_is_told_after_two_tries(monkeypatch):
    def resolve(*_, **__):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with Client(policy=RequestPolicy(tries=4, first_wait_s=0.01)) as client:
        told = refused(client, "http://tiles.example.org/fine")
    assert "the host tiles.example.org is not known" in told
    assert told.endswith("(asked 2 times)")


@pytest.mark.parametrize(("status", "content"), [(200, b"done"), (303, b"fine")])
def test_a_form_is_posted_once_also_where_the_answer_is_elsewhere(client, world, status, content):
    posted = []

    def do_post(handler):
        posted.append(handler.rfile.read(int(handler.headers["Content-Length"])))
        handler.give(status, b"done", headers={"Location": "/fine"})

    world.server.RequestHandlerClass.do_POST = do_post
    assert client.get(f"{world.address}/any", body, form=b"data=1") == content
    assert posted == [b"data=1"]


def test_requests_keep_their_pace(world):
    world.put("/fine", b"fine")
    with Client(policy=RequestPolicy(per_second=20)) as client:
        begun = time.monotonic()
        threads = [
            threading.Thread(target=client.get, args=(f"{world.address}/fine", body))
            for _ in range(9)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert time.monotonic() - begun >= 8 / 20


def test_a_client_that_is_stopped_waits_no_longer(world):
    world.fail("/fine", lambda h: h.give(429, b"", headers={"Retry-After": "60"}))
    with Client(policy=RequestPolicy(per_second=5000)) as client:
        threading.Timer(0.2, client.__exit__).start()
        begun = time.monotonic()
        assert "stopped" in refused(client, f"{world.address}/fine")
    assert time.monotonic() - begun < 5


def test_no_more_than_the_limit_is_received(world):
    world.put("/fine", b"f" * 1000)
    with Client(policy=QUICK, most_bytes=1500) as client:
        client.get(f"{world.address}/fine", body)
        client.get(f"{world.address}/fine", body)
        assert "the limit of --limit-mb" in refused(client, f"{world.address}/fine")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://127.0.0.1:9/x", "no whole answer from 127.0.0.1:9 (Connection refused)"),
        ("https://{here}/x", "no whole answer"),
    ],
)
def test_a_server_that_is_not_there_is_told_in_one_line(client, world, address, message):
    told = refused(client, address.format(here=world.address.removeprefix("http://")))
    assert message in told
    assert "\n" not in told


def test_a_proxy_that_is_not_there_is_told(client, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:secret99@127.0.0.1:9")
    told = refused(client, "http://tiles.example.org/x")
    assert "the proxy http://***@127.0.0.1:9 cannot be used" in told


@pytest.mark.parametrize(
    "address", ["ftp://a/b", "tiles", "http://", "https://a:b/c", "https://a b", "http://[::1"]
)
def test_what_is_no_address_is_told(client, address):
    with pytest.raises((ConfigError, DataError), match=r"not a valid address|expected an address"):
        client.get(address, body)


@pytest.mark.parametrize("header", ["X-Key", "X Key: a", ": a"])
def test_what_is_no_header_is_told(header):
    with pytest.raises(ConfigError, match="expected a name, a colon and a value"):
        Client(extra=[header])
