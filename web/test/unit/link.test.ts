import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Rank, Report } from "../../src/data/report";
import { isOwnLink, readLink, writeLink } from "../../src/link";
import { type State, Store } from "../../src/state";

const RANK = {
  index: 0,
  label: "1,0",
  end: 2000,
  pools: [{ name: "DRAM" }, { name: "L1" }, { name: "A&B =" }],
  startPool: 0,
  runs: { parent: new Int32Array(), first: new Uint32Array() },
} as unknown as Rank;
const REPORT = {
  summary: { ranks: [{ rank: "1,0" }, { rank: "1,1" }, { rank: null }, { rank: "x" }, { rank: "x" }] },
} as unknown as Report;
const ranked = (index: number) => ({ ...RANK, index, report: REPORT }) as unknown as Rank;
const OTHER = ranked(1);

const begin = (): State => ({ rank: RANK, pool: 0, moment: 7, from: 0, to: 2000, run: null, theme: "light" });

/** The state after a link. */
function after(hash: string): Pick<State, "pool" | "moment"> {
  const store = new Store(begin());
  readLink(hash).apply(store);
  return { pool: store.state.pool, moment: store.state.moment };
}

let address = "";
beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", () => 0);
  vi.stubGlobal("history", {
    replaceState: (_: unknown, __: string, hash: string) => {
      address = hash;
    },
  });
});
afterEach(() => vi.unstubAllGlobals());

describe("a link", () => {
  test("has the moment before a step, and a pool", () => {
    expect(after("#op=1517")).toEqual({ pool: 0, moment: 3035 });
    expect(after("#op=0&pool=L1")).toEqual({ pool: 1, moment: 1 });
    expect(after("#pool=L1")).toEqual({ pool: 1, moment: 7 });
    expect(readLink("#op=0").hasStep).toBe(true);
    expect(readLink("#pool=L1").hasStep).toBe(false);
  });

  test("beyond the end shows the end", () => {
    expect(after("#op=999999999").moment).toBe(4001);
  });

  test("that is invalid changes nothing", () => {
    for (const hash of [
      "",
      "#",
      "#op",
      "#op=",
      "#op=-1",
      "#op=1.5",
      "#op=0x10",
      "#op=1e3",
      "#op= 5",
      "#op=9999999999",
    ]) {
      expect(after(hash), hash).toEqual({ pool: 0, moment: 7 });
      expect(readLink(hash).hasStep, hash).toBe(false);
    }
    expect(after("#pool=HBM&x=%")).toEqual({ pool: 0, moment: 7 });
    expect(after("#live")).toEqual({ pool: 0, moment: 7 });
  });

  test("has a rank; the first one if there is no such rank", () => {
    expect(readLink("#rank=1,1").rankIndex(REPORT)).toBe(1);
    expect(readLink("#rank=1%2C1").rankIndex(REPORT)).toBe(1);
    expect(readLink("#rank=7").rankIndex(REPORT)).toBe(0);
    expect(readLink("#op=1").rankIndex(REPORT)).toBe(0);
  });
});

describe("the address", () => {
  test("is as short as possible", () => {
    writeLink({ ...begin(), moment: 3035 });
    expect(address).toBe("#op=1517");
    writeLink({ ...begin(), moment: 3034, pool: 1 });
    expect(address).toBe("#op=1517&side=early&pool=L1");
    writeLink({ ...begin(), rank: OTHER });
    expect(address).toBe("#op=3&rank=1%2C1");
  });

  test("restores the state it was written for", () => {
    for (const pool of [0, 1, 2]) {
      for (const moment of [300, 301]) {
        writeLink({ ...begin(), moment, pool });
        expect(after(address)).toEqual({ pool, moment });
      }
    }
    // Ranks without a unique label are identified by their number.
    for (const index of [1, 2, 3, 4]) {
      writeLink({ ...begin(), rank: ranked(index) });
      expect(readLink(address).rankIndex(REPORT)).toBe(index);
    }
  });

  test("names the pool unless the page starts with it", () => {
    const rank = { ...RANK, startPool: 1 } as unknown as Rank;
    writeLink({ ...begin(), rank, pool: 1 });
    expect(address).toBe("#op=3");
    writeLink({ ...begin(), rank, pool: 0 });
    expect(address).toBe("#op=3&pool=DRAM");
  });

  test("that the page wrote itself is recognized", () => {
    writeLink({ ...begin(), moment: 11 });
    expect(isOwnLink("#op=5")).toBe(true);
    expect(isOwnLink("#op=6")).toBe(false);
  });
});
