// The table of a live set: what each tensor is, who made it, when it dies.

import { bankWords } from "../banks";
import type { LiveSet, Pool, Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { count, sizeElement, UNKNOWN } from "../format";
import { stepLink } from "../moment";
import type { Store } from "../state";
import { type Column, Table } from "../table";

/** Columns that only tensors of compiled programs have something in. */
const OF_COMPILED = ["padded_bytes", "padding_bytes", "run"];

/** The tensors, largest first. */
export class LiveTable {
  readonly element = h("div", {});
  private table: Table | undefined;
  private rank!: Rank;
  /** What the columns depend on. */
  private form = "";

  constructor(
    private readonly store: Store,
    private readonly onSelect: (tensor: number) => void,
  ) {}

  show(rank: Rank, pool: Pool, live: LiveSet): void {
    this.rank = rank;
    const { heading } = bankWords(pool.extent);
    const compiled = isTenstorrent(rank.summary);
    const form = `${heading} ${compiled}`;
    if (!this.table || form !== this.form) {
      this.form = form;
      this.table = new Table({
        caption: "Live tensors",
        height: "min(50vh, 420px)",
        empty: "Nothing is alive here.",
        onActivate: this.onSelect,
        columns: this.columns(heading, compiled).filter(({ key }) => compiled || !OF_COMPILED.includes(key)),
      });
      fill(this.element, this.table.element);
    }
    this.table.show(live.tensors);
    this.table.select(null);
  }

  private columns(heading: string, compiled: boolean): Column[] {
    const { store } = this;
    const of = <T>(read: (tensor: number) => T) => read;
    const type = of((tensor) => this.rank.tensors.type[tensor]);
    const sizeOf = of((tensor) => this.rank.tensors.perBank[tensor]);
    const bytesOf = (column: "padded" | "logical") => (tensor: number) =>
      type(tensor) < 0 ? Number.NaN : this.rank.types[column][type(tensor)];
    const name = of((tensor) => this.rank.tensorName(tensor) ?? "");
    const maker = of((tensor) => this.rank.tensors.step[tensor]);
    const op = of((tensor) => (maker(tensor) < 0 ? "" : this.rank.opName(maker(tensor))));
    const run = of((tensor) => this.rank.tensors.run[tensor]);
    return [
      {
        key: "name",
        title: "Name",
        // Without a compiler few tensors have names: who made them says more.
        width: compiled ? "minmax(220px, 3fr)" : "minmax(180px, 2fr)",
        cell: (row) => this.nameCell(row),
        sort: name,
      },
      {
        key: "class",
        title: "Class",
        width: "100px",
        cell: (row) => this.className(row),
        sort: (row) => this.className(row),
      },
      {
        key: "shape",
        title: "Shape",
        width: "minmax(110px, 1fr)",
        cell: (row) => (type(row) < 0 ? UNKNOWN : this.rank.shapeText(type(row))),
        sort: (row) => (type(row) < 0 ? "" : this.rank.shapeText(type(row))),
      },
      {
        key: "dtype",
        title: "Dtype",
        width: "80px",
        cell: (row) => (type(row) < 0 ? "" : this.rank.dtypeText(type(row))),
        sort: (row) => this.dtype(row),
      },
      {
        key: "per_bank",
        title: heading,
        number: true,
        width: "96px",
        cell: (row) => sizeElement(sizeOf(row)),
        sort: sizeOf,
      },
      {
        key: "padded_bytes",
        title: "Device",
        number: true,
        width: "104px",
        cell: (row) => sizeElement(bytesOf("padded")(row)),
        sort: bytesOf("padded"),
      },
      {
        key: "padding_bytes",
        title: "Padding",
        number: true,
        width: "96px",
        cell: (row) => sizeElement(this.rank.padding(row)),
        sort: (row) => this.rank.padding(row),
      },
      {
        key: "op",
        title: "Made by",
        width: compiled ? "minmax(150px, 1.4fr)" : "minmax(220px, 3fr)",
        cell: (row) => this.makerCell(store, row),
        sort: op,
      },
      {
        key: "born_step",
        title: "Born",
        number: true,
        width: "84px",
        cell: (row) => (maker(row) < 0 ? "before" : stepLink(store, maker(row), count(maker(row)))),
        sort: maker,
        csv: (row) => (maker(row) < 0 ? null : maker(row)),
      },
      {
        key: "dies_step",
        title: "Dies",
        number: true,
        width: "120px",
        cell: (row) => this.deathCell(store, row),
        sort: (row) => this.rank.tensors.dies[row],
        csv: (row) => this.rank.diesStep(row),
      },
      {
        key: "logical_bytes",
        title: "Elements",
        number: true,
        width: "96px",
        cell: (row) => sizeElement(bytesOf("logical")(row)),
        sort: bytesOf("logical"),
      },
      {
        key: "run",
        title: "Run",
        number: true,
        width: "60px",
        cell: (row) => (run(row) < 0 ? "" : count(this.rank.runs.number[run(row)])),
        sort: (row) => (run(row) < 0 ? Number.NaN : this.rank.runs.number[run(row)]),
      },
    ];
  }

  choose(tensor: number): void {
    this.table?.select(tensor);
    this.table?.scrollTo(tensor);
  }

  csv(): string {
    return this.table?.csv() ?? "";
  }

  private className(row: number): string {
    return this.rank.classes[this.rank.tensors.class[row]];
  }

  private dtype(row: number): string {
    const type = this.rank.tensors.type[row];
    return type < 0 ? "" : this.rank.report.texts.get(this.rank.types.dtype[type]);
  }

  private nameCell(row: number): HTMLElement {
    const name = this.rank.tensorNameOrMaker(row) ?? "unnamed";
    const also = this.rank.tensorAlso(row);
    const run = this.rank.tensors.run[row];
    const program = run < 0 ? "" : ` in ${this.rank.report.texts.get(this.rank.runs.program[run])}`;
    const ssa = this.rank.text(this.rank.tensors.ssa[row]) ?? "";
    const title = `${name}\n${ssa}${program}${also.length > 0 ? `\nalso ${also.slice(0, 20).join(", ")}` : ""}`;
    const swatch = h("span", { class: "swatch", style: `--tile: var(--class-${this.className(row)})` });
    return h("span", { title: title.slice(0, 2000), class: "legend-name" }, swatch, name.slice(0, 300));
  }

  private makerCell(store: Store, row: number): HTMLElement | string {
    const step = this.rank.tensors.step[row];
    if (step < 0) return this.className(row) === "unknown" ? "there before" : "argument";
    const loc = this.rank.opLoc(step);
    const cell = stepLink(store, step, this.rank.opName(step));
    cell.title = `${this.rank.opName(step)}, step ${count(step)}\n${(loc ?? "location unknown").slice(0, 2000)}`;
    return cell;
  }

  private deathCell(store: Store, row: number): HTMLElement | string {
    const dies = this.rank.diesStep(row);
    if (dies !== null) return stepLink(store, dies, count(dies));
    const gone = this.rank.goneBeforeStep(row);
    return gone === null ? "never" : `before ${count(gone)}`;
  }
}
