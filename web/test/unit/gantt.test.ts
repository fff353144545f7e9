import { describe, expect, it } from "vitest";
import { barColors, hueOf } from "../../src/gantt/colors";
import { curveChoices, curveToShow, highestIn, pixelsOf, valueAt } from "../../src/gantt/curve";
import type { GanttData, TimeCurve } from "../../src/gantt/data";
import { Layout, ROW } from "../../src/gantt/layout";
import { retainedText } from "../../src/gantt/lists";
import { find, nextFound } from "../../src/gantt/search";
import { clock, duration, since, timeTicks } from "../../src/gantt/time";
import { callAt, eachBar, type View } from "../../src/gantt/visible";
import { around, initialWindow, within, zoomed } from "../../src/gantt/window";

/** A reproducible random number generator. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Data with the given calls in each row, in order. A call that ends at NaN is a mark. */
function dataOf(rows: [began: number, until: number][][], names: string[] = ["op"]): GanttData {
  const calls = rows.flatMap((row, at) => row.map(([began, until]) => ({ row: at, began, until })));
  const rowStart = new Uint32Array(rows.length + 1);
  rows.forEach((row, at) => {
    rowStart[at + 1] = rowStart[at] + row.length;
  });
  return {
    count: calls.length,
    rowCount: rows.length,
    lanes: [{ name: "MainThread", first: 0, rows: rows.length }],
    began: Float64Array.from(calls, ({ began }) => began),
    until: Float64Array.from(calls, ({ until }) => until),
    row: Uint32Array.from(calls, ({ row }) => row),
    byRow: Uint32Array.from(calls.keys()),
    rowStart,
    scope: Uint32Array.from(calls, (_, call) => call % names.length),
    scopeName: names,
  } as unknown as GanttData;
}

interface Drawn {
  left: number;
  right: number;
  call: number;
  calls: number;
}

function drawn(data: GanttData, row: number, view: View): Drawn[] {
  const bars: Drawn[] = [];
  eachBar(data, row, view, (left, right, call, calls) => bars.push({ left, right, call, calls }));
  return bars;
}

describe("bars of a row", () => {
  it("match the calls, clipped to the view", () => {
    const data = dataOf([
      [
        [0, 10],
        [20, 60],
        [90, 100],
      ],
    ]);
    expect(drawn(data, 0, { from: 0, to: 100, width: 1000 })).toEqual([
      { left: 0, right: 100, call: 0, calls: 1 },
      { left: 200, right: 600, call: 1, calls: 1 },
      { left: 900, right: 1000, call: 2, calls: 1 },
    ]);
    expect(drawn(data, 0, { from: 30, to: 40, width: 100 })).toEqual([
      { left: -1, right: 101, call: 1, calls: 1 },
    ]);
    expect(drawn(data, 0, { from: 61, to: 80, width: 100 })).toEqual([]);
  });

  it("merge the calls of a pixel, and are at most twice as many as pixels", () => {
    const calls = Array.from({ length: 200_000 }, (_, n): [number, number] => [n * 10, n * 10 + 9]);
    const data = dataOf([calls]);
    const bars = drawn(data, 0, { from: 0, to: 2_000_000, width: 1000 });
    expect(bars.length).toBeLessThanOrEqual(2000);
    expect(bars.reduce((sum, { calls }) => sum + calls, 0)).toBe(200_000);
  });

  it("include every call once, at any zoom", () => {
    const random = numbers(5);
    for (let round = 0; round < 200; round++) {
      let now = 0;
      const row = Array.from({ length: 60 }, (): [number, number] => {
        const began = now + Math.floor(random() * 20);
        const kind = random();
        const length = kind < 0.2 ? 0 : Math.floor(random() ** 3 * 100);
        now = began + Math.max(length, kind < 0.3 ? 1 : 0);
        return [began, kind < 0.1 ? Number.NaN : began + length];
      });
      const data = dataOf([row]);
      const from = Math.floor(random() * now * 0.5);
      const view = { from, to: from + 1 + Math.floor(random() * now), width: 50 + random() * 500 };
      const bars = drawn(data, 0, view);
      const inView = row.filter(
        ([began, until]) => began <= view.to && (Number.isNaN(until) ? began : until) >= view.from,
      );
      // Calls that share the last pixel may extend beyond the view.
      expect(bars.reduce((sum, { calls }) => sum + calls, 0)).toBeGreaterThanOrEqual(inView.length);
      for (const [at, bar] of bars.entries()) {
        if (at > 0) expect(bar.left).toBeGreaterThanOrEqual(bars[at - 1].right - 1);
        expect(bar.right).toBeGreaterThan(bar.left);
      }
    }
  });

  it("are found under the mouse, small ones with some tolerance", () => {
    const data = dataOf([
      [
        [0, 10],
        [50, 50.001],
      ],
    ]);
    const view = { from: 0, to: 100, width: 1000 };
    expect(callAt(data, 0, view, 50)?.call).toBe(0);
    expect(callAt(data, 0, view, 502)?.call).toBe(1);
    expect(callAt(data, 0, view, 300)).toBeNull();
    expect(callAt(data, 0, { from: 0, to: 1e6, width: 100 }, 0)).toEqual({ call: 0, calls: 2 });
  });
});

