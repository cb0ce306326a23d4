//! An event of a Kineto file, in the spellings of 2020 to now.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An event. Fields that no reader needs are passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventForm {
    pub(super) ph: Text,
    pub(super) cat: Text,
    pub(super) name: Text,
    pub(super) id: Number,
    /// Microseconds.
    pub(super) ts: Number,
    pub(super) dur: Number,
    pub(super) pid: Number,
    pub(super) tid: Number,
    pub(super) args: ArgsForm,
}

/// The arguments of an event that readers need.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ArgsForm {
    pub(super) name: Text,
    pub(super) correlation: Number,
    pub(super) device: Number,
    pub(super) context: Number,
    pub(super) stream: Number,
    #[serde(rename = "Record function id")]
    pub(super) record_function: Number,
    #[serde(rename = "Ev Idx", alias = "Profiler Event Index")]
    pub(super) index: Number,
    #[serde(rename = "wait_on_stream")]
    pub(super) wait_stream: Number,
    #[serde(rename = "wait_on_cuda_event_record_corr_id")]
    pub(super) wait_record: Number,
    #[serde(rename = "wait_on_cuda_event_id")]
    pub(super) wait_event: Number,
    #[serde(rename = "event_id", alias = "event id", alias = "cuda_event_id")]
    pub(super) event: Number,
}

/// A text, or nothing where the file has something else.
#[derive(Debug, Default)]
pub(super) struct Text(pub(super) Option<String>);

/// A number, or nothing where the file has something else. Some writers put numbers in texts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Number {
    #[default]
    None,
    Whole(i64),
    Real(f64),
}

impl Number {
    /// Returns a whole number. Numbers of threads may be negative.
    pub(super) fn whole(self) -> Option<i64> {
        match self {
            Number::None => None,
            Number::Whole(whole) => Some(whole),
            Number::Real(real) => Some(real as i64),
        }
    }

    /// Returns a whole number; -1 and its unsigned form mean that it is not known.
    pub(super) fn known(self) -> Option<i64> {
        self.whole().filter(|whole| *whole >= 0 && *whole != i64::from(u32::MAX))
    }

    /// Returns microseconds as nanoseconds.
    pub(super) fn nanoseconds(self) -> Option<i64> {
        match self {
            Number::None => None,
            Number::Whole(us) => us.checked_mul(1000),
            Number::Real(us) if us.is_finite() && us.abs() < 9e15 => Some((us * 1000.0) as i64),
            Number::Real(_) => None,
        }
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(Some(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Text, E> {
        Ok(Text(Some(text)))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string())))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        Ok(match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => Number::Whole(whole),
            (_, Ok(real)) => Number::Real(real),
            _ => Number::None,
        })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number::None)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number::Whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(i64::try_from(number).map_or(Number::None, Number::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(Number::Real(number))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Number, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number::None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number::None)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}
