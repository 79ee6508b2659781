"""Files and documents, the same on every engine."""

from __future__ import annotations

import asyncio
import base64

import pycrdt

from tests.integration.server.stores import TEXT, Served, Stores, served

FILES = "/api/projects/p1/files"
NOTES = "/api/projects/p1/content/docs/notes.md"
DOCUMENT = "/api/projects/p1/documents/docs/notes.md"


async def write(server: Served, text: str, url: str = NOTES) -> None:
    await server.http.post("/api/projects", json={"id": "p1"})
    response = await server.http.put(url, content=text, headers=TEXT)
    assert response.status_code == 200, response.text


async def test_a_file_is_written_listed_read_and_deleted(stores: Stores) -> None:
    async with served(stores) as server:
        await write(server, "hello")

        listed = (await server.http.get(FILES)).json()
        read = await server.http.get(NOTES)
        deleted = await server.http.delete(NOTES)
        gone = await server.http.get(NOTES)
        left = (await server.http.get(FILES)).json()
        since = (await server.http.get(FILES, params={"since": listed["version"]})).json()

        assert [(file["path"], file["version"], file["size"]) for file in listed["files"]] == [
            ("docs/notes.md", 1, 5)
        ]
        assert (read.text, read.headers["content-type"]) == ("hello", "text/plain; charset=utf-8")
        assert read.headers["x-content-type-options"] == "nosniff"
        assert deleted.json()["deleted"] is True
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "document_not_found")
        assert left["files"] == []
        assert [(file["path"], file["deleted"]) for file in since["files"]] == [("docs/notes.md", True)]


async def test_bytes_stay_bytes_and_are_saved_rather_than_shown(stores: Stores) -> None:
    async with served(stores) as server:
        await write(server, "text")
        url = "/api/projects/p1/content/picture.svg"
        data = b"<svg onload='alert(1)'>\x00\xff"

        await server.http.put(url, content=data, headers={"content-type": "image/svg+xml"})
        read = await server.http.get(url)

        assert read.content == data
        assert read.headers["content-type"] == "application/octet-stream"
        assert read.headers["content-disposition"].startswith("attachment;")


async def test_a_client_that_names_its_version_receives_only_the_changes(stores: Stores) -> None:
    async with served(stores) as server:
        for name in ("a", "b", "c"):
            await write(server, name, f"/api/projects/p1/content/{name}.md")
        await write(server, "b again", "/api/projects/p1/content/b.md")
        await server.http.delete("/api/projects/p1/content/c.md")
        url = f"{FILES}/status"

        has = {"versions": {"a.md": 1, "b.md": 1, "c.md": 1}}
        some = (await server.http.post(url, json=has)).json()["changes"]
        none = (await server.http.post(url, json={"versions": {"a.md": 1}, "paths": ["a.md"]})).json()
        everything = (await server.http.post(url, json={"paths": ["a.md", "b.md"]})).json()["changes"]
        new = (await server.http.post(url, json={"versions": {}})).json()["changes"]

        assert {change["path"]: change["change_type"] for change in some} == {
            "b.md": "modified",
            "c.md": "deleted",
        }
        assert none == {"changes": []}
        assert {change["path"] for change in everything} == {"a.md", "b.md"}
        assert {change["path"]: change["change_type"] for change in new} == {
            "a.md": "created",
            "b.md": "created",
        }


