//! A Markdown document that fits a budget: rows are dropped from the ends of tables, and a line counts them.

/// A document and its sections.
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
    /// The same rows in brief, if there is a brief form.
    short: Vec<String>,
    /// The bytes of all rows.
    weight: usize,
    /// The number of rows to keep in each stage of [`Document::fit`].
    floors: [usize; STAGES],
    /// The number of rows, including those that were never rendered.
    total: usize,
    /// The text after the number of dropped rows.
    more: &'static str,
    after: Vec<String>,
}

const STAGES: usize = 4;
/// The stage before which rows are replaced by their brief form, the last first.
const BRIEF_STAGE: usize = 2;
/// Between two blocks.
const GAP: &str = "\n\n";

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
            if stage == BRIEF_STAGE {
                while self.len() > budget && self.sections.iter_mut().any(Section::shorten) {}
            }
            let mut len = self.len();
            while len > budget {
                let can_give = |section: &&mut Section| section.rows.len() > section.floors[stage];
                let Some(section) = self.sections.iter_mut().filter(can_give).max_by_key(|one| one.weight)
                else {
                    break;
                };
                let before = section.len();
                section.pop();
                len = len + section.len() - before;
            }
        }
    }

    /// The length of the text in bytes.
    fn len(&self) -> usize {
        let head: usize = self.head.iter().map(|text| text.len() + GAP.len()).sum();
        let sections: usize = self.sections.iter().map(|section| section.len() + GAP.len()).sum();
        // The last gap is a single line break.
        (head + sections).saturating_sub(GAP.len()) + 1
    }

    /// The document as text.
    pub fn render(&self) -> String {
        let mut blocks: Vec<String> = self.head.clone();
        blocks.extend(self.sections.iter().flat_map(Section::blocks));
        blocks.join(GAP) + "\n"
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
            short: Vec::new(),
            weight: 0,
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
        self.set_rows(rows.into_iter().map(|row| format!("| {} |", row.join(" | "))).collect());
        self
    }

    /// Adds a list.
    pub fn list(mut self, rows: impl IntoIterator<Item = String>) -> Self {
        self.set_rows(rows.into_iter().collect());
        self
    }

    /// Sets a brief form of the rows.
    pub fn or_short(mut self, rows: impl IntoIterator<Item = String>) -> Self {
        self.short = rows.into_iter().collect();
        self
    }

    fn set_rows(&mut self, rows: Vec<String>) {
        self.weight = rows.iter().map(String::len).sum();
        self.total = rows.len();
        self.rows = rows;
    }

    /// Replaces the last row that is not brief by its brief form. Returns whether there was one.
    fn shorten(&mut self) -> bool {
        let pairs = self.rows.iter_mut().zip(&self.short);
        let Some((row, short)) = pairs.filter(|(row, short)| row != short).last() else { return false };
        self.weight = self.weight - row.len() + short.len();
        row.clone_from(short);
        true
    }

    /// Drops the last row.
    fn pop(&mut self) {
        self.weight -= self.rows.pop().map_or(0, |row| row.len());
    }

    /// Sets the number of rows to keep in the first and the second stage.
    pub fn floors(mut self, tight: usize, tighter: usize) -> Self {
        self.floors = [tight, tighter, tighter.min(1), 0];
        self
    }

    /// Keeps the first rows, however small the budget is.
    pub fn essential(mut self, rows: usize) -> Self {
        self.floors = self.floors.map(|floor| floor.max(rows));
        self
    }

    /// Sets the total number of rows, and the text after the number of dropped ones.
    pub fn of(mut self, total: usize, more: &'static str) -> Self {
        self.total = total.max(self.total);
        self.more = more;
        self
    }

    /// The length of the text in bytes.
    fn len(&self) -> usize {
        let others: usize = self.before.iter().chain(&self.after).map(|text| text.len() + GAP.len()).sum();
        let rows = match self.rows.len() {
            0 => 0,
            rows => GAP.len() + self.columns.len() + self.weight + rows - 1,
        };
        let dropped = self.dropped().map_or(0, |text| text.len() + GAP.len());
        self.heading.len() + others + rows + dropped
    }

    /// The line that counts the dropped rows.
    fn dropped(&self) -> Option<String> {
        let dropped = self.total - self.rows.len();
        (dropped > 0).then(|| format!("… {dropped} more{}.", self.more))
    }

    fn blocks(&self) -> Vec<String> {
        let mut blocks = vec![self.heading.clone()];
        blocks.extend(self.before.iter().cloned());
        if !self.rows.is_empty() {
            blocks.push(format!("{}{}", self.columns, self.rows.join("\n")));
        }
        blocks.extend(self.dropped());
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
    fn the_length_is_known_without_rendering() {
        for budget in [0, 20, 50, 80, 100, 120, 150, 1000] {
            let list = || ["1. first\n   - detail".to_owned(), "2. second\n   - detail".to_owned()];
            let brief = || ["1. first".to_owned(), "2. second".to_owned()];
            let steps =
                Section::new("## List").list(list()).or_short(brief()).essential(1).of(5, " (see there)");
            let sections = vec![section(10, 4, 2), steps, Section::new("## Empty")];
            let mut document = Document { head: vec!["# Title".into(), "> head".into()], sections };
            assert_eq!(document.len(), document.render().len());
            document.fit(budget);
            assert_eq!(document.len(), document.render().len());
            assert!(document.render().contains("1. first"));
        }
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
