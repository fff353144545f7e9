//! The limits of `ttmem check`, from flags and `ttmem.toml`.

use std::path::Path;

use ttmem_model::config::WrittenLimit;
use ttmem_model::{Error, MemorySize, Result};

use super::CheckKind;
use super::names::nearest;
use crate::GrowthLimit;

const HEADROOM: &str = "headroom";
const PHASES: &str = "phases";
const PADDING: &str = "padding";
const UNEXPLAINED: &str = "unexplained";
const GROWTH: &str = "growth-per-step";
const FAIL_OVER: &str = "fail-over";

/// The keys that are not pools.
pub(super) const KEYS: [&str; 6] = [HEADROOM, PHASES, PADDING, UNEXPLAINED, GROWTH, FAIL_OVER];

/// What a limit is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// The peak of a pool.
    Peak(String),
    /// The free memory of a pool at its peak; for L1, the lowest headroom of a core.
    Headroom(String),
    /// The peak of a phase.
    Phase(String),
    /// The padding of the tensors that are live at the peak.
    Padding,
    /// The memory at the peak that no tensor explains.
    Unexplained,
    /// The memory that each iteration adds.
    Growth,
}

impl Measure {
    /// The kind, in the JSON.
    pub(super) fn kind(&self) -> CheckKind {
        match self {
            Self::Peak(_) => CheckKind::Peak,
            Self::Headroom(_) => CheckKind::Headroom,
            Self::Phase(_) => CheckKind::Phase,
            Self::Padding => CheckKind::Padding,
            Self::Unexplained => CheckKind::Unexplained,
            Self::Growth => CheckKind::Growth,
        }
    }

    /// Whether the measured value must not be lower than the limit; otherwise, it must not be higher.
    pub(super) fn is_minimum(&self) -> bool {
        matches!(self, Self::Headroom(_))
    }

    /// Whether a share of more than 100% is possible.
    fn may_exceed_whole(&self) -> bool {
        matches!(self, Self::Padding)
    }
}

/// A size, or a share in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    Bytes(u64),
    Percent(f64),
}

/// A limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    /// Its key: `DRAM`, `headroom.L1`.
    pub name: String,
    pub measure: Measure,
    pub amount: Amount,
    /// Its value as it is written: `80%`.
    pub written: String,
    /// The file and line, if it is from a file: `ttmem.toml, line 3`.
    pub from: Option<String>,
}

/// The limits of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckLimits {
    pub(super) limits: Vec<Limit>,
    pub(super) fail_over: Option<GrowthLimit>,
}

impl CheckLimits {
    /// The limits of a file. `path` is used in messages.
    pub fn of_file(written: &[WrittenLimit], path: &Path) -> Result<Self> {
        let mut found = Self::default();
        for one in written {
            let error = |message: String| Error::Config { path: path.into(), line: one.line, message };
            let key: Vec<&str> = one.key.iter().map(String::as_str).collect();
            let from = format!("{}, line {}", path.display(), one.line);
            found.add(&key, &one.value, Some(from)).map_err(error)?;
        }
        Ok(found)
    }

    /// The limits of pairs of a key and a value, such as `("headroom.L1", "32KiB")`.
    pub fn of_pairs<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> std::result::Result<Self, String> {
        let mut found = Self::default();
        for (key, value) in pairs {
            let (key, value) = (key.as_ref(), value.as_ref());
            let parts = match key.split_once('.') {
                Some((table @ (HEADROOM | PHASES), name)) => vec![table, name],
                _ => vec![key],
            };
            found.add(&parts, value, None).map_err(|why| format!("{key}={value}: {why}"))?;
        }
        Ok(found)
    }

