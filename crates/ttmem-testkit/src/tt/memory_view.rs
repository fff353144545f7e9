//! The memory state as the runtime prints it.

use std::fmt::Write;

use super::chip::Pool;
use super::device::Device;

/// The four lines of a memory state, rendered again only if a pool has changed.
#[derive(Debug, Default)]
pub struct MemoryViews {
    rendered: [Rendered; 4],
}

#[derive(Debug, Default)]
struct Rendered {
    /// The allocated and largest free bytes in the text below.
    shown: Option<(u64, u64)>,
    text: String,
}

impl MemoryViews {
    /// The current line of a pool.
    pub fn line(&mut self, device: &Device, pool: Pool) -> &str {
        let bank = device.bank(pool);
        let now = (bank.allocated(), bank.largest_free());
        let Rendered { shown, text } = &mut self.rendered[pool.index()];
        if *shown != Some(now) {
            *shown = Some(now);
            text.clear();
            let banks = device.chip().banks(pool);
            write!(
                text,
                "Device {} memory state: MemoryView{{numBanks: {banks}, totalBytesPerBank: ",
                pool.name()
            )
            .expect("a string takes every text");
            write_mebibytes(text, bank.capacity());
            text.push_str(", totalBytesAllocatedPerBank: ");
            write_mebibytes(text, now.0);
            text.push_str(", totalBytesFreePerBank: ");
            write_mebibytes(text, bank.capacity() - now.0);
            text.push_str(", largestContiguousBytesFreePerBank: ");
            write_mebibytes(text, now.1);
            text.push('}');
        }
        text
    }
}

/// `12.345 MB`, rounded like C++ streams: to nearest, ties to even. The bytes are a dyadic fraction of a mebibyte, so
/// ties are exact.
fn write_mebibytes(out: &mut String, bytes: u64) {
    const MEBIBYTE: u64 = 1 << 20;
    let (mut thousandths, rest) = (bytes * 1000 / MEBIBYTE, bytes * 1000 % MEBIBYTE);
    if rest > MEBIBYTE / 2 || (rest == MEBIBYTE / 2 && thousandths % 2 == 1) {
        thousandths += 1;
    }
    write!(out, "{}.{:03} MB", thousandths / 1000, thousandths % 1000).expect("a string takes every text");
}

#[cfg(test)]
mod tests {
    use super::write_mebibytes;

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "these bytes are exact in a double")]
    fn mebibytes_are_rounded_as_a_double_is_printed() {
        for bytes in [0, 1, 524, 525, 16_384, 65_536, 1_073_741_792, 4_278_190_080, 1_331_936, 32_768, 98_304]
        {
            let mut text = String::new();
            write_mebibytes(&mut text, bytes);
            assert_eq!(text, format!("{:.3} MB", bytes as f64 / 1_048_576.0));
        }
    }
}
