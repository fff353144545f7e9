//! The expected sizes of tensor classes, as users write them: `params=1.24e9,dtype=bf16`, `kv_cache=2.5GiB`.
//!
//! The size of weights is their number times the element size; the size of a paged KV cache is the keys and values of
//! every token of every page. `summary` compares these sizes with the measured ones.

use std::str::FromStr;

use ttmem_model::{Class, MemorySize};

/// The expected size of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The class.
    pub class: Class,
    /// The expected size in bytes.
    pub bytes: u64,
    /// How the size was computed, in words.
    pub how: String,
}

/// The expected sizes of classes, each class at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations(Vec<Expectation>);

/// The keys that determine the size of a KV cache.
const CACHE: [&str; 5] = ["kv_pages", "page_size", "layers", "kv_heads", "head_dim"];

/// Parses a comma-separated list of `KEY=VALUE`.
impl FromStr for Expectations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |word: &'_ str| match word.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(format!("{word:?} has no value; write {word}=…")),
        };
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let pairs: Vec<(String, String)> = words.map(pair).collect::<Result<_, _>>()?;
        Self::of(&pairs)
    }
}

impl Expectations {
    /// Builds expectations from keys and their values.
    pub fn of(pairs: &[(String, String)]) -> Result<Self, String> {
        let mut found = Self::default();
        for (index, (key, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
                return Err(format!("{key} is given twice"));
            }
        }
        let value =
            |wanted: &str| pairs.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        let dtype = value("dtype").map(Element::of).transpose()?;
        if let Some(params) = value("params") {
            found.add(weights(params, dtype.as_ref())?)?;
        }
        let sides = CACHE.map(|key| (key, value(key)));
        let kv_dtype = value("kv_dtype").map(Element::of).transpose()?;
        if sides.iter().any(|(_, value)| value.is_some()) {
            found.add(cache(&sides, kv_dtype.as_ref().or(dtype.as_ref()))?)?;
        } else if kv_dtype.is_some() {
            return Err(format!("kv_dtype requires {}", CACHE.join(", ")));
        } else if dtype.is_some() && value("params").is_none() {
            return Err("dtype requires params; add params=…".into());
        }
        for (key, value) in pairs.iter().filter(|(key, _)| !is_of_model(key)) {
            let class = Class::ALL.into_iter().filter(|class| *class != Class::Unknown);
            let class = class.into_iter().find(|class| class.as_str() == key).ok_or_else(|| unknown(key))?;
            let size = value.parse::<MemorySize>().map_err(|why| format!("{key}={value}: {why}"))?;
            found.add(Expectation { class, bytes: size.0, how: "as given".into() })?;
        }
        Ok(found)
    }

    /// All expectations.
    pub fn iter(&self) -> impl Iterator<Item = &Expectation> {
        self.0.iter()
    }

    /// Whether there are no expectations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds further expectations. A class that is already present is an error.
    pub fn extend(&mut self, others: Self) -> Result<(), String> {
        others.0.into_iter().try_for_each(|other| self.add(other))
    }

    fn add(&mut self, one: Expectation) -> Result<(), String> {
        if self.0.iter().any(|known| known.class == one.class) {
            return Err(format!("the size of {} is given twice", one.class.as_str()));
        }
        self.0.push(one);
        Ok(())
    }
}

fn is_of_model(key: &str) -> bool {
    ["params", "dtype", "kv_dtype"].contains(&key) || CACHE.contains(&key)
}

fn unknown(key: &str) -> String {
    let classes: Vec<&str> =
        Class::ALL.into_iter().filter(|class| *class != Class::Unknown).map(Class::as_str).collect();
    format!(
        "unknown key {key:?}; expected params, dtype, {}, kv_dtype, or a class ({})",
        CACHE.join(", "),
        classes.join(", ")
    )
}

/// The expected size of parameters.
fn weights(params: &str, dtype: Option<&Element>) -> Result<Expectation, String> {
    let count = number("params", params)?;
    let Some(dtype) = dtype else {
        return Err("params requires an element type; add dtype=bf16".into());
    };
    let bytes = dtype.bytes(count.into()).ok_or_else(too_large)?;
    Ok(Expectation { class: Class::Parameter, bytes, how: format!("{count} parameters of {}", dtype.name) })
}

