// Uploads files by drag and drop or from a file dialog, a few at a time, and follows them until their report is written.

import { fill, h } from "../dom";
import { size } from "../format";
import type { Job } from "../generated/answers";
import * as api from "./api";
import { hasEnded, hasFailed, lacksMemoryData, SETTINGS, type Stage, shareDone, wordsOf } from "./stage";

/** The maximum number of concurrent uploads. */
const MAX_CONCURRENT = 4;
/** The delays between polls of a job: short at first, since most jobs are. */
const PAUSES_MS = [100, 150, 250, 500];

export interface Uploads {
  element: HTMLElement;
  /** Sets the server's size limit; 0 disables uploads. */
  setLimit(bytes: number): void;
  /** Follows a job that was started before this page was opened. */
  follow(job: Job): void;
}

/** Creates the upload section; calls `done` when a new report is written. */
export function uploads(done: () => void): Uploads {
  let limit = Number.POSITIVE_INFINITY;
  const turns = queue(MAX_CONCURRENT);
  const rows = h("ul", { class: "uploads", "aria-label": "Uploads" });
  const input = h("input", { type: "file", multiple: true, hidden: true });
  const button = h("button", { type: "button", onclick: () => input.click() }, "Choose files");
  const note = h("p", { class: "note" });
  const zone = h("div", { class: "drop" }, h("p", {}, "Drop a log here, or ", button), note, input);
  const element = h("section", { id: "upload", "aria-label": "Upload" }, zone, rows);

  const add = (files: Iterable<File>) => {
    for (const file of files) {
      const row = uploadRow(file.name);
      rows.prepend(row.element);
      if (file.size > limit) {
        row.show({ at: "refused", message: `File is ${size(file.size)}; the limit is ${size(limit)}` });
        continue;
      }
      void turns(() => send(file, row));
    }
  };
  const send = async (file: File, row: Row) => {
    if (row.signal.aborted) return;
    try {
      const sent = (bytes: number) => row.show({ at: "sending", sent: bytes, of: file.size });
      sent(0);
      await watch(await api.upload(file, sent, row.signal), row);
    } catch (error) {
      row.show({ at: "refused", message: error instanceof Error ? error.message : String(error) });
    }
  };
  const watch = async (job: Job, row: Row) => {
    let now = job;
    for (let asked = 0; ; asked++) {
      row.show({ at: "job", job: now });
      if (now.state === "done") done();
      if (now.state === "done" || now.state === "failed") return;
      const pause = PAUSES_MS[Math.min(asked, PAUSES_MS.length - 1)];
      await new Promise((wait) => setTimeout(wait, pause));
      now = await api.job(job.id);
    }
  };

  input.addEventListener("change", () => {
    add(input.files ?? []);
    // Allows choosing the same file again.
    input.value = "";
  });
  acceptDrops(zone, (files) => limit > 0 && add(files));
  return {
    element,
    setLimit(bytes) {
      limit = bytes;
      element.hidden = bytes === 0;
      fill(note, `Logs, compressed logs (gzip, zstd) and profiles (.ttmem), up to ${size(bytes)}`);
    },
    follow(job) {
      const row = uploadRow(job.file);
      rows.prepend(row.element);
      watch(job, row).catch((error: Error) => row.show({ at: "refused", message: error.message }));
    },
  };
}

interface Row {
  element: HTMLElement;
  /** Aborted when the user cancels the upload. */
  signal: AbortSignal;
  show(stage: Stage): void;
}

function uploadRow(name: string): Row {
  const canceled = new AbortController();
  const words = h("span", { class: "words", role: "status" });
  const bar = h("progress", { max: 1, "aria-label": `Progress of ${name}` });
  const cancel = h("button", { type: "button", class: "cancel", "aria-label": `Cancel ${name}` }, "Cancel");
  const more = h("div", { class: "more" });
  const element = h("li", {}, h("strong", { title: name }, name), bar, words, cancel, more);
  const show = (stage: Stage) => {
    words.textContent = wordsOf(stage);
    const share = shareDone(stage);
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    bar.hidden = hasEnded(stage) || stage.at === "waiting";
    cancel.hidden = stage.at !== "sending" && stage.at !== "waiting";
    element.classList.toggle("failed", hasFailed(stage));
    element.classList.toggle("done", hasEnded(stage) && !hasFailed(stage));
    fill(more, stage.at === "job" ? whatNext(stage.job) : null);
  };
  cancel.addEventListener("click", () => {
    canceled.abort();
    show({ at: "refused", message: "Canceled" });
  });
  show({ at: "waiting" });
  return { element, signal: canceled.signal, show };
}

/** A link to the report, or the settings that add memory data to a log. */
function whatNext({ state, report, page, error }: Job): HTMLElement | null {
  if (state === "done" && page) return h("a", { href: page, "aria-label": `Open ${report}` }, "Open");
  if (!lacksMemoryData(error)) return null;
  const copy = h("button", { type: "button" }, "Copy");
  copy.addEventListener("click", () => {
    const setLabel = (text: string) => {
      copy.textContent = text;
    };
    // The clipboard is only available to pages from localhost and over HTTPS.
    const copied = navigator.clipboard?.writeText(SETTINGS) ?? Promise.reject();
    copied.then(
      () => setLabel("Copied"),
      () => setLabel("Select and copy manually"),
    );
  });
  const block = h("pre", { tabindex: 0, "aria-label": "Settings" }, SETTINGS);
  return h(
    "div",
    { class: "settings" },
    h("p", {}, "Set these variables and run the program again:"),
    block,
    copy,
  );
}

/** Returns a function that runs tasks, at most `max` at a time. */
export function queue(max: number): (task: () => Promise<void>) => Promise<void> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running === max) await new Promise<void>((turn) => waiting.push(turn));
    else running++;
    try {
      await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}

/** Accepts files that are dropped anywhere on the page. */
function acceptDrops(zone: HTMLElement, accept: (files: FileList) => void): void {
  let inside = 0;
  const mark = (change: number) => {
    inside = change === 0 ? 0 : inside + change;
    zone.classList.toggle("over", inside > 0);
  };
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragenter", (event) => hasFiles(event) && mark(1));
  addEventListener("dragleave", (event) => hasFiles(event) && mark(-1));
  addEventListener("dragover", (event) => {
    // Otherwise the browser would open the file.
    if (hasFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(0);
    if (event.dataTransfer) accept(event.dataTransfer.files);
  });
}
