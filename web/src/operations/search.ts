// Searches for steps that have all words in their operation, location, types, program or number.
//
// A million steps share few texts, so each word is searched once in each text; the loop over the steps only compares
// numbers.

import { Kind, type Rank } from "../data/report";

export interface Filter {
  /** The search text. */
  query: string;
  deallocations: boolean;
  /** The top-level run, from 1; `null` for all. */
  run: number | null;
}

/** The cached result for a text and a word. */
const [UNSEEN, ABSENT, FOUND] = [0, 1, 2];

export class StepSearch {
  /** The texts in lower case, computed on first use. */
  private readonly lower: string[] = [];

  constructor(private readonly rank: Rank) {}

  /** The matching steps, in order. */
  find(filter: Filter): Uint32Array {
    const { steps, ops, runs, end } = this.rank;
    const words = wordsOf(filter.query).map((word) => this.look(word));
    const found = new Uint32Array(end);
    let count = 0;
    for (let step = 0; step < end; step++) {
      const op = steps.op[step];
      const run = steps.run[step];
      if (!filter.deallocations && isHousekeeping(ops.kind[op])) continue;
      if (filter.run !== null && (run < 0 || runs.number[run] !== filter.run)) continue;
      let passes = true;
      for (let at = 0; at < words.length && passes; at++) {
        const word = words[at];
        passes = word.ops[op] === 1 || word.runs[run] === 1 || word.step === step;
      }
      if (passes) found[count++] = step;
    }
    return found.subarray(0, count);
  }

  /** The operations, runs (by program name) and step that match a word. */
  private look(word: string): { ops: Uint8Array; runs: Uint8Array; step: number } {
    const { ops, runs, types } = this.rank;
    const known = new Uint8Array(this.rank.report.texts.length);
    const inText = (text: number): boolean => {
      if (known[text] === UNSEEN) known[text] = this.lowered(text).includes(word) ? FOUND : ABSENT;
      return known[text] === FOUND;
    };
    const typeHas = types.shape.map((shape, type) => Number(inText(shape) || inText(types.dtype[type])));
    const someType = (list: Int32Array) => list.some((type) => type >= 0 && typeHas[type] === 1);
    const opHas = new Uint8Array(ops.name.length);
    for (let op = 0; op < opHas.length; op++) {
      const found =
        inText(ops.name[op]) ||
        (ops.loc[op] >= 0 && inText(ops.loc[op])) ||
        someType(ops.resultTypes.get(op)) ||
        someType(ops.operandTypes.get(op));
      opHas[op] = Number(found);
    }
    const runHas = Uint8Array.from(runs.program, (program) => Number(inText(program)));
    // Step numbers are shown with commas.
    const step = /^\d[\d,]*$/.test(word) ? Number(word.replaceAll(",", "")) : -1;
    return { ops: opHas, runs: runHas, step };
  }

  private lowered(text: number): string {
    this.lower[text] ??= this.rank.report.texts.get(text).toLowerCase();
    return this.lower[text];
  }
}

/** The words of a query, in lower case. */
export function wordsOf(query: string): string[] {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Whether an operation only frees memory or only gets the device. */
function isHousekeeping(kind: number): boolean {
  return kind === Kind.Deallocate || kind === Kind.GetDevice;
}
