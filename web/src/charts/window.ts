// The stretch of time that the charts show: moving it, zooming it, keeping it within the report.

import { type State, type Store, windowOf } from "../state";

/** No chart shows less than so many steps. */
const LEAST = 4;

/** How far out the charts can go: the run that is looked at, or everything once somebody left it. */
export function limitsOf(state: State): { from: number; to: number } {
  const run = windowOf(state.rank, state.run);
  return state.from >= run.from && state.to <= run.to ? run : windowOf(state.rank, null);
}

/** Shows a stretch, or the nearest one that there is. */
export function showWindow(store: Store, from: number, to: number): void {
  const limits = limitsOf(store.state);
  const whole = limits.to - limits.from;
  const width = Math.min(whole, Math.max(Math.min(LEAST, whole), to - from));
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(limits.from, middle - width / 2), limits.to - width);
  store.set({ from: start, to: start + width });
}

/** Makes the stretch `factor` times as wide; what is at `around` stays where it is. */
export function zoom(store: Store, factor: number, around: number): void {
  const { from, to } = store.state;
  const limits = limitsOf(store.state);
  const width = Math.min(limits.to - limits.from, Math.max(LEAST, (to - from) * factor));
  const start = around - ((around - from) / (to - from)) * width;
  showWindow(store, start, start + width);
}

/** Whether all is shown that can be. */
export function showsAll(state: State): boolean {
  const limits = limitsOf(state);
  return state.from <= limits.from && state.to >= limits.to;
}
