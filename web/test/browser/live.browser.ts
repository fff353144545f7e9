// The live tensors at any moment match `ttmem summary --at`.

import type { Page } from "@playwright/test";
import { count } from "../../src/format";
import type { LiveTensor, PoolMoment } from "../../src/generated/answers";
import { csvOf, expect, randomNumbers, recordsOf, show, test } from "./support/page";
import { logOf, madeLog, summary } from "./support/tool";

/** The logs, the rank, and the number of random positions to check. */
const CASES: { name: string; log: () => string; rank?: number; positions: number }[] = [
  { name: "vae-decoder", log: () => logOf("vae-decoder"), positions: 50 },
  { name: "llm-decode", log: () => logOf("llm-decode"), positions: 50 },
  { name: "two-graphs", log: () => logOf("two-graphs"), positions: 12 },
  { name: "oom-fragmentation", log: () => logOf("oom-fragmentation"), positions: 12 },
  { name: "submit-states", log: () => logOf("submit-states"), positions: 12 },
  { name: "a random log", log: () => madeLog("random", "random", "--seed", "7", "--keep"), positions: 12 },
  {
    name: "the second of two ranks",
    log: () => madeLog("ranks", "random", "--seed", "5", "--ranks", "2"),
    rank: 1,
    positions: 8,
  },
];

for (const { name, log, rank: index = 0, positions } of CASES) {
  test(`${name}: the live set at ${positions} random moments`, async ({ page, open }) => {
    const first = summary(log()).ranks[index];
    const rank = first.rank === null ? "" : `&rank=${encodeURIComponent(first.rank)}`;
    await open(log(), rank === "" ? {} : { hash: `#${rank}` });
    await show(page, "live");
    expect(first.peak?.live, "the log has tensors").toBeTruthy();
    compare(await look(page), first.peak!);
    expect(await csvOf(page, "live"), "the downloaded file").toEqual((await look(page)).rows);

    const end = first.operations.total;
    for (const [turn, at] of randomPositions(end, positions).entries()) {
      const { pools } = summary(log(), "--at", String(at)).ranks[index].at!;
      for (const [pool, moment] of Object.entries(pools)) {
        // Pools that were never used are only checked now and then.
        if (first.pools[pool].peak_step === null && turn % 10 > 0) continue;
        const when = at === end ? "at the end" : `before step ${count(at)}`;
        compare(await go(page, `#op=${at}&pool=${pool}${rank}`, `Live in ${pool} ${when}`), moment);
      }
    }
  });
}

/** The first, the last and random positions, always the same ones. */
function randomPositions(end: number, many: number): number[] {
  const next = randomNumbers(end);
  const found = new Set([0, end]);
  while (found.size < Math.min(many, end + 1)) found.add(Math.floor(next() * (end + 1)));
  return [...found];
}

/** The content of the section. */
interface Shown {
  facts: (number | null)[];
  rows: Record<string, string>[];
}

/** Follows a link, waits until the heading matches, and reads the section. */
async function go(page: Page, hash: string, heading: string): Promise<Shown> {
  const { title, facts, csv } = await page.evaluate(read, { hash, heading });
  expect(title).toBe(heading);
  return { facts, rows: recordsOf(csv) };
}

/** Reads the section in its current state. */
async function look(page: Page): Promise<Shown> {
  const { facts, csv } = await page.evaluate(read, null);
  return { facts, rows: recordsOf(csv) };
}

/** Reads the facts and all rows of the table, as `Save as CSV` would save them, but without a download. Runs in the page,
 * in one call with the link to follow, since the tests check about 300 moments. */
async function read(link: { hash: string; heading: string } | null) {
  const live = document.querySelector("#live")!;
  const title = live.querySelector("h2");
  if (link) {
    location.hash = link.hash;
    for (let frame = 0; frame < 300 && title?.textContent !== link.heading; frame++) {
      await new Promise(requestAnimationFrame);
    }
  }
  const bytes = (fact: string) => {
    const data = live.querySelector<HTMLDataElement>(`[data-fact="${fact}"] data`);
    return data ? Number(data.value) : null;
  };
  const rows = live.querySelector('[role="grid"]')?.getAttribute("aria-rowcount");
  const { createObjectURL } = URL;
  const { click } = HTMLAnchorElement.prototype;
  let saved: Blob | MediaSource | undefined;
  URL.createObjectURL = (blob) => {
    saved = blob;
    return createObjectURL(blob);
  };
  HTMLAnchorElement.prototype.click = () => {};
  const button = [...live.querySelectorAll("button")].find(
    ({ textContent }) => textContent === "Save as CSV",
  );
  button?.click();
  URL.createObjectURL = createObjectURL;
  HTMLAnchorElement.prototype.click = click;
  return {
    title: title?.textContent,
    facts: [bytes("allocated"), bytes("explained"), bytes("unexplained"), Number(rows) - 1],
    csv: saved instanceof Blob ? await saved.text() : "",
  };
}

function compare({ facts, rows }: Shown, moment: PoolMoment): void {
  const where = `${moment.pool} at ${moment.step}`;
  const { allocated_per_bank: allocated, explained_per_bank: explained } = moment;
  expect(facts, where).toEqual([allocated, explained, moment.unexplained_per_bank, moment.live_count]);
  expect(moment.live).toHaveLength(moment.live_count ?? -1);
  expect(rows.map(pick), where).toEqual((moment.live ?? []).map(asText));
}

const FIELDS = [
  "name",
  "class",
  "shape",
  "dtype",
  "per_bank",
  "padded_bytes",
  "logical_bytes",
  "op",
  "born_step",
  "dies_step",
] as const;

const pick = (row: Record<string, string>): string[] => FIELDS.map((field) => row[field]);

/** A tensor as in the CSV file: unknown values are empty. */
function asText(tensor: LiveTensor): string[] {
  return FIELDS.map((field) => {
    const value = tensor[field];
    if (Array.isArray(value)) return value.join("x") || "scalar";
    return value === null ? "" : String(value);
  });
}
