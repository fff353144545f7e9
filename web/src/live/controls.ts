// The buttons and the field that select the pinned moment.

import { momentBefore, positionOf } from "../data/report";
import { h } from "../dom";
import type { State, Store } from "../state";

export class MomentControls {
  readonly element: HTMLElement;
  private readonly field: HTMLInputElement;

  constructor(private readonly store: Store) {
    const button = (text: string, label: string, onclick: () => void) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    this.field = h("input", { type: "number", min: 0, "aria-label": "Go to step" });
    this.field.addEventListener("change", () => this.go(this.field.valueAsNumber));
    this.element = h(
      "span",
      { class: "live-controls" },
      button("Peak", "Go to the peak of this pool", () => this.toPeak()),
      button("◀", "Previous step", () => this.go(this.position() - 1)),
      h("span", { class: "note", "aria-hidden": "true" }, "before step"),
      this.field,
      button("▶", "Next step", () => this.go(this.position() + 1)),
    );
  }

  show({ rank, moment }: State): void {
    this.field.max = String(rank.end);
    this.field.value = String(positionOf(moment));
  }

  private position(): number {
    return positionOf(this.store.state.moment);
  }

  private toPeak(): void {
    const { rank, pool } = this.store.state;
    const peak = rank.pools[pool]?.peakMoment;
    if (peak !== null && peak !== undefined) this.store.pinMoment(peak);
  }

  private go(step: number): void {
    if (!Number.isFinite(step)) return;
    const within = Math.max(0, Math.min(this.store.state.rank.end, Math.round(step)));
    this.store.pinMoment(momentBefore(within));
  }
}