    /// Adds the limits of a file. Those that are already set win.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        let is_new = |limit: &Limit| self.limits.iter().all(|known| known.measure != limit.measure);
        let added: Vec<Limit> = other.limits.into_iter().filter(is_new).collect();
        self.limits.extend(added);
        self.fail_over = self.fail_over.or(other.fail_over);
        self
    }

    /// Sets how much a peak may grow compared with the baseline.
    pub fn set_fail_over(&mut self, limit: Option<GrowthLimit>) {
        self.fail_over = limit.or(self.fail_over);
    }

    /// Whether there are no limits, except how much a peak may grow compared with the baseline.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Whether there is a limit that only applies with a baseline.
    pub fn has_fail_over(&self) -> bool {
        self.fail_over.is_some()
    }

    fn add(&mut self, key: &[&str], value: &str, from: Option<String>) -> std::result::Result<(), String> {
        let measure = match key {
            [FAIL_OVER] => {
                self.fail_over = Some(value.parse()?);
                return Ok(());
            }
            [PADDING] => Measure::Padding,
            [UNEXPLAINED] => Measure::Unexplained,
            [GROWTH] => Measure::Growth,
            [HEADROOM] => return Err("headroom needs a pool, such as headroom.L1".into()),
            [PHASES] => return Err("phases needs the name of a phase, such as phases.FORWARD_PASS".into()),
            [HEADROOM, pool] if !pool.is_empty() => Measure::Headroom((*pool).to_owned()),
            [PHASES, phase @ ..] if !phase.concat().is_empty() => Measure::Phase(phase.join(".")),
            [pool] if !pool.trim().is_empty() => Measure::Peak((*pool).to_owned()),
            [table, _, ..] if *table != HEADROOM => return Err(no_table(table)),
            _ => return Err("expected the name of a pool, such as DRAM or cuda:0".into()),
        };
        let amount = amount(&measure, value)?;
        if self.limits.iter().any(|known| known.measure == measure) {
            return Err("limited twice; remove one of the limits".into());
        }
        self.limits.push(Limit {
            name: key.join("."),
            measure,
            amount,
            written: value.trim().to_owned(),
            from,
        });
        Ok(())
    }
}

fn no_table(name: &str) -> String {
    let near =
        nearest(name, [HEADROOM, PHASES]).map_or_else(String::new, |near| format!("; did you mean {near}?"));
    format!("no limits of the name {name:?}; expected {HEADROOM}.POOL or {PHASES}.NAME{near}")
}

/// Parses a size or a percentage.
fn amount(measure: &Measure, text: &str) -> std::result::Result<Amount, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return text.parse().map(|MemorySize(bytes)| Amount::Bytes(bytes));
    };
    if *measure == Measure::Growth {
        return Err("a percentage is not possible here; expected a size, such as 1MiB".into());
    }
    let number = number.trim();
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let percent: Option<f64> = number.parse().ok().filter(|percent: &f64| is_plain && percent.is_finite());
    match percent {
        None => Err(format!("{number:?} is not a percentage; expected one such as 80%")),
        Some(percent) if percent > 100.0 && !measure.may_exceed_whole() => {
            Err("more than 100%; expected a percentage from 0% to 100%".into())
        }
        Some(percent) => Ok(Amount::Percent(percent)),
    }
}

