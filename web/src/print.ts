// Printing: two pages, in light colours, with what fits on paper. The long tables and the texts stay on the screen.

import "./print.css";
import { redrawAll } from "./redraw";
import type { Section } from "./section";
import type { Store } from "./state";

/** What A4 and Letter both have within margins of 10 mm, in CSS pixels, a little less for rounding. */
const PAPER = { width: 714, height: 964 };
/** What the page may be laid out for: the wider, the smaller it gets on paper, and the more fits. */
const WIDTHS = [1060, 1160, 1280, 1420, 1580];

/** Sees to it that what is printed fits, and that the screen is afterwards as it was. */
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

/** The height of the taller of the two pages, before it is made smaller. */
function tallestPage(main: HTMLElement): number {
  const { top, bottom } = main.getBoundingClientRect();
  const middle = main.querySelector("#tensors")?.getBoundingClientRect().top ?? bottom;
  // The bar with the name is on the first page, too.
  return Math.max(middle - top + NAME, bottom - middle, 1);
}

const NAME = 60;