describe("the curve", () => {
  it("keeps every peak at any zoom", () => {
    const random = numbers(9);
    const at = Float64Array.from({ length: 5000 }, (_, n) => n * 7);
    const curve: TimeCurve = {
      name: "cpu",
      extent: "device",
      hasTensors: true,
      at,
      value: at.map(() => Math.floor(random() * 1e9)),
    };
    const pixels = pixelsOf(curve, { from: 0, to: 35_000, width: 321 });
    expect(highestIn(pixels)).toBe(Math.max(...curve.value));
    expect(Math.min(...pixels.low)).toBe(Math.min(...curve.value));
    expect(valueAt(curve, 13)).toBe(curve.value[1]);
    expect(valueAt(curve, -1)).toBeNaN();
  });

  it("matches a scan of all changes in every pixel", () => {
    const random = numbers(21);
    for (let round = 0; round < 50; round++) {
      let now = 0;
      const at = Float64Array.from({ length: 700 }, () => {
        now += Math.floor(random() ** 4 * 60);
        return now;
      });
      const curve: TimeCurve = {
        name: "cpu",
        extent: "device",
        hasTensors: true,
        at,
        value: at.map(() => Math.floor(random() * 1000)),
      };
      const from = random() * now * 0.5;
      const view = { from, to: from + 1 + random() * now, width: 1 + Math.floor(random() * 60) };
      const { low, high, last } = pixelsOf(curve, view);
      const perPixel = (view.to - view.from) / view.width;
      for (let pixel = 0; pixel < view.width; pixel++) {
        const [start, end] = [from + pixel * perPixel, from + (pixel + 1) * perPixel];
        const inside = [...at.keys()].filter((row) => at[row] < end && (at[row] >= start || pixel === 0));
        const values = inside.filter((row) => at[row] > from || pixel > 0).map((row) => curve.value[row]);
        const before = [...at.keys()].filter((row) => (pixel === 0 ? at[row] <= from : at[row] < start));
        if (before.length > 0) values.unshift(curve.value[before[before.length - 1]]);
        expect([low[pixel], high[pixel]]).toEqual(
          values.length === 0 ? [Number.NaN, Number.NaN] : [Math.min(...values), Math.max(...values)],
        );
        if (values.length > 0) expect(last[pixel]).toBe(values[values.length - 1]);
      }
    }
  });

  it("is unknown before its first change", () => {
    const curve: TimeCurve = {
      name: "cpu",
      extent: "device",
      hasTensors: true,
      at: Float64Array.of(50),
      value: Float64Array.of(8),
    };
    const { high, low } = pixelsOf(curve, { from: 0, to: 100, width: 10 });
    expect([...high.slice(0, 5)].every(Number.isNaN)).toBe(true);
    expect([high[5], low[9]]).toEqual([8, 8]);
  });
});

