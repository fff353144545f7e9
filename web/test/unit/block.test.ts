import { afterEach, describe, expect, test, vi } from "vitest";
import { Block, unpack } from "../../src/data/block";

interface Column {
  name: string;
  kind: string;
  rows: number;
  width: number;
  delta?: boolean;
  dictionary?: number;
}

/** The bytes of a block, in the layout of `block.rs`. */
function blockOf(columns: [Column, number[]][], about: object = {}): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(
    JSON.stringify({ columns: columns.map(([column]) => column), ...about }),
  );
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, json.length, true);
  return Uint8Array.from([...length, ...json, ...columns.flatMap(([, bytes]) => bytes)]);
}

const column = (rows: number, width: number, more: Partial<Column> = {}): Column => ({
  name: "x",
  kind: "number",
  rows,
  width,
  ...more,
});

/** A block with one column, `x`. */
const one = (of: Column, bytes: number[]): Block => new Block(blockOf([[of, bytes]]));

describe("columns", () => {
  // The same bytes as in the tests of `block.rs`.
  test("numbers are stored in byte planes", () => {
    expect([...one(column(3, 2), [1, 3, 4, 0, 2, 0]).numbers("x")]).toEqual([1, 0x203, 4]);
  });

  test("deltas are zigzag-encoded", () => {
    const block = one(column(4, 2, { delta: true }), [208, 2, 1, 4, 7, 0, 0, 0]);
    expect([...block.numbers("x")]).toEqual([1000, 1001, 1000, 1002]);
  });

  test("repeated values are in a dictionary", () => {
    const words = [7, 2 ** 40];
    const planes = Array.from({ length: 8 }, (_, plane) =>
      words.map((word) => Math.floor(word / 256 ** plane) % 256),
    );
    const block = one(column(4, 1, { kind: "size", dictionary: 2 }), [...planes.flat(), 0, 0, 1, 0]);
    expect([...block.sizes("x")]).toEqual([6, 6, 2 ** 40 - 1, 6]);
  });

  test("a column of zeros has no bytes", () => {
    const block = new Block(
      blockOf([
        [column(100, 0), []],
        [column(1, 1, { name: "y" }), [5]],
      ]),
    );
    expect([...block.numbers("x")]).toEqual(new Array(100).fill(0));
    expect([...block.numbers("y")]).toEqual([5]);
    expect(block.rows("x")).toBe(100);
  });

  test("optional numbers, sizes and signed sizes have a code for unknown", () => {
    expect([...one(column(3, 1), [0, 1, 255]).maybe("x")]).toEqual([-1, 0, 254]);
    expect([...one(column(3, 1), [0, 1, 255]).sizes("x")]).toEqual([Number.NaN, 0, 254]);
    expect([...one(column(5, 1), [0, 1, 2, 3, 4]).signed("x")]).toEqual([Number.NaN, 0, -1, 1, -2]);
  });

  test("numbers of four bytes and sizes of six", () => {
    expect([...one(column(1, 4), [255, 255, 255, 255]).numbers("x")]).toEqual([0xffffffff]);
    const bytes = 12 * 2 ** 40;
    const planes = Array.from({ length: 6 }, (_, plane) => Math.floor((bytes + 1) / 256 ** plane) % 256);
    expect([...one(column(1, 6), planes).sizes("x")]).toEqual([bytes]);
  });

  test("raw bytes are unchanged; a missing column is an error", () => {
    const block = one(column(3, 1, { kind: "bytes" }), [255, 0, 7]);
    expect([...block.raw("x")]).toEqual([255, 0, 7]);
    expect(() => block.numbers("y")).toThrow("no column y");
  });

  test("a block inside a larger buffer", () => {
    const bytes = blockOf([[column(2, 1), [8, 9]]], { steps: 3 });
    const larger = new Uint8Array(bytes.length + 5);
    larger.set(bytes, 5);
    const block = new Block<{ steps: number }>(larger.subarray(5));
    expect(block.meta.steps).toBe(3);
    expect([...block.numbers("x")]).toEqual([8, 9]);
  });
});

describe("unpacking", () => {
  afterEach(() => vi.unstubAllGlobals());

  /** Stubs a document with one element; returns whether it was removed. */
  function stubDocument(id: string, text: string): { removed: boolean } {
    const seen = { removed: false };
    const element = {
      textContent: text,
      remove: () => {
        seen.removed = true;
      },
    };
    vi.stubGlobal("document", { getElementById: (asked: string) => (asked === id ? element : null) });
    return seen;
  }

  async function packed(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
    const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
    return Buffer.from(await new Response(stream).arrayBuffer()).toString("base64");
  }

  test("reads base64 zlib data from an element and removes it", async () => {
    const seen = stubDocument("ttmem-head", await packed(blockOf([[column(1, 1), [42]]], { name: "ü" })));
    const block = await unpack<{ name: string }>("head");
    expect(block?.meta.name).toBe("ü");
    expect([...(block?.numbers("x") ?? [])]).toEqual([42]);
    expect(seen.removed).toBe(true);
    expect(await unpack("texts")).toBeNull();
  });

  test("works without the browser's own base64 decoder", async () => {
    vi.stubGlobal("Uint8Array", class extends Uint8Array {});
    Object.defineProperty(Uint8Array, "fromBase64", { value: undefined });
    stubDocument("ttmem-head", await packed(blockOf([[column(1, 1), [42]]])));
    expect([...((await unpack("head"))?.numbers("x") ?? [])]).toEqual([42]);
  });

  test("corrupt data is an error, not an empty page", async () => {
    stubDocument("ttmem-head", "AAAA");
    await expect(unpack("head")).rejects.toThrow();
  });
});
