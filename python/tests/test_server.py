"""An asyncio server under the tracker: concurrent requests get their own answers and their own modules."""

from __future__ import annotations

import asyncio
import gc
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import nn

import ttmem
from real_programs import WORDS, Convolutions, Gpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Where a request computes: in the event loop, in a pool of threads, or in a thread with the task's context.
PLACES = ("loop", "pool", "thread")
ROUNDS, TOKENS = 4, 3


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    ttmem.stop_memory_tracker()


class Request(NamedTuple):
    """What a client asks for. Equal requests have equal answers."""

    place: str
    kind: str
    seed: int


REQUESTS = [
    Request(place, kind, seed) for seed in range(ROUNDS) for place in PLACES for kind in ("text", "image")
]


class Server:
    """An HTTP server with two models: one generates tokens, the other classifies images."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self._text = Gpt(2).eval().requires_grad_(False)
        layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 5)
        self._image = Convolutions(*layers).eval().requires_grad_(False)
        self._pool = ThreadPoolExecutor(2)
        self.size = sum(
            tensor.nbytes for model in (self._text, self._image) for tensor in model.state_dict().values()
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request, and closes the connection."""
        status, body = 200, b""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().split("content-length:")[1].split()[0])
            request = Request(**json.loads(await reader.readexactly(length)))
            with ttmem.get_memory_tracker().track_operation(f"{request.kind} in {request.place}"):
                body = json.dumps(await self._answer(request)).encode()
        except (KeyError, RuntimeError) as error:
            status, body = 500, json.dumps(str(error)).encode()
        writer.write(b"HTTP/1.1 %d \r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    async def _answer(self, request: Request) -> list[float]:
        steps = {"text": self._generate, "image": self._classify}[request.kind](request.seed)
        if request.place == "loop":
            found: list[list[float]] = []
            for step in steps:
                found = [step]
                # Other requests run here, while this one holds its tensors.
                await asyncio.sleep(0)
            return found[0]

        def all_steps() -> list[float]:
            with ttmem.get_memory_tracker().track_operation(f"compute {request.kind}"):
                return [*steps][-1]

        if request.place == "thread":
            return await asyncio.to_thread(all_steps)
        return await asyncio.get_running_loop().run_in_executor(self._pool, all_steps)

    def _generate(self, seed: int) -> Iterator[list[float]]:
        generator = torch.Generator().manual_seed(seed)
        words = torch.randint(WORDS, (1, 8), generator=generator)
        losses = []
        for _ in range(TOKENS):
            losses.append(self._text(words))
            words = torch.cat([words, torch.randint(WORDS, (1, 1), generator=generator)], 1)
            yield [loss.item() for loss in losses]

    def _classify(self, seed: int) -> Iterator[list[float]]:
        # A negative seed is an image with too many channels, for which the model fails.
        shape = (1, 3 + (seed < 0), 16, 16)
        images = torch.randn(shape, generator=torch.Generator().manual_seed(abs(seed)))
        yield []
        yield self._image(images).flatten().tolist()

    def close(self) -> None:
        self._pool.shutdown()


async def ask(port: int, request: Request) -> tuple[int, Any]:
    """Sends one request. Returns the status and the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(request._asdict()).encode()
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    head = await reader.readuntil(b"\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), json.loads(answer)


async def leave_early(port: int, request: Request) -> None:
    """Sends a request, and closes the connection before the answer."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(request._asdict()).encode()
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()


async def concurrently(port: int) -> list[Any]:
    return [*await asyncio.gather(*(ask(port, request) for request in REQUESTS))]


async def in_order(port: int) -> list[Any]:
    return [await ask(port, request) for request in REQUESTS]


def served(server: Server, clients: Callable[[int], Any]) -> Any:
    """Runs clients against the server. Returns their answers."""

    async def run() -> Any:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        async with listening:
            return await clients(listening.sockets[0].getsockname()[1])

    return asyncio.run(run())


class Tracked(NamedTuple):
    """The answers of a tracked server, its calls, and its memory."""

    answers: Any
    tree: Any
    memory: dict[str, Any]
    left_bytes: int


def tracked(folder: Path, clients: Callable[[int], Any]) -> Tracked:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    server = Server()
    answers = served(server, clients)
    server.close()
    gc.collect()
    memory = ttmem.get_memory_summary()
    with open(ttmem.stop_memory_tracker(), encoding="utf-8") as file:
        profile = json.load(file)
    assert tracker.recording is not None
    assert ttmem.load(tracker.recording).summary()["source"]["warnings"] == []
    left = memory["devices"]["cpu"]["total_bytes"] - server.size
    return Tracked(answers, comparable(profile["operation_tree"]), memory, left)


def comparable(tree: list[dict[str, Any]]) -> Any:
    """Returns a tree of calls without times, in the order of names."""
    keys = ("name", "kind", "invocation_count", "allocated_mb", "freed_mb", "kept_mb", "peak_mb")
    found = [(*map(node.get, keys), comparable(node["children"])) for node in tree]
    return sorted(found, key=str)


def names(tree: Any) -> set[str]:
    return {name for node in tree for name in (node[0], *names(node[-1]))}


def test_answers_modules_and_memory(tmp_path: Path) -> None:
    server = Server()
    without = served(server, concurrently)
    server.close()
    assert all(status == 200 for status, _ in without)
    one_by_one, at_once = tracked(tmp_path / "1", in_order), tracked(tmp_path / "2", concurrently)
    assert one_by_one.answers == at_once.answers == without
    assert (one_by_one.memory["errors"], at_once.memory["errors"]) == (0, 0)
    assert (one_by_one.left_bytes, at_once.left_bytes) == (0, 0)
    # Each request has the calls, modules and bytes that it has if it runs alone.
    assert at_once.tree == one_by_one.tree
    for operation in at_once.tree:
        found = names([operation])
        is_text = "text" in operation[0]
        assert ("Gpt" in found) == ("blocks.1.mlp.0" in found) == (is_text and "pool" not in operation[0])
        assert ("layers.0" in found) == (not is_text and "pool" not in operation[0]), operation


def test_failures_and_clients_that_leave(tmp_path: Path) -> None:
    async def clients(port: int) -> list[Any]:
        failing = [Request(place, "image", -1) for place in PLACES]
        leaving = [leave_early(port, request) for request in REQUESTS]
        answers = await asyncio.gather(*(ask(port, request) for request in [*REQUESTS, *failing]), *leaving)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        return [*answers[: len(REQUESTS) + len(failing)]]

    found = tracked(tmp_path, clients)
    assert [status for status, _ in found.answers] == [200] * len(REQUESTS) + [500] * len(PLACES)
    assert all("channels" in message for _, message in found.answers[-len(PLACES) :])
    assert (found.memory["errors"], found.left_bytes) == (0, 0)
