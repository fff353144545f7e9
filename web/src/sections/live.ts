// What is alive at the pinned moment: the device's figure against the sum of the tensors, a treemap, a table.

import "./live.css";
import { bankWords } from "../banks";
import { momentTitle } from "../charts/moment-facts";
import type { LiveSet, Pool, Rank } from "../data/report";
import { isTenstorrent } from "../data/summary";
import { fill, h, save } from "../dom";
import { count, counted, percent, size, sizeElement } from "../format";
import { MomentControls } from "../live/controls";
import { drawMap, type MapContent, selectTile } from "../live/map";
import { LiveTable } from "../live/table";
import { poolTabs, stepLink } from "../moment";
import { onRedraw } from "../redraw";
import { type Section, section } from "../section";
import type { Store } from "../state";

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
    const table = new LiveTable(store, (tensor) => selectTile(map, tensor));
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
      title.textContent = of ? `What is alive in ${of.name} ${momentTitle(rank, moment)}` : "What is alive";
      const hasTensors = of !== undefined && isNamed(rank, pool);
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

/** Whether bytes of a pool may have names. A process has more memory than its tensors: nobody asks whose the rest is. */
function isNamed(rank: Rank, pool: number): boolean {
  return rank.hasTensors && (isTenstorrent(rank.summary) || rank.hasTensorsIn(pool));
}

function whyNone(rank: Rank, pool: Pool): string {
  if (rank.hasTensors)
    return `No tensor was ever seen in ${pool.name}: it is known how much it holds, not what.`;
  return `Which tensors these bytes belong to is not known: ${reason(rank)}`;
}

function reason(rank: Rank): string {
  if (!rank.hasResults && !isTenstorrent(rank.summary)) return "what this was read from names no tensors.";
  return rank.hasResults
    ? "what this was read from has the operations with their results, but not when those were given back."
    : "the log shows the state of the memory, but not the operations with their results. `ttmem formats` says which " +
        "setting prints them.";
}

const OF_A_DEVICE = { measured: "the device says", rebuilt: "rebuilt: not printed here" };
const OF_TENSORS = { measured: "measured", rebuilt: "rebuilt" };
const OF_READINGS = { measured: "measured", rebuilt: "as last read" };

/** The figure of the device, the sum of the tensors, and what is between them. */
function showFacts(
  facts: HTMLElement,
  rank: Rank,
  pool: Pool,
  moment: number,
  held: number,
  live: LiveSet | null,
): void {
  const { perBank } = bankWords(pool.extent);
  const words = isTenstorrent(rank.summary) ? OF_A_DEVICE : live ? OF_TENSORS : OF_READINGS;
  const source = pool.isObserved(moment) ? words.measured : words.rebuilt;
  const rows: [string, Node | string, string][] = [
    [`allocated${perBank} (${source})`, sizeElement(held), "allocated"],
  ];
  if (live) {
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
  if (pool.isObserved(moment) && pool.tellsFree) {
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
