import { describe, expect, test } from "vitest";
import { toCsv } from "../../src/csv";
import { hasValue, type SortKey, sorted } from "../../src/order";
import { columnsWithValues } from "../../src/plain-table";
import { withValues } from "../../src/table";
import { fittingEnd, lengthsOf, longestOf } from "../../src/text-width";
import { MAX_HEIGHT, offsetToShow, ScrollScale } from "../../src/virtual";

/** Sorts rows 0, 1, 2 … by these keys. */
function order(keys: SortKey[], descending = false): number[] {
  return [...sorted(Uint32Array.from(keys.keys()), (row) => keys[row], descending)];
}

describe("sorting", () => {
  test("numbers, small and large, negative and fractions", () => {
    const keys = [3, -1, 0, 1e15, -1e15, 0.5, 65536, 65535];
    const byComparing = [...keys.keys()].sort((a, b) => keys[a] - keys[b]);
    expect(order(keys)).toEqual(byComparing);
    expect(order(keys, true)).toEqual(byComparing.reverse());
  });

  test("rows of equal keys keep their order in both directions", () => {
    expect(order([2, 1, 2, 1, 0, -0])).toEqual([4, 5, 1, 3, 0, 2]);
    expect(order([2, 1, 2, 1, 0, -0], true)).toEqual([0, 2, 1, 3, 4, 5]);
  });

  test("unknown values come last in both directions", () => {
    const keys = [Number.NaN, 5, null, -5, Number.POSITIVE_INFINITY];
    expect(order(keys)).toEqual([3, 1, 4, 0, 2]);
    expect(order(keys, true)).toEqual([4, 1, 3, 0, 2]);
  });

  test("strings, with the empty one last", () => {
    expect(order(["b", "", "a", "b", "é", null])).toEqual([2, 0, 3, 4, 1, 5]);
    expect(order(["b", "", "a", "b"], true)).toEqual([0, 3, 2, 1]);
  });

  test("only the given rows, by their own numbers", () => {
    expect([...sorted(Uint32Array.of(70, 5, 9), (row) => row, false)]).toEqual([5, 9, 70]);
    expect([...sorted(new Uint32Array(), (row) => row, false)]).toEqual([]);
  });

  test("matches a comparison sort for many rows", () => {
    const keys = Array.from({ length: 20_000 }, (_, row) => ((row * 7919) % 613) - 300);
    const expected = [...keys.keys()].sort((a, b) => keys[a] - keys[b] || a - b);
    expect(order(keys)).toEqual(expected);
  });

  test("sorts a million rows", () => {
    const rows = new Uint32Array(1_000_000).map((_, row) => row);
    const key = (row: number) => Math.imul(row, 2654435761);
    const order = sorted(rows, key, true);
    expect(order.length).toBe(rows.length);
    expect(order.every((row, place) => place === 0 || key(order[place - 1]) >= key(row))).toBe(true);
  });
});

describe("columns without a value", () => {
  const ROWS = Uint32Array.of(4, 7);
  const shown = (column: Parameters<typeof withValues>[0][number]) => withValues([column], ROWS).length === 1;

  test("are those whose sort keys are all unknown", () => {
    for (const key of [null, "", Number.NaN]) {
      expect(hasValue(key)).toBe(false);
      expect(shown({ sort: () => key })).toBe(false);
      expect(shown({ sort: (row) => (row === 7 ? 0 : key) })).toBe(true);
    }
    for (const key of [0, -1, "0", "unknown"]) expect(shown({ sort: () => key })).toBe(true);
  });

  test("are decided by the column itself if its sort key does not tell", () => {
    expect(shown({ sort: () => 0, has: () => false })).toBe(false);
    expect(shown({ sort: () => "", has: () => true })).toBe(true);
    // A column that can't be sorted has buttons.
    expect(shown({})).toBe(true);
  });

  test("of short tables have only placeholders", () => {
    const rows = [
      ["matmul", "", "–", "unknown", "12", "–"],
      ["add", " ", "?", "unknown", "–", "0"],
    ];
    expect(columnsWithValues(6, rows)).toEqual([true, false, false, false, true, true]);
    expect(columnsWithValues(2, [])).toEqual([true, true]);
  });
});

