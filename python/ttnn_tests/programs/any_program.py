"""Random programs, one for each seed: allocations of every layout, operations, views, frees, failures.

Each program has a folder with the evidence of each of its captures. `journal.txt` there names every step
before it runs: after a crash its last line is the culprit.
"""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Any, TextIO

import ttnn
from ledger import Ledger, arguments, interleaved, sharded
from loguru import logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDES = (1, 2, 3, 5, 7, 17, 31, 32, 33, 48, 64, 96, 100, 160, 256, 500, 1024)
TILED_SIDES = (32, 64, 96, 128, 256)
LARGE = (1024, 2048)
HUGE = (16384, 32768)
DTYPES = {
    "TILE": ("bfloat16", "bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint16", "uint32"),
    "ROW_MAJOR": ("bfloat16", "float32", "uint8", "int32", "uint16"),
}
UNARY = ("gelu", "exp", "relu", "silu", "sqrt", "neg", "tanh", "logical_not", "square", "clone")
BINARY = ("add", "multiply", "subtract", "maximum", "eq", "gt")
IN_PLACE = ("add_", "multiply_", "subtract_", "divide_", "eq_", "squared_difference_")
REDUCTIONS = ("sum", "mean", "max", "argmax")


def described(operand: Any) -> Any:
    """Returns a tensor in words; its own text would read it from the device. Anything else is kept."""
    if isinstance(operand, list):
        return [described(item) for item in operand]
    if isinstance(operand, dict):
        return {name: described(item) for name, item in operand.items()}
    if not isinstance(operand, ttnn.Tensor):
        return operand
    return f"<{list(operand.shape)} {operand.dtype} {operand.layout} {operand.memory_config()}>"


