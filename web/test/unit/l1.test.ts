import { describe, expect, it } from "vitest";
import { lowest, momentAt, resample, xOf } from "../../src/charts/resample";
import { byteTicks } from "../../src/charts/ticks";
import { Flag, type L1 } from "../../src/data/l1";
import type { Rank } from "../../src/data/report";
import type { L1Outline } from "../../src/generated/answers";
import { type Buffer, type Contents, contentsOf, type Placed } from "../../src/l1/contents";
import {
  type Core,
  type CoreRange,
  classesOf,
  coresText,
  fullestFirst,
  hasCore,
  parseCores,
} from "../../src/l1/cores";
import { letterOf, shadesOf } from "../../src/l1/grid";
import { curvesOf, lowestCurves } from "../../src/l1/headroom";
import { heightsOf, scaleOf } from "../../src/l1/scale";
import { isPlaced, type Segment, segmentsOf } from "../../src/l1/segments";

const OUTLINE: L1Outline = {
  size: 1000,
  reserved: 100,
  small: 50,
  grid: [4, 2],
  pool: 1,
  small_pool: 2,
  is_estimate: false,
};

const range = (x: number, y: number, lastX: number, lastY: number): CoreRange[] => [
  { first: [x, y], last: [lastX, lastY] },
];

function contents(patch: Partial<Contents> = {}): Contents {
  return {
    outline: OUTLINE,
    step: 0,
    flags: Flag.Runs,
    headroom: Number.NaN,
    end: Number.NaN,
    lowest: Number.NaN,
    buffers: [],
    region: null,
    tensors: [],
    ...patch,
  };
}

const buffer = (start: number, bytes: number, patch: Partial<Buffer> = {}): Buffer => ({
  kind: 0,
  start,
  bytes,
  cores: null,
  borrowed: false,
  ...patch,
});

const placed = (start: number, bytes: number, patch: Partial<Placed> = {}): Placed => ({
  tensor: 0,
  start,
  bytes,
  cores: null,
  isSmall: false,
  ...patch,
});

/** `part start-end`, from the highest address. */
const texts = (segments: Segment[]) => segments.map(({ part, start, end }) => `${part} ${start}-${end}`);

/** A reproducible random number generator. */
function numbers(seed: number): (max: number) => number {
  let state = seed;
  return (max) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}

describe("sets of cores", () => {
  it("are read in every notation of tt-metal", () => {
    expect(parseCores("{[0-0 - 7-5], [0-6 - 6-7]}")).toEqual([...range(0, 0, 7, 5), ...range(0, 6, 6, 7)]);
    expect(parseCores("[(x=1,y=2) - (x=3,y=4)]")).toEqual(range(1, 2, 3, 4));
    expect(parseCores("(x=5,y=6)")).toEqual(range(5, 6, 5, 6));
    expect(parseCores("[7-7 - 0-0]")).toEqual(range(0, 0, 7, 7));
    for (const text of [null, "", "{}", "all", "[1-2 - 3]", "[1-2-3-99999999999999999999]"]) {
      expect(parseCores(text), `${text}`).toBeNull();
    }
  });

  it("contain their corners, and null contains all cores", () => {
    const cores = range(1, 2, 3, 4);
    expect(hasCore(cores, [1, 2]) && hasCore(cores, [3, 4]) && hasCore(null, [9, 9])).toBe(true);
    expect(hasCore(cores, [0, 2]) || hasCore(cores, [3, 5]) || hasCore([], [0, 0])).toBe(false);
    expect(coresText([...cores, ...range(0, 0, 0, 0)])).toBe("(1, 2) to (3, 4), (0, 0)");
  });
});

