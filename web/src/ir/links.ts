// Which lines of a graph are of which steps, and back.
//
// The text of what runs (TTNN) has a line for each operation. Of the text it came from (TTIR) only locations are
// known, and several lines may have the same one.

import type { IrLinks, Rank } from "../data/report";
import { Groups, lowerBound } from "./groups";

/** The text of a stage of a graph: a range of lines. */
export interface Stage {
  module: number;
  stage: string;
  first: number;
  lines: number;
}

/** The lines of an operation in a text, in order. */
export interface Found {
  lines: number[];
  /** Whether they are known to be its own; else they have its location. */
  exact: boolean;
}

export class GraphLinks {
  private stepsOfOp: Groups | undefined;
  private rowsOfOp: Groups | undefined;
  private rowsOfLoc: Groups | undefined;
  private opsOfLoc: Groups | undefined;
  private readonly moduleOfRun: Int32Array;
  /** The steps of an operation in a graph and program, once they were looked for. */
  private readonly known = new Map<string, Uint32Array>();

  constructor(
    private readonly rank: Rank,
    private readonly links: Pick<IrLinks, "locLine" | "loc" | "opLine" | "op" | "opProgram">,
  ) {
    this.moduleOfRun = modulesOfRuns(rank);
  }

  /** The graph that a step ran in; -1 where the evidence does not tell. */
  moduleOf(step: number): number {
    const run = this.rank.steps.run[step];
    return run < 0 ? -1 : this.moduleOfRun[run];
  }

  /** The text of the program that a step ran in; -1 where the evidence names none. */
  private programOf(step: number): number {
    const run = this.rank.steps.run[step];
    return run < 0 ? -1 : this.rank.runs.program[run];
  }

  /** The lines of a step's operation in a text: its own, else those of its location. */
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

  /** Whether the lines of a text are known operation by operation. */
  isExact(stage: Stage): boolean {
    const row = lowerBound(this.links.opLine, stage.first);
    return row < this.links.opLine.length && this.links.opLine[row] < stage.first + stage.lines;
  }

  /**
   * The step that a line is followed to, and how many there are; `null` for a line that did not run. A step between
   * `from` and `end` is preferred: of the run that is looked at.
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

  /** The steps that a line ran as, for each operation that it may be: those of this graph, and of this program. */
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

  /** The operations that ran of a line. */
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

/** The graph of each run: its own, or that of the run it is nested in. */
function modulesOfRuns({ runs }: Rank): Int32Array {
  const modules = Int32Array.from(runs.module);
  for (let run = 0; run < modules.length; run++) {
    const parent = runs.parent[run];
    // Outer runs begin first, so theirs is known already.
    if (modules[run] < 0 && parent >= 0 && parent < run) modules[run] = modules[parent];
  }
  return modules;
}

/** The lines of these rows that are in a text, each once. */
function within(rows: Uint32Array, lines: Uint32Array, { first, lines: count }: Stage): number[] {
  const found: number[] = [];
  for (const row of rows) {
    const line = lines[row];
    if (line >= first && line < first + count && found.at(-1) !== line) found.push(line);
  }
  return found;
}

/** The values of the rows that have a line; the lines are in order. */
function valuesAt(lines: Uint32Array, values: Uint32Array, line: number): Uint32Array {
  return values.subarray(lowerBound(lines, line), lowerBound(lines, line + 1));
}
