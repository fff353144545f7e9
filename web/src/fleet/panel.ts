// The selected rank: its facts, and the link to its report or the command that writes one.

import { bankWords } from "../banks";
import { fill, h } from "../dom";
import type { Fleet } from "./data";
import { of } from "./heat-map";

export class RankPanel {
  readonly element = h("div", { class: "fleet-rank", id: "rank", hidden: true });

  constructor(private readonly fleet: Fleet) {}

  show(rank: number): void {
    const { fleet } = this;
    const { run, file, host, source_host, device, pool, extent, level, peak_bytes, capacity_bytes, verdict } =
      fleet.ranks;
    const words = extent[rank] === null ? "" : bankWords(extent[rank]).perBank;
    const peak = peak_bytes[rank] === null ? null : of(peak_bytes[rank], capacity_bytes[rank]);
    const facts: [name: string, value: Node | string | null | undefined][] = [
      ["Run", run[rank]],
      ["Labels", fleet.labelsOf(rank)],
      ["File", h("span", { class: "mono" }, file[rank])],
      ["Machine", host[rank] ?? source_host[rank]],
      ["Device", device[rank]],
      [
        `Peak of ${pool[rank] ?? "memory"}`,
        peak && h("span", { class: levelName(level[rank]) }, `${peak}${words}`),
      ],
      ["Growth", fleet.ranks.growth[rank]],
      ["Verdict", verdict[rank]],
    ];
    const known = facts.filter(([, value]) => value);
    this.element.hidden = false;
    fill(
      this.element,
      h("h3", {}, fleet.nameOf(rank)),
      h(
        "dl",
        { class: "fleet-facts" },
        known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
      ),
      this.report(rank),
    );
  }

  /** The link to the report of a rank; without one, the command that writes it. */
  private report(rank: number): HTMLElement {
    const { link, command, source_host } = this.fleet.ranks;
    if (link[rank] !== null)
      return h("p", { class: "fleet-command" }, reportLink(link[rank], "Open its report"));
    const words = command[rank];
    if (words === null)
      return h("p", { class: "note" }, "Exported from standard input: there is no file to report on.");
    const code = h("code", {}, words);
    const copy = h("button", { type: "button" }, "Copy");
    copy.addEventListener("click", () => {
      // Where pages may not use the clipboard, the command is selected to be copied.
      const failed = () => getSelection()?.selectAllChildren(code);
      const copied = navigator.clipboard?.writeText(words) ?? Promise.reject();
      copied.then(() => fill(copy, "Copied"), failed);
    });
    return h(
      "p",
      { class: "fleet-command" },
      `No report yet. To write one where the file is (${source_host[rank]}), run`,
      code,
      copy,
    );
  }
}

/** A link to a report. Addresses are relative paths that the command wrote. */
export function reportLink(address: string, text: string): HTMLElement {
  return h("a", { href: address }, text);
}

/** The class of a level. */
export function levelName(level: string | null): string | null {
  return level === null ? null : `level-${level}`;
}
