// What kept tensors alive: the references from variables of the program, at the last search for them.

import "./lists.css";
import { bankWords } from "../banks";
import type { Rank } from "../data/report";
import { fill, h } from "../dom";
import { count, sizeElement } from "../format";
import type { RankSummary } from "../generated/answers";
import { type Heading, plainTable } from "../plain-table";
import { type Section, section } from "../section";
import type { Store } from "../state";

/** Whether the program searched for what keeps its tensors alive. */
export function hasHolders({ holders }: RankSummary): boolean {
  return holders != null;
}

export function holdersSection(store: Store): Section {
  return section(store, "holders", "What keeps tensors alive", ["rank"], (body) => {
    const meaning =
      "References from variables of the program to tensors, at the last search for them. " +
      "* stands for any index or key.";
    const table = h("div", { class: "scroll-x" });
    const more = h("p", { class: "note" });
    body.append(h("p", { class: "note" }, meaning), table, more);
    return ({ rank }) => {
      const { holders } = rank.summary;
      fill(table, holders ? holderTable(rank) : h("p", { class: "note" }, "This rank was not searched."));
      const left = holders ? holders.count - holders.rows.length : 0;
      fill(more, left > 0 && `… and ${count(left)} more`);
    };
  });
}

/** The largest holders of a rank; all that the summary lists by default. */
export function holderTable(rank: Rank, most = Number.POSITIVE_INFINITY): HTMLElement {
  const headings: Heading[] = [
    ["Size", true],
    ["Memory", false],
    ["Tensors", true],
    ["Kept alive by", false],
  ];
  const rows = (rank.summary.holders?.rows ?? []).slice(0, most);
  const { table } = plainTable(
    headings,
    rows.map(({ pool, per_bank: bytes, tensors, chain }) => [
      h(
        "td",
        { class: "number nowrap" },
        sizeElement(bytes),
        bankWords(rank.summary.pools[pool]?.extent ?? "device").suffix,
      ),
      h("td", { class: "nowrap" }, pool),
      h("td", { class: "number nowrap" }, count(tensors)),
      h("td", { class: "op chain" }, chain),
    ]),
  );
  return table;
}
