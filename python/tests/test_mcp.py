"""`ttmem mcp`, driven by the official client: the same numbers as `--json`, and hostile calls."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp
import pytest
from mcp.client.stdio import stdio_client

from conftest import CORPUS, MODULE, ROOT, TTMEM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

OOM = CORPUS / "tt_log" / "oom-fragmentation.log"
LEAK = ROOT / "web" / "test" / "browser" / "recordings" / "leak.ttmem"
VAE = CORPUS / "tt_log" / "vae-decoder.log"

COMMAND = TTMEM if Path(TTMEM[0]).exists() else MODULE


class Client:
    """A connection to a server."""

    def __init__(self, session: Any) -> None:
        self.session = session

    async def call(self, tool: str, **arguments: object) -> Any:
        """The result of a call, as a dictionary with the names of the protocol."""
        result = await self.session.call_tool(tool, arguments)
        return result.model_dump(mode="json", by_alias=True)

    async def answer(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured content of a call that must succeed."""
        result = await self.call(tool, **arguments)
        assert not result.get("isError"), result["content"]
        assert result["content"][0]["text"]
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    async def error(self, tool: str, **arguments: object) -> str:
        """The message of a call that must fail, as an error of the tool or of the protocol."""
        try:
            result = await self.call(tool, **arguments)
        except mcp.MCPError as error:
            return str(error)
        assert result["isError"], result
        return str(result["content"][0]["text"])

    async def rows(self, tool: str, rows: str, **arguments: object) -> list[Any]:
        """All rows of a list, page by page."""
        found: list[Any] = []
        while True:
            page = await self.answer(tool, **arguments)
            found += page[rows]
            if page["next_cursor"] is None:
                assert page["total"] == len(found)
                return found
            arguments["cursor"] = page["next_cursor"]


@asynccontextmanager
async def connected(*roots: Path) -> AsyncIterator[Client]:
    command, *before = COMMAND
    words = [word for root in roots for word in ("--root", str(root))]
    server = mcp.StdioServerParameters(command=command, args=[*before, "mcp", *words], env=dict(os.environ))
    async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()
        yield Client(session)


def run(test: Callable[[Client], Awaitable[None]], *roots: Path) -> None:
    """Runs a test with a server for these folders."""

    async def connect() -> None:
        async with connected(*roots or (CORPUS,)) as client:
            await test(client)

    asyncio.run(asyncio.wait_for(connect(), 300))


def printed(*words: object) -> Any:
    """The JSON that a command prints."""
    done = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def test_the_tools_are_read_only_and_have_schemas() -> None:
    async def test(client: Client) -> None:
        tools = (await client.session.list_tools()).model_dump(mode="json", by_alias=True)["tools"]
        names = {tool["name"] for tool in tools}
        wanted = {"open", "summary", "alive_at", "largest", "explain_failure", "series", "diff"}
        assert wanted | {"suggestions", "growth", "find", "list_files"} == names
        for tool in tools:
            assert tool["annotations"]["readOnlyHint"]
            assert tool["inputSchema"]["additionalProperties"] is False

    run(test)


@pytest.mark.parametrize("file", [OOM, VAE, CORPUS / "torch_snapshot" / "oom_gpt2_124m.pickle.gz"])
def test_numbers_are_those_of_the_summary(file: Path) -> None:
    expected = printed("summary", file, "--json")["ranks"][0]

    async def test(client: Client) -> None:
        opened = await client.answer("open", path=str(file))
        profile = opened["profile"]
        overview = await client.answer("summary", profile=profile)
        for name in ("pools", "operations", "runs", "passes", "device"):
            assert overview[name] == expected[name], name
        live = await client.rows("summary", "items", profile=profile, section="peak/live", limit=50)
        assert live == expected["peak"]["live"]
        assert live == await client.rows("alive_at", "tensors", profile=profile, step="peak", limit=50)
        suggestions = (await client.answer("suggestions", profile=profile))["suggestions"]
        for found, wanted in zip(suggestions, expected["suggestions"], strict=True):
            for name in ("rule", "message", "saves_per_bank", "saves_bytes", "steps", "tensor_count"):
                assert found[name] == wanted[name]
        failure = await client.answer("explain_failure", profile=profile)
        assert failure["failed"] == (expected["oom"] is not None)
        for name, value in (expected["oom"] or {}).items():
            if isinstance(value, int | float):
                assert failure["oom"][name] == value
        series = await client.answer("series", profile=profile, points=40)
        main = expected["peak"]["pool"]
        assert series["peak"]["per_bank"] == expected["pools"][main]["peak_per_bank"]
        # The states of a log are rounded.
        highest = max(value for _, value in series["points"])
        assert abs(highest - series["peak"]["per_bank"]) <= series["quantum_per_bank"]

    run(test)


