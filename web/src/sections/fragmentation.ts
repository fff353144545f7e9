// Fragmentation: free memory, its largest block, and the moments with the largest difference.

import "./charts.css";
import { bankWords } from "../banks";
import { LineChart } from "../charts/line-chart";
import { factGrid, momentHead, positionTitle, stepOfPosition } from "../charts/moment-facts";
import type { Pool, Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, percent, size, sizeElement } from "../format";
import type { Block, FragmentedMoment, LiveTensor } from "../generated/answers";
import { tensorColumns } from "../live/columns";
import { TensorGroups } from "../live/groups";
import { ListedTensors } from "../live/rank-tensors";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { State, Store } from "../state";
import { Table } from "../table";

/** The free bytes outside the largest block. */
const inPieces = ({ free, largest_free: largest }: FragmentedMoment): number => free - largest;

export function fragmentationSection(store: Store): Section {
  const depends = ["rank", "pool", "from", "to", "moment", "run", "theme"] as const;
  return section(store, "fragmentation", "Fragmentation", depends, (body, head) => {
    const view = new FragmentationView(store, body, head);
    return (state) => view.draw(state);
  });
}

class FragmentationView {
  private readonly worst = h("p", { class: "note" });
  private readonly table = h("div", { class: "chart-table" });
  private readonly chart: LineChart;
  private of: Pool | undefined;
  private isEmpty = true;

  constructor(
    private readonly store: Store,
    private readonly body: HTMLElement,
    head: HTMLElement,
  ) {
    head.append(this.worst);
    this.chart = new LineChart(store, {
      height: 220,
      lines: [
        { label: "free", color: "free", look: "solid", width: 1.5 },
        { label: "largest free block", color: "largest-free", look: "thin", width: 1 },
      ],
      between: [{ upper: 0, lower: 1, color: "bad", share: 0.35 }],
      keys: [{ label: "free in smaller blocks", color: "bad", look: "block" }],
      fitTo: 2,
      describe: (spot) => spot && this.describe(spot.moment),
      flag: (moment) => positionTitle(store.state.rank, moment),
    });
  }

  draw(state: State): void {
    const { rank } = state;
    const pool = rank.pools[state.pool];
    if (pool !== this.of || !pool) this.change(rank, pool);
    if (!pool || this.isEmpty) return;
    const found = rank.summary.fragmentation[pool.name];
    const worst = found ? size(found.free_per_bank - found.largest_free_per_bank) : "0 B";
    const { perBank } = bankWords(pool.extent);
    this.chart.draw(state, {
      curves: [pool.free, pool.largestFree],
      label: `Free memory of ${pool.name} and its largest free block over time${perBank && `,${perBank}`}: at most ${worst} in smaller blocks.`,
      unit: bankWords(pool.extent).axis,
      snapTo: null,
    });
  }

  /** Switches to another pool, possibly of another rank. */
  private change(rank: Rank, pool: Pool | undefined): void {
    this.of = pool;
    fill(this.worst, pool?.name ?? "");
    const say = (text: string) => fill(this.body, h("p", { class: "note" }, text));
    this.isEmpty = true;
    if (!pool?.fragmented) {
      say(`The input does not report free memory and its largest block for ${pool?.name ?? "this pool"}.`);
      return;
    }
    const found = rank.summary.fragmentation[pool.name];
    const [worst] = pool.fragmented;
    if (!found || !worst) {
      say(`The free memory of ${pool.name} was always contiguous.`);
      return;
    }
    this.isEmpty = false;
    fill(
      this.worst,
      `${pool.name}: at worst `,
      sizeElement(worst.free),
      ` free${bankWords(pool.extent).perBank}, `,
      sizeElement(worst.largest_free),
      ` (${percent(worst.largest_free, worst.free)}) of it in the largest block`,
    );
    fill(this.table, ...this.worstTable(rank, pool, pool.fragmented));
    // Small differences are only visible with a fitted axis.
    this.chart.setFit(found.severity !== "notable");
    const isNegligible = found.severity === "negligible";
    const text =
      "Less than 1% of the free memory was ever outside the largest free block: fragmentation is negligible.";
    const map =
      found.blocks && found.blocks.length > 0 && blockMap(found.blocks, bankWords(pool.extent).subject);
    const survivors = survivorTable(this.store, rank, pool, found.survivors);
    fill(
      this.body,
      isNegligible && h("p", { class: "note" }, text),
      this.chart.element,
      map,
      this.table,
      survivors,
    );
  }

