// The table of stored reports.

import { fill, h } from "../dom";
import { count, percent, size, sizeElement, UNKNOWN } from "../format";
import type { Extent, StoredRow } from "../generated/answers";
import { levelClass } from "../level";
import { answerOf } from "./api";
import { type Column, FIRST, hasAnswers, type Order, reordered, shareOf, shownRows } from "./rows";

interface Heading {
  column: Column;
  title: string;
  number: boolean;
}

const HEADINGS: Heading[] = [
  { column: "name", title: "Report", number: false },
  { column: "written", title: "Written", number: false },
  { column: "format", title: "Format", number: false },
  { column: "peak", title: "Peak", number: true },
  { column: "share", title: "Used", number: true },
  { column: "operations", title: "Operations", number: true },
  { column: "bytes", title: "Size", number: true },
];

export interface List {
  element: HTMLElement;
  /** Shows reports. */
  show(rows: StoredRow[]): void;
}

export function list(): List {
  let rows: StoredRow[] = [];
  let order: Order = FIRST;
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Name, format, oom …",
    autocomplete: "off",
  });
  const found = h("span", { class: "note", role: "status" });
  const head = h("tr", {});
  const body = h("tbody", {});
  const table = h("table", { "aria-label": "Stored reports" }, h("thead", {}, head), body);
  const none = h("div", { class: "none" });
  const draw = () => {
    const shown = shownRows(rows, search.value, order);
    fill(head, ...HEADINGS.map(heading), h("th", { scope: "col", class: "answers" }, "Summary"));
    fill(body, ...shown.map(rowOf));
    found.textContent = shown.length === rows.length ? "" : `${count(shown.length)} of ${count(rows.length)}`;
    table.hidden = shown.length === 0;
    none.hidden = shown.length > 0;
    fill(none, rows.length === 0 ? firstSteps() : `No reports match “${search.value.trim()}”.`);
  };
  const heading = ({ column, title, number }: Heading) => {
    const sort = column === order.column ? (order.descending ? "descending" : "ascending") : null;
    const choose = () => {
      order = reordered(order, column);
      draw();
      // The heading was recreated: restore the keyboard focus.
      head.querySelector<HTMLElement>(`[data-column="${column}"]`)?.focus();
    };
    const button = h("button", { type: "button", "data-column": column, onclick: choose }, title);
    return h("th", { scope: "col", class: number ? "number" : null, "aria-sort": sort }, button);
  };
  search.addEventListener("input", draw);
  const label = h("label", { for: "search" }, "Search");
  const top = h("div", { class: "section-head" }, h("h2", {}, "Reports"), label, search, found);
  const element = h("section", { id: "reports" }, top, table, none);
  return {
    element,
    show(now) {
      rows = now;
      draw();
    },
  };
}

/** The instructions for an empty list. */
function firstSteps(): HTMLElement {
  return h(
    "div",
    {},
    h("p", {}, "No reports yet. To create one, drop a log above, or run on this machine:"),
    h(
      "pre",
      {},
      "ttmem run model.py          # run a program, capture its log and report\nttmem report model.log      # report on an existing log",
    ),
  );
}

function rowOf(row: StoredRow): HTMLElement {
  const cell = (title: string, number: boolean, ...children: (Node | string | null)[]) =>
    h("td", { "data-title": title, class: number ? "number" : null }, ...children);
  return h(
    "tr",
    { "data-report": row.name },
    h("th", { scope: "row" }, nameOf(row)),
    cell("Written", false, timeOf(row.written)),
    cell("Format", false, row.format === null ? unknown() : h("code", {}, row.format)),
    cell("Peak", true, peakOf(row)),
    cell("Used", true, usedOf(row)),
    cell("Operations", true, row.operations === null ? unknown() : count(row.operations)),
    cell("Size", true, sizeElement(row.bytes)),
    h("td", { class: "answers" }, answersOf(row)),
  );
}

function nameOf({ name, page, kind, oom, oom_headline, folder, source }: StoredRow): HTMLElement {
  const title = source ? `Source: ${source.path}` : folder;
  const text = page
    ? h("a", { href: page, title }, name)
    : h(
        "span",
        { title: "No page; run `ttmem report` on its folder to create one" },
        name,
        " ",
        h("em", { class: "note" }, "(no page)"),
      );
  return h(
    "div",
    { class: "name" },
    text,
    oom && h("span", { class: "mark bad", title: oom_headline }, `OOM: ${oom.replaceAll("_", " ")}`),
    kind === "run" && h("span", { class: "mark", title: `Run folder: ${folder}` }, "run"),
  );
}

function timeOf(written: string | null): HTMLElement {
  if (written === null) return unknown();
  const at = new Date(written);
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return h(
    "time",
    { datetime: written, title: at.toString() },
    `${day} ${two(at.getHours())}:${two(at.getMinutes())}`,
  );
}

/** The suffix of a size: `686.4 MiB/bank`. */
const SUFFIX: Record<Extent, string> = { bank: "/bank", core: "/core", device: "" };

function peakOf({ peak, shown }: StoredRow): HTMLElement {
  if (peak === null || shown === null) return unknown();
  const device = peak.total === null ? null : `${size(peak.total)} on the device`;
  return h("span", { title: device }, sizeElement(shown.bytes), `${SUFFIX[shown.of]} ${peak.pool}`);
}

function usedOf(row: StoredRow): HTMLElement {
  const { peak, shown } = row;
  const share = shareOf(row);
  if (share === null || shown === null || peak === null) return unknown();
  const bar = h("meter", { min: 0, max: 1, value: Math.min(share, 1), "aria-hidden": "true" });
  const text = percent(shown.bytes, shown.capacity ?? 0);
  const capacity = `of ${size(shown.capacity)}${SUFFIX[shown.of]} of ${peak.pool}`;
  return h("span", { class: `full ${levelClass(peak.level)}`, title: capacity }, bar, h("span", {}, text));
}

function answersOf({ name, format, page }: StoredRow): (Node | string)[] {
  if (!hasAnswers({ format, page })) return [];
  const link = (what: "summary" | "markdown", text: string) =>
    h("a", { href: answerOf(name, what), "aria-label": `${text} of ${name}` }, text);
  return [link("summary", "JSON"), " ", link("markdown", "Markdown")];
}

function unknown(): HTMLElement {
  return h("span", { class: "unknown" }, UNKNOWN);
}
