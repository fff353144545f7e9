//! The last lines of a stream. The location of an error is above its message, and few lines belong to errors.

/// The number of bytes kept, at least.
const KEPT: usize = 32 << 10;
/// The number of bytes kept of a line.
const MAX_LINE: usize = 512;

/// The last lines, in a bounded amount of memory.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    before: Vec<u8>,
    last: Vec<u8>,
}

impl Recent {
    pub fn push(&mut self, line: &[u8]) {
        if self.last.len() >= KEPT {
            std::mem::swap(&mut self.before, &mut self.last);
            self.last.clear();
        }
        self.last.extend_from_slice(&line[..line.len().min(MAX_LINE)]);
        self.last.push(b'\n');
    }

    /// The kept lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let halves = [&self.before, &self.last].into_iter();
        let lines = halves.flat_map(|half| half.split_inclusive(|byte| *byte == b'\n'));
        lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_in_order() {
        let mut recent = Recent::default();
        for number in 0..100_000 {
            recent.push(format!("line {number}").as_bytes());
        }
        recent.push(&[b'x'; 10 * MAX_LINE]);
        let lines: Vec<Vec<u8>> = recent.lines().map(<[u8]>::to_vec).collect();
        assert!(lines.len() > 2000 && lines.len() < 10_000, "{}", lines.len());
        assert_eq!(lines[lines.len() - 2], b"line 99999");
        assert_eq!(lines[lines.len() - 1].len(), MAX_LINE);
        let first = 100_000 + 1 - lines.len();
        assert_eq!(lines[0], format!("line {first}").as_bytes());
    }
}