  private worstTable(rank: Rank, pool: Pool, rows: FragmentedMoment[]): Node[] {
    const heads: Heading[] = [
      ["Moment", false],
      [`Free${bankWords(pool.extent).suffix}`, true],
      ["Largest block", true],
      ["In smaller blocks", true],
      ["Operation", false],
    ];
    const cells = rows.map((row) => this.worstRow(rank, row));
    const { table } = plainTable(heads, cells, null);
    return [
      h("h3", {}, rows.length === 1 ? "Worst moment" : "Worst moments, one per time range"),
      h("div", { class: "table-box" }, table),
    ];
  }

  private worstRow(rank: Rank, row: FragmentedMoment): HTMLTableCellElement[] {
    const step = stepOfPosition(rank, row.moment);
    const pin = () => this.store.pinMoment(row.moment);
    return [
      h(
        "td",
        {},
        h("button", { class: "link", type: "button", onclick: pin }, positionTitle(rank, row.moment)),
      ),
      h("td", { class: "number" }, sizeElement(row.free)),
      h("td", { class: "number" }, sizeElement(row.largest_free)),
      h("td", { class: "number" }, sizeElement(inPieces(row))),
      h("td", {}, step === null ? "–" : h("code", {}, rank.opName(step))),
    ];
  }

  private describe(moment: number): Node | null {
    const { rank } = this.store.state;
    const pool = this.of;
    if (!pool) return null;
    const [free, largest] = [pool.free.valueAt(moment), pool.largestFree.valueAt(moment)];
    const when = pool.isObserved(moment) ? "" : "as last reported";
    const facts = factGrid([
      ["Free", size(free), when],
      ["Largest block", size(largest), percent(largest, free)],
      ["In smaller blocks", size(free - largest)],
    ]);
    return h("div", {}, ...momentHead(rank, moment), facts);
  }
}

/** The live tensors that probably lie between the free blocks of the worst moment. */
function survivorTable(store: Store, rank: Rank, pool: Pool, survivors: LiveTensor[]): HTMLElement | null {
  if (survivors.length === 0) return null;
  const tensors = new ListedTensors(survivors);
  const groups = new TensorGroups(tensors);
  const rows = Uint32Array.from(survivors.keys());
  const known = (of: (row: number) => string | null) => Array.from(rows, (row) => of(row) ?? "");
  const { titles, steps, freed } = groups.texts(rows);
  const table = new Table({
    caption: "Live tensors between free blocks",
    columns: tensorColumns(store, groups, {
      heading: bankWords(pool.extent).heading,
      names: [...known((row) => tensors.name(row) ?? tensors.part(row)), ...titles],
      shapes: known((row) => tensors.shape(row)),
      ops: known((row) => tensors.op(row)),
      steps,
      freed,
      end: rank.end,
    }),
    decidedBy: rows,
    membersOf: (row) => groups.membersOf(row),
  });
  table.show(groups.show(rows), rows);
  return h(
    "div",
    { class: "chart-table", "data-fact": "survivors" },
    h("h3", {}, "Live tensors between free blocks at the worst moment"),
    table.element,
  );
}

/** The map of a bank, or of an undivided pool, by address at the worst moment. */
function blockMap(blocks: Block[], what: string): HTMLElement {
  const free = blocks.filter((block) => !block.allocated).length;
  const element = (block: Block) =>
    h("span", {
      class: block.allocated ? "block block-full" : "block",
      style: `flex-grow: ${block.size}`,
      title: `${size(block.size)} ${block.allocated ? "in use" : "free"}, at ${count(block.address)}`,
    });
  const label = `${what} at the worst moment: ${count(blocks.length - free)} blocks in use, ${count(free)} free`;
  return h(
    "div",
    { class: "block-map" },
    h("h3", {}, `${what} at the worst moment, by address`),
    h("div", { class: "blocks", role: "img", "aria-label": label }, blocks.map(element)),
    h("p", { class: "note" }, `${count(blocks.length - free)} blocks in use, ${count(free)} free.`),
  );
}