describe("the window", () => {
  it("stays within the data, and keeps the time under the cursor", () => {
    expect(within(100, -20, 30)).toEqual({ from: 0, to: 50 });
    expect(within(1e6, 999_990, 1_000_040)).toEqual({ from: 999_950, to: 1e6 });
    const near = zoomed(1e6, { from: 0, to: 1e6 }, 0.5, 250_000);
    expect(near).toEqual({ from: 125_000, to: 625_000 });
    expect(zoomed(1e6, near, 1e-9, 3e5).to - zoomed(1e6, near, 1e-9, 3e5).from).toBe(20);
    expect(zoomed(1e6, near, 100, 3e5)).toEqual({ from: 0, to: 1e6 });
    const call = around(1e9, 500, 600);
    expect(call.from).toBeLessThan(500);
    expect(call.to).toBeGreaterThan(600);
  });

  it("starts at the first call if a long time passed before it", () => {
    // Imports took 5.49 of 5.85 s.
    const { from, to } = initialWindow(5850, 5490);
    expect(to).toBe(5850);
    expect(from).toBeLessThan(5490);
    expect(from).toBeGreaterThan(5470);
    // A short time is shown, and so is everything if there are no calls.
    expect(initialWindow(1000, 90)).toEqual({ from: 0, to: 1000 });
    expect(initialWindow(1000, 0)).toEqual({ from: 0, to: 1000 });
    expect(initialWindow(1, 0)).toEqual({ from: 0, to: 1 });
    // A mark at the end has no duration.
    const end = initialWindow(1000, 1000);
    expect([end.to, end.to - end.from]).toEqual([1000, 20]);
  });
});

describe("times", () => {
  it("have four digits and a suitable unit", () => {
    const texts = [
      0, 7, 999, 1000, 1234, 999_960, 56_700_000, 1_234_000_000, 59.999e9, 123.4e9, 7300e9, 3e14,
    ];
    expect(texts.map(duration)).toEqual([
      "0 ns",
      "7 ns",
      "999 ns",
      "1.000 µs",
      "1.234 µs",
      "1.000 ms",
      "56.70 ms",
      "1.234 s",
      "1 min 0.0 s",
      "2 min 3.4 s",
      "2 h 1 min",
      "3 d 11 h",
    ]);
    expect(duration(Number.NaN)).toBe("unknown");
    expect(since(1_234_567_890, 1e6)).toBe("1.235 s");
    expect(since(1_234_567_890, 1)).toBe("1.234567890 s");
  });

  it("have a time of day only if the recording has one", () => {
    expect(clock(null, 5)).toBeNull();
    expect(clock(0, 1.5e9)).toMatch(/^19(69|70)-\d\d-\d\d \d\d:\d\d:01\.500$/);
  });

  it("have round ticks, never too many", () => {
    for (const [from, to] of [
      [0, 1],
      [0, 12_345],
      [5e9, 5e9 + 300],
      [0, 17e9],
      [0, 3600e9 * 30],
      [0, 86_400e9 * 400],
    ]) {
      const ticks = timeTicks(from, to, 8);
      expect(ticks.length).toBeLessThanOrEqual(10);
      expect(new Set(ticks.map(({ label }) => label)).size, `${from} ${to}`).toBe(ticks.length);
    }
    expect(timeTicks(0, 1e6, 5).map(({ label }) => label)).toEqual([
      "0",
      "200 µs",
      "400 µs",
      "600 µs",
      "800 µs",
      "1000 µs",
    ]);
  });
});

describe("searching", () => {
  const data = dataOf(
    [Array.from({ length: 9 }, (_, n): [number, number] => [n, n + 1])],
    ["Load", "run", "unload"],
  );

  it("finds parts of names, ignoring case, and counts calls", () => {
    expect(find(data, "  LOAD ")?.calls).toBe(6);
    expect(find(data, "")).toBeNull();
    expect(find(data, "</script>")?.calls).toBe(0);
  });

  it("wraps around", () => {
    const found = find(data, "run")!;
    expect(nextFound(data, found, -1, true)).toBe(1);
    expect(nextFound(data, found, 1, true)).toBe(4);
    expect(nextFound(data, found, 7, true)).toBe(1);
    expect(nextFound(data, found, 1, false)).toBe(7);
    expect(nextFound(data, found, -1, false)).toBe(7);
    expect(nextFound(data, find(data, "nothing")!, 1, true)).toBe(-1);
  });
});