describe("classes of cores", () => {
  it("have one class if all cores are equal", () => {
    const { grid, classes } = classesOf(contents({ buffers: [buffer(100, 50)], tensors: [placed(900, 50)] }));
    expect(grid).toEqual([4, 2]);
    expect(classes.map(({ cores, end }) => [cores.length, end])).toEqual([[8, 150]]);
  });

  it("separate cores by program buffers and shards", () => {
    const { classes, classOf } = classesOf(
      contents({
        buffers: [buffer(100, 50), buffer(160, 40, { cores: range(0, 0, 1, 0) })],
        tensors: [placed(900, 50, { cores: range(1, 0, 1, 1) })],
      }),
    );
    expect([...classOf]).toEqual([0, 1, 2, 2, 2, 3, 2, 2]);
    expect(classes.map(({ end, bytes, shards }) => [end, bytes, shards])).toEqual([
      ...[
        [200, 90, 0],
        [200, 90, 1],
        [150, 50, 0],
        [150, 50, 1],
      ],
    ]);
    // The same end: the core with more content is the fuller one.
    expect(fullestFirst(classes)).toEqual([1, 0, 3, 2]);
  });

  it("ignore the place of borrowed buffers, but not the buffers", () => {
    const borrowed = buffer(900, 50, { cores: range(0, 0, 0, 0), borrowed: true });
    const { classes } = classesOf(contents({ buffers: [borrowed] }));
    expect(classes.map(({ cores, end }) => [cores.length, end])).toEqual([
      ...[
        [1, 100],
        [7, 100],
      ],
    ]);
  });

  it("use the cores of the content without a grid, and never a huge grid", () => {
    const onCores = { tensors: [placed(900, 50, { cores: range(1, 0, 2, 1) })] };
    const gridOf = (grid: Core | null, patch: Partial<Contents> = {}) =>
      classesOf(contents({ ...patch, outline: { ...OUTLINE, grid: grid && [...grid] } })).grid;
    expect(gridOf(null, onCores)).toEqual([3, 2]);
    expect(gridOf(null)).toBeNull();
    expect(gridOf([4_000_000_000, 4_000_000_000], onCores)).toBeNull();
    expect(gridOf([0, 8])).toBeNull();
    expect(gridOf(null, { tensors: [placed(0, 1, { cores: range(0, 0, 1e9, 1e9) })] })).toBeNull();
  });

  it("have letters and shades", () => {
    expect([0, 25, 26, 52].map(letterOf)).toEqual(["A", "Z", "A1", "A2"]);
    expect(shadesOf([2, 0, 1])).toEqual([32, 8, 55]);
    expect(shadesOf([0])).toEqual([55]);
  });
});

