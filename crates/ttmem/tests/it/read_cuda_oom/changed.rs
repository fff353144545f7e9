//! Any cut or changed message: no number is reported that the text does not have.

use proptest::prelude::*;
use ttmem::model::{FaultLedger, Ledger};
use ttmem::query::{self, Request};

use super::{ASYNC, MESSAGES, cause, oom_of, opened_as, traceback};

/// All numbers of a text with a unit, in bytes, and all differences of two of them: the memory that an old message
/// reserves includes the allocated memory.
fn numbers_in(text: &str) -> Vec<u64> {
    const UNITS: [(&str, u32); 8] =
        [("bytes", 0), ("KiB", 10), ("KB", 10), ("MiB", 20), ("MB", 20), ("GiB", 30), ("GB", 30), ("B", 0)];
    let mut found = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, letter)| letter.is_ascii_digit()) {
        let rest = &text[at..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let unit = rest[length..].trim_start();
        let Some((_, shift)) = UNITS.iter().find(|(name, _)| unit.starts_with(name)) else { continue };
        found.extend(bytes(&rest[..length], *shift));
    }
    let differences: Vec<u64> =
        found.iter().flat_map(|one| found.iter().map(move |other| one.saturating_sub(*other))).collect();
    found.extend(differences);
    found
}

/// A decimal number of units of `1 << shift` bytes.
fn bytes(number: &str, shift: u32) -> Option<u64> {
    let (whole, fraction) = number.trim_end_matches('.').split_once('.').unwrap_or((number, ""));
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    Some(u64::try_from((digits.checked_mul(1 << shift)? + scale / 2) / scale).unwrap_or(u64::MAX))
}

fn check_numbers(text: &str) {
    let Ok(profile) = opened_as(text.as_bytes(), None) else { return };
    // A terminal may break a number.
    let known = [numbers_in(text), numbers_in(&text.replace('\n', ""))].concat();
    for rank in &profile.ranks {
        for FaultLedger { ledger, processes, .. } in rank.ledgers.values() {
            let Ledger {
                requested,
                capacity,
                free,
                allowed,
                process,
                allocated,
                private_pools,
                unallocated,
                other,
                ..
            } = *ledger;
            let stated =
                [requested, capacity, free, allowed, process, allocated, private_pools, unallocated, other];
            let amounts = stated.into_iter().flatten().chain(processes.iter().map(|process| process.amount));
            for amount in amounts {
                assert!(
                    known.iter().any(|number| number.abs_diff(amount.bytes) <= 1),
                    "{} is not in {text}",
                    amount.bytes
                );
            }
        }
    }
    query::summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
}

#[test]
fn every_cut_of_every_message() {
    for message in MESSAGES.into_iter().chain([ASYNC]) {
        let whole = oom_of(&opened_as(message.as_bytes(), None).unwrap());
        for end in 0..message.len() {
            let cut = &message[..end];
            check_numbers(cut);
            if let Ok(profile) = opened_as(cut.as_bytes(), None) {
                let found = oom_of(&profile);
                assert!(["unknown", cause(&whole)].contains(&cause(&found)), "{} in {cut}", cause(&found));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn changed_messages_have_no_other_numbers(
        which in 0..MESSAGES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..4), 1..6),
    ) {
        let mut text: Vec<char> = traceback(MESSAGES[which]).chars().collect();
        for (at, other, kind) in changes {
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            match kind {
                0 => { text.remove(at); }
                1 => text[at] = text[other],
                2 => text.insert(at, '\n'),
                _ => { text.drain(at.min(other)..at.max(other).min(at.min(other) + 20)); }
            }
            if text.is_empty() { break; }
        }
        check_numbers(&text.into_iter().collect::<String>());
    }

    #[test]
    fn nothing_panics(text in "(?s).{0,300}", which in 0..MESSAGES.len(), at in any::<prop::sample::Index>()) {
        let message = MESSAGES[which];
        let at = at.index(message.len());
        let _ = opened_as(format!("{}{text}{}", &message[..at], &message[at..]).as_bytes(), Some("cuda_oom"));
        let _ = opened_as(text.as_bytes(), Some("cuda_oom"));
    }
}
