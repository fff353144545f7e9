// Printing: two pages in light colors, and one more each for the L1 of a core and the flame graph. The long tables and the
// graphs' text are not printed.

import "./print.css";
import { redrawAll } from "./redraw";
import type { Section } from "./section";
import type { Store } from "./state";

/** The area that fits both A4 and Letter with 10 mm margins, in CSS pixels, minus a little for rounding. */
const PAPER = { width: 714, height: 964 };
/** Layout widths to try: a wider layout is scaled down more, so more of it fits. */
const WIDTHS = [1060, 1160, 1280, 1420, 1580];

/** Scales the page for printing, and restores it afterwards. */
export function preparePrinting(main: HTMLElement, sections: readonly Section[], store: Store): void {
  const root = document.documentElement;
  addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    root.classList.add("printing");
    for (const section of sections) section.draw();
    for (const width of WIDTHS) {
      main.style.width = `${width}px`;
      redrawAll();
      if (tallestPage(main) * (PAPER.width / width) <= PAPER.height) break;
    }
    const scale = Math.min(PAPER.width / main.offsetWidth, PAPER.height / tallestPage(main));
    main.style.setProperty("zoom", String(scale));
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = store.state.theme;
    root.classList.remove("printing");
    main.style.removeProperty("width");
    main.style.removeProperty("zoom");
    redrawAll();
  });
}

/** The sections that begin a page, in order; see print.css. */
export const PAGE_STARTS = ["#l1", "#flame", "#tensors"];

/** The height of the tallest page, before scaling. */
function tallestPage(main: HTMLElement): number {
  const { top, bottom } = main.getBoundingClientRect();
  const starts = PAGE_STARTS.flatMap((id) => main.querySelector(id)?.getBoundingClientRect().top ?? []);
  // The bar with the name is printed on the first page.
  const edges = [top - NAME, ...starts, bottom];
  return edges.slice(1).reduce((max, edge, page) => Math.max(max, edge - edges[page]), 1);
}

const NAME = 60;
