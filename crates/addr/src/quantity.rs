//! Sizes as people write them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserializer;
use serde::de::{self, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Reads a number with an optional binary (`GiB`) or decimal (`M`) suffix, as people write sizes
/// and counts; of what that makes, the whole part. `None` for anything else, and beyond 64 bits.
pub fn parse_quantity(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let (whole, fraction) = digits
        .trim()
        .split_once('.')
        .unwrap_or((digits.trim(), "0"));
    // More decimals than any unit has digits say nothing. `parse` would take a sign.
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.is_empty() || fraction.len() > 12 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / u128::from(scale);
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    whole.checked_add(part as u64)
}

/// Schema of what [`deserialize_bytes`] takes: a whole number, as results have it, or in files also text with a unit.
pub struct Quantity;

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_serialize() {
            return u64::json_schema(generator);
        }
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^ *[0-9]+([.][0-9]+)? *(B|[kKMG]|[KMGT]iB)? *$" }
            ]
        })
    }
}

/// Deserialises a size in bytes from a whole number or from text with a unit: for
/// `#[serde(deserialize_with = "...")]`.
///
/// # Errors
/// The deserialiser's, for anything else.
pub fn deserialize_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Bytes)
}

/// A size by itself.
#[derive(serde::Deserialize)]
struct One(#[serde(deserialize_with = "deserialize_bytes")] u64);

/// As [`deserialize_bytes`], for a list of sizes.
///
/// # Errors
/// The deserialiser's, for anything else.
pub fn deserialize_bytes_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u64>, D::Error> {
    let all: Vec<One> = serde::Deserialize::deserialize(deserializer)?;
    Ok(all.into_iter().map(|one| one.0).collect())
}

/// As [`deserialize_bytes`], for a size that may be missing.
///
/// # Errors
/// The deserialiser's, for anything else.
pub fn deserialize_optional_bytes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let bytes: Option<One> = serde::Deserialize::deserialize(deserializer)?;
    Ok(bytes.map(|one| one.0))
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a size in bytes, such as 4096 or \"16GiB\"")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        parse_quantity(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_read() {
        assert_eq!(parse_quantity("10GiB"), Some(10 << 30));
        assert_eq!(parse_quantity("3 M"), Some(3_000_000));
        assert_eq!(parse_quantity("42"), Some(42));
        assert_eq!(parse_quantity("1.5G"), Some(1_500_000_000));
        assert_eq!(parse_quantity("10.25KiB"), Some(10_496));
        assert_eq!(parse_quantity("2.9"), Some(2));
        for bad in [
            "",
            "GiB",
            "-1",
            "1.G",
            ".5G",
            "1.5.1G",
            "+1",
            "1.+5G",
            "1Q",
            "99999999999999999999",
            "20000000TiB",
        ] {
            assert_eq!(parse_quantity(bad), None, "{bad}");
        }
    }
}
