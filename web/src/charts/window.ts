// The visible time range of the charts: moving, zooming and clamping it.

import { type State, type Timed, type TimeStore, windowOf } from "../state";

/** The smallest visible range, in steps. */
const MIN_STEPS = 4;

/** The largest visible range: the selected run, or everything if the current range extends beyond it. */
export function limitsOf(state: State<Timed>): { from: number; to: number } {
  const run = windowOf(state.rank, state.run);
  return state.from >= run.from && state.to <= run.to ? run : windowOf(state.rank, null);
}

/** Shows a range, clamped to the limits. */
export function showWindow(store: TimeStore, from: number, to: number): void {
  const limits = limitsOf(store.state);
  const whole = limits.to - limits.from;
  const width = Math.min(whole, Math.max(Math.min(MIN_STEPS, whole), to - from));
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(limits.from, middle - width / 2), limits.to - width);
  store.set({ from: start, to: start + width });
}

/** Makes the range `factor` times as wide; the position `around` does not move. */
export function zoom(store: TimeStore, factor: number, around: number): void {
  const { from, to } = store.state;
  const limits = limitsOf(store.state);
  const width = Math.min(limits.to - limits.from, Math.max(MIN_STEPS, (to - from) * factor));
  const start = around - ((around - from) / (to - from)) * width;
  showWindow(store, start, start + width);
}

/** Whether the largest possible range is shown. */
export function showsAll(state: State<Timed>): boolean {
  const limits = limitsOf(state);
  return state.from <= limits.from && state.to >= limits.to;
}
