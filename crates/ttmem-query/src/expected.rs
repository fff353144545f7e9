//! Compares the expected sizes of classes with the measured ones.

use ttmem_model::{Class, Profile, Rank, difference};

use super::answer::ExpectedSummary;
use super::expectations::{Expectation, Expectations};
use super::named::Named;
use crate::analyze::expected::{self, Taken};
use crate::analyze::{Span, expected::Most};

/// The expected classes of a rank with their measured sizes. The request takes precedence over the recording; within
/// the recording, the last expectation of a class counts.
pub(super) fn compare(
    profile: &Profile,
    rank: &Rank,
    span: Span,
    requested: Option<&Expectations>,
) -> Vec<ExpectedSummary> {
    let mut rows: Vec<ExpectedSummary> = Vec::new();
    let mut add = |one: Expectation, from: &'static str| {
        let class = class_here(rank, one.class);
        if rows.iter().all(|known| known.class != class) {
            rows.push(row(profile, rank, span, Expectation { class, ..one }, from));
        }
    };
    for one in requested.into_iter().flat_map(Expectations::iter) {
        add(one.clone(), "request");
    }
    for one in rank.expected.iter().rev() {
        let how = profile.text(one.how).to_owned();
        add(Expectation { class: one.class, bytes: one.bytes, how }, "recording");
    }
    rows.sort_by_key(|row| row.class);
    rows
}

/// The class as the input names it: a parameter in PyTorch is a weight elsewhere.
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
        Taken::NoTensors => (None, Some("the input has no tensors, so memory can't be attributed to them")),
        Taken::NoneOfClass => (None, Some(none_of(class))),
        Taken::NoSize(_) => (None, Some("the size of a tensor of this class is unknown")),
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

/// Why no tensor of a class is known, and what to do about it.
fn none_of(class: Class) -> &'static str {
    match class {
        Class::KvCache => {
            "no KV cache was found; label one with `tracker.label(cache, \"kv_cache\")` (in a Tenstorrent log, KV \
             caches are the tensors used by `update_cache`, `fill_cache` and attention in decode steps)"
        }
        Class::Parameter | Class::Buffer => {
            "no tensor of this class was found; a model's tensors are classified when the model is first called"
        }
        _ => "no tensor of this class was found",
    }
}

/// A difference in percent with one decimal place; `None` if the expected size is 0.
#[allow(clippy::cast_precision_loss, reason = "a share, to be shown with one decimal place")]
fn share(difference: i64, whole: u64) -> Option<f64> {
    let share = (whole > 0).then(|| difference as f64 / whole as f64 * 100.0)?;
    // Turns -0.0 into 0.0.
    Some((share * 10.0).round() / 10.0 + 0.0)
}
