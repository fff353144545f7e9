// The width of text in tables, to size columns.

/** The font size of tables; see table.css. */
const PIXELS = 13;

/** Cells show no more letters. */
const MAX_LETTERS = 300;

let context: CanvasRenderingContext2D | null | undefined;

/** The width of a text in a table cell, in whole pixels. */
export function textWidth(text: string, weight = "400"): number {
  context ??= document.createElement("canvas").getContext("2d");
  // Without a canvas, an estimate.
  if (!context) return Math.ceil(text.length * PIXELS * 0.6);
  context.font = `${weight} ${PIXELS}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(context.measureText(text).width);
}

/** The width of a text relative to others. Measuring many texts would take too long. */
function lengthOf(text: string): number {
  let length = text.length;
  for (const letter of text.slice(0, MAX_LETTERS)) {
    if ("mwMW@%".includes(letter)) length += 0.6;
    else if ("iljtfIr.,:;|!'()[]".includes(letter)) length -= 0.4;
    else if (letter >= "A" && letter <= "Z") length += 0.2;
  }
  return length;
}

/** The longest of some texts, and a typical long one: nine of ten texts are not longer. Empty texts don't count. */
export function lengthsOf(texts: readonly string[]): { longest: string; typical: string } {
  const sorted = texts
    .filter((text) => text !== "")
    .map((text) => ({ text, length: lengthOf(text) }))
    .sort((a, b) => a.length - b.length);
  const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]?.text ?? "";
  return { longest: at(1), typical: at(0.9) };
}

/** The longest of some texts. */
export function longestOf(texts: readonly string[]): string {
  return lengthsOf(texts).longest;
}
