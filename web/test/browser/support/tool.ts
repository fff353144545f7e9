// Runs the command under test: writes reports, and returns the numbers that the page must show.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import type { Diff, Gantt, Summary } from "../../../src/generated/answers";

const WEB = resolve(import.meta.dirname, "../../..");
const TTMEM = resolve(WEB, process.env.TTMEM_BIN ?? "../target/debug/ttmem");
const MAKE_LOG = resolve(WEB, process.env.MAKE_LOG_BIN ?? "../target/debug/make-log");
const CORPUS = resolve(WEB, "../corpus/tt_log");
/** This worker's temporary folder. */
const FILES = mkdtempSync(join(tmpdir(), "ttmem-browser-"));
process.on("exit", () => rmSync(FILES, { recursive: true, force: true }));

/** The folder for screenshots and other output. */
export const KEPT = resolve(WEB, "test-results");

/** A training log. */
export function trainingLog(): string {
  return resolve(CORPUS, "../tt_train/tinyllama.log");
}

/** An input of another format, by its folder and name. */
export function corpusFile(name: string): string {
  return resolve(CORPUS, "..", name);
}

/** A recording of a PyTorch program, which is `train.py` in the same folder. */
export function recordingOfPyTorch(): string {
  return resolve(import.meta.dirname, "../recordings/train.ttmem");
}

/** A recording of a PyTorch program that leaks until memory runs out, which is `leak.py` in the same folder. */
export function recordingOfLeak(): string {
  return resolve(import.meta.dirname, "../recordings/leak.ttmem");
}

/** A recording of a ttnn program, which is in `l1.py` in the same folder. */
export function recordingOfL1(name: string): string {
  return resolve(import.meta.dirname, `../recordings/l1-${name}.ttmem`);
}

/** The logs of the corpus, by name. */
export function corpus(): string[] {
  return readdirSync(CORPUS)
    .filter((file) => file.endsWith(".log"))
    .map((file) => basename(file, ".log"))
    .sort();
}

export function logOf(name: string): string {
  return join(CORPUS, `${name}.log`);
}

/** A folder with only the JSON files of a report. */
export function jsonFilesOf(name: string): string {
  return resolve(CORPUS, "../tt_json", name);
}

/** Generates a log with the test kit, once. */
export function madeLog(name: string, ...options: string[]): string {
  const log = join(FILES, `${name}.log`);
  if (!existsSync(log)) execFileSync(MAKE_LOG, [...options, "-o", log]);
  return log;
}

/** Writes a memory profile. */
export function writtenProfile(name: string, profile: unknown): string {
  const file = join(FILES, `${name}.json`);
  writeFileSync(file, JSON.stringify(profile));
  return file;
}

