// The gantt chart, if the input has calls with times.

import type { Report } from "../data/report";
import { fill, h } from "../dom";
import { unpackGantt } from "../gantt/data";
import { GanttView } from "../gantt/view";
import { type Section, section } from "../section";
import type { State, Store } from "../state";

/** Whether any rank has calls. */
export function hasGantt(report: Report): boolean {
  return report.summary.ranks.some((_, rank) => document.getElementById(`ttmem-gantt-${rank}`) !== null);
}

export function ganttSection(store: Store): Section {
  return section(store, "gantt", "Timeline", ["rank", "theme"], (body) => {
    const views = new Map<number, Promise<GanttView | null>>();
    const viewOf = ({ rank }: State): Promise<GanttView | null> => {
      let view = views.get(rank.index);
      if (!view) {
        const data = unpackGantt(rank.index, rank.report.texts);
        const pools = rank.poolsInOrder.map(({ name }) => name);
        view = data.then((data) => data && new GanttView(data, pools));
        views.set(rank.index, view);
      }
      return view;
    };
    const show = async (state: State): Promise<void> => {
      const view = await viewOf(state);
      if (store.state.rank !== state.rank) return;
      view?.recolor();
      const nothing = h("p", { class: "note" }, "This rank has no timed calls.");
      const shown = view?.element ?? nothing;
      if (body.firstElementChild !== shown) fill(body, shown);
    };
    return (state) => void show(state).catch(reportError);
  });
}
