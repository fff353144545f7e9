// Tokenizes a line of MLIR for syntax highlighting. Any other line is shown unchanged.

export type TokenKind =
  | "op"
  | "value"
  | "type"
  | "string"
  | "alias"
  | "symbol"
  | "number"
  | "comment"
  | "plain";

export interface Token {
  kind: TokenKind;
  text: string;
}

/** Tried in this order at each position; each alternative takes linear time. */
const PATTERN = new RegExp(
  [
    String.raw`(?<comment>\/\/.*|\bloc\b)`,
    String.raw`(?<op>(?<!loc\()"[A-Za-z_][\w$]*(?:\.[\w$]+)+"(?=\s*\()|\b[a-z_]\w*\.[a-z_][\w.]*(?=[\s(])(?!\s*=)|\b(?:module|return)\b(?![.=]|\s*=))`,
    String.raw`(?<string>"(?:[^"\\]|\\.)*"?)`,
    String.raw`(?<value>%[\w$.-]+(?:[#:]\d+)?)`,
    String.raw`(?<symbol>@[\w$.-]+)`,
    String.raw`(?<alias>#[\w$.]+)`,
    String.raw`(?<type>![\w$.]+|\b(?:tensor|memref|vector|tuple|array)(?=<)|(?:\d+|\?)(?:x(?:\d+|\?))*x[A-Za-z]\w*|\d+(?:x\d+)+x?|\b(?:bf16|tf32|f\d+\w*|[su]?i\d+|index)\b)`,
    String.raw`(?<number>-?\b(?:0x[\dA-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\b)`,
    // Any other word as a whole, so that no part of it is matched.
    String.raw`[\w$]+(?:\.[\w$]+)*`,
  ].join("|"),
  "g",
);

/** Splits a line into tokens, which add up to the line. */
export function tokensOf(line: string): Token[] {
  const tokens: Token[] = [];
  let end = 0;
  const add = (kind: TokenKind, text: string) => {
    const last = tokens.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text) tokens.push({ kind, text });
  };
  for (const match of line.matchAll(PATTERN)) {
    if (match.index > end) add("plain", line.slice(end, match.index));
    const named = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined);
    add((named?.[0] ?? "plain") as TokenKind, match[0]);
    end = match.index + match[0].length;
  }
  add("plain", line.slice(end));
  return tokens;
}

interface Range {
  start: number;
  end: number;
}

/** Splits tokens where ranges begin and end. Ranges are sorted and don't overlap. Each piece has its range. */
export function cutAt<R extends Range>(tokens: Token[], ranges: R[]): (Token & { match: R | null })[] {
  const pieces: (Token & { match: R | null })[] = [];
  let at = 0;
  let next = 0;
  for (const { kind, text } of tokens) {
    const start = at;
    const end = start + text.length;
    while (at < end) {
      while (next < ranges.length && ranges[next].end <= at) next++;
      const range = next < ranges.length ? ranges[next] : null;
      const match = range && range.start <= at ? range : null;
      const until = Math.min(end, match?.end ?? range?.start ?? end);
      pieces.push({ kind, text: text.slice(at - start, until - start), match });
      at = until;
    }
  }
  return pieces;
}
