import { describe, expect, it } from "vitest";
import { Curve } from "../../src/data/report";
import { hasStep, Kind, merged, SIDES, Stretches } from "../../src/diff/data";
import { exactPercent, isWorse, operationsText } from "../../src/diff/overview";
import type { RankDiff } from "../../src/generated/answers";

/** A reproducible random number generator. */
function numbers(seed: number): (end: number) => number {
  let state = seed;
  return (end) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
}

describe("the places of the axis", () => {
  it("have the steps of both inputs, in order", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const next = numbers(seed);
      const rows = Array.from({ length: next(12) }, () => ({ kind: next(5), len: 1 + next(4) }));
      const stretches = new Stretches(
        Uint32Array.from(rows, ({ kind }) => kind),
        Uint32Array.from(rows, ({ len }) => len),
      );
      const kinds = rows.flatMap(({ kind, len }) => Array.from({ length: len }, () => kind));
      expect(stretches.end).toBe(kinds.length);
      for (const side of SIDES) {
        let step = 0;
        kinds.forEach((kind, place) => {
          expect(stretches.kind[stretches.at(place)]).toBe(kind);
          expect(stretches.stepsBefore(side, place)).toBe(step);
          if (!hasStep(kind, side)) return;
          step += 1;
        });
        expect(stretches.stepsBefore(side, stretches.end)).toBe(step);
      }
      for (const kind of Object.values(Kind)) {
        for (let place = 0; place <= kinds.length; place++) {
          const before = kinds.slice(0, place).filter((other) => other === kind).length;
          expect(stretches.placesBefore(kind, place)).toBe(before);
        }
      }
    }
  });
});

describe("curves of both inputs", () => {
  const curveOf = (points: [at: number, value: number][]) =>
    new Curve(
      Uint32Array.from(points, ([at]) => at),
      Float64Array.from(points, ([, value]) => value),
    );

  it("are combined at every moment", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const next = numbers(seed);
      const points = () => {
        const at = Array.from({ length: next(10) }, () => next(40)).sort((a, b) => a - b);
        return curveOf(at.map((at) => [at, next(100)]));
      };
      const [a, b] = [points(), points()];
      const difference = merged(a, b, (a, b) => b - a);
      for (let moment = 0; moment < 45; moment++) {
        const expected = b.valueAt(moment) - a.valueAt(moment);
        expect(difference.valueAt(moment)).toBe(expected);
      }
    }
  });

  it("have no difference where one of them is unknown", () => {
    const ended = curveOf([
      [0, 5],
      [6, Number.NaN],
    ]);
    const difference = merged(ended, curveOf([[2, 7]]), (a, b) => b - a);
    expect([1, 2, 5, 6].map((moment) => difference.valueAt(moment))).toEqual([Number.NaN, 2, 2, Number.NaN]);
  });
});

describe("words", () => {
  it("shares have the decimal of the verdict", () => {
    expect(exactPercent(4875, 10125)).toBe("48.1%");
    expect(exactPercent(29, 23)).toBe("126.1%");
    expect(exactPercent(99_999, 100_000)).toBe("99.9%");
  });

  it("operations are counted as on the command line", () => {
    const of = (before: number, after: number, added: number, removed: number, reordered: number) =>
      operationsText({ operations: { before, after, added, removed, reordered } } as RankDiff);
    expect(of(55, 57, 2, 0, 0)).toBe("Operations: 55 → 57 (2 added)");
    expect(of(1000, 1000, 1, 1, 2)).toBe("Operations: 1,000 (1 added, 1 removed, 2 reordered)");
    expect(of(28, 28, 0, 0, 0)).toBe("Operations: 28 (no difference)");
  });
});

describe("a comparison", () => {
  const rank = (change: number, before: boolean, after: boolean) => {
    const error = { pool: "DRAM", step: null };
    const pools = { DRAM: { change_per_bank: change } };
    return { pools, out_of_memory: { before: before ? error : null, after: after ? error : null } };
  };
  it.each([
    [1, false, false, true],
    [0, false, false, false],
    [-1, false, true, true],
    [-1, true, true, false],
    [-1, true, false, false],
  ])("with a change of %i, errors %s and %s, is worse: %s", (change, before, after, expected) => {
    expect(isWorse(rank(change, before, after) as unknown as RankDiff)).toBe(expected);
  });
});
