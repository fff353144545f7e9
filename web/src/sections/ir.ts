// The text of the compiled graphs, linked with the executed steps.

import "./ir.css";
import { stepNextTo } from "../charts/moment-facts";
import type { Lines } from "../data/lines";
import type { Rank } from "../data/report";
import { fill, h, save } from "../dom";
import { count, shorten } from "../format";
import { FindBar } from "../ir/find-bar";
import { GraphLinks, type Stage } from "../ir/links";
import { Place } from "../ir/place";
import { TextViewer } from "../ir/viewer";
import { jumpTo, onJump } from "../jump";
import { type Section, section } from "../section";
import { type State, type Store, spanOf } from "../state";

export function irSection(store: Store): Section {
  let view: GraphsView | undefined;
  const element = section(store, "ir", "Graphs", ["rank", "moment"], (body) => {
    view = new GraphsView(store, body);
    return (state) => view?.draw(state);
  });
  onJump("ir", (step) => {
    element.draw();
    view?.jump(step);
  });
  return element;
}

/** The unpacked texts of a rank. */
interface Texts {
  rank: Rank;
  lines: Lines;
  links: GraphLinks;
  stages: Stage[];
}

class GraphsView {
  private texts: Texts | undefined;
  private shown: Stage | undefined;
  private drawn: State | undefined;
  /** The step to show once the texts are unpacked. */
  private awaited: number | null = null;
  private readonly graphs = h("select", { onchange: () => this.chooseGraph(Number(this.graphs.value)) });
  private readonly tabs = h("span", { class: "tabs", role: "tablist", "aria-label": "Compilation stage" });
  private readonly following = h("input", { type: "checkbox", checked: true });
  private readonly place = new Place((line) => this.viewer.goTo(line));
  private readonly viewer = new TextViewer({
    text: (line) => this.texts?.lines.get(line) ?? "",
    step: (line) => this.stepAt(line),
    matches: (text) => this.find.search.in(text),
    follow: (line) => this.followLine(line),
  });
  private readonly find = new FindBar(
    () => ({
      text: (line) => this.texts?.lines.get(line) ?? "",
      first: this.shown?.first ?? 0,
      lines: this.shown?.lines ?? 0,
    }),
    () => this.viewer.top,
    (match) => (match ? this.viewer.goToMatch(match) : this.viewer.refresh()),
  );

  constructor(
    private readonly store: Store,
    private readonly body: HTMLElement,
  ) {
    this.viewer.element.id = "ir-panel";
    this.tabs.addEventListener("keydown", (event) => this.pressedInTabs(event));
  }

  draw(state: State): void {
    const before = this.drawn;
    this.drawn = state;
    if (state.rank !== before?.rank) void this.load(state.rank);
    else if (state.moment !== before.moment) this.pinned(false);
  }

  /** Shows the line of a step, in whichever graph it is in. */
  jump(step: number): void {
    if (this.texts) this.showStep(step, true);
    else this.awaited = step;
  }

  private async load(rank: Rank): Promise<void> {
    this.texts = undefined;
    this.shown = undefined;
    const stages = stagesOf(rank);
    if (stages.length === 0) {
      fill(this.body, h("p", { class: "note" }, whyNone(rank)));
      return;
    }
    fill(this.body, h("p", { class: "note" }, "Unpacking the graphs …"));
    const [lines, links] = await Promise.all([rank.report.ir(), rank.irLinks()]);
    if (rank !== this.store.state.rank) return;
    if (!lines || !links) {
      fill(this.body, h("p", { class: "note" }, whyNone(rank)));
      return;
    }
    this.texts = { rank, lines, links: new GraphLinks(rank, links), stages };
    this.layOut(rank, stages);
    this.show(stages.find(({ stage }) => stage === "ttnn") ?? stages[0]);
    if (this.awaited === null) this.pinned(true);
    else this.showStep(this.awaited, true);
    this.awaited = null;
  }

  private layOut(rank: Rank, stages: Stage[]): void {
    const withText = [...new Set(stages.map(({ module }) => module))];
    const option = (module: number) => h("option", { value: module }, graphLabel(rank, module));
    fill(this.graphs, withText.map(option));
    const saveButton = h("button", { type: "button", onclick: () => this.save() }, "Save text");
    fill(
      this.body,
      h(
        "div",
        { class: "ir-bar" },
        h("label", {}, "Graph", this.graphs),
        this.tabs,
        this.find.element,
        h(
          "label",
          { title: "Go to the line of the pinned operation" },
          this.following,
          "follow the pinned step",
        ),
        saveButton,
      ),
      this.place.element,
      this.viewer.element,
    );
  }

  /** Shows the text of a stage from the top. */
  private show(stage: Stage): void {
    const { texts } = this;
    if (!texts || stage === this.shown) return;
    this.shown = stage;
    this.graphs.value = String(stage.module);
    this.drawTabs(texts.stages.filter(({ module }) => module === stage.module));
    const caption = `${stage.stage.toUpperCase()} text of ${graphLabel(texts.rank, stage.module)}`;
    this.viewer.show(caption, stage.first, stage.lines);
    this.find.again();
  }

