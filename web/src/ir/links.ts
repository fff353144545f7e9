// Maps lines of a graph to steps, and back.
//
// The TTNN text, which is executed, has a line for each operation. The TTIR text, which it was compiled from, is matched
// by location only, and several lines may have the same location.

import type { IrLinks, Rank } from "../data/report";
import { Groups, lowerBound } from "./groups";

/** The text of a compilation stage of a graph: a range of lines. */
export interface Stage {
  module: number;
  stage: string;
  first: number;
  lines: number;
}

/** The lines of an operation in a text, in order. */
export interface Found {
  lines: number[];
  /** Whether the lines are the operation's own; otherwise they only have its location. */
  exact: boolean;
}

export class GraphLinks {
  private stepsOfOp: Groups | undefined;
  private rowsOfOp: Groups | undefined;
  private rowsOfLoc: Groups | undefined;
  private opsOfLoc: Groups | undefined;
  private readonly moduleOfRun: Int32Array;
  /** A cache of the steps of an operation in a graph and program. */
  private readonly known = new Map<string, Uint32Array>();

  constructor(
    private readonly rank: Rank,
    private readonly links: Pick<IrLinks, "locLine" | "loc" | "opLine" | "op" | "opProgram">,
  ) {
    this.moduleOfRun = modulesOfRuns(rank);
  }

  /** The graph of a step; -1 if unknown. */
  moduleOf(step: number): number {
    const run = this.rank.steps.run[step];
    return run < 0 ? -1 : this.moduleOfRun[run];
  }

  /** The text index of a step's program name; -1 if unknown. */
  private programOf(step: number): number {
    const run = this.rank.steps.run[step];
    return run < 0 ? -1 : this.rank.runs.program[run];
  }

  /** The lines of a step's operation in a text: its own lines, or else those with its location. */
  linesOf(step: number, stage: Stage): Found {
    const known = this.moduleOf(step);
    if (known >= 0 && known !== stage.module) return { lines: [], exact: false };
    const { links, rank } = this;
    const op = rank.steps.op[step];
    this.rowsOfOp ??= new Groups(links.op, rank.ops.name.length);
    const program = this.programOf(step);
    const rows = this.rowsOfOp.get(op).filter((row) => links.opProgram[row] === program);
    const exact = within(rows, links.opLine, stage);
    if (exact.length > 0) return { lines: exact, exact: true };
    const loc = rank.ops.loc[op];
    if (loc < 0) return { lines: [], exact: false };
    this.rowsOfLoc ??= new Groups(links.loc, rank.report.texts.length);
    return { lines: within(this.rowsOfLoc.get(loc), links.locLine, stage), exact: false };
  }

  /** Whether the text's lines are mapped to individual operations. */
  isExact(stage: Stage): boolean {
    const row = lowerBound(this.links.opLine, stage.first);
    return row < this.links.opLine.length && this.links.opLine[row] < stage.first + stage.lines;
  }

  /**
   * The step that a line leads to, and the number of its steps; `null` for a line that did not run. Prefers a step in
   * `from..end`, the selected run.
   */
  stepAt(line: number, stage: Stage, from: number, end: number): { step: number; count: number } | null {
    let near = Number.POSITIVE_INFINITY;
    let first = Number.POSITIVE_INFINITY;
    let count = 0;
    for (const steps of this.stepsAt(line, stage)) {
      count += steps.length;
      const next = steps[lowerBound(steps, from)] ?? Number.POSITIVE_INFINITY;
      if (next < end) near = Math.min(near, next);
      first = Math.min(first, steps[0] ?? Number.POSITIVE_INFINITY);
    }
    return count === 0 ? null : { step: near < end ? near : first, count };
  }

  /** The steps of a line in its graph and program, for each operation that it may be. */
  private *stepsAt(line: number, stage: Stage): Iterable<Uint32Array> {
    const exact = this.isExact(stage);
    for (const { op, program } of this.opsAt(line, stage)) {
      const key = `${stage.module} ${op} ${exact ? program : ""}`;
      let steps = this.known.get(key);
      if (!steps) {
        this.stepsOfOp ??= new Groups(this.rank.steps.op, this.rank.ops.name.length);
        const isHere = (step: number) => {
          const module = this.moduleOf(step);
          return (module < 0 || module === stage.module) && (!exact || this.programOf(step) === program);
        };
        steps = this.stepsOfOp.get(op).filter(isHere);
        this.known.set(key, steps);
      }
      yield steps;
    }
  }

  /** The executed operations of a line. */
  private opsAt(line: number, stage: Stage): { op: number; program: number }[] {
    const { links, rank } = this;
    if (this.isExact(stage)) {
      const programs = valuesAt(links.opLine, links.opProgram, line);
      return Array.from(valuesAt(links.opLine, links.op, line), (op, row) => ({
        op,
        program: programs[row],
      }));
    }
    const [loc] = valuesAt(links.locLine, links.loc, line);
    if (loc === undefined) return [];
    this.opsOfLoc ??= new Groups(rank.ops.loc, rank.report.texts.length);
    return Array.from(this.opsOfLoc.get(loc), (op) => ({ op, program: -1 }));
  }
}

/** The graph of each run: its own, or that of the enclosing run. */
function modulesOfRuns({ runs }: Rank): Int32Array {
  const modules = Int32Array.from(runs.module);
  for (let run = 0; run < modules.length; run++) {
    const parent = runs.parent[run];
    // Enclosing runs begin first, so their graph is known already.
    if (modules[run] < 0 && parent >= 0 && parent < run) modules[run] = modules[parent];
  }
  return modules;
}

/** The distinct lines of rows that are in a text. */
function within(rows: Uint32Array, lines: Uint32Array, { first, lines: count }: Stage): number[] {
  const found: number[] = [];
  for (const row of rows) {
    const line = lines[row];
    if (line >= first && line < first + count && found.at(-1) !== line) found.push(line);
  }
  return found;
}

/** The values of the rows with a line; the lines are sorted. */
function valuesAt(lines: Uint32Array, values: Uint32Array, line: number): Uint32Array {
  return values.subarray(lowerBound(lines, line), lowerBound(lines, line + 1));
}
