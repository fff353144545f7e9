// What the table says of each step, as texts and columns that are made when they are first asked for and then kept.

import { Mark, momentBefore, type Pool, type Rank } from "../data/report";

const MARKS: readonly [bit: number, word: string, why: string][] = [
  [Mark.Failed, "failed", "the error that the log shows came in this operation"],
  [Mark.Weight, "weight", "it makes or loads constants"],
  [Mark.View, "view", "its result shares the memory of its operand"],
  [Mark.CacheMiss, "cache miss", "the const-eval program had to run"],
  [Mark.Retained, "retained", "the deallocation freed nothing: the runtime keeps the tensor"],
];

/** The marks of a step, with what they mean. */
export function marksOf(marks: number): { word: string; why: string }[] {
  return MARKS.filter(([bit]) => marks & bit).map(([, word, why]) => ({ word, why }));
}

/** The texts of the distinct operations of a rank. */
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
    const op = this.rank.steps.op[step];
    this.results[op] ??= joined(this.rank.ops.resultTypes.get(op), (type) => this.rank.typeText(type));
    return this.results[op];
  }

  /** `1x32x64, 64x128` */
  operandShapes(step: number): string {
    const op = this.rank.steps.op[step];
    this.operands[op] ??= joined(this.rank.ops.operandTypes.get(op), (type) => this.rank.shapeText(type));
    return this.operands[op];
  }
}

function joined(types: Int32Array, text: (type: number) => string): string {
  return Array.from(types, (type) => (type < 0 ? "?" : text(type))).join(", ");
}

const before = new WeakMap<Pool, Float64Array>();

/** What each bank of a pool held right before each step; NaN where it is not known. */
export function heldBefore(rank: Rank, pool: Pool): Float64Array {
  let held = before.get(pool);
  if (!held) {
    // Without tensors nothing is rebuilt: what was not printed is not known, which only `heldAt` can tell.
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
