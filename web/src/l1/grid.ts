// The grid of cores, if they differ: cores with the same content have the same letter and shade.

import { fill, h } from "../dom";
import { count, counted, sizeIn } from "../format";
import type { Contents } from "./contents";
import { type Core, type CoreClass, type CoreClasses, coreText, fullestFirst } from "./cores";

/** The number of classes in the list below the grid. */
const MAX_LISTED = 8;

/** Shows the classes. Clicking a core calls `choose`. */
export class CoreGrid {
  readonly element = h("div", { class: "l1-cores" });
  private cells: HTMLButtonElement[] = [];
  private width = 0;
  private shownClasses = "";

  constructor(private readonly choose: (core: Core) => void) {
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Shows the classes and the selected core. */
  show({ grid, classes, classOf }: CoreClasses, selected: Core, { lowest, outline }: Contents): void {
    this.element.hidden = classes.length < 2;
    if (!grid || classes.length < 2) {
      this.shownClasses = "";
      return;
    }
    const facts = classes.map(classText(classes, lowest, outline.size));
    const content = JSON.stringify([grid, [...classOf], facts, classes.map(({ cores }) => cores.length)]);
    if (content !== this.shownClasses) {
      this.shownClasses = content;
      this.build({ grid, classes, classOf }, facts);
    }
    const at = selected[1] * grid[0] + selected[0];
    for (const [index, cell] of this.cells.entries()) {
      cell.setAttribute("aria-pressed", String(index === at));
      cell.tabIndex = index === at ? 0 : -1;
    }
  }

  private build({ grid, classes, classOf }: CoreClasses, facts: string[]): void {
    const [width, height] = grid ?? [0, 0];
    this.width = width;
    const order = fullestFirst(classes);
    const shades = shadesOf(order);
    this.cells = Array.from(classOf, (index, at) => {
      const core: Core = [at % width, Math.floor(at / width)];
      const title = `Core ${coreText(core)}, ${letterOf(index)}: ${facts[index]}`;
      return h(
        "button",
        {
          type: "button",
          class: "l1-core",
          style: `--shade: ${shades[index]}%`,
          title,
          "aria-label": title,
          onclick: () => this.choose(core),
        },
        letterOf(index),
      );
    });
    const listed = order
      .slice(0, MAX_LISTED)
      .map((index) =>
        h(
          "li",
          {},
          h("span", { class: "l1-core", style: `--shade: ${shades[index]}%` }, letterOf(index)),
          h("span", {}, `${counted(classes[index].cores.length, "core")}: ${facts[index]}`),
        ),
      );
    fill(
      this.element,
      h("h3", {}, `Cores, ${width} × ${height}`),
      h(
        "div",
        { class: "l1-grid", role: "group", "aria-label": "Core", style: `--columns: ${width}` },
        this.cells,
      ),
      h(
        "ul",
        { class: "l1-classes" },
        listed,
        classes.length > MAX_LISTED &&
          h("li", { class: "note" }, `… and ${count(classes.length - MAX_LISTED)} more`),
      ),
      h("p", { class: "note" }, "Cores with the same letter have the same content. Darker cores are fuller."),
    );
  }

  private pressed(event: KeyboardEvent): void {
    const at = this.cells.indexOf(event.target as HTMLButtonElement);
    const { width } = this;
    const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
    if (at < 0 || !Object.hasOwn(steps, event.key)) return;
    event.preventDefault();
    const next = at + steps[event.key];
    const isSameRow = Math.floor(next / width) === Math.floor(at / width);
    if (Math.abs(steps[event.key]) === 1 && width > 1 && !isSameRow) return;
    this.cells[next]?.focus();
    this.cells[next]?.click();
  }
}

/** `A` to `Z`, then `A1`. */
export function letterOf(index: number): string {
  const letter = String.fromCharCode(65 + (index % 26));
  return index < 26 ? letter : `${letter}${Math.floor(index / 26)}`;
}

/** A share of color for each class, given in order: most for the first. */
export function shadesOf(order: readonly number[]): number[] {
  const shades: number[] = [];
  for (const [place, index] of order.entries()) {
    shades[index] = Math.round(55 - (place / Math.max(1, order.length - 1)) * 47);
  }
  return shades;
}

/** What distinguishes a class: the headroom, and the number of tensors with a shard, unless all classes have the same. */
function classText(classes: readonly CoreClass[], lowest: number, whole: number): (one: CoreClass) => string {
  const differ = (of: (one: CoreClass) => number) => classes.some((one) => of(one) !== of(classes[0]));
  const [ends, shards] = [differ(({ end }) => end), differ(({ shards }) => shards)];
  return (one) => {
    const room = lowest - one.end;
    const parts = [
      ends || !shards ? `${room < 0 ? "overlap" : "headroom"} ${sizeIn(Math.abs(room), whole)}` : "",
      shards ? (one.shards === 0 ? "no shards" : `shards of ${counted(one.shards, "tensor")}`) : "",
    ];
    return parts.filter(Boolean).join(", ");
  };
}
