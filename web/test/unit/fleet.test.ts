import { describe, expect, it } from "vitest";
import { colorAt, cssColor, heatColors } from "../../src/fleet/colors";
import { type Answer, type Fleet, type Group, groupsOf, labelsOf, orderOf } from "../../src/fleet/data";
import { highest } from "../../src/fleet/heat-painter";
import { HeatLayout, initialRows, MAX_HEIGHT, NAMED, type Rows } from "../../src/fleet/layout";
import { heading, isSize, timeText } from "../../src/fleet/tables";
import { pointsOf } from "../../src/fleet/trend";

/** Runs with the given numbers of ranks. */
function runs(...counts: number[]): Group[] {
  let first = 0;
  return counts.map((count, at) => {
    first += count;
    return { run: `run ${at}`, first: first - count, count };
  });
}

const FLEETS: Record<string, Group[]> = {
  "one rank": runs(1),
  "one run": runs(8),
  "runs of several sizes": runs(1, 7, 64, 2, 1),
  "4,096 ranks": runs(...Array.from({ length: 8 }, () => 512)),
  "4,096 runs": runs(...Array.from({ length: 4096 }, () => 1)),
  "1,000 small runs": runs(...Array.from({ length: 1000 }, (_, at) => 1 + (at % 3))),
};
const ROWS: Rows[] = ["all", "thin", "named"];

describe("the layout of the heat map", () => {
  for (const [name, groups] of Object.entries(FLEETS)) {
    const count = groups.reduce((sum, group) => sum + group.count, 0);
    for (const rows of ROWS) {
      it(`${name}, ${rows}: rows are adjacent in their runs, and in order`, () => {
        const layout = new HeatLayout(groups, rows);
        expect(layout.topOf(0)).toBe(0);
        for (let row = 1; row < count; row++) {
          const gap = layout.topOf(row) - layout.topOf(row - 1) - layout.row;
          if (layout.groupOf(row) === layout.groupOf(row - 1)) expect(Math.abs(gap)).toBeLessThan(1e-6);
          else expect(gap).toBeGreaterThan(-1e-6);
        }
        expect(layout.topOf(count - 1) + layout.row).toBeCloseTo(layout.height, 6);
        for (const [at, group] of groups.entries()) {
          expect(layout.topOf(group.first)).toBe(layout.groupTop(at));
          expect(layout.groupOf(group.first)).toBe(at);
          expect(layout.groupOf(group.first + group.count - 1)).toBe(at);
        }
      });

      it(`${name}, ${rows}: the middle of a row finds that row only`, () => {
        const layout = new HeatLayout(groups, rows);
        for (let row = 0; row < count; row += Math.ceil(count / 100)) {
          const middle = layout.topOf(row) + layout.row / 2;
          expect(layout.rowsIn(middle, middle + layout.row * 1e-3)).toEqual({ first: row, end: row + 1 });
        }
      });

      it(`${name}, ${rows}: each rank is in a line of pixels, also if several share one`, () => {
        const layout = new HeatLayout(groups, rows);
        const seen = new Uint8Array(count);
        for (let top = 0; top < layout.height; top += 0.5) {
          const { first, end } = layout.rowsIn(top, top + 0.5);
          seen.fill(1, first, end);
        }
        expect(seen.indexOf(0)).toBe(-1);
      });
    }

    it(`${name}: all rows fit into the view`, () => {
      expect(new HeatLayout(groups, "all").height).toBeLessThanOrEqual(MAX_HEIGHT + 1e-6);
    });
  }

  it("finds no rows in gaps and outside", () => {
    const layout = new HeatLayout(runs(2, 2), "named");
    expect(layout.topOf(2)).toBeGreaterThan(2 * NAMED);
    for (const top of [-5, 2 * NAMED + 1, layout.height + 5]) {
      const { first, end } = layout.rowsIn(top, top + 1);
      expect(end - first).toBe(0);
    }
  });

  it("has names at first if they fit", () => {
    expect(initialRows(runs(8))).toBe("named");
    expect(initialRows(runs(512))).toBe("all");
    expect(new HeatLayout([], "all").height).toBe(0);
  });
});