/// The expected size of a paged KV cache.
fn cache(sides: &[(&str, Option<&str>); 5], dtype: Option<&Element>) -> Result<Expectation, String> {
    let missing: Vec<&str> = sides.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| *key).collect();
    if !missing.is_empty() {
        return Err(format!(
            "the size of a KV cache also depends on {}; add {}=…",
            missing.join(", "),
            missing.join("=…,")
        ));
    }
    let Some(dtype) = dtype else {
        return Err("a KV cache requires an element type; add dtype=bf16".into());
    };
    // Keys and values.
    let mut elements = 2_u128;
    let mut numbers = Vec::new();
    for (key, value) in sides {
        let side = number(key, value.unwrap_or_default())?;
        elements = elements.checked_mul(side.into()).ok_or_else(too_large)?;
        numbers.push(side);
    }
    let [pages, tokens, layers, heads, head] = numbers[..] else { return Err(too_large()) };
    let bytes = dtype.bytes(elements).ok_or_else(too_large)?;
    let how = format!(
        "keys and values of {pages} pages with {tokens} tokens each, {layers} layers, {heads} heads of size {head}, {}",
        dtype.name
    );
    Ok(Expectation { class: Class::KvCache, bytes, how })
}

fn too_large() -> String {
    "the size is too large".into()
}

/// Parses an integer as users write it: `1235814400`, `1_235_814_400`, `1.24e9`, `1.24B` (billions), `124M`.
fn number(key: &str, text: &str) -> Result<u64, String> {
    const SCALES: [(char, i32); 4] = [('k', 3), ('m', 6), ('b', 9), ('t', 12)];
    let invalid = || format!("{key}={text}: expected an integer, such as 1235814400, 1.24e9, 124M or 1.24B");
    let plain = text.replace('_', "").to_ascii_lowercase();
    let scale = SCALES.iter().find(|(unit, _)| plain.ends_with(*unit));
    let (plain, scale) = scale.map_or((plain.as_str(), 0), |(_, scale)| (&plain[..plain.len() - 1], *scale));
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((plain, "0"));
    let exponent: i32 = exponent.parse().map_err(|_| invalid())?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || digits.len() > 30 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(invalid());
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let shift = exponent.saturating_add(scale).saturating_sub(places);
    let shift = u32::try_from(shift).map_err(|_| invalid())?;
    let value = digits.parse::<u128>().map_err(|_| invalid())?;
    let value = 10_u128.checked_pow(shift).and_then(|scale| value.checked_mul(scale));
    value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| format!("{key}={text}: {}", too_large()))
}

/// An element type.
#[derive(Clone, Debug)]
struct Element {
    /// The name as it was written.
    name: String,
    /// The size of 1024 elements: a tile, the smallest unit of block formats.
    bytes_of_1024: u64,
}

impl Element {
    /// Parses the name of an element type in PyTorch, MLIR or ttnn.
    fn of(name: &str) -> Result<Self, String> {
        let plain = name.trim().to_ascii_lowercase();
        let plain = plain.strip_prefix("torch.").or(plain.strip_prefix("ttnn.")).unwrap_or(&plain);
        let bytes_of_1024 = match plain {
            "complex128" | "cdouble" => 16 << 10,
            "f64" | "fp64" | "float64" | "double" | "i64" | "int64" | "long" | "u64" | "uint64"
            | "complex64" | "cfloat" => 8 << 10,
            "f32" | "fp32" | "float32" | "float" | "i32" | "int32" | "int" | "u32" | "uint32"
            | "complex32" => 4 << 10,
            "f16" | "fp16" | "float16" | "half" | "bf16" | "bfloat16" | "i16" | "int16" | "short" | "u16"
            | "uint16" => 2 << 10,
            "f8" | "fp8" | "i8" | "int8" | "u8" | "uint8" | "bool" | "qint8" | "quint8" => 1 << 10,
            float8 if float8.starts_with("float8_") || float8.starts_with("f8e") => 1 << 10,
            "i4" | "int4" | "u4" | "uint4" | "fp4" | "nf4" => 512,
            // 16 values share a one-byte exponent.
            "bfp8" | "bfp_bf8" | "bfp_f8" | "bfloat8_b" => 1088,
            "bfp4" | "bfp_bf4" | "bfp_f4" | "bfloat4_b" => 576,
            _ => {
                return Err(format!(
                    "unknown element type {name:?}; use one such as bf16, float32, int8 or bfp8"
                ));
            }
        };
        Ok(Self { name: plain.to_owned(), bytes_of_1024 })
    }