impl Amount {
    /// The amount in bytes; `None` if it is a share of an unknown whole.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size; both are at least 0"
    )]
    pub(super) fn bytes(self, whole: Option<u64>, is_minimum: bool) -> Option<i64> {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                let share = whole? as f64 * percent / 100.0;
                (if is_minimum { share.ceil() } else { share.floor() }) as u64
            }
        };
        Some(i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> std::result::Result<Limit, String> {
        CheckLimits::of_pairs(&[(key, value)]).map(|limits| limits.limits[0].clone())
    }

    #[test]
    fn a_key_is_a_pool_or_a_word() {
        for (key, measure) in [
            ("DRAM", Measure::Peak("DRAM".into())),
            ("cuda:0", Measure::Peak("cuda:0".into())),
            ("headroom.L1", Measure::Headroom("L1".into())),
            ("phases.FORWARD_PASS", Measure::Phase("FORWARD_PASS".into())),
            ("phases.a.b", Measure::Phase("a.b".into())),
            ("padding", Measure::Padding),
            ("unexplained", Measure::Unexplained),
        ] {
            let limit = one(key, "10%").unwrap();
            assert_eq!((limit.measure, limit.name.as_str()), (measure, key));
        }
        assert_eq!(one("growth-per-step", "1MiB").unwrap().measure, Measure::Growth);
        for key in ["", " ", "headroom", "phases", "headroom.", "phases."] {
            assert!(one(key, "1").is_err(), "{key}");
        }
    }

    #[test]
    fn an_amount_is_a_size_or_a_share() {
        assert_eq!(one("DRAM", "0").unwrap().amount, Amount::Bytes(0));
        assert_eq!(one("DRAM", " 40 GiB ").unwrap().amount, Amount::Bytes(40 << 30));
        assert_eq!(one("DRAM", "12.5 %").unwrap().amount, Amount::Percent(12.5));
        assert_eq!(one("padding", "101%").unwrap().amount, Amount::Percent(101.0));
        for (key, value, words) in [
            ("DRAM", "101%", "from 0% to 100%"),
            ("headroom.DRAM", "100.1%", "from 0% to 100%"),
            ("DRAM", "-1MiB", "negative"),
            ("DRAM", "-1%", "not a percentage"),
            ("DRAM", "1e400", "unknown unit"),
            ("DRAM", "1e400%", "not a percentage"),
            ("DRAM", "nan%", "not a percentage"),
            ("DRAM", "%", "not a percentage"),
            ("DRAM", "", "start with a number"),
            ("growth-per-step", "5%", "expected a size"),
            ("fail-over", "-5%", "not a percentage"),
        ] {
            let error = CheckLimits::of_pairs(&[(key, value)]).unwrap_err();
            assert!(error.contains(words), "{key}={value}: {error}");
        }
    }

    #[test]
    fn a_share_is_rounded_to_the_strict_side() {
        let percent = Amount::Percent(33.3);
        assert_eq!((percent.bytes(Some(100), false), percent.bytes(Some(100), true)), (Some(33), Some(34)));
        assert_eq!(Amount::Percent(80.0).bytes(Some(1000), false), Some(800));
        assert_eq!(Amount::Percent(100.0).bytes(Some(u64::MAX), false), Some(i64::MAX));
        assert_eq!((percent.bytes(None, false), Amount::Bytes(7).bytes(None, true)), (None, Some(7)));
    }

    #[test]
    fn the_first_limits_win() {
        let pairs = |pairs: &[(&str, &str)]| CheckLimits::of_pairs(pairs).unwrap();
        let both =
            pairs(&[("DRAM", "70%")]).or(pairs(&[("DRAM", "80%"), ("L1", "90%"), ("fail-over", "5%")]));
        let written: Vec<(&str, &str)> =
            both.limits.iter().map(|limit| (limit.name.as_str(), limit.written.as_str())).collect();
        assert_eq!(written, [("DRAM", "70%"), ("L1", "90%")]);
        assert_eq!(both.fail_over, Some(GrowthLimit::Percent(5.0)));
        let twice = CheckLimits::of_pairs(&[("DRAM", "70%"), ("DRAM", "80%")]).unwrap_err();
        assert!(twice.contains("limited twice"), "{twice}");
    }

    #[test]
    fn errors_of_a_file_have_a_line() {
        let written = |key: &[&str], value: &str| WrittenLimit {
            key: key.iter().map(|part| (*part).to_owned()).collect(),
            value: value.into(),
            line: 7,
        };
        let path = Path::new("ttmem.toml");
        let error = CheckLimits::of_file(&[written(&["DRAM"], "101%")], path).unwrap_err().to_string();
        assert!(error.starts_with("ttmem.toml, line 7: more than 100%"), "{error}");
        let error = CheckLimits::of_file(&[written(&["phase", "x"], "1")], path).unwrap_err().to_string();
        assert!(error.ends_with("did you mean phases?"), "{error}");
        let limits = CheckLimits::of_file(&[written(&["DRAM"], "80%")], path).unwrap();
        assert_eq!(limits.limits[0].from.as_deref(), Some("ttmem.toml, line 7"));
    }
}