  private drawTabs(stages: Stage[]): void {
    const tab = (stage: Stage) => {
      const isShown = stage === this.shown;
      return h(
        "button",
        {
          type: "button",
          role: "tab",
          "aria-selected": String(isShown),
          "aria-controls": this.viewer.element.id,
          tabindex: isShown ? 0 : -1,
          title: `${count(stage.lines)} lines`,
          onclick: () => this.chooseStage(stage),
        },
        stage.stage.toUpperCase(),
      );
    };
    fill(this.tabs, stages.map(tab));
  }

  private pressedInTabs(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const tabs = [...this.tabs.querySelectorAll("button")];
    const at = tabs.indexOf(event.target as HTMLButtonElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = (at + step + tabs.length) % tabs.length;
    tabs[next].click();
    this.tabs.querySelectorAll("button")[next].focus();
  }

  private chooseGraph(module: number): void {
    const stages = this.texts?.stages.filter((stage) => stage.module === module) ?? [];
    const stage = stages.find(({ stage }) => stage === this.shown?.stage) ?? stages[0];
    if (stage) this.show(stage);
    this.pinned(false, false);
  }

  /** Shows another stage of the same graph, at the pinned operation. */
  private chooseStage(stage: Stage): void {
    this.show(stage);
    this.pinned(true, false);
  }

  private get pinnedStep(): number | null {
    const { rank, moment } = this.store.state;
    return stepNextTo(rank, moment) ?? (rank.end > 0 ? rank.end - 1 : null);
  }

  /** Marks the pinned operation, and scrolls to it if following is on. */
  private pinned(goThere: boolean, mayChange = true): void {
    const step = this.pinnedStep;
    if (step === null || !this.texts || !this.shown) return;
    if (mayChange && this.following.checked) this.showStep(step, true);
    else this.markStep(step, goThere);
  }

  /** Shows the graph and stage of a step, and its line. */
  private showStep(step: number, goThere: boolean): void {
    const { texts, shown } = this;
    if (!texts || !shown) return;
    const stage = stageFor(texts, shown, step);
    if (stage) this.show(stage);
    this.markStep(step, goThere);
  }

  /** Marks the lines of a step in the current text. */
  private markStep(step: number, goThere: boolean): void {
    const { texts, shown } = this;
    if (!texts || !shown) return;
    const found = texts.links.linesOf(step, shown);
    this.viewer.mark(found.lines);
    this.place.show(texts.rank, texts.links, shown, step, found);
    if (goThere && found.lines.length > 0) this.viewer.goTo(found.lines[0]);
  }

  /** The step of a line in the pinned step's run, or else its first step. */
  private stepAt(line: number): { step: number; count: number } | null {
    const { texts, shown, pinnedStep } = this;
    if (!texts || !shown) return null;
    const run = pinnedStep === null ? null : texts.rank.runNumber(pinnedStep);
    const { from, to } = run === null ? { from: 0, to: 0 } : spanOf(texts.rank, run);
    return texts.links.stepAt(line, shown, from, to);
  }

  private followLine(line: number): void {
    const found = this.stepAt(line);
    if (!found) return;
    this.store.pin(found.step);
    jumpTo("memory", found.step);
  }

  private save(): void {
    const { texts, shown } = this;
    if (!texts || !shown) return;
    const lines = Array.from({ length: shown.lines }, (_, line) => texts.lines.get(shown.first + line));
    const name = (texts.rank.modules[shown.module].name ?? "graph").replace(/[^\w.-]+/g, "-").slice(0, 80);
    save(`${name}-${shown.module + 1}-${shown.stage}.mlir`, `${lines.join("\n")}\n`, "text/plain");
  }
}

/** All non-empty texts of a rank. */
function stagesOf(rank: Rank): Stage[] {
  const stages = rank.modules.flatMap(({ stages }, module) => stages.map((stage) => ({ module, ...stage })));
  return stages.filter(({ lines }) => lines > 0);
}

/** The best stage for a step: in its graph, the current stage if it has the step, or else TTNN. */
function stageFor({ links, stages }: Texts, shown: Stage, step: number): Stage | undefined {
  const has = (stage: Stage) => links.linesOf(step, stage).lines.length > 0;
  const preferred = [shown.stage, "ttnn", "ttir"];
  const rate = ({ stage }: Stage) => preferred.indexOf(stage) + 1 || preferred.length + 1;
  const module = links.moduleOf(step);
  const own = stages.filter((stage) => stage.module === module).sort((a, b) => rate(a) - rate(b));
  if (module >= 0) return own.find(has) ?? own[0];
  return has(shown) ? shown : [...stages].sort((a, b) => rate(a) - rate(b)).find(has);
}

/** `SyncTensorsGraph.1 (graph 1 of 3)` */
function graphLabel(rank: Rank, module: number): string {
  const name = shorten(rank.modules[module].name ?? "unnamed", 80);
  return `${name} (graph ${count(module + 1)} of ${count(rank.modules.length)})`;
}

function whyNone(rank: Rank): string {
  return rank.modules.length > 0
    ? "The text of the graphs could not be read from the log when this report was written."
    : "The input has no graphs. To log them, set TTXLA_LOGGER_LEVEL=DEBUG.";
}
