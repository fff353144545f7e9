"""Growth with every iteration: how much, what keeps it alive, and whether it is a leak or a cache."""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import ttmem
from ttmem._host import capacity
from ttmem._torch.autograd_graph import Graph
from ttmem._torch.holders import UNFINISHED, Search
from ttmem._torch.reference_names import Names
from ttmem._torch.referrers import GRAPH_CYCLE, OUTSIDE, Limits, Referrers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1 << 20


def suggestions(folder: Path, program: Callable[[ttmem.MemoryTracker], object]) -> dict[str, str]:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    held = program(tracker)
    ttmem.stop_memory_tracker()
    del held
    assert tracker.recording is not None
    found = ttmem.open(tracker.recording).summary()["ranks"][0]["suggestions"]
    return {one["rule"]: one["message"] for one in found}


@pytest.mark.parametrize("rounds", [16, 17, 30, 40, 101])
@pytest.mark.parametrize("size", [MIB, 300 * 1024])
def test_the_rate_is_what_every_round_leaves(tmp_path: Path, rounds: int, size: int) -> None:
    def leak(tracker: ttmem.MemoryTracker) -> object:
        kept = []
        for _ in range(rounds):
            with tracker.track_operation("round"):
                kept.append(torch.ones(size, dtype=torch.uint8))
        return kept

    message = suggestions(tmp_path, leak)["grows"]
    said = {MIB: "1.0 MiB", 300 * 1024: "300.0 KiB"}[size]
    assert message.startswith(f"Each call to round adds {said} to cpu on average: ")
    total, over = re.findall(r"average: ([\d.]+ [KMG]iB) over (\d+) calls", message)[0]
    unit = {"KiB": 1024, "MiB": MIB}[total.split()[1]]
    assert float(total.split()[0]) * unit == pytest.approx(int(over) * size, abs=0.06 * unit)
    # One tensor remains per round.
    assert f"The largest part is {over} tensors from aten::ones at" in message
    assert "loss.item()" in message


def test_memory_is_full_when_the_process_takes_that_of_the_host(tmp_path: Path) -> None:
    kept = []
    tracker = ttmem.initialize_memory_tracker(tmp_path, interval=60.0)
    for _ in range(16):
        with tracker.track_operation("round"):
            kept.append(torch.ones(MIB, dtype=torch.uint8))
    ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    profile = ttmem.open(tracker.recording)
    pools = profile.summary()["ranks"][0]["pools"]
    memory = capacity()
    assert memory is not None
    assert pools["cpu"]["capacity_per_bank"] == pools["host"]["capacity_per_bank"] == memory
    assert pools["host"]["peak_per_bank"] > pools["cpu"]["peak_per_bank"]
    growth = profile.growth()
    assert growth is not None
    assert growth["per_iteration_bytes"] == MIB
    assert growth["iterations_left"] == (memory - pools["host"]["peak_per_bank"]) // MIB
    full = f"At this rate, memory is full after {growth['iterations_left']} more calls."
    assert full in growth["notes"]
    assert growth["caveats"] == [
        "Other processes use the memory of the host as well, so it may be full earlier."
    ]
    del kept


def test_growth_is_found_if_the_program_frees_it_at_its_end(tmp_path: Path) -> None:
    def leak(tracker: ttmem.MemoryTracker) -> object:
        kept = []
        for _ in range(32):
            with tracker.track_operation("round"):
                kept.append(torch.ones(MIB, dtype=torch.uint8))
        kept.clear()
        return None

    assert suggestions(tmp_path, leak)["grows"].startswith(
        "Each call to round adds 1.0 MiB to cpu on average: "
    )


def test_the_rate_of_a_loop_that_goes_up_and_down_is_that_of_its_low_points(tmp_path: Path) -> None:
    def leak(tracker: ttmem.MemoryTracker) -> object:
        kept, held = [], []
        for step in range(64):
            with tracker.track_operation("round"):
                kept.append(torch.ones(MIB, dtype=torch.uint8))
                held.append(torch.ones(4 * MIB, dtype=torch.uint8))
                if step % 4 == 3:
                    held.clear()
        return kept

    message = suggestions(tmp_path, leak)["grows"]
    assert message.startswith("Each call to round adds 1.0 MiB to cpu on average: ")


