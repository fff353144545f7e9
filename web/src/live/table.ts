// The table of a live set: each tensor's name, type and size, the step that allocated it and the step that frees it.

import { bankWords } from "../banks";
import type { LiveSet, Pool, Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h } from "../dom";
import { count, sizeElement, UNKNOWN } from "../format";
import { stepLink } from "../moment";
import type { Store } from "../state";
import { type Column, Table } from "../table";
import { longestOf } from "../text-width";

/** The columns that only apply to compiled programs. */
const OF_COMPILED = ["padded_bytes", "padding_bytes", "run"];

/** The number of tensors whose names determine the width of their column. */
const MAX_NAMES = 2000;

/** The cells of tensors that no operation allocated. */
const EXISTED = "existed before";
const ARGUMENT = "argument";

export class LiveTable {
  readonly element = h("div", {});
  private table: Table | undefined;
  private rank!: Rank;
  /** The parameters that the columns depend on. */
  private form = "";

  constructor(
    private readonly store: Store,
    private readonly onSelect: (tensor: number) => void,
  ) {}

  show(rank: Rank, pool: Pool, live: LiveSet): void {
    this.rank = rank;
    const { heading } = bankWords(pool.extent);
    const compiled = isTenstorrent(rank.summary);
    const form = `${rank.index} ${heading} ${compiled}`;
    if (!this.table || form !== this.form) {
      this.form = form;
      const before = this.table?.sortedBy;
      this.table = new Table({
        caption: "Live tensors",
        height: "min(50vh, 420px)",
        empty: "No live tensors.",
        hidesEmptyColumns: true,
        onActivate: this.onSelect,
        columns: this.columns(heading, this.longestName(live)).filter(
          ({ key }) => compiled || !OF_COMPILED.includes(key),
        ),
      });
      if (before) this.table.sortBy(before.key, before.descending);
      fill(this.element, this.table.element);
    }
    this.table.show(live.tensors);
    this.table.select(null);
  }

  private columns(heading: string, longestName: string): Column[] {
    const { store } = this;
    const of = <T>(read: (tensor: number) => T) => read;
    const type = of((tensor) => this.rank.tensors.type[tensor]);
    const sizeOf = of((tensor) => this.rank.tensors.perBank[tensor]);
    const bytesOf = (column: "padded" | "logical") => (tensor: number) =>
      type(tensor) < 0 ? Number.NaN : this.rank.types[column][type(tensor)];
    const name = of((tensor) => this.rank.tensorName(tensor) ?? "");
    const shape = of((tensor) => (type(tensor) < 0 ? "" : this.rank.shapeText(type(tensor))));
    const known = of((tensor) => (this.className(tensor) === "unknown" ? "" : this.className(tensor)));
    const step = of((tensor) => this.rank.tensors.step[tensor]);
    const op = of((tensor) => (step(tensor) < 0 ? "" : this.rank.opName(step(tensor))));
    const run = of((tensor) => this.rank.tensors.run[tensor]);
    return [
      {
        key: "name",
        title: "Name",
        fit: { longest: longestName, min: 210 },
        cell: (row) => this.nameCell(row),
        sort: (row) => this.rank.tensorNameOrOrigin(row),
        csv: name,
      },
      {
        key: "class",
        title: "Class",
        width: "110px",
        cell: (row) => this.classCell(row),
        sort: known,
        csv: (row) => this.className(row),
      },
      {
        key: "shape",
        title: "Shape",
        fit: { longest: this.longestShape(), min: 320, max: 480 },
        cell: (row) => shape(row) || UNKNOWN,
        sort: shape,
      },
      {
        key: "dtype",
        title: "Dtype",
        width: "72px",
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
        width: "92px",
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
        title: "Allocated by",
        fit: { longest: this.longestOperation(), min: 150 },
        cell: (row) => this.operationCell(store, row),
        sort: op,
        has: () => true,
      },
      {
        key: "born_step",
        title: "At step",
        number: true,
        fit: { longest: count(this.rank.end), min: 84, max: 84 },
        cell: (row) => (step(row) < 0 ? "before" : stepLink(store, step(row), count(step(row)))),
        sort: step,
        csv: (row) => (step(row) < 0 ? null : step(row)),
      },
      {
        key: "dies_step",
        title: "Freed by",
        number: true,
        fit: { longest: `before ${count(this.rank.end)}`, min: 120, max: 120 },
        cell: (row) => this.freedCell(store, row),
        sort: (row) => this.rank.tensors.dies[row],
        csv: (row) => this.rank.diesStep(row),
      },
      {
        key: "logical_bytes",
        title: "Data size",
        help: "Size of the tensor's elements",
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

  /** The longest name; the first tensors are enough to choose a width. */
  private longestName({ tensors }: LiveSet): string {
    return longestOf(Array.from(tensors.subarray(0, MAX_NAMES), (row) => this.name(row)));
  }

  private longestShape(): string {
    const { rank } = this;
    return longestOf(Array.from(rank.types.shape, (_, type) => rank.shapeText(type)));
  }

  private longestOperation(): string {
    const { ops, report } = this.rank;
    // Some tensors have these texts instead.
    return longestOf([EXISTED, ARGUMENT, ...Array.from(new Set(ops.name), (name) => report.texts.get(name))]);
  }

  private className(row: number): string {
    return this.rank.classes[this.rank.tensors.class[row]];
  }

  private dtype(row: number): string {
    const type = this.rank.tensors.type[row];
    return type < 0 ? "" : this.rank.report.texts.get(this.rank.types.dtype[type]);
  }

  private name(row: number): string {
    return this.rank.tensorNameOrOrigin(row) ?? "unnamed";
  }

  private nameCell(row: number): HTMLElement {
    const name = this.name(row);
    const also = this.rank.tensorAlso(row);
    const run = this.rank.tensors.run[row];
    const program = run < 0 ? "" : ` in ${this.rank.report.texts.get(this.rank.runs.program[run])}`;
    const ssa = this.rank.text(this.rank.tensors.ssa[row]) ?? "";
    const title = `${name}\n${ssa}${program}${also.length > 0 ? `\nalso ${also.slice(0, 20).join(", ")}` : ""}`;
    return h("span", { title: title.slice(0, 2000) }, name.slice(0, 300));
  }

  private classCell(row: number): HTMLElement {
    const name = this.className(row);
    return h("span", {}, h("span", { class: "swatch", style: `--tile: var(--class-${name})` }), name);
  }

  private operationCell(store: Store, row: number): HTMLElement | string {
    const step = this.rank.tensors.step[row];
    if (step < 0) return this.className(row) === "unknown" ? EXISTED : ARGUMENT;
    const loc = this.rank.opLoc(step);
    const cell = stepLink(store, step, this.rank.opName(step));
    cell.title = `${this.rank.opName(step)}, step ${count(step)}\n${(loc ?? "unknown location").slice(0, 2000)}`;
    return cell;
  }

  private freedCell(store: Store, row: number): HTMLElement | string {
    const dies = this.rank.diesStep(row);
    if (dies !== null) return stepLink(store, dies, count(dies));
    const gone = this.rank.goneBeforeStep(row);
    return gone === null ? "never" : `before ${count(gone)}`;
  }
}