def test_a_moment_is_that_of_the_summary() -> None:
    expected = printed("summary", VAE, "--json", "--at", 40)["ranks"][0]["at"]["pools"]["DRAM"]

    async def test(client: Client) -> None:
        profile = (await client.answer("open", path=str(VAE)))["profile"]
        rows = await client.rows("alive_at", "tensors", profile=profile, step=40, pool="DRAM", limit=9)
        assert rows == expected["live"]
        moment = (await client.answer("alive_at", profile=profile, step="40", pool="DRAM"))["moment"]
        assert moment["allocated_per_bank"] == expected["allocated_per_bank"]

    run(test)


def test_what_keeps_tensors_alive_is_part_of_growth_and_failures() -> None:
    expected = printed("summary", LEAK, "--json")["ranks"][0]
    assert expected["holders"]["rows"]

    async def test(client: Client) -> None:
        profile = (await client.answer("open", path=str(LEAK)))["profile"]
        growth = await client.answer("growth", profile=profile)
        assert growth["growth"]["survivors"] == expected["growth"]["survivors"]
        assert growth["growth"]["survivors"][0]["held_by"]
        failure = await client.answer("explain_failure", profile=profile)
        assert failure["failed"]
        for answer in (growth, failure):
            assert answer["holders"] == expected["holders"]

    run(test, LEAK.parent)


def test_differences_are_those_of_diff() -> None:
    before, after = CORPUS / "guides" / "batch32.ttmem", CORPUS / "guides" / "batch256.ttmem"
    expected = printed("diff", before, after, "--json")["ranks"][0]

    async def test(client: Client) -> None:
        a = (await client.answer("open", path=str(before)))["profile"]
        b = (await client.answer("open", path=str(after)))["profile"]
        assert (a, b) == ("p1", "p2")
        diff = await client.answer("diff", a=a, b=b)
        assert diff["verdict"] == expected["verdict"]
        assert diff["pools"] == expected["pools"]
        rows = await client.rows("diff", "changes", a=a, b=b, limit=50)
        assert [row["effect_per_bank"] for row in rows] == [
            row["effect_per_bank"] for row in expected["changes"]
        ]

    run(test)


def test_nothing_outside_the_roots_is_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root2"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "a.log").write_bytes(OOM.read_bytes())
    (root / "link.log").symlink_to(outside / "a.log")
    (root / "folder").symlink_to(outside)
    os.mkfifo(root / "pipe.log")

    async def test(client: Client) -> None:
        assert (await client.answer("open", path="a.log"))["profile"] == "p1"
        for path in (
            "link.log",
            "folder/a.log",
            "folder",
            "../root2/a.log",
            str(outside / "a.log"),
            "/etc/passwd",
            "/proc/self/environ",
            "/dev/stdin",
            "-",
            "",
            "~",
            "http://127.0.0.1/a.log",
            "file:///etc/passwd",
            "a.log\0.txt",
            "x" * 1_000_000,
            "../" * 500 + "etc/passwd",
        ):
            message = await client.error("open", path=path)
            assert "root:" not in message, path
            assert "NUL" in message or "limit" in message or "empty" in message or "not found" in message
        assert "neither a file nor a folder" in await client.error("open", path="pipe.log")
        listed = (await client.answer("list_files"))["files"]
        assert [Path(file["path"]).name for file in listed] == ["a.log"]

    run(test, root)


