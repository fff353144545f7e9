// Jumps between the sections: from a step to its place in the chart, in the table of operations, in the text of its
// graph.

export type Target = "memory" | "operations" | "ir";

const handlers = new Map<Target, (step: number) => void>();

/** Says what a section does when somebody jumps to a step in it. Targets are the ids of sections. */
export function onJump(target: Target, handler: (step: number) => void): void {
  handlers.set(target, handler);
}

/** Brings a section into view, at a step. */
export function jumpTo(target: Target, step: number): void {
  bringIntoView(target);
  handlers.get(target)?.(step);
}

/** Scrolls to a section. What is drawn on the way there may move it, so once more when that is done. */
export function bringIntoView(id: string): void {
  const scroll = () => document.getElementById(id)?.scrollIntoView({ block: "start" });
  scroll();
  requestAnimationFrame(() => requestAnimationFrame(scroll));
}
