// Searches the text of a graph in small pieces, so that the page stays responsive.

/** The search stops at this many matches. */
export const MAX_MATCHES = 10_000;
/** The maximum time that a piece of work may block the page, in milliseconds. */
const MAX_BLOCKED_MS = 10;

export interface Match {
  line: number;
  start: number;
  end: number;
}

/** Finds a text in lines, ignoring case. */
export class TextSearch {
  private readonly pattern: RegExp | null;

  constructor(readonly query: string) {
    this.pattern = query === "" ? null : new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
  }

  /** The matches in a line. */
  in(text: string): { start: number; end: number }[] {
    if (!this.pattern) return [];
    const found = [];
    for (const match of text.matchAll(this.pattern)) {
      found.push({ start: match.index, end: match.index + match[0].length });
      if (found.length >= MAX_MATCHES) break;
    }
    return found;
  }

  /** All matches in a range of lines; `null` if the search was stopped. */
  async all(
    get: (line: number) => string,
    first: number,
    count: number,
    isStopped: () => boolean,
  ): Promise<Match[] | null> {
    const matches: Match[] = [];
    let until = performance.now() + MAX_BLOCKED_MS;
    for (let line = first; line < first + count && matches.length < MAX_MATCHES; line++) {
      for (const place of this.in(get(line))) matches.push({ line, ...place });
      if (performance.now() < until) continue;
      await new Promise((resolve) => setTimeout(resolve));
      if (isStopped()) return null;
      until = performance.now() + MAX_BLOCKED_MS;
    }
    return matches.slice(0, MAX_MATCHES);
  }
}
