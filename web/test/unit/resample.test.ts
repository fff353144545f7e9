import { describe, expect, it } from "vitest";
import {
  extremesOf,
  firstMomentFrom,
  highest,
  highestMoment,
  lowest,
  momentAt,
  resample,
  xOf,
} from "../../src/charts/resample";
import { byteTicks } from "../../src/charts/ticks";
import { Curve } from "../../src/data/report";

/** A reproducible random number generator. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function randomCurve(random: () => number, changes: number, moments: number, unknown: number): Curve {
  const at = Uint32Array.from({ length: changes }, () => Math.floor(random() * moments)).sort();
  const value = Float64Array.from(at, () => (random() < unknown ? Number.NaN : Math.floor(random() * 1e6)));
  return new Curve(at, value);
}

/** The visible values of a curve in a range, computed the slow way. */
function seen(curve: Curve, from: number, to: number): number[] {
  const values: number[] = [];
  let carried = Number.NaN;
  let startsThere = false;
  for (let row = 0; row < curve.at.length; row++) {
    const x = xOf(curve.at[row]);
    if (x < from) carried = curve.value[row];
    else if (x <= to) values.push(curve.value[row]);
    startsThere ||= x === from;
  }
  if (!startsThere) values.push(carried);
  return values.filter((value) => !Number.isNaN(value));
}

describe("resample", () => {
  it("keeps the highest and lowest value of every range", () => {
    const random = numbers(7);
    for (let round = 0; round < 400; round++) {
      const steps = 1 + Math.floor(random() * 3000);
      const curve = randomCurve(random, Math.floor(random() * 5000), steps * 2 + 2, random() < 0.5 ? 0 : 0.3);
      const other = randomCurve(random, Math.floor(random() * 50), steps * 2 + 2, 0);
      const from = random() < 0.3 ? 0 : Math.floor(random() * steps * 2) / 2;
      const to = from + (random() < 0.5 ? 1 + Math.floor(random() * steps) : random() * steps + 0.01);
      const samples = resample([curve, other], from, to, 1 + Math.floor(random() * 400));
      [curve, other].forEach((curve, index) => {
        const values = seen(curve, from, to);
        const max = values.length ? values.reduce((a, b) => Math.max(a, b)) : null;
        const min = values.length ? values.reduce((a, b) => Math.min(a, b)) : null;
        expect(highest(samples.values[index])).toBe(max);
        expect(lowest(samples.values[index])).toBe(min);
      });
    }
  });

  it("returns aligned arrays with ascending coordinates within the range", () => {
    const random = numbers(3);
    for (const changes of [0, 1, 10, 5000]) {
      const curve = randomCurve(random, changes, 2000, 0.1);
      const samples = resample([curve], 100.25, 700, 300);
      expect(samples.values[0].length).toBe(samples.x.length);
      expect(samples.x[0]).toBe(100.25);
      expect(samples.x.at(-1)).toBe(700);
      for (let row = 1; row < samples.x.length; row++) {
        expect(samples.x[row]).toBeGreaterThanOrEqual(samples.x[row - 1]);
      }
    }
  });

  it("draws exact steps if few changes are visible", () => {
    const curve = new Curve(Uint32Array.of(1, 4, 7), Float64Array.of(10, 20, Number.NaN));
    expect(resample([curve], 0, 5, 100)).toEqual({
      x: [0, 1.5, 1.5, 3, 3, 5],
      values: [[10, 10, 20, 20, null, null]],
    });
  });

  it("shows all changes at one moment", () => {
    const curve = new Curve(Uint32Array.of(1, 5, 5, 5), Float64Array.of(10, 90, 5, 20));
    expect(resample([curve], 0, 4, 100)).toEqual({
      x: [0, 2, 2, 2, 2, 4],
      values: [[10, 10, 90, 5, 20, 20]],
    });
    expect(highest(resample([curve], 0, 4, 1).values[0])).toBe(90);
    expect(lowest(resample([curve], 0, 4, 1).values[0])).toBe(5);
  });

  it("shows the value before the first step", () => {
    const curve = new Curve(Uint32Array.of(0, 1), Float64Array.of(90, 10));
    expect(resample([curve], 0, 2, 100)).toEqual({ x: [0, 0, 2], values: [[90, 10, 10]] });
  });

  it("reduces two million changes to what the pixels need, and keeps the highest", () => {
    const rows = 2_000_000;
    const curve = new Curve(
      Uint32Array.from({ length: rows }, (_, row) => row),
      Float64Array.from({ length: rows }, (_, row) => (row * 7919) % 100_003),
    );
    const { x, values } = resample([curve], 0, rows / 2, 1500);
    expect(x.length).toBeLessThanOrEqual(4 * 1500 + 4);
    expect(values[0].reduce((max, value) => Math.max(max ?? 0, value ?? 0), 0)).toBe(100_002);
  });

  it("finds the extremes of a whole curve", () => {
    const random = numbers(11);
    const curve = randomCurve(random, 1000, 4000, 0.2);
    const values = [...curve.value].filter((value) => !Number.isNaN(value));
    expect(extremesOf(curve)).toEqual([Math.min(...values), Math.max(...values)]);
    expect(extremesOf(new Curve(Uint32Array.of(3), Float64Array.of(Number.NaN)))).toBeNull();
  });
});

