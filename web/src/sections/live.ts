// What is alive at the pinned moment: the device's figure against the sum of the tensors, a treemap, a table.

import "./live.css";
import { squarify } from "../charts/treemap";
import { type LiveSet, momentBefore, type Pool, positionOf, type Rank } from "../data/report";
import { fill, h, save } from "../dom";
import { count, counted, percent, size, sizeElement, UNKNOWN } from "../format";
import { momentText, poolTabs, stepLink } from "../moment";
import { onRedraw } from "../redraw";
import { type Section, section } from "../section";
import type { State, Store } from "../state";
import { Table } from "../table";

/** So many tensors of a class have a rectangle of their own; the rest share one. */
const MOST_TILES = 120;

export function liveSection(store: Store): Section {
  return section(store, "live", "What is alive", ["rank", "pool", "moment"], (body, head) => {
    const title = head.querySelector("h2")!;
    const tabs = poolTabs(store, "what is alive");
    const controls = new MomentControls(store);
    const facts = h("dl", { class: "live-facts" });
    const legend = h("ul", { class: "legend" });
    const residue = h("details", { class: "residue" });
    const map = h("div", { class: "treemap", role: "img" });
    const why = h("p", { class: "note" });
    const table = new LiveTable(store, (tensor) => select(map, tensor));
    const csv = h("button", { type: "button" }, "Save as CSV");
    csv.addEventListener("click", () => save("live.csv", table.csv()));
    head.append(tabs.element, controls.element, h("span", { class: "spacer" }), csv);
    body.append(facts, why, residue, legend, map, table.element);
    new ResizeObserver(() => redrawMap()).observe(map);
    onRedraw(() => redrawMap());
    let drawn: { rank: Rank; live: LiveSet; rest: number } | undefined;
    const redrawMap = () => {
      if (drawn) drawMap(map, drawn.rank, drawn.live, drawn.rest, (tensor) => table.choose(tensor));
    };
    return (state) => {
      const { rank, pool, moment } = state;
      tabs.show(state);
      controls.show(state);
      const of = rank.pools[pool];
      title.textContent = of ? `What is alive in ${of.name} ${momentText(rank, moment)}` : "What is alive";
      const hasTensors = rank.hasTensors && of !== undefined;
      for (const part of [legend, map, table.element, csv]) part.hidden = !hasTensors;
      why.textContent = hasTensors || !of ? "" : NO_TENSORS;
      if (!of) return;
      const live = rank.live(pool, moment);
      const held = of.heldAt(rank, moment);
      showFacts(facts, rank, of, moment, held, live);
      const rest = held - live.perBank;
      showResidue(residue, store, of, rank, moment, hasTensors && !Number.isNaN(rest));
      if (!hasTensors) return;
      drawn = { rank, live, rest };
      showLegend(legend, rank, live, rest, held);
      redrawMap();
      table.show(rank, live);
    };
  });
}

const NO_TENSORS =
  "Which tensors these bytes belong to is not known: the log shows the state of the memory, but not the operations " +
  "with their results. `ttmem formats` says which setting prints them.";

/** The figure of the device, the sum of the tensors, and what is between them. */
function showFacts(
  facts: HTMLElement,
  rank: Rank,
  pool: Pool,
  moment: number,
  held: number,
  live: LiveSet,
): void {
  const source = pool.isObserved(moment) ? "the device says" : "rebuilt: not printed here";
  const rows: [string, Node | string, string][] = [
    [`allocated per bank (${source})`, sizeElement(held), "allocated"],
  ];
  if (rank.hasTensors) {
    const rest = held - live.perBank;
    const share = held > 0 && rest >= 0 ? ` (${percent(rest, held)})` : "";
    rows.push(
      [
        `${counted(live.tensors.length, "tensor")} add${live.tensors.length === 1 ? "s" : ""} up to`,
        sizeElement(live.perBank),
        "explained",
      ],
      ["unexplained", h("span", {}, sizeElement(rest), share), "unexplained"],
    );
  }
  const capacity = pool.capacity.valueAt(moment);
  if (pool.isObserved(moment)) {
    rows.push(["free", sizeElement(pool.free.valueAt(moment)), "free"]);
    rows.push(["largest free piece", sizeElement(pool.largestFree.valueAt(moment)), "largest-free"]);
  }
  if (capacity > 0) rows.push(["of capacity", `${percent(held, capacity)} of ${size(capacity)}`, "share"]);
  fill(
    facts,
    rows.map(([term, value, name]) => h("div", { "data-fact": name }, h("dt", {}, term), h("dd", {}, value))),
  );
}

