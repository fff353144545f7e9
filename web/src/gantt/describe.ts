// Describes a call, for the tooltip and the box below the chart.

import { h } from "../dom";
import { changeElement, count, sizeElement } from "../format";
import type { GanttData } from "./data";
import { clock, duration, since } from "./time";

const WORDS: Record<string, string> = {
  operation: "operation",
  forward: "forward pass",
  backward: "backward pass",
  optimizer: "optimizer step",
  framework: "framework operation",
};

/** All details of a call. `perPixel` (nanoseconds) determines the precision of its times. */
export function describeCall(data: GanttData, call: number, perPixel: number): HTMLElement[] {
  const { began, until, stillRan, meta } = data;
  const memory = data.memory(call);
  const around = data.around(call);
  const loc = data.loc(call);
  const isMark = Number.isNaN(until[call]);
  const at = (time: number) => {
    const day = clock(meta.began_unix_ns, meta.first_ns + time);
    const text = since(time, Math.min(perPixel, Math.max(1, (until[call] - began[call]) / 100)));
    return h("span", {}, text, day === null ? "" : h("span", { class: "aside" }, ` ${day}`));
  };
  const length = isMark
    ? h("span", { class: "unknown" }, "unknown (only its start was recorded)")
    : h("span", {}, duration(until[call] - began[call]), stillRan[call] ? " so far (still running)" : "");
  const facts: [string, string, HTMLElement][] = [
    ["duration", "duration", length],
    [isMark ? "time" : "start", "start", at(began[call])],
    ...(isMark || stillRan[call] ? [] : [["end", "end", at(until[call])] as [string, string, HTMLElement]]),
    ["memory change", "change", changeElement(memory.change)],
    ["allocated", "allocated", sizeElement(memory.allocated)],
    ["freed", "freed", sizeElement(memory.freed)],
    ["peak in call", "peak", sizeElement(memory.peak)],
    ["retained", "kept", sizeElement(memory.kept)],
  ];
  const kind = data.kind(call);
  return [
    h("div", { class: "mono gantt-name" }, data.name(call)),
    h(
      "div",
      { class: "where" },
      `${WORDS[kind] ?? kind} on ${data.lanes[data.lane[call]].name}`,
      around.length > 0 ? `, in ${around.join(" › ")}` : "",
    ),
    ...(loc === null ? [] : [h("div", { class: "where loc" }, loc)]),
    h(
      "div",
      { class: "gantt-facts" },
      facts.flatMap(([name, fact, value]) => [
        h("span", { class: "name" }, name),
        h("span", { "data-fact": fact }, value),
      ]),
    ),
  ];
}

/** The tooltip's note if one pixel represents several calls. */
export function describeCrowd(calls: number): HTMLElement {
  return h("div", { class: "where" }, `${count(calls)} calls share this pixel; zoom in to see each one`);
}
