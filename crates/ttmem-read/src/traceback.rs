//! The line of the user's program that an error came from: Python tracebacks, and pytest's own form of them.

use memchr::memmem;

use crate::python_stack::{frame, is_library, leading_number};

/// The location of an error, and the operation that its line calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    /// `model.py:12`.
    pub loc: Option<String>,
    /// The only operation that the line calls, such as `ttnn.softmax`.
    pub op: Option<String>,
}

/// The location of an error whose text follows these lines.
///
/// It is the innermost frame outside libraries, in the last traceback. Without one, pytest's lines are used.
pub(crate) fn location(lines: &[&[u8]], is_pytest: bool) -> Location {
    if is_pytest { of_pytest(lines) } else { of_traceback(lines) }
}

fn of_traceback(lines: &[&[u8]]) -> Location {
    let Some(start) =
        lines.iter().rposition(|line| memmem::find(line, b"Traceback (most recent call").is_some())
    else {
        return Location::default();
    };
    let mut found = Location::default();
    for (at, line) in lines.iter().enumerate().skip(start) {
        if let Some((path, number)) = std::str::from_utf8(line).ok().and_then(frame)
            && !is_library(path)
        {
            found = at_line(path, number, lines.get(at + 1).copied());
        }
    }
    found
}

/// The innermost frame of an installed package other than PyTorch, in the last traceback: the line of a server or a
/// framework, if the user's program is not in the traceback.
pub(crate) fn package_location(lines: &[&[u8]]) -> Option<String> {
    let is_start = |line: &&[u8]| memmem::find(line, b"Traceback (most recent call").is_some();
    let start = lines.iter().rposition(is_start)?;
    let frames = lines[start..].iter().filter_map(|line| std::str::from_utf8(line).ok().and_then(frame));
    let is_of_package = |(path, _): &(&str, &str)| {
        path.contains("-packages/") && !path.contains("/torch/") && !path.contains("/_pytest/")
    };
    frames.rev().find(is_of_package).map(|(path, number)| format!("{path}:{number}"))
}

/// Long form: the source lines of a frame, its failing line with `>`, then `model.py:12: `. Short form:
/// `model.py:12: in forward`, then the line.
fn of_pytest(lines: &[&[u8]]) -> Location {
    let is_header = |line: &&[u8]| {
        let line = line.trim_ascii();
        line.starts_with(b"____") && line.ends_with(b"____")
    };
    let start = lines.iter().rposition(is_header).map_or(0, |header| header + 1);
    let mut found = Location::default();
    let mut failing = None;
    for (at, line) in lines.iter().enumerate().skip(start) {
        if let Some(marked) = marked(line) {
            failing = Some(marked);
        }
        let Some(frame) = pytest_frame(line) else { continue };
        if !is_library(frame.path) {
            let source = if frame.is_short { lines.get(at + 1).copied() } else { failing };
            found = at_line(frame.path, frame.number, source);
        }
    }
    found
}

/// The failing line that pytest marks: `>       y = ttnn.softmax(x)`.
fn marked(line: &[u8]) -> Option<&[u8]> {
    let at = memmem::find(line, b">   ")?;
    // A prefix may precede it, but no code does.
    (at == 0 || line[at - 1] == b' ').then(|| &line[at + 1..])
}

/// A line of pytest that names a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PytestFrame<'a> {
    pub path: &'a str,
    pub number: &'a str,
    /// The source line follows.
    pub is_short: bool,
}

/// `model.py:12: `, `model.py:12: in forward` or `model.py:12: RuntimeError`.
pub(crate) fn pytest_frame(line: &[u8]) -> Option<PytestFrame<'_>> {
    let suffix = memmem::find(line, b".py:")?;
    let text = std::str::from_utf8(line).ok()?;
    let path = text[..suffix + 3].split_ascii_whitespace().next_back()?;
    let number = leading_number(&text[suffix + 4..])?;
    let rest = text[suffix + 4 + number.len()..].strip_prefix(':')?.trim();
    let is_short = rest.starts_with("in ");
    let is_name = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
    };
    (is_short || rest.is_empty() || is_name(rest)).then_some(PytestFrame { path, number, is_short })
}

/// The location that pytest prints after an error, if it is in the user's program, and its source line.
pub(crate) fn after_error(line: &[u8], before: &[&[u8]]) -> Option<Location> {
    let frame = pytest_frame(line).filter(|frame| !frame.is_short && !is_library(frame.path))?;
    Some(at_line(frame.path, frame.number, before.iter().rev().find_map(|line| marked(line))))
}

