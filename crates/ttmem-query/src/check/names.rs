//! Names that are not found: what exists, and what was probably meant.

/// Names in a message; the others are counted.
const MAX_NAMES: usize = 8;

/// The similarity of two names from 0 to 1 that suggests that one was meant.
const ALIKE: f64 = 0.75;

/// A text of this length also suggests a name that contains it.
const MIN_PART: usize = 3;

/// Longer names are not compared, because that takes time.
const MAX_LEN: usize = 200;

/// The name that is most similar to a text, if any is similar.
pub(super) fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = text.to_lowercase();
    let alike = |name: &'a str| {
        let name_lower = name.to_lowercase();
        let is_part = lower.len() >= MIN_PART && name_lower.contains(&lower);
        let likeness = strsim::normalized_damerau_levenshtein(&lower, &name_lower);
        (if is_part { likeness.max(ALIKE) } else { likeness }, name)
    };
    let is_short = |name: &&str| name.len() <= MAX_LEN;
    let best = names
        .into_iter()
        .filter(|name| is_short(name) && is_short(&text))
        .map(alike)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, name)| name)
}

/// The first names of a list: `DRAM, L1 and 3 more`.
pub(super) fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(|name| crate::words::brief_line(name, 60));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
        Some(more) => format!("{shown} and {more} more"),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested() {
        assert_eq!(nearest("dram", ["L1", "DRAM"]), Some("DRAM"));
        assert_eq!(nearest("forward", ["FORWARD_PASS", "BACKWARD_PASS"]), Some("FORWARD_PASS"));
        assert_eq!(nearest(&"x".repeat(300), [&*"x".repeat(300)]), None);
        assert_eq!(nearest("FORWARD_PAS", ["FORWARD_PASS", "BACKWARD_PASS"]), Some("FORWARD_PASS"));
        assert_eq!(nearest("cuda:1", ["cuda:0", "cpu"]), Some("cuda:0"));
        assert_eq!((nearest("x", ["DRAM"]), nearest("x", [])), (None, None));
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(&["a", "b"]), "a, b");
        assert_eq!(listed(&["x"; 10]), "x, x, x, x, x, x, x, x and 2 more");
    }
}
