// Many texts, stored as shared templates and numbers.
//
// The lines of a module differ mainly in their numbers, so a text is a template with gaps, plus the numbers for the gaps.
// Numbers are grouped by template and gap, which compresses better: the first numbers of all texts with a template, then
// the second ones.

import type { Block } from "./block";

/** This byte never occurs in UTF-8. */
const GAP = 0xff;

export class Lines {
  readonly length: number;
  private readonly template: Uint32Array;
  private readonly numbers: Uint32Array;
  /** The index of each text among the texts with the same template. */
  private readonly ordinal: Uint32Array;
  private readonly count: Uint32Array;
  /** The index of each template's first number. */
  private readonly base: Uint32Array;
  private readonly parts: string[][];

  constructor(block: Block, name: string) {
    this.template = block.numbers(`${name}.template`);
    this.numbers = block.numbers(`${name}.numbers`);
    this.parts = split(block.raw(`${name}.templates`), block.numbers(`${name}.template_length`));
    this.length = this.template.length;
    this.count = new Uint32Array(this.parts.length);
    this.ordinal = new Uint32Array(this.length);
    for (let line = 0; line < this.length; line++) this.ordinal[line] = this.count[this.template[line]]++;
    this.base = new Uint32Array(this.parts.length);
    let base = 0;
    for (let template = 0; template < this.parts.length; template++) {
      this.base[template] = base;
      base += this.count[template] * (this.parts[template].length - 1);
    }
  }

  /** The text with index `line`. */
  get(line: number): string {
    const template = this.template[line];
    const parts = this.parts[template];
    const count = this.count[template];
    let at = this.base[template] + this.ordinal[line];
    let text = parts[0];
    for (let part = 1; part < parts.length; part++) {
      text += this.numbers[at] + parts[part];
      at += count;
    }
    return text;
  }
}

function split(bytes: Uint8Array, lengths: Uint32Array): string[][] {
  // A text may start with a byte-order mark, which must be kept.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const templates: string[][] = [];
  let offset = 0;
  for (const length of lengths) {
    const parts: string[] = [];
    const end = offset + length;
    let start = offset;
    for (let at = offset; at <= end; at++) {
      if (at === end || bytes[at] === GAP) {
        parts.push(decoder.decode(bytes.subarray(start, at)));
        start = at + 1;
      }
    }
    templates.push(parts);
    offset = end;
  }
  return templates;
}
