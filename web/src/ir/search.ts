// The search in the text of a graph, in pieces, so that the page stays quick while it goes on.

/** More are not counted: nobody walks through them. */
export const MOST_MATCHES = 10_000;
/** How long a piece of work may keep the page waiting, in milliseconds. */
const PATIENCE = 10;

export interface Match {
  line: number;
  start: number;
  end: number;
}

/** Finds a text in lines, in whatever case. */
export class TextSearch {
  private readonly pattern: RegExp | null;

  constructor(readonly query: string) {
    this.pattern = query === "" ? null : new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  }

  /** Where it is in a line. */
  in(text: string): { start: number; end: number }[] {
    if (!this.pattern) return [];
    const found = [];
    for (const match of text.matchAll(this.pattern)) {
      found.push({ start: match.index, end: match.index + match[0].length });
      if (found.length >= MOST_MATCHES) break;
    }
    return found;
  }

  /** All places in some lines; `null` when it was stopped meanwhile. */
  async all(
    get: (line: number) => string,
    first: number,
    count: number,
    isStopped: () => boolean,
  ): Promise<Match[] | null> {
    const matches: Match[] = [];
    let until = performance.now() + PATIENCE;
    for (let line = first; line < first + count && matches.length < MOST_MATCHES; line++) {
      for (const place of this.in(get(line))) matches.push({ line, ...place });
      if (performance.now() < until) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (isStopped()) return null;
      until = performance.now() + PATIENCE;
    }
    return matches.slice(0, MOST_MATCHES);
  }
}
