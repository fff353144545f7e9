//! The L1 of a core: its parts at the peak, and where the headroom is lowest.

use ttmem_query::{L1Moment, L1Part, L1Summary, RankSummary};

use super::cell::{LOCATION, NAME, cell};
use super::document::{Align, Section};
use crate::units::{percent, size};

/// The section on L1, if the input has programs.
pub(super) fn section(rank: &RankSummary) -> Option<Section> {
    let l1 = rank.l1.as_ref().filter(|l1| l1.programs > 0)?;
    let peak = l1.peak.as_ref()?;
    let lowest = l1.lowest_headroom.as_ref();
    let mut facts: Vec<String> = l1.verdict.iter().map(ttmem_query::Statement::text).collect();
    facts.push(peak_sentence(l1, peak)?);
    facts.extend(lowest.and_then(headroom_sentence));
    facts.extend(l1.note.clone());
    let row = |part: &L1Part| {
        let bytes = part.bytes.map_or_else(|| "unknown".to_owned(), size);
        let share = part
            .bytes
            .zip(l1.size_per_core)
            .map_or_else(|| "–".to_owned(), |(bytes, all)| percent(bytes, all));
        [part.name.to_owned(), bytes, share]
    };
    let columns = [("At the Peak", Align::Left), ("Size", Align::Right), ("Of L1", Align::Right)];
    let section = Section::new("## L1 of a Core").paragraph(facts.join(" "));
    Some(section.table(columns, peak.parts.iter().map(row)).floors(8, 8))
}

fn peak_sentence(l1: &L1Summary, peak: &L1Moment) -> Option<String> {
    let at_least = if l1.peak_is_lower_bound { "at least " } else { "" };
    let of = l1.size_per_core.map_or_else(String::new, |all| format!(" of {}", size(all)));
    Some(format!("At its peak, a core uses {at_least}{}{of}, {}.", size(peak.bytes?), place(peak)))
}

fn headroom_sentence(lowest: &L1Moment) -> Option<String> {
    let bytes = lowest.headroom?;
    let place = place(lowest);
    if bytes < 0 {
        let overlap = size(bytes.unsigned_abs());
        return Some(format!("The buffers of a program overlap the lowest tensor by {overlap}, {place}."));
    }
    let at_most = if lowest.headroom_is_upper_bound { "at most " } else { "" };
    let headroom = size(bytes.unsigned_abs());
    Some(format!("The lowest headroom between program buffers and tensors is {at_most}{headroom}, {place}."))
}

/// `in step 9 (ttnn.softmax at model.py:12)`.
fn place(moment: &L1Moment) -> String {
    let op = moment.op.as_deref().unwrap_or("unknown operation");
    let loc = moment.loc.as_ref().map_or_else(String::new, |loc| format!(" at {}", cell(loc, LOCATION)));
    format!("in step {} ({}{loc})", moment.step, cell(op, NAME))
}
