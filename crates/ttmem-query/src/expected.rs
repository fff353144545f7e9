//! What is expected of classes, held against what they took.

use ttmem_model::{Class, Profile, Rank, difference};

use super::answer::ExpectedSummary;
use super::expectations::{Expectation, Expectations};
use super::named::Named;
use crate::analyze::expected::{self, Taken};
use crate::analyze::{Span, expected::Most};

/// Everything that is expected of a rank, with what was measured. What is asked for goes before what the recording has,
/// and of that the last word on a class counts.
pub(super) fn held_against(
    profile: &Profile,
    rank: &Rank,
    span: Span,
    asked: Option<&Expectations>,
) -> Vec<ExpectedSummary> {
    let mut rows: Vec<ExpectedSummary> = Vec::new();
    let mut add = |one: Expectation, from: &'static str| {
        let class = class_here(rank, one.class);
        if rows.iter().all(|known| known.class != class) {
            rows.push(row(profile, rank, span, Expectation { class, ..one }, from));
        }
    };
    for one in asked.into_iter().flat_map(Expectations::iter) {
        add(one.clone(), "request");
    }
    for one in rank.expected.iter().rev() {
        let how = profile.text(one.how).to_owned();
        add(Expectation { class: one.class, bytes: one.bytes, how }, "recording");
    }
    rows.sort_by_key(|row| row.class);
    rows
}

/// The class as this evidence has it: what PyTorch calls a parameter is a weight elsewhere.
fn class_here(rank: &Rank, class: Class) -> Class {
    let other = match class {
        Class::Parameter => Class::Weight,
        Class::Weight => Class::Parameter,
        class => return class,
    };
    if !expected::has(rank, class) && expected::has(rank, other) { other } else { class }
}

fn row(
    profile: &Profile,
    rank: &Rank,
    span: Span,
    expectation: Expectation,
    from: &'static str,
) -> ExpectedSummary {
    let Expectation { class, bytes: wanted, how } = expectation;
    let (most, note) = match expected::taken(profile, rank, class, span) {
        Taken::Most(most) => (Some(most), None),
        Taken::NoTensors => {
            (None, Some("the evidence has no tensors, so memory can't be attributed to them"))
        }
        Taken::NoneOfClass => (None, Some(none_of(class))),
        Taken::NoSize(_) => (None, Some("the size of a tensor of this class is not known")),
    };
    let measured = most.as_ref().map(|most| most.bytes);
    let difference = measured.map(|measured| difference(measured, wanted));
    ExpectedSummary {
        class,
        expected_bytes: wanted,
        from,
        how,
        measured_bytes: measured,
        measured_step: most.as_ref().map(|most| most.at.position()),
        measured_by_pool: most.map(|most| by_pool(profile, rank, &most)),
        difference_bytes: difference,
        difference_pct: difference.and_then(|difference| share(difference, wanted)),
        note,
    }
}

fn by_pool(profile: &Profile, rank: &Rank, most: &Most) -> Named<u64> {
    let named = most.by_pool.iter().filter_map(|(pool, bytes)| {
        let pool = rank.pools.get(pool.index())?;
        Some((profile.text(pool.name).to_owned(), *bytes))
    });
    Named(named.collect())
}

/// Why no tensor of a class may be known, and how it gets known.
fn none_of(class: Class) -> &'static str {
    match class {
        Class::KvCache => {
            "no tensor is known to be a KV cache: label it with `tracker.label(cache, \"kv_cache\")`; in a Tenstorrent \
             log, KV caches are the tensors that `update_cache`, `fill_cache` and attention in decode steps use"
        }
        Class::Parameter | Class::Buffer => {
            "no tensor is known to be of this class: models are learned when they are first called"
        }
        _ => "no tensor is known to be of this class",
    }
}

/// A difference in percent with one digit behind the point; `None` where nothing is expected.
#[allow(clippy::cast_precision_loss, reason = "a share, to be shown with one digit")]
fn share(difference: i64, whole: u64) -> Option<f64> {
    let share = (whole > 0).then(|| difference as f64 / whole as f64 * 100.0)?;
    // No sign for what is nothing.
    Some((share * 10.0).round() / 10.0 + 0.0)
}
