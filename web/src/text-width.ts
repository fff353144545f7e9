// The width of text in tables, to size columns.

/** The font size of tables; see table.css. */
const PIXELS = 13;

/** Cells show no more letters. */
const MAX_LETTERS = 300;

let context: CanvasRenderingContext2D | null | undefined;

/** The width of a text in a table cell, in whole pixels. */
export function textWidth(text: string, weight = "400", pixels = PIXELS): number {
  context ??= document.createElement("canvas").getContext("2d");
  // Without a canvas, an estimate.
  if (!context) return Math.ceil(text.length * pixels * 0.6);
  context.font = `${weight} ${pixels}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(context.measureText(text).width);
}

/** The end of a name that fits, after `…` if the name is longer: names differ at their ends. Empty if nothing fits. */
export function fittingEnd(
  name: string,
  width: number,
  widthOf: (text: string) => number,
  minLetters = 3,
): string {
  const letters = [...name.slice(-MAX_LETTERS)];
  if (name.length <= MAX_LETTERS && widthOf(name) <= width) return name;
  let [fits, tooLong] = [0, letters.length];
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >> 1;
    if (widthOf(`…${letters.slice(-middle).join("")}`) <= width) fits = middle;
    else tooLong = middle;
  }
  if (fits < minLetters) return "";
  return `…${letters
    .slice(-fits)
    .join("")
    .replace(/^[._/:-]+/, "")}`;
}

/** The width of the widest letters, relative to others. */
const MAX_LETTER = 1.6;

/** The width of a text relative to others. Measuring many texts would take too long. */
function lengthOf(text: string): number {
  let length = text.length;
  for (const letter of text.slice(0, MAX_LETTERS)) {
    if ("mwMW@%".includes(letter)) length += MAX_LETTER - 1;
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
  let [longest, length] = ["", 0];
  for (const text of texts) {
    // Even of the widest letters, it would not be longer.
    if (text.length * MAX_LETTER <= length) continue;
    const own = lengthOf(text);
    if (own > length) [longest, length] = [text, own];
  }
  return longest;
}
