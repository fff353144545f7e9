// All executed operations, with search, sorting, and links to the chart and the graphs.

import "./operations.css";
import { bankWords } from "../banks";
import { stepOfPosition } from "../charts/moment-facts";
import { Mark, type Pool, type Rank } from "../data/report";
import { fill, h, oncePerFrame, save } from "../dom";
import { count, counted } from "../format";
import { onJump } from "../jump";
import { operationColumns } from "../operations/columns";
import { StepSearch } from "../operations/search";
import { type Section, section } from "../section";
import type { State, Store } from "../state";
import { Table } from "../table";

export function operationsSection(store: Store): Section {
  let view: OperationsView | undefined;
  const element = section(store, "operations", "Operations", ["rank", "pool", "run", "moment"], (body) => {
    view = new OperationsView(store, body);
    return (state) => view?.draw(state);
  });
  onJump("operations", (step) => {
    element.draw();
    view?.jump(step);
  });
  return element;
}

class OperationsView {
  private readonly search = h("input", {
    type: "search",
    placeholder: "Operation, location, shape, program, step",
    "aria-label": "Search operations",
    autocomplete: "off",
    spellcheck: "false",
  });
  private readonly deallocations = h("input", { type: "checkbox", checked: true });
  private readonly found = h("span", { class: "operations-count", "aria-live": "polite" });
  private readonly about = h("p", { class: "note" });
  private table: Table | undefined;
  private steps: StepSearch | undefined;
  private drawn: State | undefined;

  constructor(
    private readonly store: Store,
    private readonly body: HTMLElement,
  ) {
    const changed = oncePerFrame(() => this.filter());
    this.search.addEventListener("input", changed);
    this.deallocations.addEventListener("change", changed);
  }

  draw(state: State): void {
    const before = this.drawn;
    this.drawn = state;
    if (state.rank !== before?.rank) this.setUp(state.rank);
    if (!this.table) return;
    const pool = state.rank.pools[state.pool];
    if (pool) fill(this.about, poolNote(pool));
    const isNew = state.rank !== before?.rank;
    if (isNew || state.run !== before?.run || state.pool !== before?.pool) this.filter();
    if (isNew || state.moment !== before?.moment) this.follow(stepOfPosition(state.rank, state.moment));
  }

  /** Shows a step, removing the filters that hide it. */
  jump(step: number): void {
    if (!this.table) return;
    const obstacles = [
      () => {
        this.search.value = "";
      },
      () => {
        this.deallocations.checked = true;
      },
      () => this.store.set({ run: null }),
    ];
    for (const remove of obstacles) {
      if (this.table.has(step)) break;
      remove();
      this.filter();
    }
    this.follow(step);
  }

  /** Creates the table for a rank; its columns depend on the rank's data. */
  private setUp(rank: Rank): void {
    this.table = undefined;
    if (rank.end === 0) {
      fill(this.body, h("p", { class: "note" }, "The input has no operations, only the state of the pools."));
      return;
    }
    this.steps = new StepSearch(rank);
    const columns = operationColumns(this.store, rank);
    const hasMemory = columns.some(({ key }) => key === "change_per_bank");
    this.table = new Table({
      caption: "Operations in execution order",
      columns,
      empty: "No matching operations.",
      onActivate: (step) => this.store.pin(step),
      rowClass: (step) => (rank.steps.marks[step] & Mark.Failed ? "operation-failed" : ""),
    });
    const saveButton = h("button", { type: "button", onclick: () => this.save(rank) }, "Save as CSV");
    fill(
      this.body,
      h(
        "div",
        { class: "operations-bar" },
        this.search,
        h("label", {}, this.deallocations, "deallocations"),
        this.found,
        h("span", { class: "spacer" }),
        saveButton,
      ),
      hasMemory && this.about,
      this.table.element,
    );
  }

  private filter(): void {
    const { run, rank } = this.store.state;
    if (!this.table || !this.steps) return;
    const steps = this.steps.find({
      query: this.search.value,
      deallocations: this.deallocations.checked,
      run,
    });
    this.table.show(steps);
    const all = counted(rank.end, "operation");
    const shown = steps.length === rank.end ? all : `${count(steps.length)} of ${all}`;
    // Only replaced if it changed, since screen readers announce it.
    if (this.found.textContent !== shown) fill(this.found, shown);
    const selected = this.table.selection;
    if (selected !== null && this.table.has(selected)) this.table.scrollTo(selected);
    else this.table.scrollToTop();
  }

  /** Selects the row of a step and scrolls to it within the table. */
  private follow(step: number | null): void {
    this.table?.select(step);
    if (step !== null) this.table?.scrollTo(step);
  }

  private save(rank: Rank): void {
    const which = rank.report.rankCount > 1 ? `-rank-${rank.label ?? rank.index}` : "";
    save(`operations${which.replace(/[^\w-]/g, "-")}.csv`, this.table?.csv() ?? "");
  }
}

function poolNote(pool: Pool): string {
  const where = `${pool.name}${bankWords(pool.extent).perBank}`;
  return `Change is the net change of ${where} by the operation; Before is the memory allocated right before it.`;
}
