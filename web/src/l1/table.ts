// The table of the segments of a core's L1, in the order of the map.

import type { L1 } from "../data/l1";
import type { Rank } from "../data/report";
import { h } from "../dom";
import { count, sizeElementIn } from "../format";
import { stepLink } from "../moment";
import type { Store } from "../state";
import { type Column, Table } from "../table";
import { lengthsOf, longestOf } from "../text-width";
import type { Segment } from "./segments";
import { coresOf, detailOf, partName, tensorTitle, typeOf } from "./words";

export class SegmentTable {
  private readonly table: Table;
  private segments: readonly Segment[] = [];

  constructor(
    store: Store,
    private readonly rank: Rank,
    private readonly l1: L1,
    onSelect: (index: number) => void,
  ) {
    this.table = new Table({
      caption: "Segments of L1",
      height: "420px",
      empty: "L1 is empty.",
      onActivate: onSelect,
      columns: this.columns(store),
    });
  }

  get element(): HTMLElement {
    return this.table.element;
  }

  show(segments: readonly Segment[]): void {
    this.segments = segments;
    this.table.show(Uint32Array.from(segments.keys()));
    this.table.select(null);
  }

  /** Selects a row and scrolls to it. */
  choose(index: number): void {
    this.table.select(index);
    this.table.scrollTo(index);
  }

  csv(): string {
    return this.table.csv();
  }

  private columns(store: Store): Column[] {
    const { rank, l1 } = this;
    const whole = l1.outline.size;
    const tensors = [l1.outline.pool, l1.outline.small_pool]
      .filter((pool) => pool !== null)
      .flatMap((pool) => Array.from(rank.tensorsIn(pool)));
    const of = (row: number) => this.segments[row];
    const text = (value: (segment: Segment) => string) => ({
      cell: (row: number) => value(of(row)),
      sort: (row: number) => value(of(row)),
    });
    const address = (value: (segment: Segment) => number) => ({
      number: true,
      width: "84px",
      cell: (row: number) => (Number.isNaN(value(of(row))) ? "unknown" : count(value(of(row)))),
      sort: (row: number) => value(of(row)),
    });
    const allocated = ({ part, tensor }: Segment) =>
      part === "tensor" && tensor ? rank.tensors.step[tensor.tensor] : -1;
    const names = tensors.map((tensor) => tensorTitle(rank, tensor));
    const types = [...new Set(tensors.map((tensor) => rank.tensors.type[tensor]))].filter(
      (type) => type >= 0,
    );
    const ops = tensors.flatMap((tensor) => {
      const op = rank.allocatedBy(tensor);
      return op === null ? [] : [`step ${count(rank.tensors.step[tensor])} ${op}`];
    });
    return [
      {
        key: "part",
        title: "Part",
        width: "138px",
        ...text(partName),
        cell: (row) => {
          const { part, isEmpty } = of(row);
          const swatch = `swatch l1-${part}${isEmpty ? " l1-empty" : ""}`;
          return h("span", { title: partName(of(row)) }, h("span", { class: swatch }), partName(of(row)));
        },
      },
      { key: "address", title: "Address", help: "The first address", ...address(({ start }) => start) },
      {
        key: "end",
        title: "End",
        help: "One past the last address",
        narrow: 3,
        ...address(({ end }) => end),
      },
      {
        key: "bytes",
        title: "Size",
        number: true,
        width: "92px",
        cell: (row) => sizeElementIn(bytesOf(of(row)), whole),
        sort: (row) => bytesOf(of(row)),
      },
      {
        key: "content",
        title: "Content",
        fit: { ...lengthsOf(["only their end is known", ...names]), min: 110 },
        narrow: 0,
        ...text((segment) => detailOf(rank, segment)),
      },
      {
        key: "type",
        title: "Shape and type",
        fit: { longest: longestOf(types.map((type) => rank.typeText(type))), min: 190, max: 240 },
        narrow: 1,
        ...text((segment) => typeOf(rank, segment)),
      },
      {
        key: "step",
        title: "Allocated by",
        fit: { longest: longestOf(ops), min: 160, max: 260 },
        narrow: 2,
        cell: (row) => {
          const step = allocated(of(row));
          if (step < 0) return "";
          const op = rank.opName(step);
          return h("span", { title: op }, stepLink(store, step), " ", h("code", {}, op));
        },
        sort: (row) => (allocated(of(row)) < 0 ? Number.NaN : allocated(of(row))),
      },
      { key: "cores", title: "Cores", width: "minmax(80px, 160px)", narrow: 4, ...text(coresOf) },
    ];
  }
}

/** The size of a segment; that of its buffer or tensor if its address is unknown. */
function bytesOf({ start, end, buffer, tensor }: Segment): number {
  return Number.isNaN(end - start) ? ((buffer ?? tensor)?.bytes ?? Number.NaN) : end - start;
}