/** Who left the unexplained bytes behind. */
function showResidue(
  element: HTMLElement,
  store: Store,
  pool: Pool,
  rank: Rank,
  moment: number,
  known: boolean,
): void {
  const rows = known ? pool.residueAt(rank, moment) : [];
  element.hidden = rows.length === 0;
  if (rows.length === 0) return;
  const steps = (all: number[]) =>
    all.length === 0
      ? ""
      : [
          ` in ${counted(all.length, "step")}: `,
          ...all
            .slice(0, 8)
            .flatMap((step, index) => [index > 0 ? ", " : "", stepLink(store, step, count(step))]),
          all.length > 8 ? " …" : "",
        ];
  fill(
    element,
    h("summary", {}, "Who left the unexplained bytes behind"),
    h(
      "ul",
      {},
      rows.map((row) =>
        h("li", {}, h("span", { class: "mono" }, row.who), ": ", sizeElement(row.perBank), steps(row.steps)),
      ),
    ),
  );
}

function showLegend(legend: HTMLElement, rank: Rank, live: LiveSet, rest: number, held: number): void {
  const item = (name: string, kind: string, bytes: number) =>
    h(
      "li",
      { "data-class": kind },
      h("span", { class: `swatch ${kind}`, style: `--tile: var(--class-${kind})` }),
      `${name} `,
      sizeElement(bytes),
      held > 0 && bytes > 0 ? ` (${percent(bytes, held)})` : "",
    );
  const classes = rank.classes
    .map((name, index) => ({ name, bytes: live.byClass[index] }))
    .filter(({ bytes }) => bytes !== 0);
  fill(
    legend,
    classes.map(({ name, bytes }) => item(name.replace("_", " "), name, bytes)),
    rest > 0 && item("unexplained", "unexplained", rest),
  );
}