describe("segments of a core", () => {
  it("are the parts, gaps, holes and the headroom", () => {
    const found = segmentsOf(
      contents({
        buffers: [buffer(100, 60), buffer(192, 8, { kind: 1 }), buffer(200, 10, { kind: 2 })],
        tensors: [placed(900, 50), placed(700, 100), placed(960, 20, { isSmall: true })],
      }),
      [0, 0],
    );
    expect(texts(found)).toEqual([
      "small 980-1000",
      "tensor 960-980",
      "small 950-960",
      "tensor 900-950",
      "hole 800-900",
      "tensor 700-800",
      "headroom 210-700",
      "scratchpad 200-210",
      "dataflow 192-200",
      "gap 160-192",
      "circular 100-160",
      "reserved 0-100",
    ]);
  });

  it("differ between cores: shards elsewhere take addresses, buffers elsewhere don't", () => {
    const all = contents({
      buffers: [buffer(100, 60, { cores: range(0, 0, 0, 0) })],
      tensors: [placed(900, 50, { cores: range(0, 0, 0, 0) })],
    });
    const [here, there] = [segmentsOf(all, [0, 0]), segmentsOf(all, [1, 0])];
    expect(texts(here)).toEqual([
      ...["small 950-1000", "tensor 900-950", "headroom 160-900", "circular 100-160", "reserved 0-100"],
    ]);
    expect(texts(there)).toEqual(["small 950-1000", "tensor 900-950", "headroom 100-900", "reserved 0-100"]);
    expect([here[1].isEmpty, there[1].isEmpty]).toEqual([false, true]);
  });

  it("show a borrowed buffer in its tensor, or without an address", () => {
    const tensor = placed(900, 50, { tensor: 7 });
    const found = segmentsOf(
      contents({
        buffers: [buffer(910, 20, { borrowed: true }), buffer(100, 20, { borrowed: true })],
        tensors: [tensor],
      }),
      [0, 0],
    );
    expect(texts(found)).toEqual([
      ...["small 950-1000", "circular 910-930", "tensor 900-950", "headroom 100-900", "reserved 0-100"],
      "circular NaN-NaN",
    ]);
    expect(found[1]).toMatchObject({ isBorrowed: true, tensor });
    expect(found[5]).toMatchObject({ isBorrowed: true });
    expect(found[5].tensor).toBeUndefined();
  });

  it("overlap if the program does not fit", () => {
    const tensors = [placed(500, 200), placed(700, 250)];
    const failed = segmentsOf(contents({ region: { start: 100, end: 720 }, tensors }), [0, 0]);
    expect(texts(failed)).toEqual([
      "small 950-1000",
      "tensor 700-950",
      "overlap 500-720",
      "tensor 500-700",
      "program 100-720",
      "reserved 0-100",
    ]);
    // Program buffers may end in L1_SMALL, or above the end of L1.
    const large = segmentsOf(contents({ buffers: [buffer(100, 1100)] }), [0, 0]);
    expect(texts(large)).toEqual(["overlap 950-1200", "circular 100-1200", "reserved 0-100"]);
  });

  it("list tensors without addresses last", () => {
    const found = segmentsOf(contents({ tensors: [placed(Number.NaN, 50), placed(900, 50)] }), [0, 0]);
    expect(found.map(({ part }) => part)).toEqual(["small", "tensor", "headroom", "reserved", "tensor"]);
    expect(isPlaced(found[4])).toBe(false);
  });

  it("cover every address exactly once if nothing overlaps", () => {
    const random = numbers(3);
    for (let round = 0; round < 300; round++) {
      const buffers: Buffer[] = [];
      const tensors: Placed[] = [];
      let [low, high] = [100 + random(3) * 10, 950 - random(3) * 10];
      for (let turn = random(6); turn > 0 && low < 400; turn--) {
        const bytes = 1 + random(60);
        buffers.push(
          buffer(low, bytes, { cores: random(3) > 0 ? null : range(0, 0, 1, 1), kind: random(3) }),
        );
        low += bytes + random(2) * random(40);
      }
      for (let turn = random(6); turn > 0 && high > 600; turn--) {
        const bytes = 1 + random(60);
        tensors.push(placed(high - bytes, bytes, { cores: random(3) > 0 ? null : range(0, 0, 1, 1) }));
        high -= bytes + random(2) * random(40);
      }
      const all = contents({ buffers, tensors });
      for (const core of [
        [0, 0],
        [3, 1],
      ] as const) {
        const found = segmentsOf(all, core).reverse();
        let next = 0;
        for (const { start, end, part } of found) {
          expect([part, start]).toEqual([part, next]);
          next = end;
        }
        expect(next).toBe(1000);
        // The headroom is between the program's buffers and the lowest tensor.
        const [room] = found.filter(({ part }) => part === "headroom");
        const { classes, classOf } = classesOf(all);
        const lowest = tensors.reduce((low, { start }) => Math.min(low, start), 950);
        expect([room?.start, room?.end]).toEqual([classes[classOf[core[1] * 4 + core[0]]].end, lowest]);
      }
    }
  });
});

