//! Whether a program went on after an error: it then prints lines of the same form as before, with other numbers.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashSet, FxHasher};

/// The lines before an error, by their form and by their text.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    forms: FxHashSet<u64>,
    texts: FxHashSet<u64>,
}

impl Progress {
    /// The lines before an error.
    pub fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut progress = Self::default();
        for line in lines {
            if let Some(form) = form(line) {
                progress.forms.insert(form);
                progress.texts.insert(hash(line.iter().copied()));
            }
        }
        progress
    }

    /// Whether a line after the error continues lines before it: `step 8 loss 2.3` after `step 7 loss 2.4`. A program that
    /// starts again prints the same lines.
    pub fn is_continued_by(&self, line: &[u8]) -> bool {
        form(line).is_some_and(|form| self.forms.contains(&form))
            && !self.texts.contains(&hash(line.iter().copied()))
    }
}

/// The form of a line with numbers: its text without digits. `None` if it has no number or hardly any letters.
fn form(line: &[u8]) -> Option<u64> {
    const MIN_LETTERS: usize = 4;
    let letters = line.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let is_progress = letters >= MIN_LETTERS && line.iter().any(u8::is_ascii_digit);
    is_progress.then(|| hash(line.iter().copied().filter(|byte| !byte.is_ascii_digit())))
}

fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut hasher = FxHasher::default();
    bytes.for_each(|byte| byte.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_numbers_in_the_same_words() {
        let progress = Progress::of([&b"loading"[..], b"step 7 loss 2.41", b"12: 13"].into_iter());
        assert!(progress.is_continued_by(b"step 8 loss 2.40"));
        for line in [&b"step 7 loss 2.41"[..], b"loading", b"12: 14", b"epoch 1", b""] {
            assert!(!progress.is_continued_by(line), "{}", String::from_utf8_lossy(line));
        }
    }
}
