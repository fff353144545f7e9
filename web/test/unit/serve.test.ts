// The server's page: filtering and sorting reports, the status of uploads, and the upload queue.

import { describe, expect, it } from "vitest";
import type { Job, StoredRow } from "../../src/generated/answers";
import { levelClass } from "../../src/level";
import { refusalOf } from "../../src/serve/api";
import { FIRST, hasAnswers, type Order, reordered, shareOf, shownRows } from "../../src/serve/rows";
import { hasEnded, hasFailed, lacksMemoryData, SETTINGS, shareDone, wordsOf } from "../../src/serve/stage";
import { queue } from "../../src/serve/uploads";

function stored(name: string, more: Partial<StoredRow> = {}): StoredRow {
  return {
    name,
    kind: "report",
    folder: `/home/me/.ttmem/reports/${name}`,
    written: "2026-11-15T08:12:50Z",
    format: "tt_log",
    ranks: 1,
    operations: 10,
    peak: {
      pool: "DRAM",
      per_bank: 50,
      capacity_per_bank: 100,
      total: 600,
      capacity_total: 1200,
      of: "bank",
      level: "ok",
    },
    shown: { bytes: 50, capacity: 100, of: "bank" },
    oom: null,
    oom_headline: null,
    bytes: 1000,
    source: null,
    page: `/reports/${name}`,
    ...more,
  };
}

const ROWS = [
  stored("vae", { written: "2026-11-15T08:12:50Z", operations: 30 }),
  stored("Llama", { written: "2026-11-16T08:12:50Z", oom: "circular_buffers", operations: 20 }),
  stored("old", { written: null, format: null, operations: null, peak: null, shown: null }),
  stored("bert", {
    source: { path: "/data/bert_large.log", size: 9, hash: "00" },
    kind: "run",
    operations: 40,
  }),
];
const names = (search: string, order: Order = FIRST) =>
  shownRows(ROWS, search, order).map(({ name }) => name);

describe("the list", () => {
  it("has the newest first, and unknown values last in both directions", () => {
    expect(names("")).toEqual(["Llama", "vae", "bert", "old"]);
    expect(names("", { column: "written", descending: false })).toEqual(["vae", "bert", "Llama", "old"]);
    expect(names("", { column: "operations", descending: true })).toEqual(["bert", "vae", "Llama", "old"]);
    expect(names("", { column: "operations", descending: false })).toEqual(["Llama", "vae", "bert", "old"]);
    expect(names("", { column: "name", descending: false })).toEqual(["bert", "Llama", "old", "vae"]);
    expect(names("", { column: "share", descending: true }).at(-1)).toBe("old");
  });

  it("is searched by all words, ignoring case, in name, kind, format, source and error", () => {
    expect(names("LLAMA")).toEqual(["Llama"]);
    expect(names("oom")).toEqual(["Llama"]);
    expect(names("oom circular")).toEqual(["Llama"]);
    expect(names("oom vae")).toEqual([]);
    expect(names("bert_large run")).toEqual(["bert"]);
    expect(names("tt_log")).toEqual(["Llama", "vae", "bert"]);
    expect(names("  ")).toHaveLength(4);
  });

  it("links to summaries, even for reports of tt-memory-profiler 0.x that are not converted yet", () => {
    expect(hasAnswers(stored("new"))).toBe(true);
    expect(hasAnswers(stored("old", { format: null }))).toBe(true);
    expect(hasAnswers(stored("no page", { page: null }))).toBe(true);
    expect(hasAnswers(stored("neither", { format: null, page: null }))).toBe(false);
  });

  it("reverses the order on a second click, and starts with the column's default", () => {
    expect(reordered(FIRST, "written")).toEqual({ column: "written", descending: false });
    expect(reordered(FIRST, "bytes")).toEqual({ column: "bytes", descending: true });
    expect(reordered(FIRST, "name")).toEqual({ column: "name", descending: false });
  });

  it("has a share only if both sizes are known", () => {
    expect(shareOf(stored("x"))).toBe(0.5);
    expect(shareOf({ shown: { bytes: 50, capacity: null, of: "bank" } })).toBeNull();
    expect(shareOf({ shown: { bytes: 15, capacity: 30, of: "device" } })).toBe(0.5);
    expect(shareOf({ shown: null })).toBeNull();
  });

  it("maps levels to classes", () => {
    expect(levelClass("ok")).toBe("good");
    expect(levelClass("high")).toBe("warn");
    expect(levelClass("full")).toBe("bad");
    expect(levelClass(null)).toBe("");
  });
});