describe("the content of L1 while a step runs", () => {
  const rankOf = (addresses: number[], isEstimate: boolean): [Rank, L1] => {
    const tensors = {
      born: Uint32Array.of(2, 4, 6, 6),
      perBank: Float64Array.of(100, 50, 20, Number.NaN),
      step: Int32Array.of(0, 1, 2, 2),
    };
    const rank = {
      tensors,
      text: (id: number) => (id < 0 ? null : "{[0-0 - 1-0]}"),
      live: (pool: number, moment: number) => ({
        tensors: Uint32Array.of(0, 1, 2, 3).filter((tensor) => pool === 1 && tensors.born[tensor] <= moment),
      }),
    } as unknown as Rank;
    const l1 = {
      outline: { ...OUTLINE, is_estimate: isEstimate },
      steps: {
        headroom: Float64Array.of(1, 2, -3),
        lowest: Float64Array.of(1, 2, 3),
        end: Float64Array.of(100, 200, 400),
        flags: Uint32Array.of(0, 1, 11),
      },
      programs: {
        step: Uint32Array.of(1, 1),
        kind: Uint32Array.of(0, 2),
        start: Float64Array.of(100, 150),
        bytes: Float64Array.of(50, 50),
        cores: Uint32Array.of(4, 4),
        borrowed: Uint32Array.of(0, 1),
      },
      tensors: { address: Float64Array.from(addresses), cores: Int32Array.of(-1, 3, -1, -1) },
    } as unknown as L1;
    return [rank, l1];
  };

  it("has the program's buffers, and the tensors including the result", () => {
    const [rank, l1] = rankOf([850, 800, 700, Number.NaN], false);
    expect(contentsOf(rank, l1, 0)).toMatchObject({ buffers: [], region: null, tensors: [{ tensor: 0 }] });
    const { buffers, tensors } = contentsOf(rank, l1, 1);
    expect(buffers.map(({ kind, start, borrowed }) => [kind, start, borrowed])).toEqual([
      ...[
        [0, 100, false],
        [2, 150, true],
      ],
    ]);
    expect(tensors.map(({ tensor, cores }) => [tensor, cores])).toEqual([
      ...[
        [0, null],
        [1, range(0, 0, 1, 0)],
      ],
    ]);
    // A program that did not fit, of which only the end is known.
    expect(contentsOf(rank, l1, 2).region).toEqual({ start: 100, end: 400 });
  });

  it("stacks the tensors of an estimate in the order of their allocation", () => {
    const [rank, l1] = rankOf([Number.NaN, Number.NaN, Number.NaN, Number.NaN], true);
    const { tensors } = contentsOf(rank, l1, 2);
    expect(tensors.map(({ start }) => start)).toEqual([850, 800, 780, Number.NaN]);
  });
});

describe("the scale of the map", () => {
  it("is proportional, but nothing is lower than the minimum", () => {
    expect(heightsOf([100, 300], 400, 5)).toEqual([100, 300]);
    expect(heightsOf([1, 399, 600], 500, 10)).toEqual([10, (490 * 399) / 999, (490 * 600) / 999]);
    const random = numbers(5);
    for (let round = 0; round < 200; round++) {
      const sizes = Array.from({ length: 1 + random(40) }, () => 1 + random(10) ** random(7));
      const heights = heightsOf(sizes, 400, 6);
      expect(heights.reduce((sum, height) => sum + height, 0)).toBeCloseTo(400, 6);
      for (const height of heights) expect(height).toBeGreaterThanOrEqual(6 - 1e-9);
    }
  });

  it("goes from 0 to the size, or as far as the segments", () => {
    const segment = (start: number, end: number): Segment => ({ part: "tensor", start, end });
    const scale = scaleOf(
      [segment(0, 100), segment(900, 901), segment(Number.NaN, Number.NaN)],
      1000,
      400,
      6,
    );
    expect([scale.low, scale.high, scale.up(0), scale.up(1000)]).toEqual([0, 1000, 0, 400]);
    expect(scale.up(901) - scale.up(900)).toBeCloseTo(6, 6);
    for (let address = 1; address <= 1000; address++) {
      expect(scale.up(address)).toBeGreaterThan(scale.up(address - 1));
    }
    const wider = scaleOf([segment(-20, 100), segment(500, 1200)], 1000, 400, 6);
    expect([wider.low, wider.high, wider.up(-20)]).toEqual([-20, 1200, 0]);
    expect(wider.up(1200)).toBeCloseTo(400, 6);
  });
});