describe("highestMoment", () => {
  it("finds the moment with the highest final value", () => {
    const random = numbers(5);
    for (let round = 0; round < 200; round++) {
      const curve = randomCurve(random, Math.floor(random() * 300), 400, 0.2);
      const from = Math.floor(random() * 300) / 2;
      const to = from + 0.5 + Math.floor(random() * 60) / 2;
      let best = Number.NaN;
      for (let moment = firstMomentFrom(from); moment < firstMomentFrom(to); moment++) {
        const value = curve.valueAt(moment);
        if (value > best || Number.isNaN(best)) best = value;
      }
      const found = highestMoment(curve, from, to);
      expect(curve.valueAt(found)).toBe(best);
      expect(xOf(found)).toBeGreaterThanOrEqual(from);
      expect(xOf(found)).toBeLessThan(to);
    }
  });
});

describe("momentAt", () => {
  const curve = new Curve(Uint32Array.of(1, 20, 21), Float64Array.of(1, 9, 2));
  const snap = { curve, tolerance: 0 };
  it("is the late side of the nearest position if steps are wide", () => {
    expect(momentAt(snap, 9.6, 0.1, 30)).toBe(21);
    expect(momentAt(snap, -4, 0.1, 30)).toBe(1);
    expect(momentAt(snap, 99, 0.1, 30)).toBe(61);
    expect(momentAt(null, 9.6, 10, 30)).toBe(21);
  });
  it("is the highest if a pixel covers many steps", () => {
    expect(momentAt(snap, 8, 8, 30)).toBe(20);
  });
  it("prefers the late side if both are equal except for rounding", () => {
    expect(momentAt({ curve, tolerance: 7 }, 8, 8, 30)).toBe(21);
  });
});

describe("byteTicks", () => {
  it("uses one binary unit", () => {
    expect(byteTicks(0, 32 * 1024 ** 3, 6).labels).toEqual(["0", "10 GiB", "20 GiB", "30 GiB"]);
    expect(byteTicks(0, 3.2 * 1024 ** 3, 6).labels).toEqual(["0", "1000 MiB", "2000 MiB", "3000 MiB"]);
    expect(byteTicks(0, 700 * 1024 ** 2, 6).labels[1]).toBe("200 MiB");
    expect(byteTicks(0, 1.4 * 1024 ** 2, 6).labels).toEqual(["0", "500 KiB", "1000 KiB"]);
    expect(byteTicks(0, 3, 6).labels).toEqual(["0", "1 B", "2 B", "3 B"]);
  });
});
