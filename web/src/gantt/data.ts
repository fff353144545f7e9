// The columns of `query::gantt`, converted for the chart.
//
// Times are nanoseconds since the first event (exact for 26 days in a `Number`, approximate after that). Calls are
// numbered by their row in the columns; rows of the chart are counted over all lanes.

import { type Block, unpack } from "../data/block";
import type { Lines } from "../data/lines";
import type { Extent, GanttHead } from "../generated/answers";

/** The bytes allocated per bank of a pool over time, as changes. */
export interface TimeCurve {
  name: string;
  extent: Extent;
  /** Whether the pool has tensors. */
  hasTensors: boolean;
  at: Float64Array;
  value: Float64Array;
}

/** A thread or stream, and the rows of its calls. */
export interface Lane {
  name: string;
  first: number;
  rows: number;
}

export class GanttData {
  readonly meta: GanttHead;
  readonly lanes: Lane[] = [];
  /** The number of rows of all lanes. */
  readonly rowCount: number;
  /** The total duration. Never 0, since a chart can't show an empty range. */
  readonly length: number;
  readonly count: number;
  readonly began: Float64Array;
  /** The end of each call; NaN if only its start is known. A call that was still running ends at the end of the data. */
  readonly until: Float64Array;
  readonly stillRan: Uint32Array;
  readonly scope: Uint32Array;
  readonly lane: Uint32Array;
  /** The chart row of each call. */
  readonly row: Uint32Array;
  /** The calls sorted by chart row and time, and the index of each row's first call. */
  readonly byRow: Uint32Array;
  readonly rowStart: Uint32Array;
  readonly scopeName: string[];
  readonly scopeKind: Uint32Array;
  readonly chain: Uint32Array;
  readonly curves: TimeCurve[];
  readonly snapshots: { name: string | null; at: number }[];
  private readonly parentBack: Int32Array;
  private memoryColumns: Record<"allocated" | "freed" | "peak" | "kept" | "change", Float64Array> | undefined;
  private locColumn: Int32Array | undefined;

  constructor(
    private readonly block: Block<GanttHead>,
    private readonly texts: Lines,
  ) {
    const meta = block.meta;
    this.meta = meta;
    const times = (name: string) => {
      const values = block.sizes(name);
      if (meta.unit_ns !== 1) for (let row = 0; row < values.length; row++) values[row] *= meta.unit_ns;
      return values;
    };
    this.length = Math.max(1, meta.last_ns - meta.first_ns);
    this.began = times("calls.began");
    this.count = this.began.length;
    this.stillRan = block.numbers("calls.still_ran");
    this.until = times("calls.took");
    for (let call = 0; call < this.count; call++) {
      this.until[call] = this.stillRan[call] ? this.length : this.began[call] + this.until[call];
    }
    this.scope = block.numbers("calls.scope");
    this.lane = block.numbers("calls.lane");
    this.parentBack = block.maybe("calls.parent_back");
    let first = 0;
    for (const { name, rows } of meta.lanes) {
      this.lanes.push({ name, first, rows });
      first += rows;
    }
    this.rowCount = first;
    this.row = block.numbers("calls.row");
    for (let call = 0; call < this.count; call++) this.row[call] += this.lanes[this.lane[call]].first;
    [this.byRow, this.rowStart] = sortedByRow(this.row, this.rowCount);
    this.scopeName = Array.from(block.numbers("scopes.name"), (text) => texts.get(text));
    this.scopeKind = block.numbers("scopes.kind");
    this.chain = block.numbers("chain.call");
    this.curves = meta.pools.map(({ name, extent, has_tensors: hasTensors }, pool) => ({
      name,
      extent,
      hasTensors,
      at: times(`memory.${pool}.at`),
      value: block.sizes(`memory.${pool}.per_bank`),
    }));
    const names = block.maybe("snapshots.name");
    const at = times("snapshots.at");
    this.snapshots = Array.from(names, (text, row) => ({
      name: text < 0 ? null : texts.get(text),
      at: at[row],
    }));
  }

  /** When the first call began; 0 if there are no calls. */
  get firstCall(): number {
    const first = this.began.reduce((min, began) => Math.min(min, began), Number.POSITIVE_INFINITY);
    return Number.isFinite(first) ? first : 0;
  }

  /** The memory that a call allocated and freed; NaN if unknown. Decoded on first use. */
  memory(call: number): Record<"allocated" | "freed" | "peak" | "kept" | "change", number> {
    const { block } = this;
    this.memoryColumns ??= {
      allocated: block.sizes("calls.allocated"),
      freed: block.sizes("calls.freed"),
      peak: block.sizes("calls.peak"),
      kept: block.sizes("calls.kept"),
      change: block.signed("calls.change"),
    };
    const { allocated, freed, peak, kept, change } = this.memoryColumns;
    return {
      allocated: allocated[call],
      freed: freed[call],
      peak: peak[call],
      kept: kept[call],
      change: change[call],
    };
  }

  /** The bytes that each recorded call of some scopes retained, without calls that were not measured. */
  retainedBy(scopes: readonly number[]): Map<number, number[]> {
    const found = new Map(scopes.map((scope): [number, number[]] => [scope, []]));
    for (let call = 0; call < this.count; call++) {
      const of = found.get(this.scope[call]);
      if (!of) continue;
      const { kept } = this.memory(call);
      if (!Number.isNaN(kept)) of.push(kept);
    }
    return found;
  }

  /** Decodes the data of tooltips in advance. */
  prepare(): void {
    if (this.count === 0) return;
    this.memory(0);
    this.loc(0);
  }

  /** The location that a call was made from; `null` if unknown. */
  loc(call: number): string | null {
    this.locColumn ??= this.block.maybe("calls.loc");
    const text = this.locColumn[call];
    return text < 0 ? null : this.texts.get(text);
  }

  name(call: number): string {
    return this.scopeName[this.scope[call]];
  }

  kind(call: number): string {
    return this.meta.kinds[this.scopeKind[this.scope[call]]] ?? "operation";
  }

  /** The enclosing call; -1 if there is none. */
  parent(call: number): number {
    const back = this.parentBack[call];
    return back < 0 ? -1 : call - back;
  }

  /** The names of the enclosing calls, outermost first; only the innermost `max` of them. */
  around(call: number, max = 6): string[] {
    const names: string[] = [];
    for (let outer = this.parent(call); outer >= 0; outer = this.parent(outer)) {
      if (names.length === max) {
        names.push("…");
        break;
      }
      names.push(this.name(outer));
    }
    return names.reverse();
  }
}

/** Sorts calls by row; within a row they keep their order, which is by time. */
function sortedByRow(row: Uint32Array, rows: number): [byRow: Uint32Array, start: Uint32Array] {
  const start = new Uint32Array(rows + 1);
  for (const at of row) start[at + 1]++;
  for (let at = 0; at < rows; at++) start[at + 1] += start[at];
  const next = start.slice();
  const byRow = new Uint32Array(row.length);
  for (let call = 0; call < row.length; call++) byRow[next[row[call]]++] = call;
  return [byRow, start];
}

/** Unpacks the calls of a rank; `null` if it has none. */
export async function unpackGantt(rank: number, texts: Lines): Promise<GanttData | null> {
  const block = await unpack<GanttHead>(`gantt-${rank}`);
  return block && new GanttData(block, texts);
}
