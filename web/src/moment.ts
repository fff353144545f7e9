// Text for steps, operations and pools, and the buttons that select them.

import type { Rank } from "./data/report";
import { h } from "./dom";
import { count, shorten } from "./format";
import { otherLocations } from "./groups";
import type { State, Store } from "./state";

/** A button that pins the moment before a step. */
export function stepLink(store: Store, step: number, text = `step ${count(step)}`): HTMLElement {
  return h("button", { class: "link", type: "button", onclick: () => store.pin(step) }, text);
}

/** An operation and its location, or one of several locations; `null` means unknown. */
export function operationText(op: string | null, loc: string | null, locations = 1): HTMLElement {
  const others = loc === null ? 0 : otherLocations(loc, locations);
  return h(
    "span",
    { class: "operation" },
    h("span", { class: "mono" }, op ?? "unknown operation"),
    loc && h("span", { class: "loc", title: loc.slice(0, 2000) }, ` ${shorten(loc, 120)}`),
    others > 0 && h("span", { class: "loc-more" }, ` and ${count(others)} more`),
  );
}

/** Buttons that select the pool, synchronized with the state. */
export function poolTabs(store: Store, of: string): { element: HTMLElement; show(state: State): void } {
  const element = h("div", { class: "tabs", role: "group", "aria-label": `Pool shown in ${of}` });
  let shown: Rank | undefined;
  return {
    element,
    show({ rank, pool }) {
      if (shown !== rank) {
        shown = rank;
        element.replaceChildren(
          ...rank.poolsInOrder.map(({ name, index }) =>
            h("button", { type: "button", onclick: () => store.set({ pool: index }) }, name),
          ),
        );
      }
      for (const [at, button] of [...element.children].entries()) {
        button.setAttribute("aria-pressed", String(rank.poolsInOrder[at].index === pool));
      }
    },
  };
}
