// A section of the page: a heading and a body that is drawn when it comes into view and when what it shows changes.

import { h } from "./dom";
import type { State, Store } from "./state";

export interface Section {
  readonly element: HTMLElement;
  /** Draws it now, in view or not: for printing. */
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
 * Makes a section. `build` fills the body once and returns what draws it; drawing is left alone while the section is
 * out of view, and done again only when one of `depends` changed.
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
  // A section that waits takes about the room it will need: else all of them would be in view at first.
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
