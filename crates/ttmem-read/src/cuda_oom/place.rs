//! The line of the program that caused an error: Python's tracebacks, pasted ends of them, and those of notebooks.

use memchr::memmem;

use crate::python_stack::{frame, is_library, leading_number};
use crate::traceback::{location, package_location};

/// The line of the program, as `file:line`. The last of the lines is the error.
pub(super) fn place(lines: &[&[u8]], is_pytest: bool) -> Option<String> {
    let found = location(lines, is_pytest).loc;
    found.or_else(|| of_notebook(lines)).or_else(|| of_pasted(lines)).or_else(|| package_location(lines))
}

/// The lines of the last traceback; empty if there is none.
pub(super) fn last_traceback<'a, 'b>(lines: &'b [&'a [u8]]) -> &'b [&'a [u8]] {
    let is_start = |line: &&[u8]| memmem::find(line, b"Traceback (most recent call").is_some();
    lines.iter().rposition(is_start).map_or(&[], |start| &lines[start..])
}

/// The innermost line of the user's program in the last traceback of Jupyter or `IPython`.
fn of_notebook(lines: &[&[u8]]) -> Option<String> {
    let mut frames =
        last_traceback(lines).iter().filter_map(|line| notebook_frame(std::str::from_utf8(line).ok()?));
    frames.next_back()
}

/// `File ~/model.py:41, in Net.forward(self, x)`, `Cell In[7], line 3` or `Input In [7], in <cell line: 3>()`.
fn notebook_frame(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("File ") {
        let rest = rest.split_once(", in ").map_or(rest, |(before, _)| before);
        let (path, number) = rest.rsplit_once(':')?;
        let is_whole = leading_number(number)? == number && !path.contains('"');
        return (is_whole && !is_library(path)).then(|| format!("{path}:{number}"));
    }
    let cell = ["Cell ", "Input "].iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    let (name, rest) = cell.strip_prefix("In")?.trim_start().strip_prefix('[')?.split_once(']')?;
    let number = [", line ", ", in <cell line: "].iter().find_map(|word| rest.strip_prefix(word))?;
    leading_number(name).filter(|digits| *digits == name)?;
    Some(format!("In[{name}]:{}", leading_number(number)?))
}

/// The innermost line of the user's program in the frames right above the error, without the line that begins a
/// traceback: people paste only its end.
fn of_pasted(lines: &[&[u8]]) -> Option<String> {
    // An error of NCCL has several lines.
    let is_of_error = |line: &[u8]| memmem::find(line, b"Error").is_some() || line == b"Last error:";
    let (_, before) = lines.split_last()?;
    let end = before.iter().rposition(|line| !is_of_error(line))? + 1;
    let is_of_frame =
        |line: &&&[u8]| matches!(line.first(), Some(b' ' | b'\t')) || line.starts_with(b"File \"");
    let mut frames = before[..end].iter().rev().take_while(is_of_frame);
    frames.find_map(|line| {
        let (path, number) = frame(std::str::from_utf8(line).ok()?).filter(|(path, _)| !is_library(path))?;
        Some(format!("{path}:{number}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        place(&lines, false)
    }

    #[test]
    fn frames_above_an_error_without_the_beginning_of_a_traceback() {
        let pasted = "  File \"/home/me/a.py\", line 9, in f\n    x()\n  File \"/v/site-packages/torch/x.py\", line 1, in g\n    y()\n";
        assert_eq!(of(&format!("{pasted}RuntimeError: x")).as_deref(), Some("/home/me/a.py:9"));
        let nccl =
            "torch.distributed.DistBackendError: x\nncclUnhandledCudaError: y\nLast error:\nCuda failure 2";
        assert_eq!(of(&format!("{pasted}{nccl}")).as_deref(), Some("/home/me/a.py:9"));
        assert_eq!(of(&format!("{pasted}step 1\nRuntimeError: x")), None);
        assert_eq!(of("RuntimeError: x"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn frames_of_notebooks() {
        let header = "OutOfMemoryError                 Traceback (most recent call last)\n";
        let library = "File /opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py:1501, in Module._call_impl(self)\n";
        for (frames, expected) in [
            ("Cell In[7], line 3\n----> 3 out = model(x)\n", "In[7]:3"),
            ("In[7], line 3\n", "In[7]:3"),
            ("Input In [12], in <cell line: 4>()\n", "In[12]:4"),
            ("Cell In[7], line 3\nFile ~/model.py:41, in Net.forward(self, x)\n", "~/model.py:41"),
        ] {
            let text = format!("{header}{frames}{library}OutOfMemoryError: x");
            assert_eq!(of(&text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(of("Cell In[7], line 3\nx"), None);
        for line in
            ["File x", "File a:b", "File \"x.py\", line 1", "In[a], line 3", "In[7]", "Inside [7], line 1"]
        {
            assert_eq!(notebook_frame(line), None, "{line}");
        }
    }
}