def test_hostile_arguments_are_errors_and_the_server_goes_on() -> None:
    calls: list[tuple[str, dict[str, object]]] = [
        ("open", {}),
        ("open", {"path": 5}),
        ("open", {"path": ["a"]}),
        ("open", {"path": None}),
        ("open", {"path": str(VAE), "format": "x" * 1_000_000}),
        ("open", {"path": str(VAE), "extra": True}),
        ("summary", {"profile": "p99"}),
        ("summary", {"profile": "../p1"}),
        ("summary", {"profile": 1}),
        ("summary", {"profile": "p1", "section": "x" * 1_000_000}),
        ("summary", {"profile": "p1", "section": "peak/live/99999999999999999999"}),
        ("summary", {"profile": "p1", "section": "peak/live", "cursor": "99999999999999999999-0"}),
        ("summary", {"profile": "p1", "rank": "\u0000"}),
        ("alive_at", {"profile": "p1", "step": -1}),
        ("alive_at", {"profile": "p1", "step": 2**64}),
        ("alive_at", {"profile": "p1", "step": 1e308}),
        ("alive_at", {"profile": "p1", "step": 1.5}),
        ("alive_at", {"profile": "p1", "step": "NaN"}),
        ("alive_at", {"profile": "p1", "step": {"$gt": 0}}),
        ("largest", {"profile": "p1", "limit": 0}),
        ("largest", {"profile": "p1", "limit": 10**9}),
        ("largest", {"profile": "p1", "pool": "'; DROP TABLE"}),
        ("series", {"profile": "p1", "points": -5}),
        ("find", {"profile": "p1", "where": "(" * 4000}),
        ("find", {"profile": "p1", "where": "not " * 1000}),
        ("find", {"profile": "p1", "where": 'name ~ "(a+)+$" and'}),
        ("find", {"profile": "p1", "where": 'name ~ "[[["'}),
        ("find", {"profile": "p1", "where": 'name ~ "(x{1000}){1000}"'}),
        ("diff", {"a": "p1"}),
        ("diff", {"a": "p1", "b": "p1", "cursor": "0"}),
        ("no_such_tool", {}),
    ]

    async def test(client: Client) -> None:
        await client.answer("open", path=str(VAE))
        for tool, arguments in calls:
            message = await client.error(tool, **arguments)
            assert message, (tool, arguments)
            assert len(message) < 2000
            assert "bug" not in message, (tool, message)
        assert await client.answer("largest", profile="p1")

    run(test)


def test_a_cursor_belongs_to_its_call() -> None:
    async def test(client: Client) -> None:
        profile = (await client.answer("open", path=str(VAE)))["profile"]
        cursor = (await client.answer("alive_at", profile=profile, limit=1))["next_cursor"]
        assert await client.answer("alive_at", profile=profile, limit=1, cursor=cursor)
        assert "unknown cursor" in await client.error("alive_at", profile=profile, step=3, cursor=cursor)
        assert "unknown cursor" in await client.error("largest", profile=profile, cursor=cursor)

    run(test)


def test_calls_run_at_the_same_time() -> None:
    async def test(client: Client) -> None:
        files = [OOM, VAE, CORPUS / "tt_log" / "llm-decode.log", OOM, VAE]
        opened = await asyncio.gather(*(client.answer("open", path=str(file)) for file in files))
        handles = [found["profile"] for found in opened]
        assert len(set(handles)) == 3
        assert (handles[0], handles[1]) == (handles[3], handles[4])
        found = await asyncio.gather(*(client.answer("summary", profile=handle) for handle in handles * 4))
        assert len(found) == 20

    run(test)


def test_a_canceled_call_leaves_the_server_usable() -> None:
    async def test(client: Client) -> None:
        call = asyncio.ensure_future(client.answer("open", path=str(VAE)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.answer("open", path=str(VAE)))["format"] == "tt_log"

    run(test)


def started(*words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, "mcp", *words], stdin=pipe, stdout=pipe, stderr=pipe)


def message(**fields: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


INITIALIZE = message(
    id=1,
    method="initialize",
    params={
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
) + message(method="notifications/initialized")


@pytest.mark.parametrize("before", [b"", b"\n", b"not json\n", b"\xff\xfe\n"])
def test_the_end_of_standard_input_ends_the_server(before: bytes) -> None:
    out, _ = started("--root", str(CORPUS)).communicate(before, timeout=60)
    assert out == b""


def test_a_server_without_requests_exits_with_0() -> None:
    server = started("--root", str(CORPUS))
    server.communicate(b"", timeout=60)
    assert server.returncode == 0


def test_garbage_between_requests_is_ignored_and_stdout_is_protocol_only() -> None:
    garbage = [
        b"\xff\xfe\x00\n",
        b"}{\n",
        b"[]\n",
        b"null\n",
        b"5\n",
        b'{"jsonrpc": "2.0"}\n',
        b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}\n',
        b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": 5}\n',
        b'{"jsonrpc": "2.0", "id": 9, "method": "no/such/method", "params": {}}\n',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}}\n',
        b"[" * 100_000 + b"\n",
        b"x" * 1_000_000 + b"\n",
    ]
    call = message(id=2, method="tools/call", params={"name": "open", "arguments": {"path": str(OOM)}})
    server = started("--root", str(CORPUS))
    out, err = server.communicate(INITIALIZE + b"".join(garbage) + call, timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    found = next(answer for answer in answers if answer.get("id") == 2)
    assert found["result"]["structuredContent"]["profile"] == "p1"
    assert server.returncode == 0, err


def test_a_root_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    for root in (tmp_path / "none", OOM):
        server = started("--root", str(root))
        out, err = server.communicate(timeout=60)
        assert (server.returncode, out) == (2, b"")
        assert str(root) in err.decode()
