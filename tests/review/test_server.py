"""The server answers its own page alone, and what it acknowledged is in the file."""

import base64
import hashlib
import http.client
import json
import socket
import sqlite3
import threading
import time
from contextlib import closing
from urllib.request import urlopen

import pytest

from roadseg.review import server as module
from roadseg.review.edits import EditFile
from tests.review.conftest import Asking, open_session

ACCEPT = {"kind": "accept", "sheet": 0, "id": 0}
PATHS = [
    "",
    "data",
    "changes",
    "edit",
    "undo",
    "redo",
    "finish",
    "picture?sheet=0&scene=0&layer=image&level=0&row=0&col=0",
]


def kinds(workspace):
    with closing(sqlite3.connect(workspace.edits)) as file:
        rows = file.execute("SELECT kind FROM edits WHERE COALESCE(undone, 0) = 0 ORDER BY fid")
        return [kind for (kind,) in rows]


def test_the_page_is_sent_with_a_policy_that_allows_only_itself(server):
    with urlopen(server.address) as answer:  # noqa: S310 - of this machine
        page, policy = answer.read(), answer.headers["Content-Security-Policy"].split("; ")
    assert page.count(b"<script") == 1
    script = page.split(b"<script>")[1].split(b"</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert {"default-src 'none'", f"script-src 'sha256-{digest}'", "frame-ancestors 'none'"} < {
        *policy
    }
    assert b"<title>Review" in page
    assert b"&lt;run&gt;" in page
    assert b"<run>" not in page


def test_the_page_can_end_the_review(run):
    with module.ReviewServer(open_session(run), title="run") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert Asking(server)("finish", {})[0] == 200
        thread.join(60)
        assert not thread.is_alive()


def test_the_page_asks_for_what_it_shows(ask):
    status, data = ask("data")
    told = json.loads(data)
    assert status == 200
    (sheet,) = told["sheets"]
    assert sheet["confidence"] == [0.9, 0.8, 0.9, 0.9, 0.2]
    assert sheet["worth"].index(max(sheet["worth"])) == 4


def test_an_edit_is_in_the_file_when_it_is_answered(ask, served):
    status, answer = ask("edit", ACCEPT)
    assert (status, kinds(served)) == (200, ["accept"])
    assert json.loads(answer)["changed"][0]["edited"] == "accepted"


def test_undo_and_redo_answer_what_has_changed(ask, served):
    ask("edit", ACCEPT)
    _, undone = ask("undo", {})
    assert kinds(served) == []
    _, redone = ask("redo", {})
    assert kinds(served) == ["accept"]
    edited = [json.loads(each)["changed"][0]["edited"] for each in (undone, redone)]
    assert edited == ["", "accepted"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", "x", "..", "%2e%2e", "a" * 5000])
def test_without_the_token_everything_is_refused(ask, path, token):
    assert ask(path, token=token)[0] in (403, 414)
    assert ask(path, ACCEPT, token=token)[0] in (403, 414)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": None},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_other_origins_and_hosts_are_refused(ask, served, path, headers):
    for body in (None, ACCEPT):
        status, answer = ask(path, body, **headers)
        assert status in (400, 403)
        assert list(json.loads(answer)) == ["error"]
    assert kinds(served) == []


def test_an_edit_without_an_origin_is_refused(ask, served):
    assert ask("edit", ACCEPT, Origin=None)[0] == 403
    assert kinds(served) == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_an_edit_that_a_form_could_send_is_refused(ask, served, kind):
    assert ask("edit", ACCEPT, Content_Type=kind)[0] == 415
    assert kinds(served) == []


@pytest.mark.parametrize(
    "path",
    [
        *("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd"),
        *("edits.gpkg", "data/", "data/..", "DATA", "page", "review.js", "picture/../data"),
        *("\\..\\data", "%00", "edit;x"),
    ],
)
def test_there_are_no_files(ask, path):
    for body in (None, {}):
        assert ask(path, body)[0] in (404, 400)


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"HEAD", b"CONNECT"])
def test_other_methods_are_refused(server, method):
    answer = talk(
        server, b"%s /%s/edit HTTP/1.1\r\nHost: x\r\n\r\n" % (method, server.token.encode())
    )
    assert answer.split()[1] in (b"501", b"400")


