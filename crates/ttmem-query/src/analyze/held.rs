//! The memory held by a pool at every moment: measured, or reconstructed between measurements.

use ttmem_model::{Cursor, Curve, CurveKind, Moment};

use super::Account;

/// All changes of a bank's memory use, in order: [`Account::held`] for every moment. While it is unknown, the curve
/// stays at the last reading.
///
/// Several readings at the same moment are all kept; the last one is the value at that moment.
pub fn over_time(account: &Account<'_>) -> Curve {
    let Some(measured) = account.pool.curve(CurveKind::Allocated) else { return Curve::default() };
    let mut held = Curve::default();
    let mut walk = Walk {
        account,
        readings: measured.cursor(),
        sums: account.explained_cursor(Moment::START),
        last: None,
    };
    let mut changes = measured.changes().peekable();
    for at in moments(account) {
        if account.pool.observed.contains(at) {
            // The first of several readings at a moment may be the highest.
            while let Some((_, value)) = changes.next_if(|(moment, _)| *moment <= at) {
                push(&mut held, at, value);
            }
        }
        if let Some(value) = walk.at(at) {
            push(&mut held, at, value);
        }
        // A change on the late side of a position without a reading becomes visible at the next moment.
        let next = Moment::from_index(at.index() + 1);
        if let Some(next) =
            next.filter(|next| walk.hides_a_change(at) && !account.pool.observed.contains(*next))
            && let Some(value) = walk.at(next)
        {
            push(&mut held, next, value);
        }
    }
    held
}

fn push(curve: &mut Curve, at: Moment, value: u64) {
    if curve.value.last() != Some(&value) {
        curve.at.push(at);
        curve.value.push(value);
    }
}

/// The moments that may have a change: observed moments, and those when tensors are allocated or freed.
fn moments<'a>(account: &'a Account<'a>) -> impl Iterator<Item = Moment> + 'a {
    let mut observed = account.pool.observed.iter().peekable();
    let mut reconstructed = account.explained_moments().iter().copied().peekable();
    std::iter::from_fn(move || match (observed.peek(), reconstructed.peek()) {
        (Some(a), Some(b)) if a == b => {
            reconstructed.next();
            observed.next()
        }
        (Some(a), Some(b)) if b < a => reconstructed.next(),
        (None, _) => reconstructed.next(),
        _ => observed.next(),
    })
}

/// A walk through the moments in order.
struct Walk<'a> {
    account: &'a Account<'a>,
    readings: Cursor<'a>,
    sums: Option<Cursor<'a>>,
    /// The last reading: its moment, its value, and the sum of the tensors at that moment.
    last: Option<(Moment, u64, u64)>,
}

impl Walk<'_> {
    /// Whether a moment shows the last reading although tensors were allocated or freed since.
    fn hides_a_change(&self, at: Moment) -> bool {
        self.last.is_some_and(|(since, _, _)| self.account.is_same_state(since, at))
    }

    fn at(&mut self, at: Moment) -> Option<u64> {
        let explained = self.sums.as_mut().map(|sums| sums.value_at(at).unwrap_or(0));
        if self.account.pool.observed.contains(at) {
            let value = self.readings.value_at(at)?;
            self.last = Some((at, value, explained.unwrap_or(0)));
            return Some(value);
        }
        let (since, value, then) = self.last?;
        if self.account.is_same_state(since, at) {
            return Some(value);
        }
        Some(value.saturating_add(explained?).saturating_sub(then))
    }
}
