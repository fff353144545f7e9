// The table of changes, and the tensors of the selected one.

import { fill, h } from "../dom";
import { change, changeElement, count, counted, shorten, size, sizeElement } from "../format";
import type { ChangeRow, TensorSide } from "../generated/answers";
import { type Column, Table } from "../table";
import { lengthsOf, textWidth } from "../text-width";
import { SIDES, type Side } from "./data";

/** The padding of a cell, and of a heading with its arrow. */
const [CELL, HEADING] = [20, 34];

export class Changes {
  readonly element = h("div", {});
  private readonly detail = h("div", { class: "diff-change", "aria-live": "polite", hidden: true });

  /** `select` is called with the selected row, or `null`. */
  constructor(
    rows: readonly ChangeRow[],
    further: number,
    private readonly select: (index: number | null) => void,
  ) {
    if (rows.length === 0) {
      fill(this.element, h("p", { class: "note" }, "No tensor differs."));
      return;
    }
    const all = Uint32Array.from(rows.keys());
    const table = new Table({
      caption: "Changes",
      height: "min(50vh, 420px)",
      columns: columnsOf(rows),
      decidedBy: all,
      onActivate: (index) => {
        this.show(rows[index]);
        select(index);
      },
    });
    table.show(all);
    const more =
      further > 0 &&
      `${counted(further, "change")} with a smaller effect ${further === 1 ? "is" : "are"} not listed.`;
    fill(this.element, table.element, more && h("p", { class: "note" }, more), this.detail);
  }

  private show(row: ChangeRow): void {
    const clear = h("button", { type: "button" }, "Clear selection");
    clear.addEventListener("click", () => {
      this.detail.hidden = true;
      this.select(null);
    });
    this.detail.hidden = false;
    fill(
      this.detail,
      h("div", { class: "diff-change-head" }, h("h3", {}, `${row.title}: ${row.detail}`), clear),
      [row.now_overlaps, row.no_longer_overlaps].map((overlap) => overlap && h("p", {}, overlap.sentence)),
      h(
        "div",
        { class: "pair" },
        SIDES.map((side) => tensorFacts(row, side)),
      ),
    );
  }
}

/** The first of the tensors in an input. */
function tensorFacts(row: ChangeRow, side: Side): HTMLElement {
  const tensor = row[side];
  const name = h("span", { class: `diff-side diff-side-${side}` }, side);
  if (!tensor)
    return h(
      "div",
      {},
      name,
      h("span", { class: "note" }, row.tensors === 0 ? "no such phase" : "no such tensor"),
    );
  const facts = factsOf(row, side, tensor);
  return h(
    "div",
    {},
    name,
    row.tensors > 1 && h("span", { class: "note" }, `the first of ${counted(row.tensors, "tensor")}`),
    h(
      "dl",
      { class: "diff-facts" },
      facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}

function factsOf(row: ChangeRow, side: Side, tensor: TensorSide): [name: string, value: Node | string][] {
  const bytes = side === "before" ? row.before_per_bank : row.after_per_bank;
  const pool = side === "before" ? (row.moved_from?.pool ?? row.pool) : row.pool;
  const type = [tensor.shape?.join("x"), tensor.dtype, tensor.layout].filter(Boolean).join(", ");
  const life = [
    tensor.born_step === null ? null : `step ${count(tensor.born_step)}`,
    tensor.freed_before_step === null
      ? "never freed"
      : `freed before step ${count(tensor.freed_before_step)}`,
  ];
  const isPhase = row.tensors === 0;
  const mono = (text: string | null) => text && h("span", { class: "mono" }, text);
  const facts: [name: string, value: Node | string | null][] = [
    ["Name", mono(tensor.name)],
    ["Operation", mono(tensor.op)],
    ["Location", mono(tensor.loc)],
    ["Module", mono(tensor.made_in)],
    ["Type", type],
    [row.tensors > 1 ? `${pool}, all` : pool, sizeElement(bytes)],
    ["Allocated", isPhase ? null : life.filter(Boolean).join(", ")],
  ];
  return facts.filter((fact): fact is [string, Node | string] => Boolean(fact[1]));
}

/** The operation or location of a change, as on the command line. */
function placeOf(row: ChangeRow): string {
  const side = row.after ?? row.before;
  return side?.loc ?? side?.op ?? "";
}

function columnsOf(rows: readonly ChangeRow[]): Column[] {
  const text = (
    key: string,
    title: string,
    of: (row: ChangeRow) => string,
    min: number,
    narrow?: number,
  ): Column => {
    const { longest, typical } = lengthsOf(rows.map(of));
    return {
      key,
      title,
      ...(narrow !== undefined && { narrow }),
      fit: { longest, typical, min, ...(longest.length < 24 && { max: 260 }) },
      cell: (row) => h("span", { title: of(rows[row]) }, shorten(of(rows[row]), 200)),
      sort: (row) => of(rows[row]),
    };
  };
  const bytes = (
    key: string,
    title: string,
    of: (row: ChangeRow) => number,
    show: (bytes: number) => Node | string,
    narrow?: number,
  ): Column => {
    const wider = (widest: number, row: ChangeRow) => Math.max(widest, textWidth(change(of(row))));
    const widest = rows.reduce(wider, textWidth(size(0)));
    return {
      key,
      title,
      number: true,
      ...(narrow !== undefined && { narrow }),
      width: `${Math.max(widest + CELL, textWidth(title, "600") + HEADING)}px`,
      cell: (row) => show(of(rows[row])),
      sort: (row) => of(rows[row]),
    };
  };
  return [
    bytes(
      "effect",
      "At the peak",
      (row) => row.effect_per_bank,
      (effect) => (effect === 0 ? "none" : changeElement(effect)),
    ),
    text("pool", "Pool", (row) => row.pool, 80, 1),
    text("what", "What", (row) => row.title, 150),
    text("difference", "Difference", (row) => row.detail, 150),
    text("where", "Where", placeOf, 100, 2),
    bytes(
      "before",
      "Size before",
      (row) => row.before_per_bank,
      (bytes) => sizeElement(bytes),
      4,
    ),
    bytes(
      "after",
      "Size after",
      (row) => row.after_per_bank,
      (bytes) => sizeElement(bytes),
      3,
    ),
  ];
}
