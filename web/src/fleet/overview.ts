// The first section: how many ranks there are, and the worst of them.

import { h } from "../dom";
import { count, counted, percent } from "../format";
import type { Fleet } from "./data";

export function overview(fleet: Fleet, onSelect: (rank: number) => void): HTMLElement {
  const { cause, level, run, source_host, capacity_bytes, peak_bytes } = fleet.ranks;
  const ranks = run.map((_, rank) => rank);
  const failed = ranks.filter((rank) => cause[rank] !== null);
  const levels = (wanted: string) => level.filter((found) => found === wanted).length;
  const { errors, closest } = fleet.head.answers;
  const files = `${count(errors.rows.length)}${errors.is_cut ? " or more" : ""}`;
  const first = closest.rows[0]?.[closest.columns.indexOf("rank_id")];
  const cards = [
    card(
      "Ranks",
      count(fleet.count),
      `${counted(fleet.groups.length, "run")} on ${counted(new Set(source_host).size, "machine")}`,
    ),
    card(
      "Ran out of memory",
      count(failed.length),
      failed.length === 0 ? "no rank" : `in ${counted(new Set(failed.map((rank) => run[rank])).size, "run")}`,
      failed.length === 0 ? "good" : "bad",
    ),
    card(
      "Close to the limit",
      count(levels("full") + levels("high")),
      `${count(levels("full"))} full, ${count(levels("high"))} high`,
      levels("full") > 0 ? "bad" : levels("high") > 0 ? "warn" : "good",
    ),
  ];
  if (typeof first === "number") {
    const name = h(
      "button",
      { type: "button", class: "link", onclick: () => onSelect(first) },
      fleet.nameOf(first),
    );
    cards.push(
      card(
        "Highest peak",
        percent(peak_bytes[first] ?? 0, capacity_bytes[first] ?? 0),
        h("span", {}, name, ` of ${run[first]}`),
      ),
    );
  }
  cards.push(
    card(
      "Files not read",
      files,
      errors.rows.length === 0 ? "no file" : "see the errors below",
      errors.rows.length === 0 ? "good" : "warn",
    ),
  );
  return h("div", { class: "cards pools" }, cards);
}

function card(title: string, value: string, note: Node | string, level = ""): HTMLElement {
  return h(
    "div",
    { class: `card ${level}`.trim() },
    h("h3", {}, title),
    h("div", { class: "big" }, value),
    h("p", {}, note),
  );
}
