// Shows the visible lines of a text, with line numbers, syntax highlighting and links to their steps.

import "./viewer.css";
import { h } from "../dom";
import { count, counted } from "../format";
import { VirtualRows } from "../virtual";
import type { Match } from "./search";
import { cutAt, type Token, tokensOf } from "./tokens";

const LINE_HEIGHT = 20;
/** The number of characters of a line shown and highlighted initially; constants can have millions. */
const SHOWN = 2_000;
/** The number of further characters shown per click. */
const MORE = 20_000;

export interface TextSource {
  /** The text of a line; lines are counted over all texts. */
  text(line: number): string;
  /** The step that a line leads to, and the number of its steps. */
  step(line: number): { step: number; count: number } | null;
  /** The search matches in a line. */
  matches(text: string): { start: number; end: number }[];
  follow(line: number): void;
}

export class TextViewer {
  readonly element: HTMLElement;
  private readonly rows: VirtualRows;
  private first = 0;
  private count = 0;
  private current: number | null = null;
  private match: Match | null = null;
  private marked: ReadonlySet<number> = new Set();
  /** The number of characters shown of expanded lines. */
  private shown = new Map<number, number>();
  private widest = 0;

  constructor(private readonly source: TextSource) {
    this.rows = new VirtualRows({ rowHeight: LINE_HEIGHT, make: (position) => this.makeLine(position) });
    this.element = this.rows.element;
    this.element.classList.add("ir-text");
    for (const [name, value] of [
      ["role", "grid"],
      ["tabindex", "0"],
      ["aria-readonly", "true"],
    ]) {
      this.element.setAttribute(name, value);
    }
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    this.element.addEventListener("click", (event) => this.clicked(event));
  }

  /** Shows a range of lines, from the top. */
  show(caption: string, first: number, lines: number): void {
    this.first = first;
    this.count = lines;
    this.select(null);
    this.match = null;
    this.marked = new Set();
    this.shown = new Map();
    this.widest = 0;
    this.rows.widen("");
    this.element.setAttribute("aria-label", caption);
    this.element.setAttribute("aria-rowcount", String(lines));
    this.element.style.setProperty("--digits", String(count(lines).length));
    this.rows.reset(lines);
    this.rows.scrollToTop();
    this.element.scrollLeft = 0;
  }

  /** The first visible line. */
  get top(): number {
    return this.first + this.rows.first;
  }

  /** Marks the lines of an operation. */
  mark(lines: readonly number[]): void {
    this.marked = new Set(lines);
    this.refresh();
  }

  /** Recreates the visible lines after their data changed. */
  refresh(): void {
    this.rows.reset(this.count);
  }

  /** Scrolls to a line; the page does not scroll. */
  goTo(line: number): void {
    this.rows.scrollTo(line - this.first);
    this.select(line);
  }

  /** Scrolls to a match. */
  goToMatch(match: Match): void {
    this.match = match;
    if (match.end > this.shownOf(match.line)) this.shown.set(match.line, match.end + 100);
    this.rows.scrollTo(match.line - this.first);
    this.refresh();
    this.select(match.line);
    const mark = this.rows.elementAt(match.line - this.first)?.querySelector<HTMLElement>("mark.now");
    if (mark) this.scrollAcross(mark);
  }

  /** Scrolls horizontally to a part of a line. */
  private scrollAcross(part: HTMLElement): void {
    const view = this.element.getBoundingClientRect();
    const gutter = part.closest(".ir-line")?.querySelector(".ir-gutter")?.clientWidth ?? 0;
    const box = part.getBoundingClientRect();
    const left = view.left + gutter;
    if (box.left >= left && box.right <= view.right) return;
    this.element.scrollLeft += box.left - left - (view.right - left) / 3;
  }

  private shownOf(line: number): number {
    return this.shown.get(line) ?? SHOWN;
  }

  private makeLine(position: number): HTMLElement {
    const line = this.first + position;
    const classes = ["ir-line"];
    if (this.marked.has(line)) classes.push("marked");
    const isCurrent = line === this.current;
    return h(
      "div",
      {
        class: classes.join(" "),
        id: `ir-line-${line}`,
        role: "row",
        "aria-rowindex": position + 1,
        "aria-selected": String(isCurrent),
        "data-line": line,
      },
      h(
        "span",
        { class: "ir-gutter", role: "rowheader" },
        this.link(line, isCurrent),
        h("span", { class: "ir-number" }, count(position + 1)),
      ),
      h("span", { class: "ir-code", role: "gridcell" }, this.code(line)),
    );
  }

