// The allocations of a caching allocator: what was live at the peak and what was allocated over time, grouped; the reserved
// memory; and memory that the program did not use.

import "./lists.css";
import "./allocations.css";
import { positionTitle } from "../charts/moment-facts";
import { groupingOf, groupName, hasFreed, restOf } from "../data/allocations";
import { momentBefore, type Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, counted, percent, size, sizeElement } from "../format";
import type {
  Allocations,
  GroupBy,
  PageGroup,
  PageGrouping,
  PageReserved,
  RankSummary,
  Sum,
  WasteInPart,
} from "../generated/answers";
import { operationText, stepLink } from "../moment";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** The maximum number of rows of reserved memory: a program may use many streams. */
const MAX_RESERVED = 20;

/** Whether the input has the allocations of a caching allocator. */
export function hasAllocations({ allocations }: RankSummary): boolean {
  return allocations != null;
}

export function allocationsSection(store: Store): Section {
  return section(store, "allocations", "Allocations", ["rank"], (body, head) => {
    const choice = h("select", {});
    const bar = h("label", { class: "allocations-bar" }, "group by", choice);
    const facts = h("div", {});
    const groups = h("div", {});
    const reserved = h("div", {});
    head.append(bar);
    body.append(facts, groups, reserved);
    let by: GroupBy = "line";
    const showGroups = () => {
      const { rank } = store.state;
      const { allocations } = rank.summary;
      const grouping = rank.allocations && groupingOf(rank.allocations, by);
      fill(groups, allocations && grouping ? groupTables(rank, allocations, grouping) : null);
    };
    choice.addEventListener("change", () => {
      by = choice.value as GroupBy;
      showGroups();
    });
    return ({ rank }) => {
      const { allocations } = rank.summary;
      const shown = rank.allocations;
      bar.hidden = !allocations || !shown;
      showGroups();
      if (!allocations || !shown) {
        fill(facts, h("p", { class: "note" }, "The allocations of this rank were not recorded."));
        fill(reserved);
        return;
      }
      fill(
        choice,
        shown.groupings.map((grouping) => h("option", { value: grouping.by }, grouping.title)),
      );
      choice.value = groupingOf(shown, by)?.by ?? "";
      fill(facts, factLines(store, rank, allocations));
      fill(reserved, reservedTable(shown.reserved));
    };
  });
}

/** Sentences about live allocations, memory that was not used, and the largest transient. */
function factLines(store: Store, rank: Rank, allocations: Allocations): HTMLElement[] {
  const { pool, position, live, waste, largest_transient: transient } = allocations;
  const moment = (position: number) => stepLink(store, position, positionTitle(rank, momentBefore(position)));
  const line = (name: string, ...children: (Node | string | null)[]) =>
    h("p", { class: "note", "data-fact": name }, children);
  const bytes = sizeElement(live.bytes);
  const lines = [
    line("live", `${pool}: ${counted(live.count, "live allocation")} `, moment(position), ", ", bytes, "."),
  ];
  if (waste && waste.internal > 0) {
    const [worst, at] = [sizeElement(waste.internal), moment(waste.internal_position)];
    const parts = partsOfRun(waste.over_time, "internal");
    lines.push(
      line("internal", "At worst, blocks were ", worst, " larger than requested (", at, ").", parts),
    );
  }
  if (waste && waste.external > 0) {
    const [worst, at] = [sizeElement(waste.external), moment(waste.external_position)];
    const parts = partsOfRun(waste.over_time, "external");
    lines.push(line("external", "At worst, ", worst, " was reserved but not active (", at, ").", parts));
  }
  if (transient) {
    const { op, step, freed_by: freed } = transient;
    const born = step === null ? [] : ["allocated by ", stepLink(store, step), " and "];
    const end = [", ", ...born, "freed by ", stepLink(store, freed), "."];
    const made = operationText(op, transient.line);
    const largest = sizeElement(transient.bytes);
    lines.push(
      line("transient", "The largest allocation that was freed again has ", largest, ": ", made, ...end),
    );
  }
  return lines;
}

/** The most unused bytes in equal parts of the run, as bars. */
function partsOfRun(parts: readonly WasteInPart[], kind: "internal" | "external"): HTMLElement | null {
  if (parts.length < 2) return null;
  const values = parts.map((part) => part[kind]);
  const most = Math.max(1, ...values);
  const [first, last] = [values[0], values[values.length - 1]];
  const label = `Over the run: ${size(first)} at first, at most ${size(most)}, ${size(last)} at the end`;
  return h(
    "span",
    { class: "parts", role: "img", "aria-label": label, title: label },
    values.map((value) => h("i", { style: `height: ${((value / most) * 100).toFixed(1)}%` })),
  );
}