const job = (more: Partial<Job>): Job => ({
  id: "1",
  file: "a.log",
  size_bytes: 4096,
  state: "queued",
  read_bytes: 0,
  report: null,
  page: null,
  error: null,
  ...more,
});

describe("an upload", () => {
  it("shows its progress, and a share only if it is known", () => {
    const sending = { at: "sending", sent: 1024, of: 4096 } as const;
    expect(wordsOf({ at: "waiting" })).toBe("Queued");
    expect(wordsOf(sending)).toBe("Uploading: 1.0 KiB of 4.0 KiB");
    expect(shareDone(sending)).toBe(0.25);
    expect(shareDone({ at: "sending", sent: 0, of: 0 })).toBeNull();
    const reading = { at: "job", job: job({ state: "reading", read_bytes: 2048 }) } as const;
    expect(wordsOf(reading)).toBe("Reading: 2.0 KiB of 4.0 KiB");
    expect(shareDone(reading)).toBe(0.5);
    for (const state of ["queued", "writing", "done", "failed"] as const) {
      expect(shareDone({ at: "job", job: job({ state }) }), state).toBeNull();
    }
  });

  it("ends when it is done, failed or refused", () => {
    const ends = (state: Job["state"]) => {
      const stage = { at: "job", job: job({ state }) } as const;
      return [hasEnded(stage), hasFailed(stage)];
    };
    expect(ends("reading")).toEqual([false, false]);
    expect(ends("done")).toEqual([true, false]);
    expect(ends("failed")).toEqual([true, true]);
    expect(hasEnded({ at: "refused", message: "" }) && hasFailed({ at: "refused", message: "" })).toBe(true);
  });

  it("shows the settings only if memory data is missing", () => {
    expect(lacksMemoryData({ kind: "no_memory_data", exit_code: 4, message: "" })).toBe(true);
    expect(lacksMemoryData({ kind: "unreadable", exit_code: 2, message: "" })).toBe(false);
    expect(lacksMemoryData(null)).toBe(false);
    for (const name of ["TTMLIR_RUNTIME_LOGGER_LEVEL", "TT_RUNTIME_MEMORY_LOG_LEVEL", "TTXLA_LOGGER_LEVEL"]) {
      expect(SETTINGS).toContain(`export ${name}=`);
    }
  });

  it("shows the server's error message, and what to do if not signed in", () => {
    expect(refusalOf(413, '{"error":{"status":413,"message":"too large"}}').message).toBe("too large");
    expect(refusalOf(502, "<html>").message).toBe("The server returned status 502.");
    expect(refusalOf(401, "{}").message).toContain("Open the address that it printed");
  });
});

it("the queue runs a few tasks at once, and the next when one has ended", async () => {
  const turns = queue(2);
  const ends: (() => void)[] = [];
  let begun = 0;
  const tasks = [1, 2, 3, 4].map(() =>
    turns(() => {
      begun++;
      return new Promise<void>((end) => ends.push(end));
    }),
  );
  const settle = () => new Promise((done) => setTimeout(done, 0));
  await settle();
  expect(begun).toBe(2);
  ends.shift()?.();
  await settle();
  expect(begun).toBe(3);
  while (begun < 4 || ends.length > 0) {
    ends.shift()?.();
    await settle();
  }
  await Promise.all(tasks);
  expect(begun).toBe(4);
});