/** Rectangles: classes first, their tensors within. */
function drawMap(
  map: HTMLElement,
  rank: Rank,
  live: LiveSet,
  rest: number,
  choose: (tensor: number) => void,
): void {
  const { perBank, class: classes } = rank.tensors;
  const groups = rank.classes
    .map((name, index) => ({
      name,
      tensors: [...live.tensors].filter((tensor) => classes[tensor] === index),
    }))
    .map((group) => ({ ...group, tensors: group.tensors.filter((tensor) => perBank[tensor] > 0) }))
    .map((group) => ({ ...group, bytes: group.tensors.reduce((sum, tensor) => sum + perBank[tensor], 0) }))
    .concat(rest > 0 ? [{ name: "unexplained", tensors: [], bytes: rest }] : [])
    .filter(({ bytes }) => bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
  const whole = { x: 0, y: 0, width: map.clientWidth, height: map.clientHeight };
  const boxes = squarify(
    groups.map((group) => group.bytes),
    whole,
  );
  const tiles: HTMLElement[] = [];
  for (const [index, box] of boxes.entries()) {
    const { name, tensors, bytes } = groups[index];
    const own = tensors.slice(0, tensors.length > MOST_TILES ? MOST_TILES - 1 : MOST_TILES);
    const others = tensors.slice(own.length);
    const weights = own.map((tensor) => perBank[tensor]);
    if (others.length > 0) weights.push(others.reduce((sum, tensor) => sum + perBank[tensor], 0));
    if (tensors.length === 0) weights.push(bytes);
    // The rest may be larger than the single ones; rows are laid in descending order.
    const order = weights.map((_, at) => at).sort((a, b) => weights[b] - weights[a]);
    const inner = squarify(
      order.map((at) => weights[at]),
      box,
    );
    for (const [at, place] of inner.entries()) {
      const tensor = own[order[at]];
      const label =
        tensor !== undefined
          ? (rank.tensorName(tensor) ?? "unnamed")
          : tensors.length === 0
            ? "unexplained"
            : `${count(others.length)} smaller`;
      const tile = tileAt(place, name, label, weights[order[at]]);
      if (tensor !== undefined) {
        tile.dataset.tensor = String(tensor);
        const type = rank.tensors.type[tensor];
        tile.title = `${label}\n${type < 0 ? "" : `${rank.typeText(type)}\n`}${size(perBank[tensor])} per bank, ${name}`;
        tile.addEventListener("click", () => choose(tensor));
      }
      tiles.push(tile);
    }
  }
  map.replaceChildren(...tiles);
  const parts = groups.map((group) => `${group.name} ${size(group.bytes)}`).join(", ");
  map.setAttribute(
    "aria-label",
    `Live memory by class and tensor: ${parts || "nothing"}. The table below has all.`,
  );
}

function tileAt(
  box: { x: number; y: number; width: number; height: number },
  kind: string,
  label: string,
  bytes: number,
) {
  const tile = h("div", {
    class: `tile ${kind}`,
    style:
      `--tile: var(--class-${kind}); left: ${box.x}px; top: ${box.y}px; ` +
      `width: ${box.width}px; height: ${box.height}px`,
  });
  tile.title = `${label}\n${size(bytes)} per bank, ${kind}`;
  if (box.width > 46 && box.height > 20) tile.append(h("b", {}, label.slice(0, 200)));
  if (box.width > 60 && box.height > 38) tile.append(size(bytes));
  return tile;
}

function select(map: HTMLElement, tensor: number): void {
  for (const tile of map.querySelectorAll<HTMLElement>(".tile")) {
    tile.classList.toggle("selected", tile.dataset.tensor === String(tensor));
  }
}

/** The tensors, largest first. */
class LiveTable {
  readonly element: HTMLElement;
  private readonly table: Table;
  private rank!: Rank;

  constructor(store: Store, onSelect: (tensor: number) => void) {
    const of = <T>(read: (tensor: number) => T) => read;
    const type = of((tensor) => this.rank.tensors.type[tensor]);
    const sizeOf = of((tensor) => this.rank.tensors.perBank[tensor]);
    const bytesOf = (column: "padded" | "logical") => (tensor: number) =>
      type(tensor) < 0 ? Number.NaN : this.rank.types[column][type(tensor)];
    const name = of((tensor) => this.rank.tensorName(tensor) ?? "");
    const maker = of((tensor) => this.rank.tensors.step[tensor]);
    const op = of((tensor) => (maker(tensor) < 0 ? "" : this.rank.opName(maker(tensor))));
    const run = of((tensor) => this.rank.tensors.run[tensor]);
    this.table = new Table({
      caption: "Live tensors",
      height: "min(50vh, 420px)",
      empty: "Nothing is alive here.",
      onActivate: onSelect,
      columns: [
        {
          key: "name",
          title: "Name",
          width: "minmax(220px, 3fr)",
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
          cell: (row) => this.dtype(row),
          sort: (row) => this.dtype(row),
        },
        {
          key: "per_bank",
          title: "Per bank",
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
          width: "minmax(150px, 1.4fr)",
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
      ],
    });
    this.element = this.table.element;
  }

  show(rank: Rank, live: LiveSet): void {
    this.rank = rank;
    this.table.show(live.tensors);
    this.table.select(null);
  }

  choose(tensor: number): void {
    this.table.select(tensor);
    this.table.scrollTo(tensor);
  }

  csv(): string {
    return this.table.csv();
  }

  private className(row: number): string {
    return this.rank.classes[this.rank.tensors.class[row]];
  }

  private dtype(row: number): string {
    const type = this.rank.tensors.type[row];
    return type < 0 ? "" : this.rank.report.texts.get(this.rank.types.dtype[type]);
  }

  private nameCell(row: number): HTMLElement {
    const name = this.rank.tensorName(row) ?? "unnamed";
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
    if (step < 0) return "argument";
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

/** Buttons and a field to choose the moment. */
class MomentControls {
  readonly element: HTMLElement;
  private readonly field: HTMLInputElement;

  constructor(private readonly store: Store) {
    const button = (text: string, label: string, onclick: () => void) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    this.field = h("input", { type: "number", min: 0, "aria-label": "Step to look at" });
    this.field.addEventListener("change", () => this.go(this.field.valueAsNumber));
    this.element = h(
      "span",
      { class: "live-controls" },
      button("Peak", "Go to the peak of this pool", () => this.toPeak()),
      button("◀", "One step back", () => this.go(this.position() - 1)),
      this.field,
      button("▶", "One step on", () => this.go(this.position() + 1)),
    );
  }

  show({ rank, moment }: State): void {
    this.field.max = String(rank.end);
    this.field.value = String(positionOf(moment));
  }

  private position(): number {
    return positionOf(this.store.state.moment);
  }

  private toPeak(): void {
    const { rank, pool } = this.store.state;
    const peak = rank.pools[pool]?.peakMoment;
    if (peak !== null && peak !== undefined) this.store.pinMoment(peak);
  }

  private go(step: number): void {
    if (!Number.isFinite(step)) return;
    const within = Math.max(0, Math.min(this.store.state.rank.end, Math.round(step)));
    this.store.pinMoment(momentBefore(within));
  }
}