function groupTables(rank: Rank, allocations: Allocations, grouping: PageGrouping): HTMLElement[] {
  const { by, note, groups, busiest } = grouping;
  const { live, total } = allocations;
  const when = positionTitle(rank, momentBefore(allocations.position));
  const tables = [h("h3", {}, `Live ${when}`), groupTable("live", grouping, groups, live)];
  if (hasFreed(allocations)) {
    tables.push(h("h3", {}, "Allocated most over time"), groupTable("total", grouping, busiest, total));
  }
  const hint = by === "stack" ? "Click a line to show its call stack." : note;
  return hint === null ? tables : [h("p", { class: "note" }, hint), ...tables];
}

/** The groups by their live bytes, or by all bytes that they allocated. */
function groupTable(
  of: "live" | "total",
  { by, title }: PageGrouping,
  groups: readonly PageGroup[],
  all: Sum,
): HTMLElement {
  const headings: Heading[] = [
    [by === "stack" ? "Innermost line" : title[0].toUpperCase() + title.slice(1), false],
    [of === "live" ? "Live" : "Allocated in all", true],
    ["Share", true],
    ["Allocations", true],
    ["Live at the end", true],
    ["Operation", false],
  ];
  const number = (...children: (Node | string)[]) => h("td", { class: "number nowrap" }, ...children);
  const { table, rows } = plainTable(
    headings,
    groups.map((group) => [
      h("td", {}, nameOf(group, by)),
      number(sizeElement(group[of].bytes)),
      number(percent(group[of].bytes, all.bytes)),
      number(count(group[of].count)),
      number(sizeElement(group.at_end.bytes)),
      h("td", { class: "op" }, by === "op" ? "" : (group.op ?? "")),
    ]),
  );
  for (const row of rows) row.dataset.group = of;
  const rest = restOf(
    all,
    groups.map((group) => group[of]),
  );
  const more = `… and ${counted(rest.count, "more allocation")}, ${size(rest.bytes)}`;
  const label = of === "live" ? "Live allocations" : "Allocated most over time";
  return h("div", {}, scrollable(label, table), rest.count > 0 && h("p", { class: "note" }, more));
}

/** A table that can be scrolled with the keyboard if it is wider than the page. */
function scrollable(label: string, table: HTMLElement): HTMLElement {
  return h("div", { class: "scroll-x", role: "group", "aria-label": label, tabindex: 0 }, table);
}

/** The name of a group, with its call stack if it has one. */
function nameOf(group: PageGroup, by: GroupBy): HTMLElement {
  const name = groupName(group, by);
  const { stack = [] } = group;
  const isCode = by !== "class" && by !== "size" && group.key !== null;
  const shown = h("span", { class: isCode ? "mono" : null }, name);
  if (stack.length === 0) return shown;
  const lines = stack.map((line) => h("li", { class: "mono" }, line));
  return h(
    "details",
    {},
    h("summary", {}, shown),
    h("ol", { tabindex: 0, "aria-label": `Call stack of ${name}` }, lines),
  );
}

function reservedTable(pools: readonly PageReserved[]): HTMLElement | null {
  if (pools.length === 0) return null;
  const headings: Heading[] = [
    ["Reserved for", false],
    ["Size", true],
    ["Allocated", true],
    ["Free", true],
    ["Largest free block", true],
    ["Segments", true],
  ];
  const number = (child: Node | string) => h("td", { class: "number nowrap" }, child);
  const { table, rows } = plainTable(
    headings,
    pools
      .slice(0, MAX_RESERVED)
      .map(({ name, bytes, allocated, free, largest_free: largest, segments }) => [
        h("td", {}, name),
        number(sizeElement(bytes)),
        number(sizeElement(allocated)),
        number(sizeElement(free)),
        number(sizeElement(largest)),
        number(count(segments)),
      ]),
  );
  for (const row of rows) row.dataset.group = "reserved";
  const left = pools.length - rows.length;
  return h(
    "div",
    {},
    h("h3", {}, "Reserved at the end"),
    scrollable("Reserved at the end", table),
    left > 0 && h("p", { class: "note" }, `… and ${count(left)} more`),
  );
}
