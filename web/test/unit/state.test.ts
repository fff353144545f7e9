import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Rank } from "../../src/data/report";
import { type State, Store, spanOf, windowOf } from "../../src/state";

/** Three runs with 100 steps; the second run has a nested run. */
const RANK = {
  end: 100,
  runs: {
    parent: Int32Array.of(-1, -1, 1, -1),
    number: Uint32Array.of(1, 2, 2, 3),
    first: Uint32Array.of(0, 40, 45, 90),
    end: Uint32Array.of(40, 80, 50, 90),
  },
} as unknown as Rank;

function storeAt(patch: Partial<State> = {}): Store {
  return new Store({ rank: RANK, pool: 0, moment: 1, from: 0, to: 100, run: null, theme: "light", ...patch });
}

let frames: (() => void)[] = [];
const nextFrame = () => {
  for (const frame of frames.splice(0)) frame();
};

beforeEach(() => {
  frames = [];
  vi.stubGlobal("requestAnimationFrame", (frame: () => void) => frames.push(frame));
});
afterEach(() => vi.unstubAllGlobals());

describe("the store", () => {
  test("notifies once per frame, however many changes there are", () => {
    const store = storeAt();
    const seen: number[] = [];
    store.on(["moment", "pool"], (state) => seen.push(state.moment));
    store.set({ moment: 3 });
    store.set({ moment: 5, pool: 1 });
    expect(store.state.moment).toBe(5);
    expect(seen).toEqual([]);
    nextFrame();
    expect(seen).toEqual([5]);
    nextFrame();
    expect(seen).toEqual([5]);
  });

  test("notifies only listeners of changed keys", () => {
    const store = storeAt();
    const seen: string[] = [];
    store.on(["theme"], () => seen.push("theme"));
    store.on(["from", "to"], () => seen.push("window"));
    store.set({ theme: "dark" });
    nextFrame();
    store.set({ to: 50 });
    nextFrame();
    store.set({ to: 50, theme: "dark" });
    expect(frames).toEqual([]);
    expect(seen).toEqual(["theme", "window"]);
  });

  test("changes by a listener are notified in the next frame", () => {
    const store = storeAt();
    const seen: number[] = [];
    store.on(["pool"], () => store.set({ moment: 9 }));
    store.on(["moment"], (state) => seen.push(state.moment));
    store.set({ pool: 1 });
    nextFrame();
    expect(seen).toEqual([]);
    nextFrame();
    expect(seen).toEqual([9]);
  });
});

describe("pinning", () => {
  test("a visible moment does not move the range", () => {
    const store = storeAt({ from: 10, to: 20 });
    store.pin(15);
    expect(store.state).toMatchObject({ moment: 31, from: 10, to: 20 });
    store.pin(10);
    expect(store.state).toMatchObject({ moment: 21, from: 10, to: 20 });
  });

  test("a moment outside the range moves to the middle, within the run", () => {
    const store = storeAt({ from: 10, to: 20 });
    store.pin(60);
    expect(store.state).toMatchObject({ moment: 121, from: 55, to: 65 });
    store.pin(99);
    expect(store.state).toMatchObject({ from: 90, to: 100 });
    store.pin(1);
    expect(store.state).toMatchObject({ from: 0, to: 10 });
  });

  test("an early side has the same position", () => {
    const store = storeAt({ from: 10, to: 20 });
    store.pinMoment(2 * 20);
    expect(store.state).toMatchObject({ moment: 40, from: 10, to: 20 });
  });
});

describe("time ranges", () => {
  test("of all, of a run, of a run without steps", () => {
    expect(spanOf(RANK, null)).toEqual({ from: 0, to: 100 });
    expect(spanOf(RANK, 2)).toEqual({ from: 40, to: 80 });
    expect(spanOf(RANK, 3)).toEqual({ from: 90, to: 90 });
    expect(spanOf(RANK, 7)).toEqual({ from: 0, to: 100 });
  });

  test("a log without steps still has a range to show", () => {
    const empty = { end: 0, runs: { ...RANK.runs, first: new Uint32Array() } } as unknown as Rank;
    expect(spanOf(empty, null)).toEqual({ from: 0, to: 0 });
    expect(windowOf(empty, null)).toEqual({ from: 0, to: 1 });
    expect(windowOf(RANK, 3)).toEqual({ from: 90, to: 91 });
  });

  test("showing all stays within the selected run", () => {
    const store = storeAt({ from: 50, to: 60, run: 2 });
    store.showAll();
    expect(store.state).toMatchObject({ from: 40, to: 80 });
  });
});
