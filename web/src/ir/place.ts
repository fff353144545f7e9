// Where an operation is in the texts, in words: which of its lines is shown, or why there is none.

import type { Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, shorten } from "../format";
import { jumpTo } from "../jump";
import type { Found, GraphLinks, Stage } from "./links";

/** What the line above the text says of the step that is looked at. */
export class Place {
  readonly element = h("div", { class: "ir-where", "aria-live": "polite" });
  private lines: number[] = [];
  private at = 0;

  constructor(private readonly goTo: (line: number) => void) {}

  /** Tells of a step whose operation was looked for in a text. */
  tell(rank: Rank, links: GraphLinks, stage: Stage, step: number, { lines, exact }: Found): void {
    this.lines = lines;
    this.at = 0;
    const name = h("code", { title: rank.opName(step) }, shorten(rank.opName(step), 60));
    const about = h("span", {});
    const say = () => {
      const where =
        lines.length === 0
          ? ` has no line in this text: ${why(rank, links, stage, step)}.`
          : `: line ${count(lines[this.at] - stage.first + 1)}${which(this.at, lines.length, exact)}`;
      fill(about, `Step ${count(step)}, `, name, where);
    };
    say();
    const elsewhere = [this.jump("Chart", "memory", step), this.jump("Operations", "operations", step)];
    fill(this.element, about, lines.length > 1 && this.walk(say), ...elsewhere);
  }

  /** From one line of the operation to the next. */
  private walk(say: () => void): HTMLElement {
    const step = (by: number, label: string, sign: string) => {
      const onclick = () => {
        this.at = (this.at + by + this.lines.length) % this.lines.length;
        say();
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
    const label = `Show step ${count(step)} in ${target === "memory" ? "the chart" : "the table of operations"}`;
    const onclick = () => jumpTo(target, step);
    return h("button", { type: "button", "aria-label": label, title: label, onclick }, word);
  }
}

function why(rank: Rank, links: GraphLinks, stage: Stage, step: number): string {
  const module = links.moduleOf(step);
  if (module >= 0 && module !== stage.module) {
    const graph = rank.modules[module];
    const name = shorten(graph.name ?? `graph ${module + 1}`, 60);
    return graph.stages.length > 0 ? `it ran in ${name}` : `it ran in ${name}, whose text was not printed`;
  }
  if (!rank.ops.loc.some((loc) => loc >= 0)) {
    return "the log tells only of which kind its operations are (TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG tells which)";
  }
  if (module < 0) return "the log does not tell which graph it ran in";
  if (rank.opLoc(step) === null) return "it has no location, and no line has its name and result";
  if (stage.stage === "ttir") return "no line has its location; the compiler added it later, or moved it";
  return "no line has its name and result, nor its location";
}

/** Which of the lines of the operation it is. */
function which(at: number, lines: number, exact: boolean): string {
  if (lines === 1) return exact ? "" : ", by its location";
  return `, ${count(at + 1)} of ${count(lines)} ${exact ? "of this operation" : "with its location"}`;
}
