// What is looked at: which rank and pool, which moment is pinned, which stretch of time is shown.

import { momentBefore, positionOf, type Rank } from "./data/report";

export interface State {
  rank: Rank;
  /** The pool that the charts and the live set are about. */
  pool: number;
  /** The pinned moment. */
  moment: number;
  /** The stretch of time that the charts show, in positions; whole numbers are late sides. */
  from: number;
  to: number;
  /** The top-level run that is looked at alone, from 1; `null`: all. */
  run: number | null;
  theme: "light" | "dark";
}

type Key = keyof State;
type Listener = (state: State) => void;

/** Holds the state and tells who depends on what changed, once per frame. */
export class Store {
  private readonly listeners: { keys: readonly Key[]; listener: Listener }[] = [];
  private changed = new Set<Key>();

  constructor(private current: State) {}

  get state(): Readonly<State> {
    return this.current;
  }

  set(patch: Partial<State>): void {
    const keys = (Object.keys(patch) as Key[]).filter((key) => patch[key] !== this.current[key]);
    if (keys.length === 0) return;
    if (this.changed.size === 0) requestAnimationFrame(() => this.flush());
    this.current = { ...this.current, ...patch };
    for (const key of keys) this.changed.add(key);
  }

  on(keys: readonly Key[], listener: Listener): void {
    this.listeners.push({ keys, listener });
  }

  private flush(): void {
    const changed = this.changed;
    this.changed = new Set();
    for (const { keys, listener } of this.listeners) {
      if (keys.some((key) => changed.has(key))) listener(this.current);
    }
  }

  /** Pins the moment before a step. */
  pin(step: number): void {
    this.pinMoment(momentBefore(step));
  }

  /** Pins a moment, and brings it into view. */
  pinMoment(moment: number): void {
    const { from, to, rank } = this.current;
    const position = positionOf(moment);
    if (position >= from && position <= to) {
      this.set({ moment });
      return;
    }
    const width = to - from;
    const start = Math.max(0, Math.min(position - width / 2, rank.end - width));
    this.set({ moment, from: start, to: start + width });
  }

  /** Shows all of the rank, or of the run that is looked at. */
  showAll(): void {
    this.set(spanOf(this.current.rank, this.current.run));
  }
}

/** The stretch of time of a run, or of all runs. */
export function spanOf(rank: Rank, run: number | null): { from: number; to: number } {
  for (let row = 0; run !== null && row < rank.runs.first.length; row++) {
    if (rank.runs.parent[row] < 0 && rank.runs.number[row] === run) {
      return { from: rank.runs.first[row], to: Math.max(rank.runs.end[row], rank.runs.first[row] + 1) };
    }
  }
  return { from: 0, to: Math.max(rank.end, 1) };
}
