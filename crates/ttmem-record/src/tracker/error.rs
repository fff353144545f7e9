//! What a tracker refuses, said so that people know what to do about it.

use thiserror::Error;

use super::RunMode;

/// Why a tracker did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// One capture at a time.
    #[error(
        "a capture is running already: end it with end_capture(NAME), or drop its guard, before the next begins"
    )]
    AlreadyCapturing,
    /// Phases are of a capture.
    #[error("{call} outside of a capture: call begin_capture first, and keep its guard while you capture")]
    NotCapturing {
        /// What was called.
        call: &'static str,
    },
    /// Estimates and measurements do not add up.
    #[error(
        "the phases so far were captured in mode {kept}, those to come would be in mode {wanted}: call clear() first"
    )]
    OtherMode {
        /// The mode of the phases that are kept.
        kept: RunMode,
        /// The mode that was asked for.
        wanted: RunMode,
    },
    /// No phase has that name.
    #[error("there is no phase {name:?}: {}", known(names))]
    NoSuchPhase {
        /// The name.
        name: String,
        /// The names that there are, in order.
        names: Vec<String>,
    },
    /// Several phases have that name.
    #[error(
        "{times} phases are called {name:?}: get_dram_usage_all() and get_l1_usage_all() have each of them, in order"
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// How often it was given.
        times: usize,
    },
    /// A graph capture cannot be read.
    #[error("{0}; nothing of it was taken down")]
    Graph(#[source] ttmem_model::Error),
    /// The file of a recording cannot be written.
    #[error(transparent)]
    Recording(#[from] ttmem_model::Error),
}

fn known(names: &[String]) -> String {
    /// More names than this help nobody.
    const MOST: usize = 20;
    let mut shown: Vec<&str> = Vec::new();
    for name in names {
        if !shown.contains(&name.as_str()) {
            shown.push(name);
        }
        if shown.len() > MOST {
            break;
        }
    }
    match shown.len() {
        0 => "none was captured yet; snapshot(NAME) ends the first".to_owned(),
        1..=MOST => format!("there are {}", shown.join(", ")),
        _ => format!("there are {}, and more", shown[..MOST].join(", ")),
    }
}
