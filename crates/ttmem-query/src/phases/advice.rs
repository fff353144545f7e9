//! Advice for a session that does not fit into the device, and comparisons between sessions.

use super::answer::{Advice, Comparison, SessionPhases};
use super::percent_of;
use crate::analyze::phases::{AtPeak, Held};
use crate::words::{brief, size};

/// Maximum number of characters of a name in a sentence.
const MAX_NAME: usize = 60;

/// A session that does not fit: the input of its advice.
pub(super) struct Excess<'a> {
    /// The excess of the peak over the device memory.
    pub over: u64,
    /// The memory at the peak.
    pub at: AtPeak,
    /// The size of the gradients, as measured or else as expected.
    pub gradients: Option<i64>,
    /// The phase that reaches the peak.
    pub phase: &'a str,
}

impl Excess<'_> {
    pub fn advice(&self) -> Vec<Advice> {
        match self.activations() {
            Some(activations) if activations > 0 => vec![
                self.recomputation(activations),
                self.smaller_batch(activations),
                self.gradient_accumulation(activations),
            ],
            activations => vec![self.without_activations(activations)],
        }
    }

    /// The size of the activations at the peak; `None` if one of their figures is missing.
    fn activations(&self) -> Option<i64> {
        let known = |held: Held| match held {
            Held::Nothing => Some(0),
            held => held.bytes(),
        };
        Some(known(self.at.activations)?.saturating_add(known(self.at.activations_in_rise)?))
    }

    /// The memory that the peak phase needed temporarily, if it and the activations together could be enough. It also
    /// grows with the batch, but it is unknown how much of it does.
    fn passing(&self, activations: i64) -> Option<i64> {
        let kept = self.at.activations_in_rise.bytes().unwrap_or(0);
        let passing = self.at.rise?.saturating_sub(kept.max(0));
        let over = i64::try_from(self.over).unwrap_or(i64::MAX);
        (passing > 0 && activations.saturating_add(passing) > over).then_some(passing)
    }

    /// Advice without further figures.
    fn of_kind(
        &self,
        kind: &'static str,
        activations: Option<i64>,
        headline: impl Into<String>,
        detail: String,
    ) -> Advice {
        let headline = headline.into();
        Advice {
            kind,
            message: format!("{headline}: {detail}"),
            headline,
            detail,
            must_save_bytes: self.over,
            activations_bytes: activations,
            can_suffice: None,
            activations_share_pct: None,
            micro_batches: None,
        }
    }

    /// The maximum size of the activations that fits, if nothing else changes and `more` bytes are added.
    fn may_stay(&self, activations: i64, more: i64) -> Option<i64> {
        let over = i64::try_from(self.over).unwrap_or(i64::MAX);
        let rest = activations.saturating_sub(over).saturating_sub(more);
        (rest > 0).then_some(rest)
    }

    fn recomputation(&self, activations: i64) -> Advice {
        let enough = self.may_stay(activations, 0).is_some();
        let verdict = if enough {
            format!(" (more than {})", share(self.over, activations))
        } else {
            "; recomputing all of them is not enough on its own".to_owned()
        };
        let detail = format!(
            "save more than {} of the {} that activations take at the peak{verdict}.",
            size(self.over),
            shown(activations)
        );
        let headline = "Recompute activations (gradient checkpointing)";
        let advice = self.of_kind("recomputation", Some(activations), headline, detail);
        Advice { can_suffice: Some(enough), ..advice }
    }

    fn smaller_batch(&self, activations: i64) -> Advice {
        let rest = self.may_stay(activations, 0);
        let passing = self.passing(activations).filter(|_| rest.is_none());
        let detail = match rest {
            _ if passing.is_some() => format!(
                "more than {} must be saved, but activations take only {}; the memory that {} needs while it runs \
                 ({}) also shrinks with the batch, but by an unknown amount.",
                size(self.over),
                shown(activations),
                brief(self.phase, MAX_NAME),
                shown(passing.unwrap_or(0))
            ),
            Some(rest) => format!(
                "activations grow with the batch size; reduce it to less than {}, which lowers activations to {}.",
                share(rest.unsigned_abs(), activations),
                shown(rest)
            ),
            None => format!(
                "the session is {} over the limit, but activations take only {}; a smaller batch is not enough on its \
                 own.",
                size(self.over),
                shown(activations)
            ),
        };
        Advice {
            can_suffice: passing.is_none().then_some(rest.is_some()),
            activations_share_pct: rest.and_then(|rest| percent_of(rest, activations)),
            ..self.of_kind("smaller_batch", Some(activations), "Reduce the batch", detail)
        }
    }

    /// Micro-batches, one after the other. From the second one on, the gradients of the first are also in memory.
    fn gradient_accumulation(&self, activations: i64) -> Advice {
        let kept = if self.at.gradients.is_there() { Some(0) } else { self.gradients };
        let rest = self.may_stay(activations, kept.unwrap_or(0).max(0));
        let passing = self.passing(activations).filter(|_| rest.is_none());
        // The activations of one micro-batch must be smaller than the maximum that fits.
        let batches = rest.map(|rest| activations.unsigned_abs() / rest.unsigned_abs() + 1);
        let gradients = match kept {
            Some(0) => String::new(),
            Some(kept) => {
                format!(
                    ", in addition to the gradients ({}), which stay allocated after the first micro-batch",
                    shown(kept)
                )
            }
            None => {
                ", not counting the gradients, which stay allocated after the first micro-batch (their size is unknown)"
                    .into()
            }
        };
        let detail = match (rest, batches) {
            (Some(rest), Some(batches)) => format!(
                "splitting the batch into {batches} or more micro-batches keeps activations below {}{gradients}.",
                shown(rest)
            ),
            _ if passing.is_some() => format!(
                "smaller micro-batches also shrink the memory that {} needs while it runs, but by an unknown \
                 amount{gradients}; more than {} must be saved.",
                brief(self.phase, MAX_NAME),
                size(self.over)
            ),
            _ => format!(
                "even the smallest micro-batches are not enough on their own{gradients}; save more than {}.",
                size(self.over)
            ),
        };
        Advice {
            can_suffice: passing.is_none().then_some(rest.is_some()),
            micro_batches: batches,
            ..self.of_kind("gradient_accumulation", Some(activations), "Accumulate gradients", detail)
        }
    }

    /// Advice if no activations are kept at the peak, or if their size is unknown.
    fn without_activations(&self, activations: Option<i64>) -> Advice {
        let over = size(self.over);
        let (headline, detail) = match activations {
            Some(_) => (
                format!("The peak is reached in {}, when no activations are kept", brief(self.phase, MAX_NAME)),
                format!(
                    "recomputing activations or a smaller batch does not help. Save more than {over}: use fewer \
                     parameters, a narrower dtype, an optimizer with less state, or more devices."
                ),
            ),
            None => (
                format!("Save more than {over}"),
                "the size of the activations is unknown because a figure is missing; recomputing them or a smaller \
                 batch may or may not be enough."
                    .to_owned(),
            ),
        };
        self.of_kind("smaller_model", activations, headline, detail)
    }
}