describe("the headroom over time", () => {
  it("has the value of a step around its position", () => {
    const { known, atMost, overlaps } = curvesOf(
      Float64Array.of(50, 50, -20, Number.NaN, 30),
      Uint32Array.of(0, 1, 9, 1, 7),
    );
    expect([0, 1, 2, 3, 4].map((step) => known.valueAt(2 * step + 1))).toEqual([
      ...[50, 50, -20, Number.NaN, Number.NaN],
    ]);
    expect([3, 4, 5].map((step) => atMost?.valueAt(2 * step + 1))).toEqual([Number.NaN, 30, Number.NaN]);
    // Half a step before and after it.
    expect([known.valueAt(4), xOf(4)]).toEqual([-20, 1.5]);
    expect([...overlaps]).toEqual([2]);
  });

  it("has no curve of upper bounds if every step is known", () => {
    expect(curvesOf(Float64Array.of(1, 2), Uint32Array.of(0, 1)).atMost).toBeNull();
  });

  /** Steps of which some are unknown, some upper bounds, and some negative. */
  function randomSteps(random: (max: number) => number, steps: number): [Float64Array, Uint32Array] {
    const headroom = Float64Array.from({ length: steps }, () =>
      random(20) === 0 ? Number.NaN : 1000 + random(1e6) * (random(9) === 0 ? -1 : 1),
    );
    const flags = Uint32Array.from({ length: steps }, () => (random(9) === 0 ? Flag.Runs | Flag.AtMost : 1));
    return [headroom, flags];
  }

  const lowestOf = (values: Iterable<number>) =>
    Math.min(...[...values].filter((value) => !Number.isNaN(value)));

  it("keeps every minimum when one pixel covers many steps, and a click finds it", () => {
    const random = numbers(11);
    for (let round = 0; round < 8; round++) {
      const steps = 500 + random(4000);
      const [headroom, flags] = randomSteps(random, steps);
      const pixels = 50 + random(100);
      const exact = curvesOf(headroom, flags);
      const window = { from: 0, to: steps, width: pixels };
      const [known, atMost] = lowestCurves(exact, { headroom, flags }, window);
      const { values } = resample([known, atMost!], 0, steps, pixels);
      expect(Math.min(...values.map((line) => lowest(line) ?? 0))).toBe(lowestOf(headroom));
      // A step is drawn at its headroom or below, at that of a step in the same pixel.
      const perPixel = steps / (pixels - 1);
      for (let step = 0; step < steps; step += 7) {
        const [exactly, bound] = [known, atMost!].map((curve) => curve.valueAt(2 * step + 1));
        if (flags[step] & Flag.AtMost) expect(exactly).toBeNaN();
        const drawn = Number.isNaN(exactly) ? bound : exactly;
        if (!Number.isNaN(headroom[step])) expect(drawn).toBeLessThanOrEqual(headroom[step]);
        const near = headroom.subarray(
          Math.max(0, step - Math.ceil(perPixel)),
          step + Math.ceil(perPixel) + 1,
        );
        if (!Number.isNaN(drawn)) expect(near.includes(drawn)).toBe(true);
      }
      const lowestStep = headroom.indexOf(lowestOf(headroom));
      const snap = { curve: exact.inverted, tolerance: 0 };
      expect(momentAt(snap, lowestStep, perPixel, steps)).toBe(2 * lowestStep + 1);
    }
  });

  it("is exact if every step has pixels of its own", () => {
    const [headroom, flags] = randomSteps(numbers(2), 100);
    const exact = curvesOf(headroom, flags);
    const shown = lowestCurves(exact, { headroom, flags }, { from: 10, to: 60, width: 400 });
    expect(shown).toEqual([exact.known, exact.atMost]);
  });
});

describe("the ticks of an axis with negative values", () => {
  it("have the unit of the largest distance from 0, and a minus sign", () => {
    expect(byteTicks(-800 * 1024, 1300 * 1024, 5).labels).toEqual(["−500 KiB", "0", "500 KiB", "1000 KiB"]);
    expect(byteTicks(-800 * 1024, 100, 2).labels).toEqual(["−500 KiB", "0"]);
  });
});