class Attention(nn.Module):
    """Attention with a cache that grows by `torch.cat`."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(64, 192)

    def forward(
        self, x: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        return nn.functional.scaled_dot_product_attention(q, k, v), (k, v)


def test_a_cache_that_grows_is_not_called_a_leak(tmp_path: Path) -> None:
    def decode(tracker: ttmem.MemoryTracker) -> object:
        del tracker
        model, cache, x = Attention(), None, torch.ones(8, 1, 64)
        with torch.no_grad():
            for _ in range(40):
                x, cache = model(x, cache)
        return model, cache

    found = suggestions(tmp_path, decode)
    assert "grows" not in found
    message = found["tensors_grow"]
    assert message.startswith("Each call to Attention adds 4.0 KiB to cpu on average: ")
    assert "2 tensors from aten::cat at" in message
    assert "A KV cache grows like this" in message
    assert "loss.item()" not in message


def test_the_cache_of_transformers_is_known_to_be_one(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")

    def decode(tracker: ttmem.MemoryTracker) -> Any:
        del tracker
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
        )
        model = transformers.LlamaForCausalLM(config).eval()
        words, cache = torch.ones(4, 1, dtype=torch.long), None
        with torch.no_grad():
            for _ in range(40):
                given = model(words, past_key_values=cache, use_cache=True)
                words, cache = given.logits[:, -1:].argmax(-1), given.past_key_values
        return model, cache

    found = suggestions(tmp_path, decode)
    message = found["kv_cache_grows"]
    # Keys and values of two layers, four sequences and 64 elements of 4 bytes.
    assert message.startswith("Each call to LlamaForCausalLM adds 4.0 KiB to cpu on average: ")
    # Keys and values may be concatenated in one line or in two.
    assert re.search(r"Most of it is the KV cache \([24] tensors from aten::cat", message), message
    assert not {"grows", "tensors_grow"} & found.keys()
    (recording,) = tmp_path.glob("*.ttmem")
    live = ttmem.open(recording).summary()["ranks"][0]["peak"]["live"]
    named = {row["class"] for row in live if (row["name"] or "").startswith("past_key_values")}
    assert named == {"kv_cache"}


STEPS = 14
HERE = __file__.rpartition("/")[2]


def line_of(mark: str) -> int:
    """Returns the line of this file that ends with a mark."""
    with open(__file__, encoding="utf-8") as file:
        (line,) = [number for number, text in enumerate(file, 1) if text.rstrip().endswith(f"# {mark}")]
    return line


class Trainer:
    """A training loop that calls `leak` once per step, and finds the holders after the last one."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.holders: list[ttmem.Holder] = []

    def fit(self, leak: Callable[[torch.Tensor], object], steps: int = STEPS) -> None:
        for _ in range(steps):
            loss = self.model(torch.ones(16, 64)).square().mean()
            leak(loss)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        del loss
        self.holders = ttmem.holders(device="cpu", max_seconds=600.0)


def recorded(folder: Path, program: Callable[[], object]) -> dict[str, Any]:
    tracker = ttmem.initialize_memory_tracker(folder, interval=60.0)
    try:
        program()
    finally:
        ttmem.stop_memory_tracker()
    assert tracker.recording is not None
    found = ttmem.load(tracker.recording).growth()
    assert found is not None
    return found


def check_leak(found: dict[str, Any], mark: str, size: int, others: int = 0) -> None:
    assert (found["verdict"], found["unit"], found["iterations"]) == ("grows", "step", STEPS)
    assert found["per_iteration_bytes"] == size + others
    most = found["survivors"][0]
    assert most["loc"].endswith(f"{HERE}:{line_of(mark)}")
    assert (most["kind"], most["since_iteration"], most["per_iteration_per_bank"]) == ("kept", 1, size)


