// Many texts, held as what they have in common and the numbers that tell them apart.
//
// The lines of a module differ in their numbers mostly. So a text is a template with gaps, and the numbers for the
// gaps. Those stand together by template and gap, for the packer's sake: the first numbers of all texts of a
// template, then the second ones.

import type { Block } from "./block";

/** In UTF-8 this byte is nowhere else. */
const GAP = 0xff;

export class Lines {
  readonly length: number;
  private readonly template: Uint32Array;
  private readonly numbers: Uint32Array;
  /** Which of the texts of its template each text is. */
  private readonly ordinal: Uint32Array;
  private readonly count: Uint32Array;
  /** Where the numbers of a template begin. */
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

  /** The text with that number. */
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
  // A text may begin with what would be a byte-order mark in front of a file.
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
