// Jumps between sections: from a step to its position in the chart, in the operation table and in its graph's text.

export type Target = "memory" | "operations" | "ir";

const handlers = new Map<Target, (step: number) => void>();

/** Registers what a section does when the user jumps to a step in it. Targets are section ids. */
export function onJump(target: Target, handler: (step: number) => void): void {
  handlers.set(target, handler);
}

/** Scrolls to a section and shows a step in it. */
export function jumpTo(target: Target, step: number): void {
  bringIntoView(target);
  handlers.get(target)?.(step);
}

/** Scrolls to a section, and again two frames later: sections drawn on the way may have moved it. */
export function bringIntoView(id: string): void {
  const scroll = () => document.getElementById(id)?.scrollIntoView({ block: "start" });
  scroll();
  requestAnimationFrame(() => requestAnimationFrame(scroll));
}