def holder_of(found: list[ttmem.Holder], size: int) -> ttmem.Holder:
    """Returns the holder of most tensors of a size."""
    return max((one for one in found if size in one.sizes), key=lambda one: one.tensors)


def test_a_list_that_keeps_tensors_is_a_leak(tmp_path: Path) -> None:
    trainer = Trainer()

    def program() -> None:
        history = []
        trainer.fit(lambda _: history.append(torch.ones(MIB, dtype=torch.uint8)))  # list

    check_leak(recorded(tmp_path, program), "list", MIB)
    kept = holder_of(trainer.holders, MIB)
    assert (kept.tensors, kept.bytes, kept.devices) == (STEPS, STEPS * MIB, ("cpu",))
    assert re.match(
        r"list `history` in `test_a_list.*program\(\)`, .*test_growth.py:\d+ → `\[\*\]`$", kept.chain
    )


def test_a_closure_that_keeps_tensors_is_a_leak(tmp_path: Path) -> None:
    trainer = Trainer()
    callbacks: list[Callable[[], torch.Tensor]] = []

    def register(_: torch.Tensor) -> None:
        batch = torch.ones(MIB, dtype=torch.uint8)  # closure
        callbacks.append(lambda: batch)

    check_leak(recorded(tmp_path, lambda: trainer.fit(register)), "closure", MIB)
    kept = holder_of(trainer.holders, MIB)
    assert (kept.tensors, kept.bytes) == (STEPS, STEPS * MIB)
    assert kept.chain.startswith("list `callbacks` in `test_a_closure_that_keeps_tensors_is_a_leak()`, ")
    assert re.search(
        r"→ `\[\*\]` → closure variable `batch` of `.*register.<locals>.<lambda>\(\)`, ", kept.chain
    )


def test_the_traceback_of_a_kept_exception_is_a_leak(tmp_path: Path) -> None:
    trainer = Trainer()
    errors: list[Exception] = []

    def fail() -> None:
        scratch = torch.ones(MIB, dtype=torch.uint8)  # traceback
        raise ValueError(scratch.shape)

    def caught(_: torch.Tensor) -> None:
        try:
            fail()
        except ValueError as error:
            errors.append(error)

    # The frame of `caught` also keeps its argument: the loss, 4 bytes.
    check_leak(recorded(tmp_path, lambda: trainer.fit(caught)), "traceback", MIB, others=4)
    kept = holder_of(trainer.holders, MIB)
    assert (kept.tensors, kept.bytes) == (STEPS, STEPS * MIB)
    line = line_of("traceback") + 1
    assert re.search(
        rf"^list `errors` in .* → `\[\*\].__traceback__` → local `scratch` in `.*fail\(\)`, .*:{line}$",
        kept.chain,
    )


class Node:
    """A node with a neighbor."""

    def __init__(self) -> None:
        self.peer: Node | None = None
        self.payload: torch.Tensor | None = None


def test_reference_cycles_that_are_not_collected_are_a_leak(tmp_path: Path) -> None:
    trainer = Trainer()

    def link(_: torch.Tensor) -> None:
        a, b = Node(), Node()
        a.peer, b.peer = b, a
        b.payload = torch.ones(MIB, dtype=torch.uint8)  # cycle

    gc.collect()
    gc.disable()
    try:
        found = recorded(tmp_path, lambda: trainer.fit(link))
    finally:
        gc.enable()
    check_leak(found, "cycle", MIB)
    kept = holder_of(trainer.holders, MIB)
    assert (kept.tensors, kept.bytes) == (STEPS, STEPS * MIB)
    assert kept.chain == f"{cycle('`Node.peer.peer` → back to `Node`')} → `Node` → `.payload`"


LINE = re.compile(r"(\S*/)?test_growth\.py:\d+")


def cycle(around: str) -> str:
    return f"reference cycle ({around}), freed by the next garbage collection"


