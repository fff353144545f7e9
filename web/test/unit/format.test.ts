import { describe, expect, test } from "vitest";
import { change, count, counted, mib, partOf, percent, shorten, size, sizeIn } from "../../src/format";

const [KIB, MIB, GIB] = [1024, 1024 ** 2, 1024 ** 3];

describe("sizes", () => {
  test("use a suitable unit", () => {
    expect(size(0)).toBe("0 B");
    expect(size(1023)).toBe("1023 B");
    expect(size(KIB)).toBe("1.0 KiB");
    expect(size(12 * KIB)).toBe("12.0 KiB");
    expect(size(393.7 * MIB)).toBe("393.7 MiB");
    expect(size(MIB - 1)).toBe("1.0 MiB");
    expect(size(GIB - 1)).toBe("1.00 GiB");
    expect(size(4.69 * GIB)).toBe("4.69 GiB");
    expect(size(64 * 1024 * GIB)).toBe("65536.00 GiB");
  });

  test("negative ones have a minus sign", () => {
    expect(size(-49)).toBe("−49 B");
    expect(size(-2 * MIB)).toBe("−2.0 MiB");
  });

  test("that are compared have the same unit, as on the command line", () => {
    expect(partOf(KIB, 1300 * KIB)).toBe("1.0 of 1300.0 KiB");
    expect(partOf(686.4 * MIB, 4080 * MIB)).toBe("686.4 of 4080.0 MiB");
    expect(partOf(120 * GIB, 140 * GIB)).toBe("120.00 of 140.00 GiB");
    expect(partOf(12 * MIB, 140 * GIB)).toBe("12.0 MiB of 140.00 GiB");
    // A nonzero size is never shown as 0.
    expect(sizeIn(2 * KIB, GIB)).toBe("2.0 KiB");
    expect(sizeIn(0, GIB)).toBe("0 B");
  });

  test("of training logs are in MiB with two decimals, as in the log", () => {
    expect(mib(8278.65 * MIB)).toBe("8278.65");
    expect(mib(0)).toBe("0.00");
    expect(mib(-2.72 * MIB)).toBe("−2.72");
  });

  test("show unknown values as unknown", () => {
    expect(size(null)).toBe("unknown");
    expect(size(Number.NaN)).toBe("unknown");
    expect(change(null)).toBe("unknown");
    expect(change(Number.NaN)).toBe("unknown");
  });

  test("changes have their sign", () => {
    expect(change(KIB)).toBe("+1.0 KiB");
    expect(change(0)).toBe("0 B");
    expect(change(-KIB)).toBe("−1.0 KiB");
  });
});

describe("shares", () => {
  test("a nonzero part is never 0%, a partial one never 100%", () => {
    expect(percent(1, 1000)).toBe("<1%");
    expect(percent(999, 1000)).toBe(">99%");
    expect(percent(0, 1000)).toBe("0%");
    expect(percent(1000, 1000)).toBe("100%");
    expect(percent(1500, 1000)).toBe("150%");
    expect(percent(5, 1000)).toBe("1%");
  });

  test("a share of zero is undefined", () => {
    expect(percent(1, 0)).toBe("–");
    expect(percent(1, Number.NaN)).toBe("–");
  });
});

describe("numbers and texts", () => {
  test("thousands are grouped", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(count(0)).toBe("0");
  });

  test("singular and plural", () => {
    expect(counted(1, "tensor")).toBe("1 tensor");
    expect(counted(0, "tensor")).toBe("0 tensors");
    expect(counted(1200, "pass", "passes")).toBe("1,200 passes");
  });

  test("long text keeps both ends", () => {
    expect(shorten("short", 10)).toBe("short");
    expect(shorten("0123456789", 10)).toBe("0123456789");
    const cut = shorten("0123456789a", 10);
    expect(cut).toHaveLength(10);
    expect(cut).toBe("012345…89a");
    expect(shorten("x".repeat(10_000), 120)).toHaveLength(120);
  });
});
