//! The phases of training sessions.

use ttmem_query::SessionSummary;

use super::Page;
use crate::phases::{amount, grows, phase_table};
use crate::styled::{Style, Text};
use crate::table::{cut, one_line};
use crate::units::{count, size};

impl Page<'_> {
    pub(super) fn phases(&self, out: &mut Text) {
        for (index, session) in self.rank.sessions.iter().enumerate() {
            if index > 0 || self.rank.pools.iter().next().is_some() {
                out.blank();
            }
            out.heading(session_line(index, session));
            let of_session = self.rank.phases.iter().filter(|phase| phase.session == index);
            out.table(&phase_table(&of_session.collect::<Vec<_>>(), out.width()));
        }
    }

    /// The training sessions that do not fit into the device, or that grow.
    pub(super) fn training(&self, out: &mut Text) {
        let mut is_problem = false;
        for (index, session) in self.rank.sessions.iter().enumerate() {
            let name = session_name(index, session);
            if let (Some(false), Some(peak), Some(device)) =
                (session.fits, session.peak_bytes, session.device_memory_bytes)
            {
                let (peak, device) = (amount(peak), size(device));
                let text = format!("{name} does not fit: its peak is {peak}, and the device has {device}.");
                out.sentence(&text, Style::Failure);
                is_problem = true;
            }
            if let Some(growth) = &session.growth {
                out.sentence(&format!("{name}: {}", grows(growth)), Style::Warning);
                is_problem = true;
            }
        }
        if is_problem {
            out.sentence("`ttmem phases` shows the parts of the peak and what to change.", Style::Plain);
            out.blank();
        }
    }
}

/// The title of a training session.
fn session_line(index: usize, session: &SessionSummary) -> String {
    let shown = |bytes: Option<i64>| bytes.map_or_else(|| "unknown".into(), amount);
    let mut facts = vec![
        format!("peak {}", shown(session.peak_bytes)),
        format!("{} at the end", shown(session.final_bytes)),
    ];
    facts.extend(session.parameters.map(|parameters| format!("{} parameters", count(parameters))));
    facts.extend(session.device_memory_bytes.map(|bytes| format!("device {}", size(bytes))));
    facts.extend(session.estimated.then(|| "estimated".to_owned()));
    facts.extend((!session.finished).then(|| "incomplete".to_owned()));
    format!("{}: {}; phases in MiB", session_name(index, session), facts.join(", "))
}

fn session_name(index: usize, session: &SessionSummary) -> String {
    session.name.as_deref().map_or_else(|| format!("Summary {}", index + 1), |name| cut(&one_line(name), 60))
}
