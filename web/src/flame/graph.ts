// Draws a flame graph. Each box is an element, so that it can have the focus and a name for screen readers.

import "./flame.css";
import type { Stacks } from "../data/stacks";
import { fill, h } from "../dom";
import { counted, percent, size } from "../format";
import { type Box, boxesOf, type FlameTree, ROOT, UNKNOWN_STACK } from "./tree";

/** Narrower boxes are left out; zooming shows them. */
const MIN_PIXELS = 2;
/** More boxes than this would make the page slow. */
const MAX_BOXES = 3000;
/** Narrower boxes have no text. */
const MIN_TEXT_PIXELS = 28;
/** The number of shades; see flame.css. */
const SHADES = 5;

export interface FlameContent {
  tree: FlameTree;
  stacks: Stacks;
}

export class FlameGraph {
  readonly element = h("div", { class: "flame", role: "tree", "aria-label": "Flame graph" });
  private content: FlameContent | undefined;
  private zoomed = ROOT;
  private boxes: Box[] = [];
  private words = "";
  /** The node that the Tab key goes to. */
  private active = ROOT;

  constructor(
    private readonly onZoom: (node: number) => void,
    private readonly onPoint: (node: number | null) => void,
  ) {
    const { element } = this;
    element.addEventListener("click", (event) => {
      const node = nodeOf(event.target);
      if (node !== null) this.zoom(node);
    });
    element.addEventListener("keydown", (event) => this.pressed(event));
    element.addEventListener("pointerover", (event) => this.onPoint(nodeOf(event.target)));
    element.addEventListener("pointerleave", () => this.onPoint(null));
    element.addEventListener("focusin", (event) => {
      this.setActive(nodeOf(event.target) ?? ROOT);
      this.onPoint(this.active);
    });
    let width = 0;
    new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      this.draw();
    }).observe(element);
  }

  show(content: FlameContent): void {
    // The rows of another rank are unrelated.
    const isOther = this.content?.stacks !== content.stacks;
    this.content = content;
    this.zoomed = isOther ? ROOT : content.tree.nearest(this.zoomed);
    this.active = isOther ? ROOT : this.zoomed;
    this.draw();
    this.onZoom(this.zoomed);
  }

  zoom(node: number): void {
    this.zoomed = node;
    this.active = node;
    const hadFocus = this.element.contains(document.activeElement);
    this.draw();
    if (hadFocus) this.focus(node);
    this.onZoom(node);
  }

  /** Highlights the boxes whose name contains a text; returns their bytes, or `null` if the text is empty. */
  search(text: string): number | null {
    this.words = text.trim().toLowerCase();
    this.draw();
    if (!this.content || this.words === "") return null;
    return this.content.tree.matched((node) => this.isMatch(node));
  }

  /** The full name of a node. */
  nameOf(node: number): string {
    if (node === ROOT) return "all";
    if (node === UNKNOWN_STACK) return "unknown stack";
    const stacks = this.content?.stacks;
    return stacks ? stacks.fullName(stacks.frame[node]) : "";
  }

  /** The name without the folder of the file. */
  shortNameOf(node: number): string {
    const stacks = this.content?.stacks;
    return node < 0 || !stacks ? this.nameOf(node) : stacks.shortName(stacks.frame[node]);
  }

  /** Whether a node is a line of the user's program. */
  isProgram(node: number): boolean {
    const stacks = this.content?.stacks;
    return node >= 0 && stacks !== undefined && !stacks.isLibrary(stacks.frame[node]);
  }

  private isMatch(node: number): boolean {
    return this.words !== "" && node >= 0 && this.nameOf(node).toLowerCase().includes(this.words);
  }

  private draw(): void {
    const { content, element } = this;
    if (!content) return;
    const width = Math.max(1, element.clientWidth);
    this.boxes = boxesOf(content.tree, this.zoomed, MIN_PIXELS / width, MAX_BOXES);
    const depth = this.boxes.reduce((most, box) => Math.max(most, box.depth), 0);
    element.style.setProperty("--rows", String(depth + 1));
    fill(
      element,
      this.boxes.map((box) => this.boxElement(box, content, width)),
    );
  }

  private boxElement(box: Box, { tree, stacks }: FlameContent, width: number): HTMLElement {
    const { node, depth } = box;
    const total = tree.bytesOf(ROOT);
    const bytes = tree.bytesOf(node);
    const kind = node < 0 ? "other" : stacks.isLibrary(stacks.frame[node]) ? "library" : "program";
    const isNarrow = box.width * width < MIN_TEXT_PIXELS;
    const classes = [
      "flame-box",
      kind,
      isNarrow && "narrow",
      box.isCaller && "caller",
      this.isMatch(node) && "match",
      node === this.zoomed && "zoomed",
    ];
    const isLeaf = tree.childrenOf(node).length === 0;
    const facts = `${size(bytes)}, ${percent(bytes, total)}`;
    return h(
      "div",
      {
        class: classes.filter(Boolean).join(" "),
        role: "treeitem",
        "aria-level": depth + 1,
        // Begins with the visible text, which speech control refers to.
        "aria-label": `${this.shortNameOf(node)}: ${facts}`,
        "aria-selected": String(node === this.zoomed),
        ...(isLeaf ? {} : { "aria-expanded": "true" }),
        tabindex: node === this.active ? 0 : -1,
        "data-node": node,
        "data-bytes": bytes,
        title: `${this.nameOf(node)}: ${facts}, ${counted(tree.countOf(node), "allocation")}`,
        style: `left:${box.left * 100}%;width:${box.width * 100}%;--row:${depth};--shade:${shadeOf(node, stacks)}`,
      },
      isNarrow ? "" : this.shortNameOf(node),
    );
  }

  private setActive(node: number): void {
    if (node === this.active) return;
    this.elementOf(this.active)?.setAttribute("tabindex", "-1");
    this.active = node;
    this.elementOf(node)?.setAttribute("tabindex", "0");
  }

  private elementOf(node: number): HTMLElement | null {
    return this.element.querySelector(`[data-node="${node}"]`);
  }

  private focus(node: number): void {
    this.elementOf(node)?.focus({ preventScroll: true });
  }

  /** Arrow keys move along the tree, Enter zooms in and Escape zooms out. */
  private pressed(event: KeyboardEvent): void {
    const tree = this.content?.tree;
    if (!tree || event.ctrlKey || event.altKey || event.metaKey) return;
    const { active } = this;
    const shown = (node: number | undefined) =>
      node !== undefined && this.boxes.some((box) => box.node === node) ? node : null;
    const sibling = (step: number) => {
      const all = tree.childrenOf(tree.parentOf(active));
      return active === ROOT ? null : shown(all[all.indexOf(active) + step]);
    };
    // A caller of the zoomed node has only one box below it.
    const below = () => {
      const path = tree.pathTo(this.zoomed);
      const at = path.indexOf(active);
      return shown(at >= 0 && at < path.length - 1 ? path[at + 1] : tree.childrenOf(active)[0]);
    };
    const moves: Record<string, () => number | null> = {
      ArrowDown: below,
      ArrowUp: () => (active === ROOT ? null : shown(tree.parentOf(active))),
      ArrowRight: () => sibling(1),
      ArrowLeft: () => sibling(-1),
      Home: () => ROOT,
    };
    if (event.key === "Enter" || event.key === " ") this.zoom(active);
    else if (event.key === "Escape" && this.zoomed !== ROOT) this.zoom(tree.parentOf(this.zoomed));
    else if (event.key in moves) {
      const next = moves[event.key]();
      if (next !== null) this.focus(next);
    } else return;
    event.preventDefault();
  }
}

/** The node of a box; `null` for anything else. */
function nodeOf(target: EventTarget | null): number | null {
  const box = target instanceof Element ? target.closest<HTMLElement>("[data-node]") : null;
  return box ? Number(box.dataset.node) : null;
}

/** The shade of a node depends on its function, so that neighbors differ and a function always looks the same. */
function shadeOf(node: number, stacks: Stacks): number {
  if (node < 0) return 0;
  let hash = 7;
  for (const letter of stacks.functionOf(stacks.frame[node])) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return hash % SHADES;
}