  /** The link from a line to its step. */
  private link(line: number, isCurrent: boolean): HTMLElement | null {
    const found = this.source.step(line);
    if (!found) return null;
    const more = found.count > 1 ? ` (ran ${count(found.count)} times)` : "";
    const label = `Show step ${count(found.step)} in the chart${more}`;
    return h(
      "button",
      {
        type: "button",
        class: "link ir-step",
        "aria-label": label,
        title: label,
        tabindex: isCurrent ? 0 : -1,
        onclick: () => this.source.follow(line),
      },
      h("span", { class: "ir-step-word" }, `step ${count(found.step)} `),
      "→",
    );
  }

  private code(line: number): Node[] {
    const text = this.source.text(line);
    const end = this.shownOf(line);
    const shown = text.length > end ? text.slice(0, end) : text;
    const tokens = tokensOf(shown.slice(0, SHOWN));
    if (shown.length > SHOWN) tokens.push({ kind: "plain", text: shown.slice(SHOWN) });
    const nodes = colored(tokens, this.source.matches(shown), line === this.match?.line ? this.match : null);
    if (shown.length < text.length) nodes.push(this.moreButton(line, text.length - shown.length));
    this.fit(shown.length + (shown.length < text.length ? 30 : 0));
    return nodes;
  }

  private moreButton(line: number, hidden: number): HTMLElement {
    const onclick = () => {
      this.shown.set(line, this.shownOf(line) + MORE);
      this.refresh();
    };
    const attributes = { type: "button", class: "link ir-more", tabindex: -1, onclick };
    return h("button", attributes, `… ${counted(hidden, "more character")}`);
  }

  /** Widens the text for a line; it never shrinks, so that it does not jump sideways while scrolling. */
  private fit(characters: number): void {
    if (characters <= this.widest) return;
    this.widest = characters;
    this.rows.widen(`calc(${characters + 2}ch + var(--gutter))`);
  }

  /** Makes a line current for keyboard input. Keeps its element, so that a text selection survives. */
  private select(line: number | null): void {
    for (const changed of [this.current, line]) {
      const element = changed === null ? undefined : this.rows.elementAt(changed - this.first);
      element?.setAttribute("aria-selected", String(changed === line));
      element?.querySelector(".ir-step")?.setAttribute("tabindex", changed === line ? "0" : "-1");
    }
    this.current = line;
    if (line === null) this.element.removeAttribute("aria-activedescendant");
    else this.element.setAttribute("aria-activedescendant", `ir-line-${line}`);
  }

  private clicked(event: MouseEvent): void {
    const target = event.target as Element;
    const line = target.closest<HTMLElement>("[data-line]")?.dataset.line;
    if (line === undefined || target.closest("button") || getSelection()?.isCollapsed === false) return;
    this.goTo(Number(line));
  }

  private pressed(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.target === this.element) {
      if (this.current !== null && this.source.step(this.current)) this.source.follow(this.current);
      return;
    }
    const line = this.moved(event.key);
    if (line === null) return;
    event.preventDefault();
    this.rows.scrollTo(line - this.first, "nearest");
    this.select(line);
  }

  /** The line that a key moves to; `null` for other keys. */
  private moved(key: string): number | null {
    const last = this.first + this.count - 1;
    const at = this.current ?? this.top - 1;
    const targets: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + this.rows.page,
      PageUp: at - this.rows.page,
      Home: this.first,
      End: last,
    };
    if (this.count === 0 || !Object.hasOwn(targets, key)) return null;
    return Math.max(this.first, Math.min(targets[key], last));
  }
}

/** Converts tokens to elements and highlights search matches across them. */
function colored(
  tokens: Token[],
  matches: { start: number; end: number }[],
  now: { start: number } | null,
): Node[] {
  return cutAt(tokens, matches).map(({ kind, text, match }) => {
    if (match) return h("mark", { class: `syntax-${kind}${match.start === now?.start ? " now" : ""}` }, text);
    return kind === "plain" ? document.createTextNode(text) : h("span", { class: `syntax-${kind}` }, text);
  });
}