class Program:
    """Draws and runs a program."""

    def __init__(self, ledger: Ledger, seed: int, folder: Path) -> None:
        self.ledger = ledger
        self.folder = folder
        self.choose = random.Random(seed)
        self.alive: list[Any] = []
        self.traces: list[Any] = []
        self.journal: TextIO
        chance = self.choose.random
        # Without dispatch, ttnn does not really allocate or free: buffers must not outlive the capture.
        is_real = not ledger.options.no_dispatch
        self.is_detailed = is_real and chance() < 0.25
        # Without snapshots, nothing describes buffers that are older than the capture.
        self.older = self.choose.randint(1, 4) if is_real and chance() < 0.3 else 0
        self.captures = self.choose.choice((2, 3)) if is_real and chance() < 0.15 else 1
        # Some programs fill L1, so that later operations fail. (A detailed report lists every page.)
        self.is_crowded = chance() < 0.4 and not self.is_detailed
        self.steps: list[tuple[float, Callable[[], Any]]] = [
            (0.26, self.allocate),
            (0.40, self.operate),
            (0.06, self.in_place),
            (0.06, self.view),
            (0.07, self.deallocate),
            (0.06, self.drop),
            (0.04, self.relocate),
            (0.02, self.leave_garbage),
            (0.03 * is_real, self.trace),
        ]

    def run(self, steps: int, *, database: bool) -> None:
        """Runs the program, and frees everything."""
        self.folder.mkdir(parents=True)
        self.ledger.options.detailed |= self.is_detailed
        with (self.folder / "journal.txt").open("w") as self.journal:
            for _ in range(self.older):
                self.step(self.allocate)
            for number in range(self.captures):
                folder = self.folder / f"capture-{number}"
                self.ledger.begin()
                for index in range(steps // self.captures):
                    is_first = number == index == 0
                    function = self.crowd if is_first and self.is_crowded else self.drawn_step()
                    label, failure = self.step(function)
                    self.ledger.mark(label, failure=failure)
                if self.ledger.options.no_dispatch:
                    self.free()
                details = {"is_detailed": self.ledger.options.detailed}
                self.ledger.finish(folder, database=database, **details)
                if number + 1 < self.captures:
                    self.step(self.operate)
        self.free()
        left = self.ledger.buffers()
        if left:
            message = f"buffers left after {self.folder}: {left}"
            raise AssertionError(message)

    def drawn_step(self) -> Callable[[], Any]:
        """Returns what to do next."""
        weights, functions = zip(*self.steps, strict=True)
        return self.choose.choices(functions, weights)[0]

    def step(self, function: Callable[[], Any]) -> tuple[str, str | None]:
        """Runs a step. Returns its name, and its error if it failed."""
        # No-ops return their operand, and views share its buffer: either may be deallocated by now.
        self.alive = [tensor for tensor in self.alive if tensor.is_allocated()]
        if not self.alive and function not in (self.trace, self.crowd):
            function = self.allocate
        self.label = function.__name__
        try:
            result = function()
            if result is not None:
                self.alive.append(result)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            failure = str(error).split("backtrace:")[0].strip() or type(error).__name__
        else:
            return self.label, None
        # Outside the handler: there, the exception still refers to the operation's tensors.
        return f"{self.label.replace('deallocate', 'free')} failed", failure

    def note(self, label: str, *details: Any) -> None:
        """Writes down what is about to run."""
        self.label = label
        print(label, *details, file=self.journal, flush=True)

    def free(self) -> None:
        """Frees everything. The next program starts with empty pools."""
        self.alive.clear()
        while self.traces:
            ttnn.release_trace(self.ledger.device, self.traces.pop())
        gc.collect()
        self.ledger.device.clear_program_cache()

    def memory(self) -> Any:
        """Returns the memory configuration of an interleaved tensor."""
        return interleaved("L1" if self.choose.random() < 0.5 else "DRAM")

    def pick(self) -> Any:
        """Returns a live tensor."""
        return self.choose.choice(self.alive)

    def tensor(self, shape: list[int], memory: Any, dtype: str = "bfloat16", layout: str = "TILE") -> Any:
        """Allocates a tensor."""
        self.note("empty", shape, dtype, layout, memory)
        return self.ledger.tensor(shape, memory, dtype, layout)

    def allocate(self) -> Any:
        """Allocates a tensor of a random layout."""
        choose = self.choose
        layout = choose.choice(tuple(DTYPES))
        dtype = choose.choice(DTYPES[layout])
        chance = choose.random()
        if self.is_crowded and chance < 0.2:
            shape = [1, choose.choice((1, 1, 2)), choose.choice(LARGE), choose.choice(LARGE)]
            return self.tensor(shape, interleaved("L1"))
        if chance < 0.02 and not self.is_detailed:
            shape = [1, choose.choice((1, 2, 4)), choose.choice(HUGE), choose.choice(HUGE)]
            return self.tensor(shape, interleaved("DRAM"))
        if chance < 0.5:
            sides = choose.choice((SIDES, TILED_SIDES))
            shape = [1, choose.choice((1, 1, 2, 3)), choose.choice(sides), choose.choice(sides)]
            return self.tensor(shape, self.memory(), dtype, layout)
        if chance < 0.55 and self.ledger.options.trace_region:
            return self.tensor([1, 1, 64, choose.choice(SIDES)], interleaved("TRACE"))
        shape, memory = self.shards(layout)
        return self.tensor(shape, memory, dtype, layout)

    def crowd(self) -> None:
        """Fills L1 with tensors, except for at most two of them. Programs with large buffers clash then."""
        l1 = self.ledger.view("L1")
        pages = -(-LARGE[1] * LARGE[1] // 1024 // l1["banks"])
        free = self.choose.choice((0, 0, 1, 2))
        for _ in range(l1["free"] // (pages * 2048) - free):
            self.alive.append(self.tensor([1, 1, LARGE[1], LARGE[1]], interleaved("L1")))

    def shards(self, layout: str) -> tuple[list[int], Any]:
        """Returns the shape and the configuration of a sharded tensor."""
        choose = self.choose
        kind = choose.choice(("HEIGHT", "WIDTH", "BLOCK"))
        shard = [choose.choice(SIDES[:12]), choose.choice(SIDES[:12])]
        if layout == "TILE":
            shard = [-(-side // 32) * 32 for side in shard]
        pool = choose.choice(("L1", "L1", "L1", "L1_SMALL", "DRAM"))
        grid = self.ledger.device.dram_grid_size() if pool == "DRAM" else self.ledger.grid
        width = 1 if kind == "HEIGHT" else choose.randint(1, grid.x)
        height = 1 if kind == "WIDTH" else choose.randint(1, grid.y)
        if kind == "HEIGHT" and pool == "DRAM":
            width, height = choose.randint(1, grid.x), 1
        across = width if kind != "HEIGHT" else 1
        down = height if kind == "BLOCK" else width * height if kind == "HEIGHT" else 1
        shape = [1, 1, shard[0] * down, shard[1] * across]
        shape[3 if kind == "WIDTH" else 2] -= choose.randrange(min(shard))
        return shape, sharded(kind, pool, self.ledger.cores(width, height), shard)

    def operate(self) -> Any:
        """Runs an operation."""
        x = self.pick()
        function = self.choose.choice(
            (
                self.unary, self.unary, self.binary, self.binary, self.matrices, self.softmax, self.transpose,
                self.concat, self.norm, self.to_layout, self.to_memory, self.reduction, self.typecast,
                self.permute, self.pad, self.slice, self.embedding, self.convolution, self.attention,
                self.to_shards, self.invalid, self.upload, self.repeat, self.heads, self.pool, self.fill,
            )
        )  # fmt: skip
        return function(x)

    def call(self, name: str, *operands: Any, **options: Any) -> Any:
        """Calls an operation of ttnn."""
        self.note(name, *map(described, operands), described(options))
        function = ttnn
        for part in name.split("."):
            function = getattr(function, part)
        return function(*operands, **options)

    def unary(self, x: Any) -> Any:
        """Applies a function to each element."""
        return self.call(self.choose.choice(UNARY), x, memory_config=self.memory())

    def binary(self, x: Any) -> Any:
        """Combines two tensors; most of those that are alive do not fit together."""
        y = x if self.choose.random() < 0.7 else self.pick()
        return self.call(self.choose.choice(BINARY), x, y, memory_config=self.memory())

    def matrices(self, x: Any) -> Any:
        """Multiplies matrices."""
        # ttnn divides by zero if shards are smaller than a tile.
        if x.is_sharded():
            x = self.call("to_memory_config", x, self.memory())
        return self.call("matmul", x, self.call("transpose", x, -2, -1), memory_config=self.memory())

    def softmax(self, x: Any) -> Any:
        """Normalizes the last dimension by exponentials."""
        return self.call("softmax", x, dim=-1, memory_config=self.memory())

    def transpose(self, x: Any) -> Any:
        """Transposes matrices."""
        return self.call("transpose", x, -2, -1, memory_config=self.memory())

    def concat(self, x: Any) -> Any:
        """Joins tensors."""
        return self.call("concat", [x, x], dim=self.choose.choice((-1, -2)), memory_config=self.memory())

    def norm(self, x: Any) -> Any:
        """Normalizes the last dimension."""
        return self.call(self.choose.choice(("layer_norm", "rms_norm")), x, memory_config=self.memory())

    def to_layout(self, x: Any) -> Any:
        """Changes between tiles and rows."""
        return self.call("to_layout", x, self.choose.choice((ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT)))

    def to_memory(self, x: Any) -> Any:
        """Copies into another memory configuration."""
        return self.call("to_memory_config", x, self.memory())

    def to_shards(self, x: Any) -> Any:
        """Copies into shards on a row of cores."""
        rows = self.choose.choice((1, 2, 4))
        shape = list(x.padded_shape)
        height = shape[0] * shape[1] * shape[2]
        shard = [-(-height // rows // 32) * 32 or 32, shape[3]]
        return self.call("to_memory_config", x, sharded("HEIGHT", "L1", self.ledger.cores(rows, 1), shard))

    def reduction(self, x: Any) -> Any:
        """Reduces a dimension."""
        return self.call(self.choose.choice(REDUCTIONS), x, dim=self.choose.choice((-1, -1, -2)))

    def typecast(self, x: Any) -> Any:
        """Converts the elements."""
        dtype = getattr(ttnn, self.choose.choice(("bfloat16", "float32", "bfloat8_b", "uint32")))
        return self.call("typecast", x, dtype)

    def permute(self, x: Any) -> Any:
        """Reorders the dimensions."""
        return self.call("permute", x, self.choose.sample(range(4), 4), memory_config=self.memory())

    def pad(self, x: Any) -> Any:
        """Appends rows and columns."""
        padding = [(0, 0), (0, 0), (0, self.choose.choice((0, 5, 32))), (0, self.choose.choice((0, 3, 32)))]
        return self.call("pad", x, padding, 0.0)

    def slice(self, x: Any) -> Any:
        """Copies a part."""
        ends = [self.choose.randint(1, side) for side in x.shape]
        starts = [self.choose.randrange(end) for end in ends]
        return self.call("slice", x, starts, ends, memory_config=self.memory())

    def embedding(self, _: Any) -> Any:
        """Looks up rows."""
        indices = self.tensor([1, self.choose.choice((32, 64, 100))], self.memory(), "uint32", "ROW_MAJOR")
        weights = self.tensor([self.choose.choice(TILED_SIDES), 64], interleaved("DRAM"), layout="ROW_MAJOR")
        return self.call("embedding", indices, weights, memory_config=self.memory())

    def convolution(self, _: Any) -> Any:
        """Convolves an image: halo, sharding, and configuration tensors in L1_SMALL."""
        side, channels = self.choose.choice((8, 16, 32)), self.choose.choice((16, 32))
        image = self.tensor([1, 1, side * side, channels], interleaved("DRAM"), layout="ROW_MAJOR")
        weights = ttnn.zeros([32, channels, 3, 3], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
        return self.call(
            "conv2d",
            input_tensor=image,
            weight_tensor=weights,
            in_channels=channels,
            out_channels=32,
            device=self.ledger.device,
            kernel_size=(3, 3),
            stride=(1, 1),
            padding=(1, 1),
            batch_size=1,
            input_height=side,
            input_width=side,
        )

    def pool(self, _: Any) -> Any:
        """Takes the maximum of each window of an image."""
        side = self.choose.choice((8, 16))
        image = self.tensor([1, 1, side * side, 32], interleaved("DRAM"), layout="ROW_MAJOR")
        return self.call(
            "max_pool2d",
            input_tensor=image,
            batch_size=1,
            input_h=side,
            input_w=side,
            channels=32,
            kernel_size=[2, 2],
            stride=[2, 2],
            padding=[0, 0],
            dilation=[1, 1],
        )

    def attention(self, _: Any) -> Any:
        """Runs fused attention."""
        shape = [
            1,
            self.choose.choice((1, 2, 8)),
            self.choose.choice((32, 64, 128)),
            self.choose.choice((32, 64)),
        ]
        query, key, value = (self.tensor(shape, interleaved("DRAM")) for _ in range(3))
        return self.call(
            "transformer.scaled_dot_product_attention",
            query,
            key,
            value,
            is_causal=self.choose.random() < 0.5,
        )

    def heads(self, _: Any) -> Any:
        """Splits a projection into heads: three results."""
        fused = self.tensor([1, 1, self.choose.choice((32, 64)), 3 * 128], self.memory())
        parts = self.call(
            "experimental.nlp_create_qkv_heads",
            fused,
            num_heads=4,
            num_kv_heads=4,
            transpose_k_heads=False,
            memory_config=self.memory(),
        )
        self.alive += parts[1:]
        return parts[0]

    def repeat(self, x: Any) -> Any:
        """Repeats a tensor."""
        return self.call("repeat", x, ttnn.Shape([1, self.choose.choice((1, 2)), 1, 2]))

    def fill(self, _: Any) -> Any:
        """Creates a tensor with values."""
        shape = [1, 1, self.choose.choice(SIDES), self.choose.choice(SIDES)]
        return self.call(
            self.choose.choice(("zeros", "ones")),
            shape,
            dtype=ttnn.bfloat16,
            layout=ttnn.TILE_LAYOUT,
            device=self.ledger.device,
            memory_config=self.memory(),
        )

    def upload(self, _: Any) -> Any:
        """Copies a tensor from the host."""
        shape = [1, 1, self.choose.choice(SIDES), self.choose.choice(SIDES)]
        host = ttnn.zeros(shape, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
        return self.call("to_device", host, self.ledger.device, memory_config=self.memory())

    def invalid(self, x: Any) -> Any:
        """Calls an operation with arguments that it refuses."""
        # ttnn divides by zero if the first operand of matmul has shards smaller than a tile.
        wrong = self.choose.choice(("matmul", "concat", "slice", "reshape")[x.is_sharded() :])
        if wrong == "matmul":
            return self.call("matmul", x, self.tensor([1, 1, 32 * 77, 32], interleaved("DRAM")))
        if wrong == "concat":
            return self.call("concat", [x, self.tensor([2, 1, 32, 32], interleaved("DRAM"))], dim=9)
        if wrong == "slice":
            return self.call("slice", x, [0, 0, 0, 0], [1, 1, 1, 10**6])
        return self.call("reshape", x, (7, 11, 13))

    def in_place(self) -> Any:
        """Changes a tensor."""
        x = self.pick()
        self.call(self.choose.choice(IN_PLACE), x, x if self.choose.random() < 0.7 else 2.0)

    def view(self) -> Any:
        """Reshapes; a view if the last two dimensions allow it."""
        x = self.pick()
        first, second, third, last = x.shape
        shapes = [(1, first * second, third, last), (second, first, third, last), (1, 1, -1, last)]
        if third % 64 == 0:
            shapes.append((first, second * 2, third // 2, last))
        return self.call(self.choose.choice(("reshape", "reshape", "view")), x, self.choose.choice(shapes))

    def deallocate(self) -> None:
        """Frees a tensor, and with it all views."""
        self.call("deallocate", self.alive.pop(self.choose.randrange(len(self.alive))))
        self.label = "free"  # ttmem does not list operations with "deallocate" in their name

    def drop(self) -> None:
        """Drops the reference to a tensor. Its buffer is freed unless a view remains."""
        self.note("drop")
        self.alive.pop(self.choose.randrange(len(self.alive)))

    def leave_garbage(self) -> None:
        """Leaves a tensor in a reference cycle, or collects such garbage."""
        if self.choose.random() < 0.5:
            self.note("leave garbage")
            cycle: list[Any] = [self.alive.pop(self.choose.randrange(len(self.alive)))]
            cycle.append(cycle)
        else:
            self.note("collect garbage")
            gc.collect()

    def relocate(self) -> Any:
        """Moves a tensor to another address."""
        return self.call(self.choose.choice(("reallocate", "move")), self.pick())

    def trace(self) -> Any:
        """Records a trace, or releases one.

        On a described card, ttnn crashes when it records a program or replays a trace: these only allocate.
        """
        device = self.ledger.device
        if self.traces and self.choose.random() < 0.6:
            self.note("release trace")
            ttnn.release_trace(device, self.traces.pop(self.choose.randrange(len(self.traces))))
            return None
        self.note("record trace")
        trace = ttnn.begin_trace_capture(device, cq_id=0)
        try:
            return self.tensor([1, 1, self.choose.choice(SIDES), 64], self.memory())
        finally:
            ttnn.end_trace_capture(device, trace, cq_id=0)
            self.traces.append(trace)


def main() -> None:
    """Runs the programs of a range of seeds on one device."""
    parser = arguments()
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many programs")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument(
        "--databases", type=int, default=1, help="every how many programs import their report"
    )
    options = parser.parse_args()
    # Once per capture, it warns that fast dispatch has less detail.
    logger.disable("ttnn.graph")
    gc.disable()  # so that a seed always frees at the same step
    is_detailed = options.detailed
    ledger = Ledger(options)
    for seed in range(options.first, options.first + options.count):
        options.detailed = is_detailed
        Program(ledger, seed, options.folder / str(seed)).run(
            options.steps, database=seed % options.databases == 0
        )
    ledger.close()


main()