def graph_of(rows: int) -> torch.Tensor:
    """Returns a tensor of `rows` rows, whose graph has saved a result of twice its size."""
    model = nn.Sequential(nn.Linear(64, 256), nn.Sigmoid(), nn.Linear(256, 128))
    found = model(torch.ones(rows, 64))
    assert isinstance(found, torch.Tensor)
    return found


class Callback:
    """Refers to itself by a bound method."""

    def __init__(self) -> None:
        self.done = self.end
        self.output = graph_of(67).relu()

    def end(self) -> None:
        """The end."""


def cycle_of_an_object() -> None:
    node = Node()
    node.peer, node.payload = node, graph_of(67)


def cycle_of_a_dict() -> None:
    state: dict[str, object] = {"output": graph_of(67)}
    state["state"] = state


def cycle_of_a_closure() -> None:
    output = graph_of(67)

    def again(times: int) -> torch.Tensor:
        return again(times - 1) if times else output

    assert again(1) is output


def cycle_of_an_exception() -> None:
    output = graph_of(67)
    try:
        range(0)[output.dim()]
    except IndexError as error:
        kept = error
    assert kept


def cycle_of_a_module() -> None:
    class Child(nn.Module):
        def __init__(self, parent: nn.Module) -> None:
            super().__init__()
            self.parent = parent
            self.output = graph_of(67)

    parent = nn.Module()
    parent.child = Child(parent)


@pytest.mark.parametrize(
    ("program", "around", "begin"),
    [
        (cycle_of_an_object, "`Node.peer` → back to `Node`", "`Node` → `.payload`"),
        (Callback, "`Callback.done.__self__` → back to `Callback`", "`Callback` → `.output`"),
        (cycle_of_a_dict, "`dict['state']` → back to `dict`", "`dict` → `['output']`"),
        (
            cycle_of_a_closure,
            (
                "`function` → closure variable `again` of `cycle_of_a_closure.<locals>.again()`, "
                "test_growth.py:* → back to `function`"
            ),
            "`function` → closure variable `output` of `cycle_of_a_closure",
        ),
        (
            cycle_of_an_exception,
            (
                "`IndexError.__traceback__` → local `kept` in `cycle_of_an_exception()`, "
                "test_growth.py:* → back to `IndexError`"
            ),
            "`IndexError` → `.__traceback__` → local `output` in `cycle_of_an_exception()`",
        ),
        (cycle_of_a_module, "`Child.parent.child` → back to `Child`", "`Child` → `.output`"),
    ],
)
def test_the_graph_of_a_tensor_in_a_reference_cycle_is_followed(
    program: Callable[[], object], around: str, begin: str
) -> None:
    class Other(Node):
        """A holder of tensors of the same size."""

    def others() -> None:
        for _ in range(3):
            node = Other()
            node.peer, node.payload = node, torch.ones(67, 256)

    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            program()
            others()
        found = ttmem.holders(device="cpu", sizes={67 * 128 * 4, 67 * 256 * 4}, max_seconds=600.0)
    finally:
        gc.enable()
        gc.collect()
    begin = f"{cycle(around)} → {begin}"
    output = [one for one in found if re.sub(LINE, "test_growth.py:*", one.chain).startswith(begin)]
    saved = [one for one in output if "`Tensor.grad_fn` → saved by " in one.chain]
    assert [one.chain for one in output if one not in saved], found
    assert sum(one.bytes for one in saved) >= 5 * 67 * 256 * 4
    (plain,) = [one for one in found if one.sizes == (67 * 256 * 4,) and one not in saved]
    assert plain.chain == f"{cycle('`Other.peer` → back to `Other`')} → `Other` → `.payload`"
    assert (plain.tensors, plain.bytes) == (15, 15 * 67 * 256 * 4)
    assert {one.chain for one in found} == {one.chain for one in (*output, plain)}