fn at_line(path: &str, number: &str, source: Option<&[u8]>) -> Location {
    let op = source.and_then(|source| called_operation(&String::from_utf8_lossy(source)));
    Location { loc: Some(format!("{path}:{number}")), op }
}

/// The operation that a source line calls, if it calls exactly one: `y = ttnn.softmax(x)`.
fn called_operation(source: &str) -> Option<String> {
    let mut found: Option<&str> = None;
    for (at, _) in source.match_indices("ttnn.") {
        let is_part =
            source[..at].ends_with(|before: char| before.is_alphanumeric() || "_.".contains(before));
        let rest = &source[at..];
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
            .count();
        let name = &rest[..length];
        let last = name.rsplit('.').next().unwrap_or_default();
        // Names of classes begin with an uppercase letter.
        let is_function =
            rest[length..].starts_with('(') && last.starts_with(|first: char| first.is_lowercase());
        if is_part || !is_function || found == Some(name) {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(name);
    }
    found.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, is_pytest: bool) -> (Option<String>, Option<String>) {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let found = location(&lines, is_pytest);
        (found.loc, found.op)
    }

    fn some(loc: &str, op: &str) -> (Option<String>, Option<String>) {
        (Some(loc.to_owned()), Some(op.to_owned()))
    }

    #[test]
    fn the_innermost_frame_outside_libraries() {
        let text = r#"  File "old.py", line 1, in <module>
Traceback (most recent call last):
  File "/home/user/run.py", line 32, in <module>
    main()
  File "/home/user/attention.py", line 14, in forward
    return ttnn.softmax(scores, dim=-1)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.10/site-packages/ttnn/decorators.py", line 1245, in __call__
    result = self.function(*function_args, **function_kwargs)
  File "<frozen runpy>", line 86, in _run_code
"#;
        assert_eq!(of(text, false), some("/home/user/attention.py:14", "ttnn.softmax"));
        let prefixed = text.replace('\n', "\n(EngineCore_DP0 pid=1) ERROR 10-10 12:00:00 [core.py:7] ");
        assert_eq!(of(&prefixed, false), some("/home/user/attention.py:14", "ttnn.softmax"));
        assert_eq!(of("File \"x.py\", line 1, in f", false), (None, None));
    }

    #[test]
    fn both_forms_of_pytest() {
        let long = "test_old.py:1: RuntimeError\n____ test_prefill ____\n\n    def test_prefill():\n>       scores = block.forward(x)\n\ntest_model.py:10: \n_ _ _\nattention.py:14: in forward\n    return ttnn.softmax(scores, dim=-1)\n_ _ _\n\n    def __call__(self):\n>       result = self.function(x)\n";
        assert_eq!(of(long, true), some("attention.py:14", "ttnn.softmax"));
        let only = "____ test_dram ____\n    def test_dram():\n>       keep.append(ttnn.empty((1, 2), layout=ttnn.TILE_LAYOUT))\n\ntest_model.py:21: \n_ _ _\n>       result = f()\n";
        assert_eq!(of(only, true), some("test_model.py:21", "ttnn.empty"));
        let lines: Vec<&[u8]> = vec![b">       y = ttnn.add(a, b)", b"E       RuntimeError: x"];
        let after = after_error(b"test_a.py:7: RuntimeError", &lines).unwrap();
        assert_eq!((after.loc, after.op), some("test_a.py:7", "ttnn.add"));
        assert_eq!(after_error(b"/x/site-packages/ttnn/decorators.py:1245: RuntimeError", &lines), None);
        assert_eq!(after_error(b"nothing here", &lines), None);
    }

    #[test]
    fn a_line_with_several_calls_does_not_name_the_operation() {
        assert_eq!(called_operation("ttnn.add(ttnn.exp(x), y)"), None);
        assert_eq!(called_operation("ttnn.add(a, ttnn.add(b, c))"), Some("ttnn.add".to_owned()));
        assert_eq!(called_operation("x = ttnn.MemoryConfig(ttnn.BufferType.L1)"), None);
        assert_eq!(called_operation("my_ttnn.add(x)"), None);
        assert_eq!(called_operation("ttnn.experimental.foo(x)"), Some("ttnn.experimental.foo".to_owned()));
        assert_eq!(called_operation(""), None);
    }
}