def talk(server, sent):
    """Send bytes, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.server_port)) as link:
        link.sendall(sent)
        link.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: link.recv(65536), b""))


@pytest.mark.parametrize("length", ["5000", "999999999", "-1", "1e3", "0x10", "", "9" * 40, None])
def test_bodies_of_no_sensible_size_are_refused(ask, served, length):
    if length is None:
        status, _ = ask("edit", ACCEPT, Content_Length=" ")
    else:
        status, _ = ask("edit", ACCEPT, Content_Length=length)
    assert status in (411, 413)
    assert kinds(served) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b"null", b"\xff\xfe", b"[" * 4000, b'{"kind": NaN}', b'{"kind": []}'],
)
def test_bodies_that_are_no_object_are_refused(ask, served, body):
    assert ask("edit", body)[0] == 400
    assert kinds(served) == []


PLACE = {"from": [50, 100], "to": [60, 110], "reach": 10}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "accept", "sheet": 0},
        {"kind": "accept", "sheet": 0, "id": 99},
        {"kind": "accept", "sheet": 1, "id": 0},
        {"kind": "accept", "sheet": -1, "id": 0},
        {"kind": "accept", "sheet": True, "id": 0},
        {"kind": "accept", "sheet": 0, "id": "0"},
        {"kind": "accept", "sheet": 0, "id": 1e400},
        {"kind": "speed", "sheet": 0, "id": 0, "kph": 0},
        {"kind": "speed", "sheet": 0, "id": 0, "kph": 301},
        {"kind": "drop table edits", "sheet": 0, "id": 0},
        {"kind": "draw", "sheet": 0, **PLACE, "to": [50, 100]},
        {"kind": "draw", "sheet": 0, **PLACE, "to": [1e308, 0]},
        {"kind": "draw", "sheet": 0, **PLACE, "to": [1, 2, 3]},
        {"kind": "draw", "sheet": 0, **PLACE, "reach": 1e6},
        {"kind": "move", "sheet": 0, **PLACE, "from": [5, 5]},
        {"kind": "join", "sheet": 0, **PLACE, "to": [5, 195]},
        {"kind": "split", "sheet": 0, **PLACE, "from": [5, 195]},
    ],
    ids=str,
)
def test_edits_that_make_no_sense_are_refused_and_change_nothing(ask, served, wrong):
    before = ask("changes")[1]
    status, answer = ask("edit", json.dumps(wrong).encode())
    assert status == 400
    assert json.loads(answer)["error"]
    assert (kinds(served), ask("changes")[1]) == ([], before)


def test_of_several_roads_within_reach_the_nearest_is_split(ask):
    ask("edit", {"kind": "split", "sheet": 0, **PLACE, "from": [102, 90], "reach": 20})
    (change,) = json.loads(ask("changes")[1])["changes"]
    assert change["removed"] == [3]


@pytest.mark.parametrize(
    "query",
    ["", "sheet=0", "sheet=0&scene=9&layer=image&level=0&row=0&col=0", "a=1&" * 50]
    + [f"sheet=0&scene=0&layer=probability&level={each}&row=0&col=0" for each in (-1, 99, "x", 1e3)]
    + ["sheet=0&scene=0&layer=probability&level=0&row=-1&col=99999999999999999999"],
)
def test_pictures_that_are_not_there_are_refused(ask, query):
    assert ask(f"picture?{query}")[0] in (400, 404)


def test_a_picture_of_the_probabilities_has_its_place(ask):
    status, answer = ask("picture?sheet=0&scene=0&layer=probability&level=0&row=0&col=0")
    told = json.loads(answer)
    assert (status, told["box"]) == (200, [0, 0, 200, 200])
    assert told["picture"].startswith("data:image/png;base64,")


def test_an_edit_that_cannot_be_kept_is_not_acknowledged(ask, served, monkeypatch):
    monkeypatch.setattr(EditFile, "add", lambda *_, **__: 1 / 0)
    before = ask("changes")[1]
    with pytest.raises(http.client.RemoteDisconnected):
        ask("edit", ACCEPT)
    monkeypatch.undo()
    assert ask("changes")[1] == before
    assert kinds(served) == []


def test_an_edit_while_another_program_writes_is_not_acknowledged(ask, served, server):
    server.session._file._file.execute("PRAGMA busy_timeout=1")  # noqa: SLF001 - it would wait for seconds
    with closing(sqlite3.connect(served.edits)) as other:
        other.execute("BEGIN IMMEDIATE")
        status, answer = ask("edit", ACCEPT)
    assert status == 503
    assert b"another program is writing" in answer
    assert ask("edit", ACCEPT)[0] == 200


def test_what_another_program_did_is_shown(ask, served):
    ask("edit", ACCEPT)
    with closing(sqlite3.connect(served.edits)) as file, file:
        file.execute("UPDATE edits SET kind = 'reject'")
    _, answer = ask("edit", {**ACCEPT, "id": 1})
    assert json.loads(answer)["reload"]
    (change,) = json.loads(ask("changes")[1])["changes"]
    assert [(road["id"], road["edited"]) for road in change["changed"]] == [(0, "rejected")]


@pytest.fixture
def impatient(monkeypatch):
    """Wait for a request no longer than a moment."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.2)


HEADERS = b"POST /%s/edit HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n"
LENGTH = b"Content-Type: application/json\r\nContent-Length: 60\r\n\r\n{"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "sent",
    [b"", b"POST", HEADERS, HEADERS + LENGTH],
    ids=["nothing", "half a line", "half of the headers", "half of the body"],
)
def test_a_slow_request_is_cut_off_however_it_drips(server, served, sent):
    own = server.token.encode(), server.host.encode(), server.host.encode()
    sent = sent % own if b"%s" in sent else sent
    with socket.create_connection(("127.0.0.1", server.server_port)) as link:
        link.sendall(sent)
        stop = threading.Event()

        def drip():
            while not stop.wait(0.02):
                try:
                    link.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        link.settimeout(30)
        try:
            answer = link.recv(1000)
        except ConnectionResetError:
            answer = b""
        stop.set()
        thread.join()
    assert b" 200 " not in answer
    assert kinds(served) == []


@pytest.mark.usefixtures("impatient")
def test_many_connections_that_say_nothing_do_not_stop_the_page_for_long(server, ask):
    links = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(100)]
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            status, _ = ask("edit", ACCEPT)
            break
        except OSError:
            continue
    for link in links:
        link.close()
    assert status == 200


def test_only_this_machine_can_connect(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_the_token_is_not_logged(ask, server, caplog):
    caplog.set_level("DEBUG", logger="roadseg")
    ask("data")
    assert "answered" in caplog.text
    assert server.token not in caplog.text