def test_a_cycle_through_a_graph_is_not_said_to_be_freed() -> None:
    node = Node()
    tensor = node.payload = torch.ones(1)
    limits = Limits(time.thread_time() + 600.0, 5_000_000)
    graph: dict[int, list[object]] = {id(node): [tensor]}
    around = "`Node.payload` → `Tensor` → back to `Node`"
    graph_cycle = GRAPH_CYCLE.replace("cycle", f"cycle ({around})", 1) + " → `Node` → `.payload`"
    for graphs, expected in [({}, OUTSIDE), (graph, graph_cycle)]:
        referrers = Referrers(Names(Graph()), {}, (), graphs, limits)
        referrers.search([tensor])
        found = referrers.chain(tensor)
        referrers.clear()
        assert found == expected


def test_the_graph_of_a_cycle_ends_with_the_limits() -> None:
    def chain() -> None:
        node = Node()
        node.peer, node.payload = node, torch.ones(101, requires_grad=True)
        for _ in range(20_000):
            node.payload = node.payload + 1

    gc.collect()
    gc.disable()
    try:
        chain()
        search = Search(torch.Tensor, 600.0, 10_000)
        try:
            rows = [(row.chain, row.memory.size) for row in search.rows(None, {404})]
            assert search.is_cut
            assert len(search._graph._nodes) < 11_000
        finally:
            search.clear()
    finally:
        gc.enable()
        gc.collect()
    assert rows
    assert {chain for chain, _ in rows} == {UNFINISHED}


def test_losses_that_keep_their_graph_are_a_leak(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 4096), nn.Sigmoid(), nn.Linear(4096, 8))
    found: list[ttmem.Holder] = []

    def program() -> None:
        losses = [model(torch.ones(64, 64)).square().mean() for _ in range(STEPS)]
        assert losses
        found.extend(ttmem.holders(device="cpu", max_seconds=600.0))

    grown = recorded(tmp_path, program)
    assert (grown["verdict"], grown["unit"], grown["of"]) == ("grows", "call", "Sequential")
    # The result of the activation, which two nodes share; the input, the output and its square are smaller.
    largest = 64 * 4096 * 4
    assert grown["survivors"][0]["per_iteration_per_bank"] == largest
    assert grown["survivors"][0]["module"] == "1"
    assert largest <= grown["per_iteration_bytes"] < 1.1 * largest
    kept = holder_of(found, largest)
    assert kept.bytes >= STEPS * largest
    assert re.match(
        r"list `losses` in `.*program\(\)`, .*test_growth.py:\d+ → `\[\*\]` → `Tensor.grad_fn` → "
        r"saved by \w+Backward0$",
        kept.chain,
    )


def test_a_loop_that_only_warms_up_does_not_grow(tmp_path: Path) -> None:
    trainer = Trainer()
    cache: dict[int, torch.Tensor] = {}
    calls = 0

    def warm_up(_: torch.Tensor) -> None:
        nonlocal calls
        calls += 1
        # A cache that fills during the first steps.
        cache.setdefault(min(calls, 5), torch.ones(MIB, dtype=torch.uint8))

    found = recorded(tmp_path, lambda: trainer.fit(warm_up))
    assert (found["verdict"], found["survivors"], found["per_iteration_bytes"]) == ("steady", [], 0)
    assert found["iterations_left"] is None
    assert 4 * MIB <= found["warm_up_per_bank"] < 6 * MIB
    assert found["statement"]["headline"] == f"cpu does not grow over {STEPS} steps."


def test_lazy_buffers_and_optimizer_state_are_warm_up(tmp_path: Path) -> None:
    found = recorded(tmp_path, lambda: Trainer().fit(lambda _: None))
    assert (found["verdict"], found["warm_up_iterations"]) == ("steady", 1)
    # Two moments of every parameter.
    parameters = sum(one.numel() for one in Trainer().model.parameters())
    assert found["warm_up_per_bank"] >= 2 * 4 * parameters


