// Rows as comma-separated values (RFC 4180).

export function toCsv(head: readonly string[], rows: Iterable<readonly (string | number | null)[]>): string {
  const lines = [head.map(field).join(",")];
  for (const row of rows) lines.push(row.map(field).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function field(value: string | number | null): string {
  if (value === null || Number.isNaN(value)) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet would evaluate text that starts with one of these characters as a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
