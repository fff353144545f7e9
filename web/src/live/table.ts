// The table of a live set: the name, type and size of each tensor or group of similar tensors, the step that allocated it
// and the step that frees it.

import { bankWords } from "../banks";
import type { LiveSet, Pool, Rank } from "../data/report";
import type { Stacks } from "../data/stacks";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { stackList, stackTitle } from "../flame/stack-lines";
import { count, sizeElement } from "../format";
import type { Store } from "../state";
import { type Column, Table } from "../table";
import { longestOf } from "../text-width";
import { tensorColumns } from "./columns";
import { TensorGroups } from "./groups";
import { RankTensors } from "./rank-tensors";
import { sampleOf } from "./sample";

/** The columns that only apply to compiled programs. */
const OF_COMPILED = ["padded_bytes", "padding_bytes", "run"];

/** The texts of this many tensors decide the widths of columns; those of a million would take a second. */
const MAX_MEASURED = 50_000;

export class LiveTable {
  readonly element: HTMLElement;
  private readonly host = h("div", {});
  private readonly stack = h("div", {
    class: "stack-panel",
    role: "region",
    "aria-label": "Call stack",
    hidden: true,
  });
  private table: Table | undefined;
  private groups: TensorGroups | undefined;
  private rank: Rank | undefined;
  private pool: Pool | undefined;

  constructor(
    private readonly store: Store,
    private readonly onSelect: (tensors: Uint32Array) => void,
  ) {
    this.element = h("div", {}, this.host, this.stack);
  }

  show(rank: Rank, pool: Pool, live: LiveSet): void {
    if (rank !== this.rank || !this.groups) {
      this.rank = rank;
      this.groups = new TensorGroups(new RankTensors(rank));
    }
    const { groups } = this;
    if (!this.table || pool !== this.pool) {
      this.pool = pool;
      const before = this.table?.sortedBy;
      this.table = this.tableOf(rank, pool, groups);
      if (before) this.table.sortBy(before.key, before.descending);
      fill(this.host, this.table.element);
    }
    this.table.show(groups.show(live.tensors), live.tensors);
    this.table.select(null);
    this.stack.hidden = true;
  }

  /** Shows the call stack of a row below the table, if all of its tensors have the same. */
  private showStack(rank: Rank, groups: TensorGroups, row: number): void {
    const stack = groups.common(row, (tensor) => rank.stackOf(tensor));
    const { stacks } = rank;
    this.stack.hidden = !stacks || stack === null || stack < 0;
    if (!stacks || stack === null || stack < 0) return;
    fill(
      this.stack,
      h("h3", {}, `Call stack of ${groups.title(row)}, innermost line first`),
      stackList(stacks, stack),
    );
  }

  /** Creates the table of a pool. All tensors that were ever in the pool decide about its columns. */
  private tableOf(rank: Rank, pool: Pool, groups: TensorGroups): Table {
    const tensors = rank.tensorsIn(pool.index);
    const compiled = isTenstorrent(rank.summary);
    return new Table({
      caption: "Live tensors",
      height: "min(50vh, 420px)",
      empty: "No live tensors.",
      decidedBy: tensors,
      membersOf: (row) => groups.membersOf(row),
      onActivate: (row) => {
        this.onSelect(groups.membersOf(row) ?? Uint32Array.of(row));
        this.showStack(rank, groups, row);
      },
      columns: this.columns(rank, pool, groups, tensors).filter(
        ({ key }) => compiled || !OF_COMPILED.includes(key),
      ),
    });
  }