/** The output of `ttmem gantt --json`. */
export function ganttAnswer(file: string): Gantt {
  const output = execFileSync(TTMEM, ["gantt", "--json", file], {
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return JSON.parse(output.toString());
}

/** Writes the gantt page and returns its path. */
export function ganttPage(file: string): string {
  const page = join(mkdtempSync(join(FILES, "gantt-")), "page.html");
  execFileSync(TTMEM, ["gantt", file, page], { stdio: "ignore" });
  const built = process.env.TTMEM_GANTT_PAGE;
  return built ? inNewPage(page, resolve(WEB, built)) : page;
}

/** The output of `ttmem diff --json`. */
export function diffAnswer(before: string, after: string): Diff {
  const output = execFileSync(TTMEM, ["diff", before, after, "--json", "--quiet"], { maxBuffer: 1 << 28 });
  return JSON.parse(output.toString());
}

/** Writes the page of a comparison and returns its path. */
export function diffPage(before: string, after: string, ...options: string[]): string {
  const page = join(mkdtempSync(join(FILES, "diff-")), "page.html");
  execFileSync(TTMEM, ["diff", before, after, "--page", page, ...options], { stdio: "ignore" });
  const built = process.env.TTMEM_DIFF_PAGE;
  return built ? inNewPage(page, resolve(WEB, built)) : page;
}

/** The Python package as `make python` installs it. */
const PYTHON = resolve(WEB, process.env.TTMEM_PYTHON ?? "../target/venv/bin/python");

/** Exports files as a run of a dataset, by the name of the dataset. */
export function exported(dataset: string, run: string, files: string[], ...options: string[]): void {
  const words = ["export", "--quiet", "-o", join(FILES, dataset), "--run", run, ...options, ...files];
  execFileSync(PYTHON, ["-m", "ttmem", ...words], { stdio: "ignore" });
}

/** Exports a file that cannot be read: the export fails, and the dataset has the error. */
export function exportedError(dataset: string, run: string, file: string): void {
  const words = ["-m", "ttmem", "export", "--quiet", "-o", join(FILES, dataset), "--run", run, file];
  const { status } = spawnSync(PYTHON, words);
  if (status === 0) throw new Error(`${file} can be read`);
}

/** Writes a dataset of made ranks. */
export function madeFleet(dataset: string, runs: number, ranks: number): void {
  const script = resolve(WEB, "../python/tests/made_fleet.py");
  execFileSync(PYTHON, [script, join(FILES, dataset), String(runs), String(ranks)]);
}

/** Writes the page of a dataset and returns its path. Reports of the files are linked if they are in `home`. */
export function fleetPage(dataset: string, home: string | null = null, ...options: string[]): string {
  const page = join(mkdtempSync(join(FILES, "fleet-")), "page.html");
  const env = { ...process.env, TTMEM_HOME: home ?? join(FILES, "no-home") };
  execFileSync(PYTHON, ["-m", "ttmem", "fleet", "report", join(FILES, dataset), "-o", page, ...options], {
    env,
  });
  const built = process.env.TTMEM_FLEET_PAGE;
  return built ? inNewPage(page, resolve(WEB, built)) : page;
}

/** The rows of `ttmem fleet QUESTION --json`. */
export function fleetRows(dataset: string, question: string): Record<string, string | number | null>[] {
  const words = ["-m", "ttmem", "fleet", question, join(FILES, dataset), "--json", "--limit", "100000"];
  const output = execFileSync(PYTHON, words, { maxBuffer: 1 << 28 });
  return JSON.parse(output.toString()).rows;
}

/** Stores the report of a file in a new folder of stored reports, and returns that folder. */
export function homeWithReport(file: string): string {
  const home = mkdtempSync(join(FILES, "home-"));
  execFileSync(TTMEM, ["report", file], { env: { ...process.env, TTMEM_HOME: home }, stdio: "ignore" });
  return home;
}

/** Writes a log. */
export function writtenLog(name: string, text: string): string {
  const log = join(FILES, `${name}.log`);
  writeFileSync(log, text);
  return log;
}

/** The output of `ttmem summary --json`. */
export function summary(log: string, ...options: string[]): Summary {
  const output = execFileSync(TTMEM, ["summary", "--json", log, ...options], {
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return JSON.parse(output.toString());
}

/** The folded stacks that `ttmem FILE --flamegraph` writes. */
export function foldedStacks(file: string, ...options: string[]): string {
  const out = join(mkdtempSync(join(FILES, "flame-")), "stacks.folded");
  execFileSync(TTMEM, [file, "--flamegraph", out, ...options], { stdio: "ignore" });
  return readFileSync(out, "utf8");
}

/** The output of `ttmem phases`, at the width where no name is cut. */
export function phasesText(log: string): string {
  const env = { ...process.env, COLUMNS: "120" };
  return execFileSync(TTMEM, ["phases", log], { env, stdio: ["ignore", "pipe", "ignore"] }).toString();
}

/** The output of `ttmem FILE --full`. */
export function screenText(log: string): string {
  const env = { ...process.env, COLUMNS: "120" };
  return execFileSync(TTMEM, [log, "--full"], { env, stdio: ["ignore", "pipe", "ignore"] }).toString();
}

const written = new Map<string, string>();

/** Writes the report of a log, once, and returns the path of its page. */
export function report(log: string, name = basename(log, ".log")): string {
  const key = `${log}\n${name}`;
  let page = written.get(key);
  if (!page) {
    const folder = join(FILES, `report-${written.size}`);
    execFileSync(TTMEM, ["report", log, "-o", folder, "--name", name], { stdio: "ignore" });
    const found = readdirSync(folder).filter((file) => file.endsWith(".html"));
    if (found.length !== 1) throw new Error(`expected one page, found ${found.length}`);
    page = join(folder, found[0]);
    if (process.env.TTMEM_PAGE) page = inNewPage(page, resolve(WEB, process.env.TTMEM_PAGE));
    written.set(key, page);
  }
  return page;
}

/** Copies the data of a page into a newly built page, to test the page without rebuilding the command. */
function inNewPage(page: string, built: string): string {
  const old = readFileSync(page, "utf8");
  const data = old.match(/<script type="application\/x-ttmem"[^>]*>[^<]*<\/script>/g)?.join("\n") ?? "";
  const title = old.match(/<title>(.*?)<\/title>/s)?.[1] ?? "";
  const folder = mkdtempSync(join(FILES, "built-"));
  const out = join(folder, basename(page));
  const text = readFileSync(built, "utf8");
  writeFileSync(
    out,
    text.replace("<!--ttmem:data-->", () => data).replace("ttmem:title", () => title),
  );
  return out;
}

/** An operation in the report's operations file. */
export interface Operation {
  step: number;
  mlir_op: string;
  result: string | null;
}

/** The operations of a report, without deallocations. */
export function operationsOf(log: string): Operation[] {
  const folder = join(FILES, `operations-${basename(log, ".log")}`);
  if (!existsSync(folder)) execFileSync(TTMEM, ["report", log, "-o", folder], { stdio: "ignore" });
  const file = readdirSync(folder).find((name) => name.endsWith("_operations.json"));
  return JSON.parse(readFileSync(join(folder, file ?? ""), "utf8"));
}