    /// The size of `count` elements.
    fn bytes(&self, count: u128) -> Option<u64> {
        let bytes = count.checked_mul(self.bytes_of_1024.into())?.div_ceil(1024);
        // A size that does not fit into an i64 cannot be compared with the measured one.
        i64::try_from(bytes).ok().map(i64::unsigned_abs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(text: &str) -> Result<Vec<(Class, u64)>, String> {
        let found: Expectations = text.parse()?;
        Ok(found.iter().map(|one| (one.class, one.bytes)).collect())
    }

    #[test]
    fn weights_and_caches_are_computed() {
        for (text, wanted) in [
            ("params=1235814400,dtype=bf16", vec![(Class::Parameter, 2_471_628_800)]),
            ("params=1e9, dtype=float16", vec![(Class::Parameter, 2_000_000_000)]),
            ("params=1.24B,dtype=torch.bfloat16", vec![(Class::Parameter, 2_480_000_000)]),
            ("params=1240000000.0,dtype=f32", vec![(Class::Parameter, 4_960_000_000)]),
            ("params=1e+3,dtype=torch.float8_e4m3fn", vec![(Class::Parameter, 1000)]),
            ("params=1_024,dtype=bfp8", vec![(Class::Parameter, 1088)]),
            ("params=3,dtype=int4", vec![(Class::Parameter, 2)]),
            ("params=0,dtype=bf16", vec![(Class::Parameter, 0)]),
            // The example in the docs: 10240 x 2 x 16 x 8 x 128 two-byte elements in each layer.
            (
                "kv_pages=10240,page_size=16,layers=16,kv_heads=8,head_dim=128,dtype=f16",
                vec![(Class::KvCache, 10240 * 2 * 16 * 8 * 128 * 2 * 16)],
            ),
            (
                "params=2,dtype=f32,kv_pages=1,page_size=1,layers=1,kv_heads=1,head_dim=1,kv_dtype=fp8",
                vec![(Class::Parameter, 8), (Class::KvCache, 2)],
            ),
            ("gradient=1.5GiB,optimizer=3GiB", vec![(Class::Gradient, 3 << 29), (Class::Optimizer, 3 << 30)]),
            ("weight=64,", vec![(Class::Weight, 64)]),
            ("", vec![]),
        ] {
            assert_eq!(expected(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn invalid_expectations_are_rejected() {
        for (text, words) in [
            ("params=1e9", "add dtype=bf16"),
            ("dtype=bf16", "dtype requires params"),
            ("kv_dtype=bf16", "kv_dtype requires kv_pages"),
            ("params=1.5,dtype=bf16", "expected an integer"),
            ("params=1e-3,dtype=bf16", "expected an integer"),
            ("params=-1,dtype=bf16", "expected an integer"),
            ("params=,dtype=bf16", "expected an integer"),
            ("params=many,dtype=bf16", "expected an integer"),
            ("params=1e30,dtype=bf16", "too large"),
            ("params=9e18,dtype=f32", "too large"),
            ("params=1e9,dtype=brain", "unknown element type"),
            ("kv_pages=8,page_size=16,dtype=bf16", "also depends on layers, kv_heads, head_dim; add"),
            ("kv_pages=8,page_size=16,layers=1,kv_heads=1,head_dim=1", "requires an element type"),
            ("parameter=1GB,params=1,dtype=bf16", "the size of parameter is given twice"),
            ("params=1,params=2,dtype=bf16", "params is given twice"),
            ("gradient=lots", "must start with a number"),
            ("unknown=1", "unknown key"),
            ("parms=1", "expected params, dtype"),
            ("params", "has no value"),
        ] {
            let error = expected(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