  private columns(rank: Rank, pool: Pool, groups: TensorGroups, all: Uint32Array): Column[] {
    const { runs, types } = rank;
    const tensors = sampleOf(all, MAX_MEASURED);
    const distinct = (of: (tensor: number) => string | null) =>
      [...new Set(Array.from(tensors, of))].filter((text) => text !== null);
    const { titles, steps, freed } = groups.texts(tensors);
    const columns = tensorColumns(this.store, groups, {
      heading: bankWords(pool.extent).heading,
      names: [...distinct((tensor) => rank.tensorNameOrOrigin(tensor)), ...titles],
      shapes: Array.from(types.shape, (_, type) => rank.shapeText(type)),
      ops: distinct((tensor) => rank.allocatedBy(tensor)),
      steps,
      freed,
      end: rank.end,
    });
    const name = columns.find(({ key }) => key === "name")!;
    const plain = name.cell;
    name.cell = (row) => this.withOrigin(rank, groups, row, plain(row));
    const bytes = (column: "padded" | "logical") => (row: number) =>
      groups.sum(row, (tensor) => {
        const type = rank.tensors.type[tensor];
        return type < 0 ? Number.NaN : types[column][type];
      });
    const padding = (row: number) => groups.sum(row, (tensor) => rank.padding(tensor));
    const run = (row: number) => {
      const run = groups.common(row, (tensor) => rank.tensors.run[tensor]);
      return run === null || run < 0 ? Number.NaN : runs.number[run];
    };
    const size = (
      key: string,
      title: string,
      narrow: number,
      of: (row: number) => number,
      help?: string,
    ): Column => ({
      key,
      title,
      narrow,
      number: true,
      width: "96px",
      cell: (row) => sizeElement(of(row)),
      sort: of,
      ...(help === undefined ? {} : { help }),
    });
    const place = columns.findIndex(({ key }) => key === "op");
    columns.splice(
      place,
      0,
      size("padded_bytes", "On device", 6, bytes("padded"), "Size on the device, including padding"),
      { ...size("padding_bytes", "Padding", 5, padding), has: (row) => padding(row) > 0 },
    );
    if (rank.stacks) columns.splice(place, 0, lineColumn(rank, rank.stacks, groups, tensors));
    columns.push(size("logical_bytes", "Data size", 7, bytes("logical"), "Size of the tensor's elements"), {
      key: "run",
      title: "Run",
      number: true,
      width: "60px",
      narrow: 8,
      cell: (row) => (Number.isNaN(run(row)) ? "" : count(run(row))),
      sort: run,
      // A single run does not need a number.
      has: (row) => rank.summary.runs > 1 && !Number.isNaN(run(row)),
    });
    return columns;
  }

  /** Adds the SSA name, the program and the other names of a tensor to its tooltip. */
  private withOrigin(rank: Rank, groups: TensorGroups, row: number, cell: Node | string): Node | string {
    if (groups.membersOf(row) || !(cell instanceof HTMLElement)) return cell;
    const also = rank.tensorAlso(row);
    const run = rank.tensors.run[row];
    const program = run < 0 ? "" : ` in ${rank.report.texts.get(rank.runs.program[run])}`;
    const ssa = rank.text(rank.tensors.ssa[row]) ?? "";
    const others = also.length > 0 ? `\nalso ${also.slice(0, 20).join(", ")}` : "";
    cell.title = `${cell.title}\n${ssa}${program}${others}`.slice(0, 2000);
    return cell;
  }

  /** Selects a tensor, in its expanded group if it has one. */
  choose(tensor: number): void {
    const group = this.groups?.groupOf(tensor) ?? null;
    if (group !== null) this.table?.expand(group);
    this.table?.select(tensor);
    this.table?.scrollTo(tensor);
  }

  csv(): string {
    return this.table?.csv() ?? "";
  }
}

/** The line of the user's program that allocated a tensor; the whole stack is in the tooltip and below the table. */
function lineColumn(rank: Rank, stacks: Stacks, groups: TensorGroups, tensors: Uint32Array): Column {
  const frameOf = (tensor: number) => {
    const stack = rank.stackOf(tensor);
    return stack < 0 ? -1 : stacks.lineOf(stack);
  };
  const text = (row: number) => {
    const frame = groups.common(row, frameOf);
    if (frame === null)
      return `${count(new Set(Array.from(groups.membersOf(row) ?? [], frameOf)).size)} lines`;
    return frame < 0 ? "" : stacks.shortName(frame);
  };
  const title = (row: number) => {
    const stack = groups.common(row, (tensor) => rank.stackOf(tensor));
    return stack === null || stack < 0 ? "" : stackTitle(stacks, stack);
  };
  const frames = [...new Set(Array.from(tensors, frameOf))].filter((frame) => frame >= 0);
  return {
    key: "line",
    title: "Line",
    help: "The innermost line of your program; the tooltip has the whole call stack",
    fit: { longest: longestOf(frames.map((frame) => stacks.shortName(frame))), min: 130, max: 320 },
    narrow: 2,
    cell: (row) => h("span", { title: title(row) }, text(row)),
    sort: text,
    csv: (row) => (frameOf(row) < 0 ? null : stacks.fullName(frameOf(row))),
  };
}
