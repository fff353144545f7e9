// The search field of a text, with the number of matches and buttons to step through them.

import { fill, h, oncePerFrame } from "../dom";
import { count } from "../format";
import { MAX_MATCHES, type Match, TextSearch } from "./search";

export interface Searched {
  text(line: number): string;
  first: number;
  lines: number;
}

export class FindBar {
  readonly element: HTMLElement;
  search = new TextSearch("");
  private readonly input = h("input", {
    type: "search",
    placeholder: "Search this graph",
    "aria-label": "Search this graph",
    autocomplete: "off",
    spellcheck: "false",
  });
  private readonly found = h("span", { class: "ir-found", "aria-live": "polite" });
  private readonly buttons: HTMLButtonElement[];
  private matches: Match[] = [];
  private at = -1;
  /** The number of searches so far: a search that is no longer the latest is canceled. */
  private searches = 0;

  constructor(
    private readonly where: () => Searched,
    /** The first visible line: the search starts there. */
    private readonly firstVisible: () => number,
    /** Shows a match; `null` if the search text changed. */
    private readonly show: (match: Match | null) => void,
  ) {
    const step = (by: number, label: string, sign: string) =>
      h(
        "button",
        { type: "button", "aria-label": label, title: label, onclick: () => this.step(by), disabled: true },
        sign,
      );
    this.buttons = [step(-1, "Previous match", "↑"), step(1, "Next match", "↓")];
    this.element = h("span", { class: "ir-find", role: "search" }, this.input, ...this.buttons, this.found);
    this.input.addEventListener(
      "input",
      oncePerFrame(() => this.look(true)),
    );
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    });
  }

  /** Repeats the search after another text is shown, without moving to a match. */
  again(): void {
    if (this.input.value !== "") this.look(false);
  }

  private async look(goThere: boolean): Promise<void> {
    const mine = ++this.searches;
    this.search = new TextSearch(this.input.value);
    this.set([]);
    this.show(null);
    if (this.input.value === "") return;
    fill(this.found, "searching …");
    const { text, first, lines } = this.where();
    const matches = await this.search.all(text, first, lines, () => mine !== this.searches);
    if (!matches || mine !== this.searches) return;
    this.set(matches);
    const from = this.firstVisible();
    const next = matches.findIndex((match) => match.line >= from);
    if (goThere && matches.length > 0) this.go(Math.max(0, next));
    else this.showCount();
  }

  private step(by: number): void {
    const many = this.matches.length;
    if (many === 0) return;
    if (this.at >= 0) this.go((this.at + by + many) % many);
    else this.go(by > 0 ? 0 : many - 1);
  }

  private go(index: number): void {
    this.at = index;
    this.showCount();
    this.show(this.matches[index]);
  }

  private set(matches: Match[]): void {
    this.matches = matches;
    this.at = -1;
    for (const button of this.buttons) button.disabled = matches.length === 0;
    fill(this.found, "");
  }

  private showCount(): void {
    const many = this.matches.length;
    const all = many >= MAX_MATCHES ? `${count(many)} or more` : count(many);
    if (many === 0) fill(this.found, "no matches");
    else
      fill(
        this.found,
        this.at < 0 ? `${all} ${many === 1 ? "match" : "matches"}` : `${count(this.at + 1)} of ${all}`,
      );
  }
}