describe("colors", () => {
  /** The relative luminance of a color. */
  const luminance = (rgb: readonly number[]) => {
    const [red, green, blue] = rgb.map((value) => (value / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };

  for (const [theme, sign] of [["light", -1] as const, ["dark", 1] as const]) {
    it(`${theme}: higher shares differ in lightness, in one direction`, () => {
      for (let step = 0; step < 25; step++) {
        const change = luminance(colorAt(theme, (step + 1) / 25)) - luminance(colorAt(theme, step / 25));
        expect(change * sign).toBeGreaterThan(0);
      }
    });

    it(`${theme}: has a color for every share, and none for an unknown one`, () => {
      const colors = heatColors(theme);
      expect(colors.of(Number.NaN)).toBe(0);
      expect(colors.of(1.3)).toBe(colors.of(1));
      expect(colors.of(-1)).toBe(colors.of(0));
      expect(colors.of(0) >>> 24).toBe(255);
      expect(cssColor(colors.of(1))).toBe(`rgb(${colorAt(theme, 1).join(" ")})`);
      expect(colors.unknown).not.toBe(colors.of(0));
    });
  }
});

/** A fleet with one rank per list of shares. Capacities are 100 bytes; unknown for ranks in `unknown`. */
function fleetOf(shares: number[][], unknown: number[] = []) {
  const parts = shares[0].length;
  const cells = Float64Array.from(shares.flat(), (share) => share * 100);
  const shareOf = (rank: number, part: number) =>
    unknown.includes(rank) ? Number.NaN : cells[rank * parts + part] / 100;
  return { parts, cells, shareOf };
}

describe("cells that share a pixel", () => {
  it("have the highest share of a rank", () => {
    const fleet = fleetOf([
      [0.1, 0.5],
      [0.3, Number.NaN],
      [Number.NaN, 0.4],
    ]);
    expect(highest(fleet, [0, 1, 2], 0)).toEqual({ rank: 1, share: 0.3 });
    expect(highest(fleet, [2, 1, 0], 1)).toEqual({ rank: 0, share: 0.5 });
    expect(highest(fleet, [2], 0)).toEqual({ rank: -1, share: Number.NaN });
  });

  it("have an unknown share only if no share is known", () => {
    const fleet = fleetOf([[0.9], [0.1]], [0]);
    expect(highest(fleet, [0], 0)).toEqual({ rank: 0, share: Number.NaN });
    expect(highest(fleet, [0, 1], 0)).toEqual({ rank: 1, share: 0.1 });
    expect(highest(fleet, [1, 0], 0)).toEqual({ rank: 1, share: 0.1 });
  });
});

describe("runs", () => {
  it("are consecutive ranks", () => {
    expect(groupsOf(["a", "a", "b", "a"])).toEqual([
      { run: "a", first: 0, count: 2 },
      { run: "b", first: 2, count: 1 },
      { run: "a", first: 3, count: 1 },
    ]);
    expect(groupsOf([])).toEqual([]);
  });

  it("order their ranks by number, or by peak with unknown ones last", () => {
    const names = ["rank 10", "rank 9", "rank 1", "rank 2", "rank 0"];
    const shares = [0.1, Number.NaN, 0.7, 0.2, 0.9];
    const fleet = {
      groups: runs(3, 2),
      count: 5,
      nameOf: (rank: number) => names[rank],
      peakShareOf: (rank: number) => shares[rank],
    } satisfies Partial<Record<keyof Fleet, unknown>>;
    expect([...orderOf(fleet, false)]).toEqual([2, 1, 0, 4, 3]);
    expect([...orderOf(fleet, true)]).toEqual([2, 0, 1, 4, 3]);
  });
});

describe("labels", () => {
  it("are those of the rank, not of its run", () => {
    const labels: [string, string][][] = [
      [
        ["commit", "1a"],
        ["model", "vit"],
      ],
      [],
      [["model", "gpt"]],
    ];
    const head = { labels, ranks: { labels: [0, 2, 1] } };
    expect([0, 1, 2].map((rank) => labelsOf(head, rank))).toEqual([
      "commit=1a, model=vit",
      "model=gpt",
      null,
    ]);
  });
});

describe("the trend", () => {
  const columns = ["run", "model", "time_ns", "ranks", "failed", "peak_bytes", "capacity_bytes", "rank_id"];
  const answer = (rows: Answer["rows"]): Answer => ({ title: "", columns, rows, is_cut: false });

  it("is oldest first, with one place per run", () => {
    const points = pointsOf(
      answer([
        ["new", "b", 20, 1, 0, 7, 10, 3],
        ["new", "a", 20, 2, 1, 5, 10, 2],
        ["middle", null, 15, 1, 0, null, null, 1],
        ["old", "a", 10, 4, 0, 3, null, 0],
      ]),
    );
    expect(points.map(({ run, model, place, rank }) => [run, model, place, rank])).toEqual([
      ["old", "a", 0, 0],
      ["new", "a", 1, 2],
      ["new", "b", 1, 3],
    ]);
  });

  it("has no points without peaks", () => {
    expect(pointsOf(answer([]))).toEqual([]);
  });
});

describe("tables", () => {
  it("recognize sizes as the command does", () => {
    expect(["per_bank", "peak_bytes", "lacks_per_bank", "ranks", "step"].map(isSize)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect(["peak_bytes", "requested_per_bank", "time_ns", "error_code"].map(heading)).toEqual([
      "Peak",
      "Requested/bank",
      "Time",
      "Exit code",
    ]);
  });

  it("show times in UTC", () => {
    expect(timeText(1_790_000_000e9)).toBe("2026-09-21 14:13 UTC");
    expect(timeText(Number.NaN)).toBe("unknown");
  });
});