@pytest.mark.parametrize("tokens", [10, 24])
def test_a_cache_that_each_request_drops_is_not_a_leak(tmp_path: Path, tokens: int) -> None:
    layer = nn.Linear(64, 64)

    def serve() -> None:
        with torch.no_grad():
            for _ in range(3):
                keys = [layer(torch.ones(8, 64)) for _ in range(tokens)]
                del keys

    assert recorded(tmp_path, serve)["verdict"] == "steady"


def test_the_cache_of_a_generation_is_not_a_leak(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config).eval()

    def generate() -> None:
        with torch.no_grad():
            prompt = torch.ones(4, 1, dtype=torch.long)
            # Random weights may choose the end token early.
            model.generate(prompt, min_new_tokens=30, max_new_tokens=30, do_sample=False)

    found = recorded(tmp_path, generate)
    assert found["verdict"] != "grows"
    assert all(one["kind"] != "kept" or one["per_iteration_per_bank"] < 1024 for one in found["survivors"])


class Hostile:
    """An object whose own code must not run."""

    def __init__(self, payload: torch.Tensor) -> None:
        object.__setattr__(self, "payload", payload)

    def _fail(self, *_: object) -> Any:
        pytest.fail("the search called code of the program")

    __getattr__ = __getattribute__ = __repr__ = __eq__ = __hash__ = __iter__ = __len__ = __bool__ = _fail
    __class__ = property(_fail)


def test_the_search_calls_no_code_of_the_program() -> None:
    hostile = Hostile(torch.ones(3001))
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> int:
        packed.append(tensor.detach().clone())
        return len(packed) - 1

    def unpack(_: int) -> torch.Tensor:
        pytest.fail("the search unpacked a saved tensor")

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = torch.ones(5001, requires_grad=True).exp().sum()
    found = ttmem.holders(max_seconds=600.0)
    kept = holder_of(found, 4 * 3001)
    assert re.match(r"Hostile `hostile` in `test_the_search.*\(\)`, .* → `.payload`$", kept.chain)
    assert any(one.chain.startswith("list `packed` in ") for one in found if 4 * 5001 in one.sizes)
    del loss, hostile


def test_a_search_keeps_nothing_alive() -> None:
    def inner() -> tuple[int, int]:
        local = torch.ones(7001)
        before = sys.getrefcount(local)
        ttmem.holders(max_seconds=600.0)
        return before, sys.getrefcount(local)

    before, after = inner()
    assert before == after


def test_threads_may_run_beside_a_search() -> None:
    ends = threading.Event()
    errors: list[BaseException] = []
    table: dict[int, torch.Tensor] = {}

    def churn() -> None:
        try:
            number = 0
            while not ends.is_set():
                table[number % 50] = torch.ones(100 + number % 7)
                table.pop((number * 7) % 50, None)
                number += 1
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    thread = threading.Thread(target=churn)
    kept = torch.ones(9001)
    thread.start()
    try:
        for _ in range(5):
            (mine,) = [one for one in ttmem.holders(max_seconds=600.0) if 4 * 9001 in one.sizes]
            assert "`kept` in `test_threads_may_run_beside_a_search()`" in mine.chain
    finally:
        ends.set()
        thread.join()
    assert not errors
    del kept


def test_a_thread_s_variables_are_found() -> None:
    begun, ends = threading.Event(), threading.Event()

    def work() -> None:
        buffer = torch.ones(11001)
        begun.set()
        ends.wait()
        del buffer

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        kept = holder_of(ttmem.holders(max_seconds=600.0), 4 * 11001)
        assert re.match(r"Tensor `buffer` in `test_a_thread_s.*work\(\)`, ", kept.chain)
    finally:
        ends.set()
        thread.join()


def test_a_limit_of_time_is_said() -> None:
    tensors = [torch.ones(13001) for _ in range(3)]
    found = ttmem.holders(sizes={4 * 13001}, max_seconds=-1.0)
    assert sum(one.tensors for one in found) == len(tensors)
    assert all(one.tensors for one in found)
