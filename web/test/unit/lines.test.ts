import { describe, expect, test } from "vitest";
import type { Block } from "../../src/data/block";
import { Lines } from "../../src/data/lines";

/** Splits texts like `lines.rs` and returns the columns. */
function columnsOf(texts: string[]): Block {
  const templates: { text: number[]; numbers: number[][] }[] = [];
  const numberOf = new Map<string, number>();
  const template = texts.map((text) => {
    const numbers: number[] = [];
    const parts = text.split(/(\d+)/).map((part, at) => {
      const isNumber = at % 2 === 1 && part.length <= 9 && (part.length === 1 || part[0] !== "0");
      if (isNumber) numbers.push(Number(part));
      return isNumber ? [0xff] : [...new TextEncoder().encode(part)];
    });
    const bytes = parts.flat();
    const key = bytes.join();
    const number = numberOf.get(key) ?? templates.length;
    if (number === templates.length) templates.push({ text: bytes, numbers: [] });
    numberOf.set(key, number);
    templates[number].numbers.push(numbers);
    return number;
  });
  const byGap = templates.flatMap(({ numbers }) =>
    numbers[0].flatMap((_, gap) => numbers.map((row) => row[gap])),
  );
  const columns: Record<string, number[]> = {
    "t.template": template,
    "t.template_length": templates.map(({ text }) => text.length),
    "t.numbers": byGap,
  };
  return {
    numbers: (name: string) => Uint32Array.from(columns[name]),
    raw: () => Uint8Array.from(templates.flatMap(({ text }) => text)),
  } as unknown as Block;
}

function back(texts: string[]): string[] {
  const lines = new Lines(columnsOf(texts), "t");
  expect(lines.length).toBe(texts.length);
  // Backwards, to check that each text is found without the preceding ones.
  return texts.map((_, line) => lines.get(texts.length - 1 - line)).reverse();
}

describe("texts", () => {
  test("are restored exactly", () => {
    const texts = [
      "",
      "0",
      '%12 = "ttnn.add"(%3, %11)',
      '%13 = "ttnn.add"(%4, %12)',
      "007 and 0x1F and 1e-05",
      "99999999999999999999 999999999 4294967296",
      "größe 12 </script> 🦀 3",
      "12",
      "",
    ];
    expect(back(texts)).toEqual(texts);
  });

  test("with one template keep their own numbers", () => {
    const texts = Array.from({ length: 500 }, (_, at) => `%${at} = op(%${at * 7}, %${at % 3}) : ${at * at}`);
    expect(back(texts)).toEqual(texts);
  });

  test("with several templates, mixed", () => {
    const texts = Array.from(
      { length: 300 },
      (_, at) => ["a 1 b", `c ${at}`, `${at}${"x".repeat(at % 5)}${at + 1}`][at % 3],
    );
    expect(back(texts)).toEqual(texts);
  });

  test("may be empty", () => {
    expect(new Lines(columnsOf([]), "t").length).toBe(0);
  });
});
