//! Formats sizes and shapes for sentences, and shortens texts from the input.
//!
//! Used for the sentences of a response, and by `ttmem-report`.

pub use ttmem_model::words::{size, tenths};

/// What people call a tensor class.
pub fn class_name(class: &str) -> &str {
    match class {
        "activation" => "activations",
        "weight" => "weights",
        "parameter" => "parameters",
        "gradient" => "gradients",
        "optimizer" => "optimizer state",
        "input" => "inputs",
        "argument" => "arguments of unknown kind",
        "kv_cache" => "KV caches",
        "buffer" => "buffers",
        "temporary" => "temporary tensors",
        "workspace" => "library workspaces",
        "unknown" => "unknown class",
        other => other,
    }
}

/// `1x32x64`.
pub fn shape(dims: &[u64]) -> String {
    if dims.is_empty() {
        return "scalar".into();
    }
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// `step 40`, `steps 40 and 43`, or `steps 40–52` if there are more than two.
pub fn steps(count: usize, first: u32, last: u32) -> String {
    match count {
        _ if first == last => format!("step {first}"),
        2 => format!("steps {first} and {last}"),
        _ => format!("steps {first}–{last}"),
    }
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

/// A message of at most `most` characters. A longer one loses words in the middle: it begins with the error and ends with
/// the location.
pub(crate) fn brief_sentence(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(3);
    let tail = room / 4;
    let head: String = text.chars().take(room - tail).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    let head = head.rsplit_once(' ').map_or(&*head, |(words, _)| words);
    let tail = tail.split_once(' ').map_or(&*tail, |(_, words)| words);
    format!("{head} … {tail}")
}

/// The same on one line, so that no control character from the input reaches a terminal.
pub(crate) fn brief_line(text: &str, most: usize) -> String {
    brief(&one_line(text), most)
}

/// Replaces each control character with a visible mark.
pub fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '·' } else { character }).collect()
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
    fn a_message_loses_whole_words() {
        let text = "CUDA out of memory. Tried to allocate 3.00 GiB of which nothing is left (train.py:28 in forward)";
        let short = brief_sentence(text, 60);
        assert_eq!(short, "CUDA out of memory. Tried to allocate 3.00 … in forward)");
        assert_eq!(brief_sentence(text, 200), text);
        assert_eq!(brief_sentence(&"x".repeat(100), 11).chars().count(), 11);
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