/// Compares each session of a rank with the one that has the lowest peak.
pub(super) fn comparisons(sessions: &[SessionPhases]) -> Vec<Comparison> {
    let mut found = Vec::new();
    let mut ranks: Vec<Option<&str>> = Vec::new();
    for session in sessions {
        let rank = session.rank.as_deref();
        if ranks.contains(&rank) {
            continue;
        }
        ranks.push(rank);
        let of_rank: Vec<&SessionPhases> =
            sessions.iter().filter(|session| session.rank.as_deref() == rank).collect();
        let known = of_rank.iter().filter(|session| session.peak_bytes.is_some());
        let Some(least) = known.min_by_key(|session| session.peak_bytes).copied() else { continue };
        let others = of_rank.into_iter().filter(|session| session.label != least.label);
        found.extend(others.filter_map(|other| compared(least, other)));
    }
    found
}

fn compared(least: &SessionPhases, other: &SessionPhases) -> Option<Comparison> {
    let (low, high) = (least.peak_bytes?, other.peak_bytes?);
    let saves = high.saturating_sub(low);
    let activations = other
        .activations
        .measured_bytes
        .zip(least.activations.measured_bytes)
        .map(|(high, low)| high.saturating_sub(low));
    let saves_pct = percent_of(saves, high);
    let pct = saves_pct.map_or_else(String::new, |pct| format!(" ({pct:.1}%)"));
    let why = activations
        .filter(|saved| *saved > 0 && saves > 0)
        .map_or_else(String::new, |saved| format!("; its activations take {} less", shown(saved)));
    let (label, against) = (brief(&least.label, MAX_NAME), brief(&other.label, MAX_NAME));
    let message = if saves == 0 {
        format!("{label} and {against} have the same peak: {}.", shown(low))
    } else {
        format!(
            "{label} needs {}{pct} less at its peak than {against}: {} instead of {}{why}.",
            shown(saves),
            shown(low),
            shown(high)
        )
    };
    Some(Comparison {
        label: least.label.clone(),
        against: other.label.clone(),
        saves_bytes: saves,
        saves_pct,
        activations_saved_bytes: activations,
        message,
    })
}

