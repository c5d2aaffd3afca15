"""Files and folders at addresses, served by this machine."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from infrec.data import Interactions, remote
from infrec.data.datasets import load
from infrec.data.remote import is_remote, local_copy
from infrec.errors import DataError

LOG = "user,item\nann,1\nbob,2\n"


class _Store(http.server.BaseHTTPRequestHandler):
    """Files of a folder over HTTP, and what of S3 reading needs: HEAD, GET of a range, and lists."""

    root: Path

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        file = self.root / unquote(address.path).strip("/")
        if "list-type" in query:
            return self._list(file, query.get("prefix", [""])[0])
        if not file.is_file():
            return self._send(404, b"")
        data, wanted = file.read_bytes(), self.headers.get("Range")
        if wanted is None:
            return self._send(200, data)
        start, end = wanted.removeprefix("bytes=").split("-")
        stop = min(int(end or len(data)) + 1, len(data))
        size = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}
        return self._send(206, data[int(start) : stop], size)

    def _list(self, bucket: Path, prefix: str) -> None:
        files = (path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file())
        names = sorted(name for name in files if name.startswith(prefix))
        entries = "".join(
            f"<Contents><Key>{name}</Key><Size>{(bucket / name).stat().st_size}</Size>"
            "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            for name in names
        )
        text = f"<IsTruncated>false</IsTruncated><KeyCount>{len(names)}</KeyCount>{entries}"
        text = f"<ListBucketResult>{text}</ListBucketResult>"
        self._send(200, text.encode(), {"Content-Type": "application/xml"})

    def _send(self, code: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), "ETag": '"1"', **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class _GoogleStore(_Store):
    """What of Google Cloud Storage reading needs: descriptions of objects, their bytes, and lists."""

    PAGE = 2

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        bucket, _, name = address.path.removeprefix("/storage/v1/b/").partition("/o/")
        if address.path.endswith("/o"):
            bucket = bucket.removesuffix("/o")
            names = self._names(self.root / bucket, query.get("prefix", ""))
            start = int(query.get("pageToken") or 0)
            stop = start + self.PAGE
            items = [self._described(bucket, name) for name in names[start:stop]]
            more = {"nextPageToken": str(stop)} if stop < len(names) else {}
            return self._json(200, {"kind": "storage#objects", "items": items, **more})
        name = unquote(name)
        if not (self.root / bucket / name).is_file():
            return self._json(404, {"error": {"code": 404, "message": f"No such object: {bucket}/{name}"}})
        if query.get("alt") == "media":
            self.path = f"/{bucket}/{quote(name)}"
            return super().do_GET()
        return self._json(200, self._described(bucket, name))

    @staticmethod
    def _names(bucket: Path, prefix: str) -> list[str]:
        files = (path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file())
        return sorted(name for name in files if name.startswith(prefix))

    def _described(self, bucket: str, name: str) -> dict[str, str]:
        size = (self.root / bucket / name).stat().st_size
        return {
            "kind": "storage#object", "bucket": bucket, "name": name, "size": str(size), "generation": "1",
            "updated": "2024-01-01T00:00:00.000Z",
        }  # fmt: skip

    def _json(self, code: int, document: dict[str, object]) -> None:
        self._send(code, json.dumps(document).encode(), {"Content-Type": "application/json"})


class _Refusing(_Store):
    """A server that answers every request with one code."""

    code: int

    def do_GET(self) -> None:
        error = {"code": self.code, "message": "you may not\nread this", "errors": [{"reason": "forbidden"}]}
        self._send(self.code, json.dumps({"error": error}).encode())


@contextmanager
def served(root: Path, store: type[_Store] = _Store, **attributes: object) -> Iterator[str]:
    """The host and port of a server of this folder."""
    handler = type("Handler", (store,), {"root": root, **attributes})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "a log.csv.gz").write_bytes(gzip.compress(LOG.encode()))
    (tmp_path / "titles.csv").write_text("item,title\n1,One\n2,Two\n")
    table = pa.table({"user": ["ann", "bob"], "item": [1, 2]})
    (tmp_path / "parts").mkdir()
    for number in range(2):
        pq.write_table(table.slice(number, 1), tmp_path / "parts" / f"{number}.parquet")
    with served(tmp_path) as host:
        yield host


def into_bucket(root: Path) -> None:
    (root / "bucket").mkdir()
    for name in ("log.csv", "a log.csv.gz", "parts"):
        (root / name).rename(root / "bucket" / name)


def test_addresses() -> None:
    assert all(map(is_remote, ("https://a/b.csv", "s3://a/b", "gs://a/b")))
    assert not any(map(is_remote, ("a/b.csv", "", Path("a"), "C:/a.csv", "://a", "odd name://a")))


def test_files_over_http(place: str) -> None:
    for name in ("log.csv", "a%20log.csv.gz", "parts/0.parquet", "log.csv?version=2"):
        log = load(f"http://{place}/{name}", items=f"http://{place}/titles.csv")
        assert log.users.ids[0].as_py() == "ann"
        assert log.titles is not None and log.titles[0].as_py() == "One"
    assert local_copy(f"http://{place}/log.csv") == local_copy(f"http://{place}/log.csv")
    with pytest.raises(DataError, match="answered 404"):
        Interactions.read(f"http://{place}/nothing.csv")


@pytest.mark.skipif(not hasattr(fs, "S3FileSystem"), reason="this pyarrow was built without S3")
def test_files_and_folders_of_s3(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    into_bucket(tmp_path)
    options = f"?endpoint_override={place}&scheme=http&region=us-east-1"
    for name in ("log.csv", "parts"):
        log = load(f"s3://bucket/{name}{options}")
        assert log.users.ids.to_pylist() == ["ann", "bob"] and log.items.ids.to_pylist() == [1, 2]
        assert log.report is not None and log.report.source == name
    with pytest.raises(DataError, match="there is nothing at s3://bucket/other"):
        load(f"s3://bucket/other{options}")


needs_google = pytest.mark.skipif(
    not hasattr(fs, "GcsFileSystem"), reason="this pyarrow was built without Google Cloud Storage"
)


@needs_google
@pytest.mark.usefixtures("place")
def test_files_and_folders_of_google_cloud_storage(tmp_path: Path) -> None:
    into_bucket(tmp_path)
    pq.write_table(pa.table({"user": ["cy"], "item": [2]}), tmp_path / "bucket" / "parts" / "2.parquet")
    with served(tmp_path, _GoogleStore) as host:
        options = f"?endpoint_override={host}&scheme=http"
        for name in ("log.csv", "a%20log.csv.gz"):
            log = load(f"gs://anonymous@bucket/{name}{options}")
            assert log.users.ids.to_pylist() == ["ann", "bob"] and log.items.ids.to_pylist() == [1, 2]
        for name in ("parts", "parts/"):  # three files, so two pages of names
            log = load(f"gs://anonymous@bucket/{name}{options}")
            assert log.users.ids.to_pylist() == ["ann", "bob", "cy"] and log.n_interactions == 3
            assert log.report is not None and log.report.source == "parts"
        for name in ("other", "part", "log.csv/none"):
            with pytest.raises(DataError, match=rf"^there is nothing at gs://anonymous@bucket/{name}\?.*\.$"):
                load(f"gs://anonymous@bucket/{name}{options}")


@needs_google
@pytest.mark.usefixtures("place")
def test_google_cloud_storage_as_its_own_tools_are_pointed_at_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into_bucket(tmp_path)
    with served(tmp_path, _GoogleStore) as host:
        monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", f"http://{host}")
        assert load("gs://anonymous@bucket/log.csv").n_users == 2


@needs_google
@pytest.mark.parametrize("code", [401, 403, 503])
def test_google_cloud_storage_that_refuses(
    tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "RETRY_SECONDS", 1)
    with served(tmp_path, _Refusing, code=code) as host:
        address = f"gs://anonymous@bucket/log.csv?endpoint_override={host}&scheme=http"
        with pytest.raises(DataError) as error:
            load(address)
    sentence = (
        f"{address} cannot be read (you may not); check the address, the connection and your credentials."
    )
    assert str(error.value) == sentence


@needs_google
def test_google_cloud_storage_that_nobody_answers_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own limit is 15 minutes."""
    with http.server.HTTPServer(("127.0.0.1", 0), _Store) as free:
        address = f"gs://anonymous@bucket/log.csv?endpoint_override=127.0.0.1:{free.server_port}&scheme=http"
    monkeypatch.setattr(remote, "RETRY_SECONDS", 1)
    start = time.monotonic()
    with pytest.raises(DataError, match=r"cannot be read \(Could not connect to server\); check the address"):
        load(address)
    assert time.monotonic() - start < 60
    monkeypatch.setattr(remote, "RETRY_SECONDS", 600)
    with pytest.raises(DataError, match="Could not connect"):
        load(f"{address}&retry_limit_seconds=1")
    assert time.monotonic() - start < 120


def test_addresses_that_no_file_system_knows() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        Interactions.read("gopher://somewhere/log.csv")
