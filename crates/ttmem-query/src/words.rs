//! Formats sizes and shapes for sentences, and shortens texts from the input.
//!
//! Used for the sentences of a response, and by `ttmem-report`.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// `4.7 GiB`, `393.7 MiB`, `12.0 KiB`, `64 B`.
pub fn size(bytes: u64) -> String {
    // A size that would round to 1024.0 of a unit is printed as 1.0 of the next unit.
    const NEARLY_MIB: u64 = MIB - KIB / 20;
    const NEARLY_GIB: u64 = GIB - MIB / 20;
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..NEARLY_MIB => format!("{} KiB", tenths(bytes, KIB)),
        NEARLY_MIB..NEARLY_GIB => format!("{} MiB", tenths(bytes, MIB)),
        _ => format!("{} GiB", hundredths(bytes, GIB)),
    }
}

/// `1x32x64`.
pub fn shape(dims: &[u64]) -> String {
    if dims.is_empty() {
        return "scalar".into();
    }
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// A share in percent with one decimal place: `98.5%`. Only the whole is 100%.
pub fn percent(part: u64, whole: u64) -> String {
    let share = (u128::from(part) * 1000 + u128::from(whole) / 2).checked_div(u128::from(whole)).unwrap_or(0);
    let share = if part < whole { share.min(999) } else { share };
    format!("{}.{}%", share / 10, share % 10)
}

/// A text of at most `most` characters. A longer text is cut near the front, because names differ at their ends.
pub fn brief(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let head = room / 4;
    let tail = text.chars().skip(length - (room - head));
    text.chars().take(head).chain(['…']).chain(tail).collect()
}

/// The same on one line, so that no control character from the input reaches a terminal.
pub(crate) fn brief_line(text: &str, most: usize) -> String {
    brief(&one_line(text), most)
}

/// Replaces each control character with a visible mark.
pub fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '·' } else { character }).collect()
}

/// A number of bytes in a unit, with one decimal place.
pub fn tenths(bytes: u64, unit: u64) -> String {
    let scaled = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{}", scaled / 10, scaled % 10)
}

fn hundredths(bytes: u64, unit: u64) -> String {
    let scaled = (u128::from(bytes) * 100 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{:02}", scaled / 100, scaled % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_near_its_front() {
        assert_eq!(brief("model.layers.31.mlp", 19), "model.layers.31.mlp");
        assert_eq!(brief("model.layers.31.mlp", 13), "mod…rs.31.mlp");
        assert_eq!(brief("äöü", 2).chars().count(), 2);
        assert_eq!((brief("abc", 1), brief("abc", 0)), ("…".into(), "…".into()));
        assert_eq!(brief_line("a\u{1b}[31m\nb", 20), "a·[31m·b");
        // Combining marks count, too.
        assert_eq!(brief(&"\u{301}".repeat(1000), 60).chars().count(), 60);
    }

    #[test]
    fn shares_have_one_digit() {
        assert_eq!((percent(99_999, 100_000), percent(7, 7)), ("99.9%".into(), "100.0%".into()));
        assert_eq!(
            (percent(1, 3), percent(2, 3), percent(0, 0)),
            ("33.3%".into(), "66.7%".into(), "0.0%".into())
        );
    }
}