/// A size that may be negative.
fn shown(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// `35.1%`.
fn share(part: u64, whole: i64) -> String {
    let part = i64::try_from(part).unwrap_or(i64::MAX);
    percent_of(part, whole).map_or_else(|| "a share".into(), |pct| format!("{pct:.1}%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn excess(over: i64, activations: Held, gradients: Option<i64>) -> Excess<'static> {
        let at = AtPeak {
            model: Held::Nothing,
            optimizer: Held::Nothing,
            gradients: Held::Nothing,
            activations,
            rise: Some(0),
            activations_in_rise: Held::Nothing,
        };
        Excess { over: over.unsigned_abs(), at, gradients, phase: "BACKWARD_PASS" }
    }

    #[test]
    fn activations_that_are_large_enough_can_be_saved() {
        let advice = excess(3 * GIB, Held::Bytes(9 * GIB), Some(2 * GIB)).advice();
        let kinds: Vec<&str> = advice.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, ["recomputation", "smaller_batch", "gradient_accumulation"]);
        assert!(advice.iter().all(|one| one.can_suffice == Some(true)));
        assert_eq!(advice[1].activations_share_pct, Some(66.67));
        // 9 − 3 − 2 = 4 GiB of activations fit; a third of 9 GiB is 3 GiB, half of it is 4.5 GiB.
        assert_eq!(advice[2].micro_batches, Some(3));
    }

    /// The limits are exclusive: more than 0 bytes must remain, and micro-batches must be below the maximum.
    #[test]
    fn savings_that_just_miss_the_limit_are_not_enough() {
        let advice = excess(3 * GIB, Held::Bytes(3 * GIB), Some(0)).advice();
        assert!(advice.iter().all(|one| one.can_suffice == Some(false)), "{advice:?}");
        assert!(advice.iter().all(|one| one.message.contains("not enough on ")), "{advice:?}");
        let exact = excess(2 * GIB, Held::Bytes(4 * GIB), Some(0)).advice();
        assert_eq!(exact[2].micro_batches, Some(3), "two would reach the limit exactly");
    }

    #[test]
    fn a_forward_pass_that_holds_the_peak_has_its_own_activations() {
        let mut forward = excess(GIB, Held::Nothing, None);
        forward.at.activations_in_rise = Held::Bytes(5 * GIB);
        let advice = forward.advice();
        assert_eq!(advice[0].activations_bytes, Some(5 * GIB));
        assert!(advice[2].message.contains("their size is unknown"), "{}", advice[2].message);
    }

    #[test]
    fn temporary_memory_of_a_forward_pass_may_shrink_with_the_batch() {
        let mut forward = excess(3 * GIB, Held::Nothing, Some(0));
        (forward.at.activations_in_rise, forward.at.rise) = (Held::Bytes(2 * GIB), Some(9 * GIB));
        let advice = forward.advice();
        let verdicts: Vec<Option<bool>> = advice.iter().map(|one| one.can_suffice).collect();
        assert_eq!(verdicts, [Some(false), None, None]);
        assert!(advice[1].message.contains("7.00 GiB"), "{}", advice[1].message);
        // A missing figure is not zero.
        forward.at.activations_in_rise = Held::Unknown;
        assert!(forward.advice()[0].message.contains("is unknown"));
    }

    #[test]
    fn without_activations_a_smaller_batch_is_not_suggested() {
        let cases = [(Held::Nothing, "no activations are kept"), (Held::Unknown, "is unknown")];
        for (activations, words) in cases {
            let advice = excess(GIB, activations, None).advice();
            assert_eq!(advice.len(), 1);
            assert!(advice[0].message.contains(words), "{}", advice[0].message);
        }
    }
}
