// The texts and values of the operation table, computed on first use and cached.

import { Mark, momentBefore, type Pool, type Rank } from "../data/report";
import { lengthsOf } from "../text-width";

const MARKS: readonly [bit: number, word: string, why: string][] = [
  [Mark.Failed, "failed", "the error occurred in this operation"],
  [Mark.Weight, "weight", "creates or loads constants"],
  [Mark.View, "view", "the result shares its operand's memory"],
  [Mark.CacheMiss, "cache miss", "the const-eval result was not cached, so its program ran"],
  [Mark.Retained, "retained", "the deallocation freed nothing: the runtime retains the tensor"],
];

/** The marks of a step and their explanations. */
export function marksOf(marks: number): { word: string; why: string }[] {
  return MARKS.filter(([bit]) => marks & bit).map(([, word, why]) => ({ word, why }));
}

/** The texts of a rank's operations. */
export class OperationTexts {
  private readonly results: string[] = [];
  private readonly operands: string[] = [];

  constructor(private readonly rank: Rank) {}

  name(step: number): string {
    return this.rank.opName(step);
  }

  loc(step: number): string {
    return this.rank.opLoc(step) ?? "";
  }

  /** `1x32x64 bf16, 32x1 f32` */
  resultTypes(step: number): string {
    return this.resultsOf(this.rank.steps.op[step]);
  }

  /** `1x32x64, 64x128` */
  operandShapes(step: number): string {
    return this.operandsOf(this.rank.steps.op[step]);
  }

  /** The lengths of a column's texts, to size it. */
  lengths(column: "name" | "loc" | "program" | "results" | "operands"): { longest: string; typical: string } {
    const { ops, runs } = this.rank;
    const texts = (ids: Iterable<number>) => Array.from(new Set(ids), (id) => this.rank.text(id) ?? "");
    const ofOps = (of: (op: number) => string) => Array.from(ops.name, (_, op) => of(op));
    switch (column) {
      case "name":
        return lengthsOf(texts(ops.name));
      case "loc":
        return lengthsOf(texts(ops.loc));
      case "program":
        return lengthsOf(texts(runs.program));
      case "results":
        return lengthsOf(ofOps((op) => this.resultsOf(op)));
      case "operands":
        return lengthsOf(ofOps((op) => this.operandsOf(op)));
    }
  }

  private resultsOf(op: number): string {
    this.results[op] ??= joined(this.rank.ops.resultTypes.get(op), (type) => this.rank.typeText(type));
    return this.results[op];
  }

  private operandsOf(op: number): string {
    this.operands[op] ??= joined(this.rank.ops.operandTypes.get(op), (type) => this.rank.shapeText(type));
    return this.operands[op];
  }
}

function joined(types: Int32Array, text: (type: number) => string): string {
  return Array.from(types, (type) => (type < 0 ? "?" : text(type))).join(", ");
}

const before = new WeakMap<Pool, Float64Array>();

/** The bytes allocated in a pool right before each step; NaN if unknown. */
export function heldBefore(rank: Rank, pool: Pool): Float64Array {
  let held = before.get(pool);
  if (!held) {
    // Without tensors nothing is reconstructed: values that were not reported are unknown, which `heldAt` checks.
    held = rank.hasTensors
      ? lastChanges(pool, rank.end)
      : Float64Array.from({ length: rank.end }, (_, step) => pool.heldAt(rank, momentBefore(step)));
    before.set(pool, held);
  }
  return held;
}

function lastChanges({ held: { at, value } }: Pool, steps: number): Float64Array {
  const held = new Float64Array(steps).fill(Number.NaN);
  let change = -1;
  for (let step = 0; step < steps; step++) {
    while (change + 1 < at.length && at[change + 1] <= momentBefore(step)) change++;
    if (change >= 0) held[step] = value[change];
  }
  return held;
}
