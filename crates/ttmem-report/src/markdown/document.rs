//! A Markdown document of sections that fits a budget: rows are dropped from the ends of tables, and said to be.

/// A document.
pub(super) struct Document {
    /// What stands above the sections.
    pub head: Vec<String>,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// A section: paragraphs, a table or list, and paragraphs.
pub(super) struct Section {
    heading: String,
    before: Vec<String>,
    /// The head of the table; nothing for a list.
    columns: String,
    rows: Vec<String>,
    /// How many rows stay when it gets tight, tighter, and as tight as can be.
    floors: [usize; STAGES],
    /// How many rows there are, those included that were never made.
    total: usize,
    /// What is said behind the number of those that are left out.
    more: &'static str,
    after: Vec<String>,
}

const STAGES: usize = 4;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

impl Document {
    /// Drops rows until the document has at most so many bytes, or nothing is left to be dropped.
    ///
    /// Each stage has its floors; within a stage the section whose rows take most gives first. Headings and
    /// paragraphs always stay.
    pub fn fit(&mut self, most: usize) {
        for stage in 0..STAGES {
            while self.render().len() > most {
                let can_give = |section: &&mut Section| section.rows.len() > section.floors[stage];
                let Some(section) = self.sections.iter_mut().filter(can_give).max_by_key(|one| one.weight())
                else {
                    break;
                };
                section.rows.pop();
            }
        }
    }

    /// The text.
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

    /// Adds a paragraph: before the rows while there are none, else behind them.
    pub fn paragraph(mut self, text: impl Into<String>) -> Self {
        let place = if self.rows.is_empty() { &mut self.before } else { &mut self.after };
        place.push(text.into());
        self
    }

    /// Adds a table. Every row has as many cells as the head: the compiler sees to it.
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

    /// Says how many rows stay when it gets tight, and when it gets tighter.
    pub fn floors(mut self, tight: usize, tighter: usize) -> Self {
        self.floors = [tight, tighter, tighter.min(1), 0];
        self
    }

    /// Says how many rows there would be, and what is said of those that are left out.
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
            .paragraph("Behind them.")
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
        assert!(text.contains("| row 2 |\n\nBehind them."), "{text}");
    }

    #[test]
    fn headings_and_paragraphs_stay() {
        let mut document = Document { head: vec![], sections: vec![section(10, 4, 2), section(3, 3, 1)] };
        document.fit(0);
        assert_eq!(
            document.render(),
            "## Rows\n\n… 10 more.\n\nBehind them.\n\n## Rows\n\n… 3 more.\n\nBehind them.\n"
        );
    }
}