describe("rows", () => {
  it("are found by their y coordinate", () => {
    const data = dataOf([[], [], []]);
    (data as { lanes: unknown }).lanes = [
      { name: "a", first: 0, rows: 2 },
      { name: "idle", first: 2, rows: 0 },
      { name: "b", first: 2, rows: 1 },
    ];
    const layout = new Layout(data);
    for (const row of [0, 1, 2]) {
      expect(layout.rowAt(layout.topOf(row))).toBe(row);
      expect(layout.rowAt(layout.topOf(row) + ROW - 1)).toBe(row);
    }
    expect(layout.rowAt(layout.topOf(1) + ROW + 1)).toBe(-1);
    expect(layout.rowAt(layout.height)).toBe(-1);
    expect(layout.topOf(2)).toBeGreaterThan(layout.topOf(1) + ROW);
  });
});

describe("colors", () => {
  it("are the same for the same name, and different for most others", () => {
    expect(barColors("operation", "load", "light")).toEqual(barColors("operation", "load", "light"));
    const names = ["model_forward", "preprocessing", "postprocessing", "full_inference", "decode", "sample"];
    expect(new Set(names.map((name) => barColors("operation", name, "dark").fill)).size).toBeGreaterThan(4);
  });

  it("stay in the range of their kind", () => {
    for (const name of ["a", "b", "c", "blocks.0", "blocks.1"]) {
      expect(hueOf("backward", name)).toBeGreaterThanOrEqual(35);
      expect(hueOf("backward", name)).toBeLessThanOrEqual(80);
    }
  });
});

describe("the initial curve", () => {
  const curve = (name: string, peak: number, hasTensors: boolean): TimeCurve => ({
    ...{ name, extent: "device", hasTensors, at: Float64Array.of(0, 1), value: Float64Array.of(peak, 0) },
  });

  it("is the pool with tensors and the highest peak, not the process", () => {
    expect(curveToShow([curve("host", 900, false), curve("cpu", 30, true), curve("cuda:0", 50, true)])).toBe(
      2,
    );
  });

  it("is the pool with the highest peak if no pool has tensors", () => {
    expect(curveToShow([curve("cpu", 30, false), curve("host", 900, false)])).toBe(1);
    expect(curveToShow([curve("L1", 30, false), curve("DRAM", 900, false), curve("TRACE", 900, false)])).toBe(
      1,
    );
  });

  it("comes first in the selector, unless the order of the pools is known", () => {
    const curves = [curve("cpu", 30, true), curve("host", 900, false), curve("cuda:0", 50, true)];
    expect(curveChoices(curves, null)).toEqual({ order: [2, 0, 1], first: 2 });
    expect(curveChoices(curves, ["cuda:0", "cpu", "host"])).toEqual({ order: [2, 0, 1], first: 2 });
    // A pool without tensors is not shown initially.
    expect(curveChoices(curves, ["host", "cpu", "cuda:0"])).toEqual({ order: [1, 0, 2], first: 0 });
    // Unknown pools come last.
    expect(curveChoices(curves, ["host"])).toEqual({ order: [1, 0, 2], first: 0 });
    expect(curveChoices([curve("mps", 1, false)], ["mps"])).toEqual({ order: [0], first: 0 });
  });
});

describe("what a call retains", () => {
  const MIB = 2 ** 20;

  it("is the median of the calls, and not their total", () => {
    expect(retainedText([3 * MIB, MIB, 2 * MIB], 3)).toBe("2.0 MiB");
    expect(retainedText([0, 0], 2)).toBe("0 B");
    expect(retainedText([MIB, MIB], 50)).toBe("1.0 MiB");
  });

  it("says if only some calls retain memory", () => {
    expect(retainedText([7 * MIB, 0, 0], 3)).toBe("7.0 MiB once");
    expect(retainedText([7 * MIB, 0, 0, 0, MIB], 5)).toBe("8.0 MiB in 2 calls");
    expect(retainedText([7 * MIB, 0, 0], 4)).toBe("7.0 MiB in some calls");
  });

  it("is unknown without measured calls", () => {
    expect(retainedText([], 3)).toBe(null);
  });
});
