// The table of a live set: the name, type and size of each tensor or group of similar tensors, the step that allocated it
// and the step that frees it.

import { bankWords } from "../banks";
import type { LiveSet, Pool, Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { count, sizeElement } from "../format";
import type { Store } from "../state";
import { type Column, Table } from "../table";
import { tensorColumns } from "./columns";
import { TensorGroups } from "./groups";
import { RankTensors } from "./rank-tensors";

/** The columns that only apply to compiled programs. */
const OF_COMPILED = ["padded_bytes", "padding_bytes", "run"];

export class LiveTable {
  readonly element = h("div", {});
  private table: Table | undefined;
  private groups: TensorGroups | undefined;
  private rank: Rank | undefined;
  private pool: Pool | undefined;

  constructor(
    private readonly store: Store,
    private readonly onSelect: (tensors: Uint32Array) => void,
  ) {}

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
      fill(this.element, this.table.element);
    }
    this.table.show(groups.show(live.tensors), live.tensors);
    this.table.select(null);
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
      onActivate: (row) => this.onSelect(groups.membersOf(row) ?? Uint32Array.of(row)),
      columns: this.columns(rank, pool, groups, tensors).filter(
        ({ key }) => compiled || !OF_COMPILED.includes(key),
      ),
    });
  }

  private columns(rank: Rank, pool: Pool, groups: TensorGroups, tensors: Uint32Array): Column[] {
    const { runs, types } = rank;
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
