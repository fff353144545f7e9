import { describe, expect, it } from "vitest";
import { columnFrom, hitAt, sampleColumns, stackTensors } from "../../src/charts/bands";
import { Curve, NEVER } from "../../src/data/report";

let state = 9;
const random = (max: number): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * max);
};

/** Random tensors and the curve of their sum. */
function history(tensors: number, moments: number) {
  const born = new Uint32Array(tensors).map(() => random(moments));
  const dies = born.map((at) => (random(5) === 0 ? NEVER : at + random(200)));
  const perBank = new Float64Array(tensors).map(() => 1 + random(1000));
  const kind = new Uint32Array(tensors).map(() => random(3));
  const pool = new Uint32Array(tensors).map(() => random(2));
  const at = Uint32Array.from({ length: moments }, (_, moment) => moment);
  const held = Float64Array.from(at, (moment) => {
    let sum = 5;
    for (let t = 0; t < tensors; t++)
      if (pool[t] === 0 && born[t] <= moment && moment < dies[t]) sum += perBank[t];
    return sum;
  });
  return { tensors: { born, dies, perBank, class: kind, pool }, held: new Curve(at, held) };
}

describe("stackTensors", () => {
  const { tensors, held } = history(300, 1000);
  const choice = {
    pool: 0,
    restless: [false, true, false],
    maxByArea: 12,
    maxBySize: 4,
    minBytes: 100,
    onlyChanging: false,
  };

  it("adds up to the live tensors in every column of any range", () => {
    for (const [from, to, width] of [
      [0, 499, 100],
      [0, 499, 3000],
      [100.3, 130.9, 77],
      [490, 499, 40],
    ]) {
      const columns = sampleColumns(held, from, to, width);
      const stack = stackTensors(tensors, columns, choice);
      for (let column = 0; column < width; column++) expect(stack.top[column]).toBe(columns.held[column] - 5);
      expect(stack.bands.length).toBeLessThanOrEqual(16);
    }
  });

  it("omits bands of tensors that are always live if requested", () => {
    const columns = sampleColumns(held, 300, 320, 50);
    const stack = stackTensors(tensors, columns, { ...choice, onlyChanging: true });
    expect(stack.bands.length).toBeGreaterThan(0);
    for (const band of stack.bands) expect(band.end - band.first).toBeLessThan(50);
    for (let column = 0; column < 50; column++) expect(stack.top[column]).toBe(columns.held[column] - 5);
  });

  it("finds the column that first shows a moment", () => {
    for (const [from, to, width] of [
      [0, 499, 100],
      [20.2, 31, 500],
    ]) {
      const columns = sampleColumns(held, from, to, width);
      for (let moment = 0; moment < 1000; moment++) {
        const expected = columns.moments.findIndex((shown) => shown >= moment);
        expect(columnFrom(columns, moment)).toBe(expected < 0 ? width : expected);
      }
    }
  });

  it("has the peak in one of the columns", () => {
    const columns = sampleColumns(held, 0, 499.5, 60);
    expect(Math.max(...columns.held)).toBe(Math.max(...held.value));
  });

  it("finds the object at a point", () => {
    const columns = sampleColumns(held, 0, 499, 100);
    const stack = stackTensors(tensors, columns, choice);
    for (const band of stack.bands) {
      const column = band.end - 1;
      const middle = band.base[column - band.first] + band.bytes / 2;
      expect(hitAt(stack, column, middle)).toEqual({ kind: "tensor", band });
    }
    expect(hitAt(stack, 50, stack.top[50] + 1)).toEqual({ kind: "unexplained", bytes: 5 });
    expect(hitAt(stack, 50, stack.top[50] + 6)).toBeNull();
  });
});
