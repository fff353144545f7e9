//! Frames of Python tracebacks.

use ttmem_model::rules::FrameOrigin;

/// The line of the user's program in a stack whose innermost frame comes first, as `file:line`. Frames of Python and of
/// installed packages are skipped, unless all frames are.
pub(crate) fn user_line<'a>(stack: impl Iterator<Item = &'a str>) -> Option<String> {
    let frames: Vec<(&str, &str)> = stack.filter_map(frame).collect();
    let (path, line) = frames.iter().find(|(path, _)| !is_library(path)).or(frames.first())?;
    Some(format!("{path}:{line}"))
}

/// The file and the line of a frame: `File "model.py", line 12, in forward`. Anything may precede it.
pub(crate) fn frame(text: &str) -> Option<(&str, &str)> {
    let (path, rest) = text.split_once("File \"")?.1.split_once("\", line ")?;
    Some((path, leading_number(rest)?))
}

/// The digits at the start of a text, if they can be a line number.
pub(crate) fn leading_number(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..10).contains(&digits).then(|| &text[..digits])
}

/// Whether a file belongs to Python or to an installed package.
pub(crate) fn is_library(path: &str) -> bool {
    FrameOrigin::of(path).is_library()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_line_of_the_user_is_found() {
        let stack = [
            "  File \"/venv/lib/python3.10/site-packages/ttnn/decorators.py\", line 5, in __call__\n    return f()\n",
            "  File \"/home/me/model.py\", line 42, in forward\n    x = ttnn.softmax(x)\n",
            "  File \"/home/me/main.py\", line 7, in <module>\n",
        ];
        assert_eq!(user_line(stack.into_iter()).as_deref(), Some("/home/me/model.py:42"));
        assert_eq!(user_line(stack.into_iter().skip(2)).as_deref(), Some("/home/me/main.py:7"));
        assert_eq!(
            user_line(stack.into_iter().take(1)).as_deref(),
            Some("/venv/lib/python3.10/site-packages/ttnn/decorators.py:5")
        );
        assert_eq!(user_line(["nothing", "File \"x\", line y"].into_iter()), None);
    }
}
