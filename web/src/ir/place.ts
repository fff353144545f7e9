// Describes the position of an operation in a text: which of its lines is shown, or why there is none.

import type { Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, shorten } from "../format";
import { jumpTo } from "../jump";
import type { Found, GraphLinks, Stage } from "./links";

/** The description of the pinned step's position, shown above the text. */
export class Place {
  readonly element = h("div", { class: "ir-where", "aria-live": "polite" });
  private lines: number[] = [];
  private at = 0;

  constructor(private readonly goTo: (line: number) => void) {}

  /** Describes the lines of a step's operation in a text. */
  show(rank: Rank, links: GraphLinks, stage: Stage, step: number, { lines, exact }: Found): void {
    this.lines = lines;
    this.at = 0;
    const name = h("code", { title: rank.opName(step) }, shorten(rank.opName(step), 60));
    const about = h("span", {});
    const update = () => {
      const where =
        lines.length === 0
          ? ` has no line in this text: ${why(rank, links, stage, step)}.`
          : `: line ${count(lines[this.at] - stage.first + 1)}${which(this.at, lines.length, exact)}`;
      fill(about, `Step ${count(step)}, `, name, where);
    };
    update();
    const elsewhere = [this.jump("Chart", "memory", step), this.jump("Operations", "operations", step)];
    fill(this.element, about, lines.length > 1 && this.walk(update), ...elsewhere);
  }

  /** The buttons that step through the lines of the operation. */
  private walk(update: () => void): HTMLElement {
    const step = (by: number, label: string, sign: string) => {
      const onclick = () => {
        this.at = (this.at + by + this.lines.length) % this.lines.length;
        update();
        this.goTo(this.lines[this.at]);
      };
      return h("button", { type: "button", "aria-label": label, title: label, onclick }, sign);
    };
    return h(
      "span",
      {},
      step(-1, "Previous line of this operation", "↑"),
      " ",
      step(1, "Next line of this operation", "↓"),
    );
  }

  private jump(word: string, target: "memory" | "operations", step: number): HTMLElement {
    const label = `Show step ${count(step)} in ${target === "memory" ? "the chart" : "the operations table"}`;
    const onclick = () => jumpTo(target, step);
    return h("button", { type: "button", "aria-label": label, title: label, onclick }, word);
  }
}

function why(rank: Rank, links: GraphLinks, stage: Stage, step: number): string {
  const module = links.moduleOf(step);
  if (module >= 0 && module !== stage.module) {
    const graph = rank.modules[module];
    const name = shorten(graph.name ?? `graph ${module + 1}`, 60);
    return graph.stages.length > 0 ? `it ran in ${name}` : `it ran in ${name}, whose text is not in the log`;
  }
  if (!rank.ops.loc.some((loc) => loc >= 0)) {
    return "the log only has the types of operations (set TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG to log each operation)";
  }
  if (module < 0) return "the log does not say which graph it ran in";
  if (rank.opLoc(step) === null) return "it has no location, and no line matches its name and result";
  if (stage.stage === "ttir") return "no line has its location; the compiler added or moved it later";
  return "no line matches its name and result or its location";
}

/** Which of the operation's lines is shown. */
function which(at: number, lines: number, exact: boolean): string {
  if (lines === 1) return exact ? "" : ", by its location";
  return `, ${count(at + 1)} of ${count(lines)} ${exact ? "of this operation" : "with its location"}`;
}
