//! Texts about errors: Markdown, reStructuredText and HTML. They quote messages without being logs.

use memchr::memmem;

/// The marks of a document that lines had so far.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Marks that only documents have: fences, tables, directives, tags.
    certain: u32,
    /// Marks that a log may have as well: `# text`, and titles with a rule below.
    possible: u32,
    /// The first line that is not blank was a certain mark.
    begins_as_one: bool,
    has_lines: bool,
    /// The length of the previous line, if a rule below it makes it a heading.
    title: usize,
}

impl Document {
    /// Takes the next line.
    pub fn line(&mut self, line: &[u8]) {
        let title = std::mem::take(&mut self.title);
        let Some(first) = line.first() else { return };
        // reStructuredText introduces code like this.
        let is_introduction = || line.ends_with(b"::") && line.len() > 2;
        let is_certain = match first {
            b'`' | b'~' => is_fence(line),
            b'|' => is_table_rule(line),
            b'<' => is_tag(line),
            b'.' => line.starts_with(b".. ") && memmem::find(line, b"::").is_some(),
            _ => is_introduction(),
        };
        let is_possible = match first {
            b'#' => is_heading(line),
            b'=' | b'-' | b'^' | b'~' => title > 0 && is_rule(line, title),
            _ => false,
        };
        if is_certain {
            self.certain = self.certain.saturating_add(1);
            self.begins_as_one |= !self.has_lines && !is_introduction();
        } else if is_possible {
            self.possible = self.possible.saturating_add(1);
        } else if first.is_ascii_alphanumeric() {
            self.title = line.len();
        }
        self.has_lines = true;
    }

    /// Whether the lines so far are a document. One mark may be part of any output.
    pub fn is_one(&self) -> bool {
        let marks = self.certain.saturating_add(self.possible);
        self.begins_as_one || self.certain > 0 && marks > 1 || self.possible > 3
    }
}

/// `## Title`.
fn is_heading(line: &[u8]) -> bool {
    let level = line.iter().take_while(|byte| **byte == b'#').count();
    level <= 6 && line.get(level) == Some(&b' ') && line.len() > level + 1
}

fn is_fence(line: &[u8]) -> bool {
    line.starts_with(b"```") || line.starts_with(b"~~~")
}

/// A line of one character, at least as long as the title above it.
fn is_rule(line: &[u8], title: usize) -> bool {
    line.len() >= title.max(3) && line.iter().all(|byte| *byte == line[0])
}

/// `|---|---|`.
fn is_table_rule(line: &[u8]) -> bool {
    memmem::find(line, b"---").is_some() && line.iter().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' '))
}

/// `<p>`, `</pre>` or `<!DOCTYPE html>`.
fn is_tag(line: &[u8]) -> bool {
    // Objects that Python prints begin with an uppercase letter.
    line.get(1).is_some_and(|byte| byte.is_ascii_lowercase() || matches!(byte, b'!' | b'/'))
        && memchr::memchr(b'>', line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_document(text: &str) -> bool {
        let mut document = Document::default();
        text.lines().for_each(|line| document.line(line.as_bytes()));
        document.is_one()
    }

    #[test]
    fn headings_fences_tables_and_tags() {
        for text in [
            "\n# Errors\ntext\n```\nlog\n```",
            "text\n```\nlog\n```\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n## More",
            "Errors\n======\n\n.. code-block:: text\n",
            "Errors\n------\n\nPyTorch raises::\n\n    text\n",
            "<!DOCTYPE html>\n",
            "text\n<p>a</p>\n<p>b</p>",
        ] {
            assert!(is_document(text), "{text}");
        }
    }

    #[test]
    fn logs_are_not_documents() {
        for text in [
            "",
            "loading\n# of parameters: 5\n",
            "loading::\n",
            "# python model.py\n# on n150\nloading\n",
            "<Tensor a>\n<Tensor b>\n",
            "Results\n=======\n\nMore\n====\n",
            "==== FAILURES ====\n____ test ____\n#ttnn_layout = 1\n",
            "=====\n=====\n",
            "2026-01-01 | info | x\n-----\n\n-----\n",
        ] {
            assert!(!is_document(text), "{text}");
        }
    }
}
