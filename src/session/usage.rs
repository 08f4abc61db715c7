//! Usage: the tokens and the cost of one request, in Pi's shape.
//!
//! # Invariants
//! - A count or an amount that is none is kept in `extra` under its name, and never written twice.
//! - Whole amounts are written without a fraction, as JavaScript prints them.

use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::session::json::{Extra, Json};
use crate::session::message::{put, put_unless};

/// Tokens and cost of one request, as the provider reported them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Tokens of the prompt that came from no cache.
    pub input: u64,
    /// Tokens of the answer, thinking included.
    pub output: u64,
    /// Tokens of the prompt that were read from the provider's cache.
    pub cache_read: u64,
    /// Tokens of the prompt that were written to the provider's cache.
    pub cache_write: u64,
    /// The provider's own total; 0 or absent where it gave none.
    pub total_tokens: Option<u64>,
    /// The cost, in US dollars.
    pub cost: Option<Cost>,
    /// Further fields, such as `reasoning`.
    pub extra: Extra,
}

impl Usage {
    /// The tokens that the context held after this answer: the total if there is one, else the sum of the four.
    pub fn context_tokens(&self) -> u64 {
        match self.total_tokens {
            Some(total) if total > 0 => total,
            Some(_) | None => self.sum(),
        }
    }

    /// The sum of the four counts.
    pub fn sum(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write].iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let mut fields = json.fields().ok_or_else(|| serde::de::Error::custom("usage is an object"))?;
        let mut count = |key: &str| fields.take::<Count>(key).map(|count| count.0);
        let (input, output) = (count("input"), count("output"));
        let (cache_read, cache_write) = (count("cacheRead"), count("cacheWrite"));
        Ok(Self {
            input: input.unwrap_or(0),
            output: output.unwrap_or(0),
            cache_read: cache_read.unwrap_or(0),
            cache_write: cache_write.unwrap_or(0),
            total_tokens: count("totalTokens"),
            cost: fields.take("cost"),
            extra: fields.rest(),
        })
    }
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        put_unless(&self.extra, &mut map, "input", self.input)?;
        put_unless(&self.extra, &mut map, "output", self.output)?;
        put_unless(&self.extra, &mut map, "cacheRead", self.cache_read)?;
        put_unless(&self.extra, &mut map, "cacheWrite", self.cache_write)?;
        put(&mut map, "totalTokens", self.total_tokens)?;
        put(&mut map, "cost", self.cost.as_ref())?;
        self.extra.write(&mut map)?;
        map.end()
    }
}

/// A token count. JavaScript writes what it has, so `12.0` is read too; what is no count at all is refused.
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let count = number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            // Up to 2^53 a float holds every whole number, so the cast is exact.
            ((0.0..=9_007_199_254_740_992.0).contains(&float) && float.fract() == 0.0).then_some(float as u64)
        });
        count.map(Self).ok_or_else(|| serde::de::Error::custom("not a count"))
    }
}

/// The cost of one request, in US dollars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// For `input`.
    pub input: f64,
    /// For `output`.
    pub output: f64,
    /// For `cacheRead`.
    pub cache_read: f64,
    /// For `cacheWrite`.
    pub cache_write: f64,
    /// The sum.
    pub total: f64,
    /// Further fields.
    pub extra: Extra,
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let mut fields = json.fields().ok_or_else(|| serde::de::Error::custom("cost is an object"))?;
        let mut amount = |key: &str| fields.take::<f64>(key).unwrap_or(0.0);
        let (input, output) = (amount("input"), amount("output"));
        let (cache_read, cache_write, total) = (amount("cacheRead"), amount("cacheWrite"), amount("total"));
        Ok(Self { input, output, cache_read, cache_write, total, extra: fields.rest() })
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        put_unless(&self.extra, &mut map, "input", Amount(self.input))?;
        put_unless(&self.extra, &mut map, "output", Amount(self.output))?;
        put_unless(&self.extra, &mut map, "cacheRead", Amount(self.cache_read))?;
        put_unless(&self.extra, &mut map, "cacheWrite", Amount(self.cache_write))?;
        put_unless(&self.extra, &mut map, "total", Amount(self.total))?;
        self.extra.write(&mut map)?;
        map.end()
    }
}

/// A number as JavaScript prints it: whole amounts without a fraction.
struct Amount(f64);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 && self.0.abs() < 9_007_199_254_740_992.0 {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}
