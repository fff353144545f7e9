// The flame graph: which call stacks hold the memory at the pinned moment, or allocated memory in the visible range.

import { bankWords } from "../banks";
import { positionTitle } from "../charts/moment-facts";
import type { Pool, Rank } from "../data/report";
import { fill, h } from "../dom";
import { FlameGraph } from "../flame/graph";
import { FlameTree, ROOT } from "../flame/tree";
import { count, counted, percent, sizeElement } from "../format";
import { poolTabs } from "../moment";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

/** The number of lines in the path to the zoomed one. */
const MAX_PATH = 8;

type Mode = "live" | "allocated";

export function flameSection(store: Store): Section {
  const depends = ["rank", "pool", "moment", "from", "to"] as const;
  return section(store, "flame", "Flame graph", depends, (body, head) => {
    const view = new FlameView(store, body, head);
    return (state) => view.draw(state);
  });
}

class FlameView {
  private readonly tabs;
  private readonly modes: Record<Mode, HTMLButtonElement>;
  private readonly find = h("input", {
    type: "search",
    placeholder: "Search functions and files",
    "aria-label": "Search the flame graph",
  });
  private readonly found = h("output", { class: "note", "data-fact": "matched" });
  private readonly note = h("p", { class: "note" });
  private readonly path = h("ol", { class: "flame-path", "aria-label": "Zoomed line", hidden: true });
  private readonly point = h("p", { class: "flame-point", "aria-hidden": "true" });
  private readonly graph = new FlameGraph(
    (node) => this.showPath(node),
    (node) => this.showPoint(node),
  );
  private readonly panel;
  private mode: Mode = "live";
  private tree: FlameTree | undefined;
  private drawn: readonly unknown[] = [];

  constructor(
    private readonly store: Store,
    body: HTMLElement,
    head: HTMLElement,
  ) {
    this.tabs = poolTabs(store, "Flame graph");
    const mode = (mode: Mode, text: string, help: string) =>
      h(
        "button",
        { type: "button", title: help, "aria-pressed": "false", onclick: () => this.setMode(mode) },
        text,
      );
    this.modes = {
      live: mode("live", "Live at the pinned moment", "Memory that is live at the pinned moment"),
      allocated: mode(
        "allocated",
        "Allocated in the range",
        "Memory allocated in the visible range of the charts, whether or not it was freed",
      ),
    };
    this.find.addEventListener("input", () => this.showFound());
    const key = (kind: string, text: string) =>
      h("span", {}, h("span", { class: `flame-key ${kind}` }), text);
    const legend = h(
      "span",
      { class: "flame-legend" },
      key("program", "your program"),
      key("library", "libraries"),
    );
    head.append(this.tabs.element);
    this.panel = h(
      "div",
      {},
      h("div", { class: "flame-bar" }, this.modes.live, this.modes.allocated, this.find, this.found, legend),
      this.path,
      this.graph.element,
      this.point,
    );
    body.append(this.note, this.panel);
  }

  draw(state: State): void {
    this.tabs.show(state);
    const { rank } = state;
    const pool = rank.pools[state.pool];
    const why = whyEmpty(rank, pool);
    this.panel.hidden = why !== null;
    if (why !== null || !rank.stacks) {
      this.note.textContent = why;
      this.drawn = [];
      return;
    }
    const isLive = this.mode === "live";
    for (const [mode, button] of Object.entries(this.modes)) {
      button.setAttribute("aria-pressed", String(mode === this.mode));
    }
    const next = [rank, pool, this.mode, ...(isLive ? [state.moment] : [state.from, state.to])];
    if (next.length === this.drawn.length && next.every((value, index) => value === this.drawn[index]))
      return;
    this.drawn = next;
    const tensors = isLive
      ? rank.live(pool.index, state.moment).tensors
      : rank.allocatedIn(pool.index, state.from, state.to);
    const { perBank } = rank.tensors;
    this.tree = new FlameTree(rank.stacks, {
      stacks: Int32Array.from(tensors, (tensor) => rank.stackOf(tensor)),
      bytes: Float64Array.from(tensors, (tensor) => perBank[tensor]),
    });
    fill(this.note, ...this.describe(state, pool, this.tree));
    this.graph.show({ tree: this.tree, stacks: rank.stacks });
    this.showFound();
  }

  private setMode(mode: Mode): void {
    this.mode = mode;
    this.draw(this.store.state);
  }

  /** `2.10 GiB live in cuda:0 before step 12, in 120 allocations. …` */
  private describe(state: State, pool: Pool, tree: FlameTree): (Node | string)[] {
    const { perBank } = bankWords(pool.extent);
    const steps = () => {
      const [first, last] = [
        Math.ceil(state.from),
        Math.max(Math.ceil(state.from), Math.floor(state.to) - 1),
      ];
      return `allocated in ${pool.name}${perBank} in steps ${count(first)} to ${count(last)}, freed or not`;
    };
    const what =
      this.mode === "live"
        ? `live in ${pool.name}${perBank} ${positionTitle(state.rank, state.moment)}`
        : steps();
    return [
      sizeElement(tree.bytesOf(ROOT)),
      ` ${what}, in ${counted(tree.countOf(ROOT), "allocation")}. The outermost line is at the top; click a box to zoom in.`,
    ];
  }

  /** Shows the callers of the zoomed line as buttons that zoom out. */
  private showPath(node: number): void {
    const { tree, graph } = this;
    this.path.hidden = node === ROOT;
    if (!tree || node === ROOT) {
      fill(this.path);
      return;
    }
    const path = tree.pathTo(node);
    const item = (at: number) => {
      const name = at === ROOT ? "Reset zoom" : graph.shortNameOf(at);
      const title = graph.nameOf(at);
      const inside =
        at === node
          ? h("span", { title, "aria-current": "true" }, name)
          : h("button", { type: "button", class: "link", title, onclick: () => graph.zoom(at) }, name);
      return h("li", {}, inside);
    };
    // Lines of libraries are in the graph; here they would hide those of the program.
    const program = path.filter((at) => at === ROOT || at === node || graph.isProgram(at));
    const shown = program.length > MAX_PATH ? [ROOT, ...program.slice(1 - MAX_PATH)] : program;
    const items = shown.map(item);
    if (shown.length < program.length) items.splice(1, 0, h("li", {}, "…"));
    fill(this.path, items);
  }

  private showPoint(node: number | null): void {
    const { tree, graph } = this;
    if (node === null || !tree) {
      fill(this.point);
      return;
    }
    const bytes = tree.bytesOf(node);
    fill(
      this.point,
      h("strong", {}, graph.nameOf(node)),
      ": ",
      sizeElement(bytes),
      ` (${percent(bytes, tree.bytesOf(ROOT))}), ${counted(tree.countOf(node), "allocation")}`,
    );
  }

  private showFound(): void {
    const bytes = this.graph.search(this.find.value);
    const total = this.tree?.bytesOf(ROOT) ?? 0;
    fill(
      this.found,
      ...(bytes === null ? [] : ["matched: ", sizeElement(bytes), ` (${percent(bytes, total)})`]),
    );
  }
}

/** The reason why there is no flame graph; `null` if there is one. */
function whyEmpty(rank: Rank, pool: Pool | undefined): string | null {
  if (!rank.stacks) return "No call stacks were recorded for this rank.";
  if (!pool) return "The input has no memory pools.";
  return rank.hasTensorsIn(pool.index) ? null : `No allocations were tracked in ${pool.name}.`;
}
