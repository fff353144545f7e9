//! A Markdown document that fits a budget: rows are dropped from the ends of tables, and a line counts them.

/// A document.
pub(super) struct Document {
    /// The paragraphs above the sections.
    pub head: Vec<String>,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// A section: paragraphs, a table or list, and more paragraphs.
pub(super) struct Section {
    heading: String,
    before: Vec<String>,
    /// The head of the table; empty for a list.
    columns: String,
    rows: Vec<String>,
    /// The number of rows to keep in each stage of [`Document::fit`].
    floors: [usize; STAGES],
    /// The number of rows, including those that were never rendered.
    total: usize,
    /// The text after the number of dropped rows.
    more: &'static str,
    after: Vec<String>,
}

const STAGES: usize = 4;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

impl Document {
    /// Drops rows until the document has at most `budget` bytes, or no rows are left.
    ///
    /// Each stage has its floors; within a stage, the section with the largest rows loses one first. Headings and
    /// paragraphs are kept.
    pub fn fit(&mut self, budget: usize) {
        for stage in 0..STAGES {
            while self.render().len() > budget {
                let can_give = |section: &&mut Section| section.rows.len() > section.floors[stage];
                let Some(section) = self.sections.iter_mut().filter(can_give).max_by_key(|one| one.weight())
                else {
                    break;
                };
                section.rows.pop();
            }
        }
    }

    /// The document as text.
    pub fn render(&self) -> String {
        let mut blocks: Vec<String> = self.head.clone();
        blocks.extend(self.sections.iter().flat_map(Section::blocks));
        blocks.join("\n\n") + "\n"
    }
}

impl Section {
    /// A section without content.
    pub fn new(heading: impl Into<String>) -> Self {
        Self {
            heading: heading.into(),
            before: Vec::new(),
            columns: String::new(),
            rows: Vec::new(),
            floors: [0; STAGES],
            total: 0,
            more: "",
            after: Vec::new(),
        }
    }

    /// Adds a paragraph: before the rows, or after them once there are rows.
    pub fn paragraph(mut self, text: impl Into<String>) -> Self {
        let place = if self.rows.is_empty() { &mut self.before } else { &mut self.after };
        place.push(text.into());
        self
    }

    /// Adds a table. The compiler checks that every row has as many cells as the head.
    pub fn table<const N: usize>(
        mut self,
        columns: [(&str, Align); N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let rule: Vec<&str> =
            columns.iter().map(|(_, align)| if *align == Align::Right { "---:" } else { "---" }).collect();
        self.columns = format!("| {} |\n|{}|\n", names.join(" | "), rule.join("|"));
        self.rows = rows.into_iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        self.total = self.rows.len();
        self
    }

    /// Adds a list.
    pub fn list(mut self, rows: impl IntoIterator<Item = String>) -> Self {
        self.rows = rows.into_iter().collect();
        self.total = self.rows.len();
        self
    }

    /// Sets the number of rows to keep in the first and the second stage.
    pub fn floors(mut self, tight: usize, tighter: usize) -> Self {
        self.floors = [tight, tighter, tighter.min(1), 0];
        self
    }

    /// Sets the total number of rows, and the text after the number of dropped ones.
    pub fn of(mut self, total: usize, more: &'static str) -> Self {
        self.total = total.max(self.total);
        self.more = more;
        self
    }

    fn weight(&self) -> usize {
        self.rows.iter().map(String::len).sum()
    }

    fn blocks(&self) -> Vec<String> {
        let mut blocks = vec![self.heading.clone()];
        blocks.extend(self.before.iter().cloned());
        if !self.rows.is_empty() {
            blocks.push(format!("{}{}", self.columns, self.rows.join("\n")));
        }
        let left_out = self.total - self.rows.len();
        if left_out > 0 {
            blocks.push(format!("… {left_out} more{}.", self.more));
        }
        blocks.extend(self.after.iter().cloned());
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(rows: usize, tight: usize, tighter: usize) -> Section {
        let row = |number: usize| [format!("row {number}")];
        Section::new("## Rows")
            .table([("Row", Align::Left)], (0..rows).map(row))
            .floors(tight, tighter)
            .paragraph("After the rows.")
    }

    #[test]
    fn rows_go_from_the_ends_and_are_counted() {
        let mut document =
            Document { head: vec!["# Title".into()], sections: vec![section(10, 4, 2), section(3, 3, 1)] };
        let whole = document.render();
        document.fit(whole.len());
        assert_eq!(document.render(), whole);
        document.fit(whole.len() - 1);
        let text = document.render();
        assert!(text.len() < whole.len() && text.contains("row 7 |\n\n… 2 more."), "{text}");
        assert!(text.contains("| row 2 |\n\nAfter the rows."), "{text}");
    }

    #[test]
    fn headings_and_paragraphs_stay() {
        let mut document = Document { head: vec![], sections: vec![section(10, 4, 2), section(3, 3, 1)] };
        document.fit(0);
        assert_eq!(
            document.render(),
            "## Rows\n\n… 10 more.\n\nAfter the rows.\n\n## Rows\n\n… 3 more.\n\nAfter the rows.\n"
        );
    }
}
