//! Tests of the streaming reader.

use serde::de::IgnoredAny;

use super::*;

/// Returns its bytes one at a time, so that every value spans several pieces.
struct Drops<'a>(&'a [u8]);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (Some((first, rest)), false) = (self.0.split_first(), buffer.is_empty()) else {
            return Ok(0);
        };
        (buffer[0], self.0) = (*first, rest);
        Ok(1)
    }
}

fn elements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let corruption = read(text.as_bytes(), |json| -> Parsed<()> {
        let is_list = json.list(|json| {
            found.push(String::from_utf8(json.value()?.to_vec()).unwrap());
            Parsed::Ok(())
        })?;
        assert!(is_list);
        Ok(())
    });
    assert!(corruption.unwrap().is_none());
    found
}

/// Where and why reading a list of numbers fails.
fn corruption(text: &str) -> (u64, String) {
    let numbers = |json: &mut Json<Drops<'_>>| -> Parsed<()> {
        json.list(|json| json.parse::<Vec<f64>>(MAX_VALUE).map(drop)).map(drop)
    };
    let corruption = read(Drops(text.as_bytes()), numbers).unwrap().unwrap();
    (corruption.line, corruption.why.to_string())
}

#[test]
fn values_are_found_whatever_stands_in_them() {
    let values = [r#"{"a": "]}\"\\"}"#, "12", "-3.5e7", "null", r#""a\\""#, "[[1], {}]", "{}", r#""""#];
    let text = format!(" [ {} \n] ", values.join(" ,\n"));
    assert_eq!(elements(&text), values);
    let mut json = Json::new(text.as_bytes());
    json.skip().unwrap();
    assert_eq!((json.peek().unwrap(), json.line), (None, values.len() as u64 + 1));
}

#[test]
fn values_are_found_however_the_bytes_arrive() {
    let text = r#"{"a": [1, "x\\\"y]", {"b": null}]} 7"#;
    let mut json = Json::new(Drops(text.as_bytes()));
    json.skip().unwrap();
    assert_eq!(json.value().unwrap(), b"7");
}

#[test]
fn what_is_cut_or_wrong_is_said() {
    let error = |text: &str| Json::new(text.as_bytes()).value().map(drop).unwrap_err().to_string();
    assert_eq!(error(r#"{"a": [1, 2"#), "the file ends inside a value");
    assert_eq!(error("\"abc"), "the file ends inside a value");
    assert_eq!(error(","), "a value is missing");
    assert_eq!(Json::new(&b",1"[..]).skip().unwrap_err().to_string(), "a value is missing");
}

#[test]
fn corruption_has_the_line_where_it_stands() {
    assert_eq!(corruption("[[1],\n[2,\n3,\n NaN],\n[4]]"), (4, "expected value".into()));
    assert_eq!(corruption("[[1],\n[2,\n3"), (3, "EOF while parsing a list".into()));
    assert_eq!(corruption("[[1],\n[2]\n"), (3, "the file ends inside a value".into()));
    assert_eq!(corruption("[[1]\n\n[2]]"), (3, "a comma is missing between two values".into()));
    assert_eq!(corruption("[[1]]\n]"), (2, "text follows the end of the document".into()));
    assert_eq!(corruption("[[1],\n]"), (2, "a value is missing".into()));
    let (line, why) = corruption("[[1],\n{}]");
    assert!(line == 2 && why.starts_with("invalid type: map"), "{line} {why}");
}

#[test]
fn what_is_read_before_the_corruption_counts() {
    let mut sum = 0;
    let corruption = read(&b"[1, 2, 3x]"[..], |json| {
        json.list(|json| {
            sum += json.parse::<i32>(MAX_VALUE)?.unwrap();
            Parsed::Ok(())
        })
        .map(drop)
    });
    assert_eq!((sum, corruption.unwrap().unwrap().line), (3, 1));
}

#[test]
fn failures_of_the_program_are_not_corruption() {
    let walk = |json: &mut Json<&[u8]>| {
        json.list(|_| Err(Stop::Failed(Error::NotFound("too many rows".into())))).map(drop)
    };
    assert!(matches!(read(&b"[1]"[..], walk), Err(Error::NotFound(_))));
}

#[test]
fn values_beyond_a_limit_are_skipped_and_the_next_is_read() {
    let long = format!("\"{}\"", "x\\\"".repeat(CHUNK));
    for limit in [1, 10, CHUNK, 2 * CHUNK] {
        let text = format!("[{long}, 7]");
        let mut values = Vec::new();
        let read = read(text.as_bytes(), |json| {
            json.list(|json| {
                values.push(json.parse::<IgnoredAny>(limit)?.is_some());
                Parsed::Ok(())
            })
            .map(drop)
        });
        assert!(read.unwrap().is_none());
        assert_eq!(values, [false, true], "{limit}");
    }
}

/// A document may be larger than memory; only the chunk being read is kept.
#[test]
fn memory_does_not_grow_with_the_document() {
    /// Repeats the same element, up to a number of bytes.
    struct Repeated(usize);
    impl Read for Repeated {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let element = b"[1,2,3],\n";
            let count = buffer.len().min(self.0);
            for byte in &mut buffer[..count] {
                *byte = element[element.len() - 1 - (self.0 - 1) % element.len()];
                self.0 -= 1;
            }
            Ok(count)
        }
    }
    let mut json = Json::new(Read::chain(&b"["[..], Repeated(9 * 400_000)));
    let (mut count, mut held) = (0_u64, 0);
    let walked = json.list(|json| {
        count += 1;
        held = held.max(json.buffer.capacity());
        json.parse::<[u8; 3]>(MAX_VALUE).map(drop)
    });
    assert!(matches!(walked, Err(JsonError::Truncated | JsonError::Value { .. })));
    assert!(count == 400_001 && held <= 4 * CHUNK, "{count} {held}");
}
