import { describe, expect, test } from "vitest";
import type { Rank } from "../../src/data/report";
import { GraphLinks, type Stage } from "../../src/ir/links";
import { TextSearch } from "../../src/ir/search";
import { cutAt, type TokenKind, tokensOf } from "../../src/ir/tokens";

/** The tokens of a kind in a line. */
const of = (kind: TokenKind, line: string) =>
  tokensOf(line)
    .filter((token) => token.kind === kind)
    .map((token) => token.text);

describe("tokens", () => {
  const LINE =
    '  %1:2 = "ttnn.add"(%0#1, %arg2) <{dtype = #ttcore.supportedDataTypes<f32>, by = -1.5e-3 : f32}> : (tensor<1x?x64xbf16, #ttnn_layout9>) -> memref<8x2x!ttcore.tile<32x32, f32>> loc("a.b"("c")) // why';

  test("each token of an operation has a kind", () => {
    expect(of("op", LINE)).toEqual(['"ttnn.add"']);
    expect(of("value", LINE)).toEqual(["%1:2", "%0#1", "%arg2"]);
    expect(of("alias", LINE)).toEqual(["#ttcore.supportedDataTypes", "#ttnn_layout9"]);
    expect(of("type", LINE)).toContain("1x?x64xbf16");
    expect(of("type", LINE)).toContain("32x32");
    expect(of("string", LINE)).toEqual(['"a.b"', '"c"']);
    expect(of("number", LINE)).toEqual(["-1.5e-3"]);
    expect(of("comment", LINE)).toEqual(["loc", "// why"]);
  });

  test("operations without quotes, functions and symbols", () => {
    const line = "%0 = ttcore.load_cached(@main_const_eval_0, [%arg2]) {ttir.name = 1}";
    expect(of("op", line)).toEqual(["ttcore.load_cached"]);
    expect(of("symbol", line)).toEqual(["@main_const_eval_0"]);
    expect(of("op", "func.func private @main() {")).toEqual(["func.func"]);
  });

  test("together they are the line, for any text", () => {
    for (const line of [LINE, "", "</script>", '"never closed \\"', "🐙 %é # ! @ %", "x".repeat(5000)]) {
      expect(
        tokensOf(line)
          .map((token) => token.text)
          .join(""),
      ).toBe(line);
    }
  });

  test("together they are the line, for long lines that are not MLIR", () => {
    for (const part of ["1x", '"\\', "a.", "%", "-", "0x"]) {
      const line = part.repeat(5_000);
      expect(
        tokensOf(line)
          .map((token) => token.text)
          .join(""),
      ).toBe(line);
    }
  });

  test("they are split where matches begin and end", () => {
    const pieces = cutAt(
      [
        { kind: "op", text: "abc" },
        { kind: "plain", text: "def" },
      ],
      [
        { start: 1, end: 2 },
        { start: 2, end: 5 },
      ],
    );
    expect(pieces.map(({ text, match }) => [text, match?.start ?? null])).toEqual([
      ["a", null],
      ["b", 1],
      ["c", 2],
      ["de", 2],
      ["f", null],
    ]);
  });
});

describe("search in a text", () => {
  test("finds every match, ignoring case, and takes special characters literally", async () => {
    const lines = ["Add(add", "nothing", "a.d ADD"];
    const search = new TextSearch("add");
    const found = await search.all(
      (line) => lines[line - 10],
      10,
      3,
      () => false,
    );
    expect(found).toEqual([
      { line: 10, start: 0, end: 3 },
      { line: 10, start: 4, end: 7 },
      { line: 12, start: 4, end: 7 },
    ]);
    expect(new TextSearch("(a").in("Add(add")).toEqual([{ start: 3, end: 5 }]);
    expect(new TextSearch("").in("text")).toEqual([]);
  });
});

describe("lines and steps", () => {
  // Two runs of one graph, each of operations 0, 1, 2; run 2 is nested in run 1. Operation 2 does not have its own line.
  const rank = {
    steps: { op: Uint32Array.of(0, 1, 2, 0, 1, 2), run: Int32Array.of(0, 0, 0, 1, 2, 1) },
    ops: { name: Uint32Array.of(0, 0, 0), loc: Int32Array.of(5, 6, 6) },
    runs: {
      module: Int32Array.of(0, 0, -1),
      parent: Int32Array.of(-1, -1, 1),
      program: Uint32Array.of(3, 3, 3),
    },
    report: { texts: { length: 8 } },
  } as unknown as Rank;
  const links = new GraphLinks(rank, {
    locLine: Uint32Array.of(1, 2, 3, 11, 12),
    loc: Uint32Array.of(5, 6, 6, 5, 6),
    opLine: Uint32Array.of(11, 12),
    op: Uint32Array.of(0, 1),
    opProgram: Uint32Array.of(3, 3),
  });
  const ttir: Stage = { module: 0, stage: "ttir", first: 0, lines: 10 };
  const ttnn: Stage = { module: 0, stage: "ttnn", first: 10, lines: 10 };

  test("an operation is found by its own line, or else by its location", () => {
    expect(links.linesOf(0, ttnn)).toEqual({ lines: [11], exact: true });
    expect(links.linesOf(2, ttnn)).toEqual({ lines: [12], exact: false });
    expect(links.linesOf(1, ttir)).toEqual({ lines: [2, 3], exact: false });
  });

  test("nothing is found in another graph", () => {
    expect(links.linesOf(0, { ...ttnn, module: 1 }).lines).toEqual([]);
    expect(links.stepAt(11, { ...ttnn, module: 1 }, 0, 6)).toBeNull();
  });

  test("the same operation in two programs has a line in each", () => {
    const twoPrograms = {
      ...rank,
      steps: { op: Uint32Array.of(0, 0), run: Int32Array.of(0, 1) },
      runs: { module: Int32Array.of(0, 0), parent: Int32Array.of(-1, -1), program: Uint32Array.of(3, 4) },
    } as unknown as Rank;
    const links = new GraphLinks(twoPrograms, {
      locLine: new Uint32Array(),
      loc: new Uint32Array(),
      opLine: Uint32Array.of(11, 15),
      op: Uint32Array.of(0, 0),
      opProgram: Uint32Array.of(3, 4),
    });
    expect(links.linesOf(0, ttnn)).toEqual({ lines: [11], exact: true });
    expect(links.linesOf(1, ttnn)).toEqual({ lines: [15], exact: true });
    expect(links.stepAt(11, ttnn, 0, 0)).toEqual({ step: 0, count: 1 });
    expect(links.stepAt(15, ttnn, 0, 0)).toEqual({ step: 1, count: 1 });
  });

  test("a nested run has the graph of the enclosing run", () => {
    expect(links.moduleOf(4)).toBe(0);
  });

  test("a line leads to its step in the selected run, or else to its first step", () => {
    expect(links.stepAt(11, ttnn, 3, 6)).toEqual({ step: 3, count: 2 });
    expect(links.stepAt(11, ttnn, 0, 0)).toEqual({ step: 0, count: 2 });
    expect(links.stepAt(11, ttnn, 4, 6)).toEqual({ step: 0, count: 2 });
    expect(links.stepAt(2, ttir, 3, 6)).toEqual({ step: 4, count: 4 });
    expect(links.stepAt(13, ttnn, 0, 6)).toBeNull();
  });
});
