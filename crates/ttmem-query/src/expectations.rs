//! What people expect of the classes of tensors, as they say it: `params=1.24e9,dtype=bf16`, `kv_cache=2.5GiB`.
//!
//! The size of weights is their number times the bytes of an element; that of a paged KV cache is keys and values of
//! every token of every page. What it was measured to be is `summary`'s business.

use std::str::FromStr;

use ttmem_model::{Class, MemorySize};

/// What is expected of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The class.
    pub class: Class,
    /// The bytes.
    pub bytes: u64,
    /// How they were computed, in words.
    pub how: String,
}

/// What is expected of some classes, each of which is there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations(Vec<Expectation>);

/// What the size of a KV cache depends on.
const CACHE: [&str; 5] = ["kv_pages", "page_size", "layers", "kv_heads", "head_dim"];

/// As people write it: words of the form `KEY=VALUE`, with commas between them.
impl FromStr for Expectations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |word: &'_ str| match word.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => Err(format!("{word:?} has no value: write {word}=…")),
        };
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let pairs: Vec<(String, String)> = words.map(pair).collect::<Result<_, _>>()?;
        Self::of(&pairs)
    }
}

impl Expectations {
    /// What keys and their values say.
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
            return Err(format!("kv_dtype says nothing without {}", CACHE.join(", ")));
        } else if dtype.is_some() && value("params").is_none() {
            return Err("dtype says nothing without params: write params=…, too".into());
        }
        for (key, value) in pairs.iter().filter(|(key, _)| !is_of_model(key)) {
            let class = Class::ALL.into_iter().filter(|class| *class != Class::Unknown);
            let class = class.into_iter().find(|class| class.as_str() == key).ok_or_else(|| unknown(key))?;
            let size = value.parse::<MemorySize>().map_err(|why| format!("{key}={value}: {why}"))?;
            found.add(Expectation { class, bytes: size.0, how: "as given".into() })?;
        }
        Ok(found)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Expectation> {
        self.0.iter()
    }

    /// Whether nothing is expected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what else is expected.
    pub fn extend(&mut self, others: Self) -> Result<(), String> {
        others.0.into_iter().try_for_each(|other| self.add(other))
    }

    fn add(&mut self, one: Expectation) -> Result<(), String> {
        if self.0.iter().any(|known| known.class == one.class) {
            return Err(format!("what {} takes is given twice", one.class.as_str()));
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
        "{key:?} is nothing that could be expected: there are params, dtype, {}, kv_dtype, and sizes of classes ({})",
        CACHE.join(", "),
        classes.join(", ")
    )
}

/// What parameters take.
fn weights(params: &str, dtype: Option<&Element>) -> Result<Expectation, String> {
    let count = number("params", params)?;
    let Some(dtype) = dtype else {
        return Err("params needs to know of which type: write dtype=bf16".into());
    };
    let bytes = dtype.bytes(count.into()).ok_or_else(too_much)?;
    Ok(Expectation { class: Class::Parameter, bytes, how: format!("{count} parameters of {}", dtype.name) })
}

/// What the pages of a KV cache take.
fn cache(sides: &[(&str, Option<&str>); 5], dtype: Option<&Element>) -> Result<Expectation, String> {
    let missing: Vec<&str> = sides.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| *key).collect();
    if !missing.is_empty() {
        return Err(format!(
            "what a KV cache takes depends on {}, too: write {}=…",
            missing.join(", "),
            missing.join("=…,")
        ));
    }
    let Some(dtype) = dtype else {
        return Err("a KV cache needs to know of which type: write dtype=bf16".into());
    };
    // Keys and values.
    let mut elements = 2_u128;
    let mut said = Vec::new();
    for (key, value) in sides {
        let side = number(key, value.unwrap_or_default())?;
        elements = elements.checked_mul(side.into()).ok_or_else(too_much)?;
        said.push(side);
    }
    let [pages, tokens, layers, heads, head] = said[..] else { return Err(too_much()) };
    let bytes = dtype.bytes(elements).ok_or_else(too_much)?;
    let how = format!(
        "keys and values of {pages} pages of {tokens} tokens, {layers} layers, {heads} heads of {head}, of {}",
        dtype.name
    );
    Ok(Expectation { class: Class::KvCache, bytes, how })
}