describe("the width of a column", () => {
  test("depends on the longest text and on a typical one", () => {
    const texts = ["", ...Array.from({ length: 19 }, (_, at) => "x".repeat(at + 1)), "y".repeat(300)];
    expect(lengthsOf(texts)).toEqual({ longest: "y".repeat(300), typical: "x".repeat(18) });
    expect(lengthsOf(["", ""])).toEqual({ longest: "", typical: "" });
    expect(longestOf(["a", "ccc", "bb"])).toBe("ccc");
    // Letters have different widths.
    expect(longestOf(["0.weight.grad", "in AdamW.step"])).toBe("in AdamW.step");
    expect(longestOf([])).toBe("");
  });
});

test("a name that does not fit keeps its end", () => {
  const fit = (name: string, width: number) => fittingEnd(name, width, (text) => [...text].length);
  expect(fit("layers.0.weight", 15)).toBe("layers.0.weight");
  expect(fit("layers.0.weight", 9)).toBe("…0.weight");
  // A separator after the ellipsis says nothing.
  expect(fit("layers.0.weight", 8)).toBe("…weight");
  expect(fit("layers.0.weight", 3)).toBe("");
  expect(fit("x".repeat(1000), 1001)).toBe(`…${"x".repeat(299)}`);
  expect(fit("🦀🦀🦀🦀🦀", 4)).toBe("…🦀🦀🦀");
});

describe("scrolling", () => {
  test("short lists scroll pixel by pixel", () => {
    const scale = new ScrollScale(1000, 26, 500);
    expect(scale.height).toBe(26_000);
    expect(scale.offsetAt(123)).toBe(123);
    expect(scale.scrollTopFor(123)).toBe(123);
  });

  test("the scroll bar reaches both ends of a scaled list", () => {
    const scale = new ScrollScale(1_000_000, 26, 500);
    expect(scale.height).toBe(MAX_HEIGHT);
    expect(scale.offsetAt(0)).toBe(0);
    expect(scale.offsetAt(MAX_HEIGHT - 500)).toBeCloseTo(26_000_000 - 500, 3);
    expect(scale.scrollTopFor(26_000_000)).toBeCloseTo(MAX_HEIGHT - 500, 3);
  });

  test("scroll positions and rows convert both ways", () => {
    const scale = new ScrollScale(1_000_000, 26, 500);
    for (const row of [0, 1, 12_345, 500_000, 999_980]) {
      expect(scale.offsetAt(scale.scrollTopFor(row * 26)) / 26).toBeCloseTo(row, 3);
    }
  });

  test("a list that fits does not scroll", () => {
    const scale = new ScrollScale(3, 26, 500);
    expect(scale.furthest).toBe(0);
    expect(scale.offsetAt(10)).toBe(0);
    expect(new ScrollScale(0, 26, 0).offsetAt(5)).toBe(0);
  });

  test("a visible row does not scroll", () => {
    expect(offsetToShow(5, 26, 100, 500, "center")).toBe(100);
  });

  test("a hidden row scrolls to the nearest edge or to the middle", () => {
    expect(offsetToShow(2, 26, 100, 500, "nearest")).toBe(52);
    expect(offsetToShow(100, 26, 100, 500, "nearest")).toBe(101 * 26 - 500);
    expect(offsetToShow(100, 26, 100, 526, "center")).toBe(2600 - 250);
  });
});

describe("CSV", () => {
  test("quotes separators, and leaves unknown values empty", () => {
    const csv = toCsv(
      ["a", "b"],
      [
        ["x,y", 1],
        ['say "hi"\n', null],
        ["", Number.NaN],
      ],
    );
    expect(csv).toBe('a,b\r\n"x,y",1\r\n"say ""hi""\n",\r\n,\r\n');
  });

  test("strings never become formulas, numbers stay numbers", () => {
    expect(toCsv(["a", "b"], [["=1+1", -5]])).toBe("a,b\r\n'=1+1,-5\r\n");
  });
});