async def test_unchanged_files_return_304_with_the_same_tags_on_two_servers(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        await write(one, "hello")

        urls = (FILES, f"{FILES}?prefix=docs/", NOTES, DOCUMENT)
        tags = {url: (await one.http.get(url)).headers["etag"] for url in urls}
        for url, tag in tags.items():
            response = await other.http.get(url, headers={"If-None-Match": tag})
            assert (url, response.status_code, response.content) == (url, 304, b"")

        await write(other, "changed")

        for url, tag in tags.items():
            assert (await one.http.get(url, headers={"If-None-Match": tag})).status_code == 200


async def test_a_client_reads_what_it_lacks_and_concurrent_updates_merge(stores: Stores) -> None:
    async with served(stores) as server:
        await write(server, "hello")
        mine: pycrdt.Doc[pycrdt.Text] = pycrdt.Doc()
        theirs: pycrdt.Doc[pycrdt.Text] = pycrdt.Doc()
        for doc in (mine, theirs):
            doc.apply_update((await server.http.get(DOCUMENT)).content)
        before = {id(doc): doc.get_state() for doc in (mine, theirs)}
        mine.get("content", type=pycrdt.Text).insert(0, "> ")
        theirs.get("content", type=pycrdt.Text).insert(5, "!")

        versions = [
            (await server.http.post(DOCUMENT, content=doc.get_update(before[id(doc)]))).json()["version"]
            for doc in (mine, theirs)
        ]
        vector = base64.urlsafe_b64encode(mine.get_state()).decode().rstrip("=")
        lacking = await server.http.get(DOCUMENT, params={"state_vector": vector})
        mine.apply_update(lacking.content)

        assert versions == [2, 3]
        assert lacking.headers["longwatch-version"] == "3"
        assert str(mine.get("content", type=pycrdt.Text)) == "> hello!"
        assert (await server.http.get(NOTES)).text == "> hello!"


async def test_the_version_shows_that_a_document_is_current_and_an_empty_update_changes_nothing(
    stores: Stores,
) -> None:
    async with served(stores) as server:
        await write(server, "hello")

        current = await server.http.get(DOCUMENT, params={"version": 1})
        nothing = await server.http.post(DOCUMENT, content=b"\x00\x00")

        assert (current.status_code, current.headers["longwatch-version"]) == (304, "1")
        assert nothing.json() == {"version": 1, "changed": False}


async def test_long_polls_for_files_and_a_document_notice_writes_of_another_server(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        await write(one, "hello")

        files = (await one.http.get(FILES)).headers["etag"]
        document = (await one.http.get(DOCUMENT)).headers["etag"]
        polls = [
            asyncio.create_task(one.http.get(url, params={"wait": 20}, headers={"If-None-Match": tag}))
            for url, tag in ((FILES, files), (DOCUMENT, document))
        ]
        await asyncio.sleep(0)
        await write(other, "changed")
        listed, read = await asyncio.gather(*polls)

        assert (listed.status_code, listed.json()["version"]) == (200, 2)
        assert (read.status_code, read.headers["longwatch-version"]) == (200, "2")


async def test_long_polls_without_news_end_as_304(stores: Stores) -> None:
    async with served(stores) as server:
        await write(server, "hello")

        for url in (FILES, DOCUMENT):
            tag = (await server.http.get(url)).headers["etag"]
            response = await server.http.get(url, params={"wait": 1}, headers={"If-None-Match": tag})
            assert (url, response.status_code) == (url, 304)


async def test_no_path_leads_out_of_its_project(stores: Stores) -> None:
    async with served(stores) as server:
        await write(server, "hello")
        paths = (
            "..%2F..%2Fetc%2Fpasswd",
            "a%2F..%2F..%2Fb",
            "%2Fetc%2Fpasswd",
            "a%5C..%5Cb",
            "a%00b",
            "C:%2Fx",
            "a%2F%2Fb",
        )

        for path in paths:
            for method, url in (
                ("GET", f"/api/projects/p1/content/{path}"),
                ("PUT", f"/api/projects/p1/content/{path}"),
                ("DELETE", f"/api/projects/p1/content/{path}"),
                ("GET", f"/api/projects/p1/documents/{path}"),
                ("POST", f"/api/projects/p1/documents/{path}"),
            ):
                response = await server.http.request(
                    method, url, content=b"x" if method in ("PUT", "POST") else None
                )
                assert (method, url, response.status_code) == (method, url, 400)
                assert response.json()["error"]["code"] == "invalid_path"


async def test_a_file_needs_an_existing_project(stores: Stores) -> None:
    async with served(stores) as server:
        written = await server.http.put("/api/projects/none/content/a.md", content="x", headers=TEXT)
        listed = await server.http.get("/api/projects/none/files")

        assert (written.status_code, written.json()["error"]["code"]) == (404, "project_not_found")
        assert listed.status_code == 404


async def test_an_invalid_update_and_an_invalid_text_are_refused(stores: Stores) -> None:
    async with served(stores) as server:
        await write(server, "hello")

        update = await server.http.post(DOCUMENT, content=b"\xff\xff\xff")
        vector = await server.http.get(DOCUMENT, params={"state_vector": "!!!"})
        text = await server.http.put(NOTES, content=b"\xff\xfe", headers=TEXT)

        assert (update.status_code, update.json()["error"]["code"]) == (400, "invalid_update")
        assert vector.status_code == 400
        assert (text.status_code, text.json()["error"]["code"]) == (400, "not_utf8")
        assert (await server.http.get(NOTES)).text == "hello"
