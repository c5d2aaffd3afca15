"""Where a name is looked for, and a publisher (on this machine) whose connection breaks, lies or is gone."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infrec.data import datasets, download
from infrec.data.datasets import Entry, entries, load, locate
from infrec.data.download import fetch
from infrec.errors import DataError


class Publisher(http.server.BaseHTTPRequestHandler):
    """Serves bytes with Range, ETag and, when told, a connection that breaks after some bytes."""

    files: ClassVar[dict[str, bytes]] = {}
    breaks: ClassVar[list[int]] = []  # how many bytes each of the next answers gives before it breaks
    tagged = True
    log: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        body = self.files.get(self.path)
        asked = self.headers.get("Range")
        type(self).log.append((self.path, asked))
        if body is None:
            self.send_error(404)
            return
        tag = f'"{hashlib.sha1(body).hexdigest()}"'
        start = 0
        match = re.fullmatch(r"bytes=(\d+)-", asked or "")
        if match and self.headers.get("If-Range") == tag:
            start = int(match[1])
            if start >= len(body):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        if self.tagged:
            self.send_header("ETag", tag)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = start + self.breaks.pop(0) if self.breaks else len(body)
        self.wfile.write(body[start:end])

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Publisher]]]:
    handler = type("Handler", (Publisher,), {"files": {}, "breaks": [], "log": [], "tagged": True})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(download.time, "sleep", lambda _: None)
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFREC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INFREC_DATA", raising=False)


BODY = bytes(range(256)) * 20_000  # 5 MB
MD5 = hashlib.md5(BODY).hexdigest()


def test_download_checks_records_and_verifies_ever_after(tmp_path: Path, publisher: Any) -> None:
    url, handler = publisher
    handler.files |= {"/a.bin": BODY, "/a.bin.md5": f"MD5 (a.bin) = {MD5}\n".encode()}
    seen: list[float] = []
    to = tmp_path / "deep" / "a.bin"
    fetch(
        f"{url}/a.bin",
        to,
        md5_url=f"{url}/a.bin.md5",
        progress=lambda stage, done, total=None, **_: seen.append(done),
    )
    assert to.read_bytes() == BODY and seen[-1] == len(BODY)
    assert sorted(path.name for path in to.parent.iterdir()) == ["a.bin", "a.bin.sha256"]
    asked = len(handler.log)
    fetch(f"{url}/a.bin", to)
    assert len(handler.log) == asked  # nothing is asked for twice
    to.write_bytes(BODY[:-1] + b"!")
    with pytest.raises(DataError, match="changed or damaged"):
        fetch(f"{url}/a.bin", to)


def test_a_broken_connection_is_taken_up_where_it_broke(tmp_path: Path, publisher: Any) -> None:
    url, handler = publisher
    handler.files["/a.bin"] = BODY
    handler.breaks += [1_500_000, 2_000_000]
    fetch(f"{url}/a.bin", tmp_path / "a.bin", md5=MD5)
    assert [asked for _, asked in handler.log] == [None, "bytes=1500000-", "bytes=3500000-"]


def test_an_interrupted_download_resumes_in_the_next_run(tmp_path: Path, publisher: Any) -> None:
    url, handler = publisher
    handler.files["/a.bin"] = BODY
    handler.breaks += [1_000_000, 1000, 1000, 1000]
    with pytest.raises(DataError, match="1,003,000 bytes are kept"):
        fetch(f"{url}/a.bin", tmp_path / "a.bin", md5=MD5)
    assert not (tmp_path / "a.bin").exists() and (tmp_path / "a.bin.part").exists()
    handler.log.clear()
    fetch(f"{url}/a.bin", tmp_path / "a.bin", md5=MD5)
    assert handler.log == [("/a.bin", "bytes=1003000-")]
    assert (tmp_path / "a.bin").read_bytes() == BODY and not (tmp_path / "a.bin.part").exists()


def test_a_file_that_changed_meanwhile_is_begun_again(tmp_path: Path, publisher: Any) -> None:
    url, handler = publisher
    handler.files["/a.bin"] = b"old" * 100_000
    handler.breaks += [1000, 10, 10, 10]
    with pytest.raises(DataError, match="bytes are kept"):
        fetch(f"{url}/a.bin", tmp_path / "a.bin")
    handler.files["/a.bin"] = BODY
    fetch(f"{url}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_without_a_validator_nothing_is_glued_together(tmp_path: Path, publisher: Any) -> None:
    url, handler = publisher
    handler.tagged = False
    handler.files["/a.bin"] = BODY
    handler.breaks += [1000]
    fetch(f"{url}/a.bin", tmp_path / "a.bin")
    assert [asked for _, asked in handler.log] == [None, None] and (tmp_path / "a.bin").read_bytes() == BODY


def test_wrong_checksum_truncated_missing_too_large(tmp_path: Path, publisher: Any) -> None:
    url, handler = publisher
    handler.files |= {"/a.bin": BODY, "/none.md5": b"no checksum here"}
    to = tmp_path / "a.bin"
    with pytest.raises(DataError, match=f"{MD5}, but its publisher states {'0' * 32}"):
        fetch(f"{url}/a.bin", to, md5="0" * 32)
    with pytest.raises(DataError, match="404"):
        fetch(f"{url}/b.bin", to)
    with pytest.raises(DataError, match="larger than"):
        fetch(f"{url}/a.bin", to, limit=1000)
    with pytest.raises(DataError, match=r"could not be downloaded \(Connection refused\): check"):
        fetch("http://127.0.0.1:9/a.bin", to)
    with pytest.raises(DataError, match="not a web address"):
        fetch("file:///etc/hosts", to)
    assert not list(tmp_path.glob("a.bin*"))  # nothing half is left
    with pytest.raises(DataError, match="holds 0 MD5 checksums"):
        fetch(f"{url}/a.bin", to, md5_url=f"{url}/none.md5")
    with pytest.raises(DataError, match="could not be fetched"):
        fetch(f"{url}/a.bin", to, md5_url=f"{url}/gone.md5")
    assert not to.exists()


# ---- names ------------------------------------------------------------------------------------------
def ml_zip(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("ml-1m/ratings.dat", "1::10::5::100\n2::20::3::200\n")
        out.writestr("ml-1m/movies.dat", "10::Ten::Drama\n20::Twenty::War\n")
    return path.read_bytes()


def test_a_name_is_downloaded_into_the_cache_once(tmp_path: Path, publisher: Any, monkeypatch: Any) -> None:
    url, handler = publisher
    body = ml_zip(tmp_path / "x.zip")
    handler.files["/ml-1m.zip"] = body
    entry = Entry("ml-1m", "", f"{url}/ml-1m.zip", "ml-1m.zip", hashlib.md5(body).hexdigest())
    monkeypatch.setattr(datasets, "entries", MappingProxyType({"ml-1m": entry}))
    assert locate("ml-1m") is None
    for _ in range(2):
        log = load("ml-1m")
        assert log.titles is not None and log.titles.to_pylist() == ["Ten", "Twenty"]
    assert len(handler.log) == 1 and locate("ml-1m") == tmp_path / "cache" / "ml-1m.zip"
    (tmp_path / "cache" / "ml-1m.zip").write_bytes(body[:-1])
    with pytest.raises(DataError, match="changed or damaged"):
        load("ml-1m")
    (tmp_path / "cache" / "ml-1m.zip.sha256").unlink()
    with pytest.raises(DataError, match="publisher states"):
        load("ml-1m")


def test_the_data_folder_comes_first_and_items_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, user in (("cache", 1), ("data", 2)):
        (tmp_path / place).mkdir()
        pq.write_table(pa.table({"user": [user], "item": [7]}), tmp_path / place / "magazine.parquet")
    assert load("magazine").users.ids.to_pylist() == [1]
    monkeypatch.setenv("INFREC_DATA", str(tmp_path / "data"))
    pq.write_table(pa.table({"item": [7], "title": ["Seven"]}), tmp_path / "data" / "magazine-items.parquet")
    log = load("magazine")
    assert log.users.ids.to_pylist() == [2] and log.titles is not None and log.titles.to_pylist() == ["Seven"]


def test_publishers_files_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFREC_DATA", str(tmp_path))
    (tmp_path / "netflix").mkdir()
    (tmp_path / "netflix" / "combined_data_1.txt").write_text("5:\n1,3,2005-01-01\n")
    assert load("netflix").items.ids.to_pylist() == [5]
    (tmp_path / "douban.dat").write_text("4\t9\t5\n")
    assert load("douban").users.ids.to_pylist() == [4]
    (tmp_path / "Magazine_Subscriptions.csv").write_text("B0,A9,5.0,100\n")
    assert load("magazine").items.ids.to_pylist() == ["B0"]


@pytest.mark.parametrize("name", ["netflix", "douban", "douban-book"])
def test_what_cannot_be_downloaded_says_where_to_get_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no direct download") as error:
        load(name)
    assert str(tmp_path / "cache" / name) in str(error.value)


def test_names_and_paths(tmp_path: Path) -> None:
    assert {"demo", "ml-100k", "ml-1m", "ml-20m", "ml-25m", "magazine", "netflix"} <= set(entries)
    for entry in datasets.entries.values():
        assert entry.md5 is None or re.fullmatch("[0-9a-f]{32}", entry.md5)
        assert entry.url is None or entry.url.startswith("https://")
    (tmp_path / "log.csv").write_text("user,item\n1,2\n")
    assert load(tmp_path / "log.csv").n_users == 1
    with pytest.raises(DataError, match="no dataset called 'ml-2m'; the names are demo"):
        load("ml-2m")
    with pytest.raises(DataError, match="no file or directory"):
        load(tmp_path / "gone.csv")


def test_demo_takes_options() -> None:
    everything, liked = load("demo"), load("demo", positive="rating >= 4")
    assert everything.titles is not None and everything.time is not None
    assert 0 < liked.n_interactions < everything.n_interactions