fn too_much() -> String {
    "that is more than any device has".into()
}

/// A whole number as people write it: `1235814400`, `1_235_814_400`, `1.24e9`, `1.24B` (billions), `124M`.
fn number(key: &str, text: &str) -> Result<u64, String> {
    const SCALES: [(char, i32); 4] = [('k', 3), ('m', 6), ('b', 9), ('t', 12)];
    let wrong = || format!("{key}={text}: a whole number is wanted, as 1235814400, 1.24e9, 124M or 1.24B");
    let plain = text.replace('_', "").to_ascii_lowercase();
    let scale = SCALES.iter().find(|(unit, _)| plain.ends_with(*unit));
    let (plain, scale) = scale.map_or((plain.as_str(), 0), |(_, scale)| (&plain[..plain.len() - 1], *scale));
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((plain, "0"));
    let exponent: i32 = exponent.parse().map_err(|_| wrong())?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || digits.len() > 30 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let shift = exponent.saturating_add(scale).saturating_sub(places);
    let shift = u32::try_from(shift).map_err(|_| wrong())?;
    let value = digits.parse::<u128>().map_err(|_| wrong())?;
    let value = 10_u128.checked_pow(shift).and_then(|scale| value.checked_mul(scale));
    value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| format!("{key}={text}: {}", too_much()))
}

/// A type of elements.
#[derive(Clone, Debug)]
struct Element {
    /// As it was written.
    name: String,
    /// What 1024 of them take: a tile, which is the least that block formats have.
    bytes_of_1024: u64,
}

impl Element {
    /// The type of a name of PyTorch, MLIR or ttnn.
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
            // 16 values share an exponent of a byte.
            "bfp8" | "bfp_bf8" | "bfp_f8" | "bfloat8_b" => 1088,
            "bfp4" | "bfp_bf4" | "bfp_f4" | "bfloat4_b" => 576,
            _ => {
                return Err(format!(
                    "{name:?} is no type of elements: write one as bf16, float32, int8 or bfp8"
                ));
            }
        };
        Ok(Self { name: plain.to_owned(), bytes_of_1024 })
    }

    /// What so many of them take.
    fn bytes(&self, count: u128) -> Option<u64> {
        let bytes = count.checked_mul(self.bytes_of_1024.into())?.div_ceil(1024);
        // What does not fit the numbers with a sign could not be compared.
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
            // The pages of the example: 10240 x 2 x 16 x 8 x 128 elements of two bytes, in each layer.
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
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("params=1e9", "write dtype=bf16"),
            ("dtype=bf16", "says nothing without params"),
            ("kv_dtype=bf16", "says nothing without kv_pages"),
            ("params=1.5,dtype=bf16", "a whole number is wanted"),
            ("params=1e-3,dtype=bf16", "a whole number is wanted"),
            ("params=-1,dtype=bf16", "a whole number is wanted"),
            ("params=,dtype=bf16", "a whole number is wanted"),
            ("params=many,dtype=bf16", "a whole number is wanted"),
            ("params=1e30,dtype=bf16", "more than any device"),
            ("params=9e18,dtype=f32", "more than any device"),
            ("params=1e9,dtype=brain", "is no type of elements"),
            ("kv_pages=8,page_size=16,dtype=bf16", "depends on layers, kv_heads, head_dim, too"),
            ("kv_pages=8,page_size=16,layers=1,kv_heads=1,head_dim=1", "of which type"),
            ("parameter=1GB,params=1,dtype=bf16", "what parameter takes is given twice"),
            ("params=1,params=2,dtype=bf16", "params is given twice"),
            ("gradient=lots", "does not begin with a number"),
            ("unknown=1", "nothing that could be expected"),
            ("parms=1", "there are params, dtype"),
            ("params", "has no value"),
        ] {
            let said = expected(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
