// A section of the page: a heading, and a body that is drawn when it becomes visible or its state changes.

import { h } from "./dom";
import type { State, Store } from "./state";

export interface Section {
  readonly element: HTMLElement;
  /** Draws the section now, even if it is not visible (for printing). */
  draw(): void;
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) visible.get(entry.target)?.(entry.isIntersecting);
  },
  { rootMargin: "200px" },
);
const visible = new WeakMap<Element, (inView: boolean) => void>();

/**
 * Creates a section. `build` fills the body once and returns the function that draws it. The section is only redrawn
 * while it is visible, and only if one of `depends` changed.
 */
export function section(
  store: Store,
  id: string,
  title: string,
  depends: readonly (keyof State)[],
  build: (body: HTMLElement, heading: HTMLElement) => (state: State) => void,
): Section {
  const heading = h("h2", { id: `${id}-title` }, title);
  const head = h("header", { class: "section-head" }, heading);
  const body = h("div", { class: "section-body" });
  // A section that is not drawn yet takes about its final height; otherwise all sections would be visible initially.
  const element = h("section", { id, class: "waiting", "aria-labelledby": `${id}-title` }, head, body);
  let render: ((state: State) => void) | undefined;
  let stale = true;
  let inView = false;
  const draw = () => {
    render ??= build(body, head);
    stale = false;
    element.classList.remove("waiting");
    render(store.state);
  };
  store.on(depends, () => {
    stale = true;
    if (inView) draw();
  });
  visible.set(element, (now) => {
    inView = now;
    if (inView && stale) draw();
  });
  seen.observe(element);
  return { element, draw };
}
