// The live tensors at the pinned moment: their sum compared with the measured memory, a treemap and a table.

import "./live.css";
import { bankWords } from "../banks";
import { positionTitle } from "../charts/moment-facts";
import type { LiveSet, Pool, Rank } from "../data/report";
import { className, isTenstorrent } from "../data/summary";
import { fill, h, save } from "../dom";
import { count, counted, percent, sizeElement, sizeIn } from "../format";
import { MomentControls } from "../live/controls";
import { drawMap, type MapContent, selectTiles } from "../live/map";
import { LiveTable } from "../live/table";
import { poolTabs, stepLink } from "../moment";
import { onRedraw } from "../redraw";
import { type Section, section } from "../section";
import type { Store } from "../state";

export function liveSection(store: Store): Section {
  return section(store, "live", "Live tensors", ["rank", "pool", "moment"], (body, head) => {
    const title = head.querySelector("h2")!;
    const tabs = poolTabs(store, "Live tensors");
    const controls = new MomentControls(store);
    const facts = h("dl", { class: "live-facts" });
    const legend = h("ul", { class: "legend" });
    const residue = h("details", { class: "residue" });
    const map = h("div", { class: "treemap", role: "img" });
    const why = h("p", { class: "note" });
    const table = new LiveTable(store, (tensors) => selectTiles(map, tensors));
    const csv = h("button", { type: "button" }, "Save as CSV");
    csv.addEventListener("click", () => save("live.csv", table.csv()));
    head.append(tabs.element, controls.element, h("span", { class: "spacer" }), csv);
    body.append(facts, why, residue, legend, map, table.element);
    new ResizeObserver(() => redrawMap()).observe(map);
    onRedraw(() => redrawMap());
    let drawn: MapContent | undefined;
    const redrawMap = () => {
      if (drawn) drawMap(map, drawn, (tensor) => table.choose(tensor));
    };
    return (state) => {
      const { rank, pool, moment } = state;
      tabs.show(state);
      controls.show(state);
      const of = rank.pools[pool];
      title.textContent = of ? `Live in ${of.name} ${positionTitle(rank, moment)}` : "Live tensors";
      const hasTensors = of !== undefined && isAttributable(rank, pool);
      for (const part of [legend, map, table.element, csv]) part.hidden = !hasTensors;
      why.textContent = hasTensors || !of ? "" : whyNone(rank, of);
      if (!of) return;
      const live = rank.live(pool, moment);
      const held = of.heldAt(rank, moment);
      showFacts(facts, rank, of, moment, held, hasTensors ? live : null);
      const rest = held - live.perBank;
      showResidue(residue, store, of, rank, moment, hasTensors && !Number.isNaN(rest));
      if (!hasTensors) return;
      drawn = { rank, pool: of, live, rest };
      showLegend(legend, rank, live, rest, held);
      redrawMap();
      table.show(rank, of, live);
    };
  });
}

/** Whether a pool's memory can be attributed to tensors. Process memory without any tensors can't. */
function isAttributable(rank: Rank, pool: number): boolean {
  return rank.hasTensors && (isTenstorrent(rank.summary) || rank.hasTensorsIn(pool));
}

function whyNone(rank: Rank, pool: Pool): string {
  if (rank.hasTensors) return `No tensors were tracked in ${pool.name}: only its total size is known.`;
  return `Memory can't be attributed to tensors: ${reason(rank)}`;
}

function reason(rank: Rank): string {
  if (!rank.hasResults && !isTenstorrent(rank.summary)) return "the input does not list tensors.";
  return rank.hasResults
    ? "the input has the operations and their results, but not when the results were freed."
    : "the log has memory states, but not the operations and their results. `ttmem formats` lists the settings that " +
        "log them.";
}

/** The source of a size between two measurements: without tensors, only the last measurement is known. */
const [FROM_TENSORS, FROM_READINGS] = ["reconstructed", "as last measured"];

/** Shows the allocated memory, the sum of the live tensors and the difference. */
function showFacts(
  facts: HTMLElement,
  rank: Rank,
  pool: Pool,
  moment: number,
  held: number,
  live: LiveSet | null,
): void {
  const { perBank } = bankWords(pool.extent);
  const unmeasured = live || isTenstorrent(rank.summary) ? FROM_TENSORS : FROM_READINGS;
  const source = pool.isObserved(moment) ? "measured" : unmeasured;
  const rows: [string, Node | string, string][] = [
    [`allocated${perBank} (${source})`, sizeElement(held), "allocated"],
  ];
  if (live) {
    const rest = held - live.perBank;
    const share = held > 0 && rest >= 0 ? ` (${percent(rest, held)})` : "";
    rows.push(
      [`explained by ${counted(live.tensors.length, "live tensor")}`, sizeElement(live.perBank), "explained"],
      ["unexplained", h("span", {}, sizeElement(rest), share), "unexplained"],
    );
  }
  const capacity = pool.capacity.valueAt(moment);
  if (pool.isObserved(moment)) {
    const [free, largest] = [pool.free.valueAt(moment), pool.largestFree.valueAt(moment)];
    if (!Number.isNaN(free)) rows.push(["free", sizeElement(free), "free"]);
    if (!Number.isNaN(largest)) rows.push(["largest free block", sizeElement(largest), "largest-free"]);
  }
  if (capacity > 0)
    rows.push(["share of capacity", `${percent(held, capacity)} of ${sizeIn(capacity, capacity)}`, "share"]);
  fill(
    facts,
    rows.map(([term, value, name]) => h("div", { "data-fact": name }, h("dt", {}, term), h("dd", {}, value))),
  );
}

/** Shows the operations that the unexplained bytes are attributed to. */
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
    h("summary", {}, "Operations that retain the unexplained memory"),
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
    classes.map(({ name, bytes }) => item(className(name), name, bytes)),
    rest > 0 && item("unexplained", "unexplained", rest),
  );
}
