//! Stream types, stream keys, stream modes, and points in a stream's order.
//!
//! Long because its items have examples.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::id::StreamId;
use crate::work::{WorkKind, WorkSet};

/// A type of stream, which is a name. The policy that serves the type says which kinds of work its
/// streams accept; the built-in types have policies of Millstream's own.
///
/// Values are compared by name: a constant of one crate and a name read from a file are the same
/// type.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!("compute".parse(), Ok(StreamType::COMPUTE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamType(&'static str);

/// The longest name of a stream type, in bytes.
const LONGEST_NAME: usize = 64;

/// How many different names a process can read from files. Names are kept until it ends.
const MOST_NAMES: usize = 4096;

/// The names read so far that are not built in.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl StreamType {
    /// Kernels.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::COMPUTE.name(), "compute");
    /// ```
    pub const COMPUTE: StreamType = StreamType("compute");
    /// Copies from host memory to the device.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::HOST2DEVICE.name(), "host2device");
    /// ```
    pub const HOST2DEVICE: StreamType = StreamType("host2device");
    /// Copies from the device to host memory.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::DEVICE2HOST.name(), "device2host");
    /// ```
    pub const DEVICE2HOST: StreamType = StreamType("device2host");
    /// Collectives between ranks.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::CCL.name(), "ccl");
    /// ```
    pub const CCL: StreamType = StreamType("ccl");
    /// Barriers of the whole machine.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::BARRIER.name(), "barrier");
    /// ```
    pub const BARRIER: StreamType = StreamType("barrier");
    /// Exclusive holds of operands.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::CRITICAL_SECTION.name(), "critical-section");
    /// ```
    pub const CRITICAL_SECTION: StreamType = StreamType("critical-section");
    /// Launches of executables, each as one instruction.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::LAZY_JOB_LAUNCHER.name(), "lazy-job");
    /// ```
    pub const LAZY_JOB_LAUNCHER: StreamType = StreamType("lazy-job");
    /// Kernels whose outputs lie in pinned host memory.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::PINNED_COMPUTE.name(), "pinned-compute");
    /// ```
    pub const PINNED_COMPUTE: StreamType = StreamType("pinned-compute");

    /// The types with policies of Millstream's own, in the order of the documentation.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::BUILT_IN.len(), 8);
    /// assert!(!StreamType::BUILT_IN.contains(&StreamType::new("filter")));
    /// ```
    pub const BUILT_IN: [StreamType; 8] = [
        StreamType::COMPUTE,
        StreamType::HOST2DEVICE,
        StreamType::DEVICE2HOST,
        StreamType::CCL,
        StreamType::BARRIER,
        StreamType::CRITICAL_SECTION,
        StreamType::LAZY_JOB_LAUNCHER,
        StreamType::PINNED_COMPUTE,
    ];

    /// Returns the type of this name, which begins with a lower-case letter, goes on with
    /// lower-case letters, digits, `-` and `_`, and has at most 64 bytes.
    ///
    /// ```
    /// use millstream_types::StreamType;
    ///
    /// const FILTER: StreamType = StreamType::new("filter");
    /// assert_eq!("filter".parse(), Ok(FILTER));
    /// ```
    ///
    /// # Panics
    /// The name is not of that form. In a constant this is an error of the compiler's.
    pub const fn new(name: &'static str) -> StreamType {
        assert!(is_name(name), "a stream type is a word of lower-case letters, digits, - and _");
        StreamType(name)
    }

    /// Returns the name used in text forms and files.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamType::LAZY_JOB_LAUNCHER.name(), "lazy-job");
    /// ```
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Returns the kinds of work that streams of a built-in type accept; none for other types,
    /// whose policies alone know.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(StreamType::COMPUTE.built_in_work().is_some());
    /// assert!(StreamType::new("filter").built_in_work().is_none());
    /// ```
    pub fn built_in_work(self) -> Option<WorkSet> {
        let kind = match self {
            StreamType::COMPUTE | StreamType::PINNED_COMPUTE => WorkKind::Compute,
            StreamType::HOST2DEVICE => WorkKind::CopyIn,
            StreamType::DEVICE2HOST => WorkKind::CopyOut,
            StreamType::CCL => WorkKind::Collective,
            StreamType::BARRIER => WorkKind::Barrier,
            StreamType::CRITICAL_SECTION => WorkKind::Section,
            StreamType::LAZY_JOB_LAUNCHER => WorkKind::Job,
            _ => return None,
        };
        Some(WorkSet::of(&[kind]))
    }

    /// Returns the position among the built-in types; types that are not built in come after them.
    fn rank(self) -> usize {
        let built_in = StreamType::BUILT_IN.into_iter().position(|ty| ty == self);
        built_in.unwrap_or(StreamType::BUILT_IN.len())
    }
}

const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > LONGEST_NAME || !bytes[0].is_ascii_lowercase() {
        return false;
    }
    let mut at = 1;
    while at < bytes.len() {
        let c = bytes[at];
        if !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_') {
            return false;
        }
        at += 1;
    }
    true
}

impl PartialOrd for StreamType {
    fn partial_cmp(&self, other: &StreamType) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Built-in types come first, in the order of the documentation; others follow by name.
impl Ord for StreamType {
    fn cmp(&self, other: &StreamType) -> Ordering {
        (self.rank(), self.0).cmp(&(other.rank(), other.0))
    }
}

impl fmt::Display for StreamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StreamType {
    type Err = Error;

    /// Accepts every name of the right form. Whether a policy serves the type is known to a machine
    /// alone.
    fn from_str(text: &str) -> Result<StreamType> {
        if let Some(built_in) = StreamType::BUILT_IN.into_iter().find(|ty| ty.name() == text) {
            return Ok(built_in);
        }
        let invalid = |message: String| Error::Invalid { what: "stream type", message };
        if !is_name(text) {
            let shown: String = text.chars().take(LONGEST_NAME).collect();
            return Err(invalid(format!(
                "'{shown}': expected a lower-case letter, then lower-case letters, digits, '-' or \
                 '_', at most {LONGEST_NAME} in all, as in compute"
            )));
        }
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(text) {
            return Ok(StreamType(name));
        }
        if names.len() == MOST_NAMES {
            return Err(invalid(format!("'{text}': {MOST_NAMES} other names were read before")));
        }
        let name: &'static str = Box::leak(text.into());
        names.insert(name);
        Ok(StreamType(name))
    }
}

/// The order in which a stream runs its instructions.
///
/// ```
/// # use millstream_types::*;
/// let modes = [StreamMode::InOrder, StreamMode::Pool].map(StreamMode::name);
/// assert_eq!(modes, ["in-order", "pool"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamMode {
    /// First in, first out.
    InOrder,
    /// Any ready instruction may run; only operands order instructions within the stream.
    Pool,
}

crate::names! {
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamMode::InOrder.name(), "in-order");
    /// ```
    StreamMode: InOrder "in-order", Pool "pool"
}

/// A stream's identity: device, type, index. Streams that a program names and streams that a
/// machine creates are counted apart: the index of a created stream is written with a `c`.
///
/// ```
/// # use millstream_types::*;
/// let key = StreamKey::compute(DeviceId::cpu(0), 1);
/// assert_eq!(key.to_string(), "cpu:0 compute 1");
/// let created = StreamKey::created(DeviceId::cpu(0), 1);
/// assert_eq!(created.to_string(), "cpu:0 compute c1");
/// assert_eq!("cpu:0 compute c1".parse(), Ok(created));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// The device the stream belongs to.
    pub device: DeviceId,
    /// The type of the stream.
    pub ty: StreamType,
    /// Whether a machine created the stream, without a name by the program.
    pub is_created: bool,
    /// The index among the device's streams of that type, created or not.
    pub index: u32,
}

impl StreamKey {
    /// Returns the key of stream `index` of type `ty` on `device`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let key = StreamKey::new(DeviceId::cuda(0), StreamType::HOST2DEVICE, 0);
    /// assert_eq!(key.to_string(), "cuda:0 host2device 0");
    /// ```
    pub const fn new(device: DeviceId, ty: StreamType, index: u32) -> StreamKey {
        StreamKey { device, ty, is_created: false, index }
    }

    /// Returns the key of compute stream `index` of `device`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamKey::compute(DeviceId::cpu(0), 0).ty, StreamType::COMPUTE);
    /// ```
    pub const fn compute(device: DeviceId, index: u32) -> StreamKey {
        StreamKey::new(device, StreamType::COMPUTE, index)
    }

    /// Returns the key of created compute stream `index` of `device`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let (named, created) = (StreamKey::compute, StreamKey::created);
    /// assert_ne!(created(DeviceId::cpu(0), 3), named(DeviceId::cpu(0), 3));
    /// ```
    pub const fn created(device: DeviceId, index: u32) -> StreamKey {
        StreamKey { device, ty: StreamType::COMPUTE, is_created: true, index }
    }

    /// Stands before the index of a created stream in text forms.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(StreamKey::CREATED, "c");
    /// ```
    pub const CREATED: &str = "c";
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let created = if self.is_created { StreamKey::CREATED } else { "" };
        write!(f, "{} {} {created}{}", self.device, self.ty, self.index)
    }
}

impl FromStr for StreamKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<StreamKey> {
        let invalid = || Error::Invalid {
            what: "stream",
            message: format!("'{text}': expected device, type and index, as in cpu:0 compute 1"),
        };
        let [device, ty, index] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(invalid());
        };
        let digits = index.strip_prefix(StreamKey::CREATED);
        let number = digits.unwrap_or(index).parse().map_err(|_| invalid())?;
        let key = StreamKey::new(device.parse()?, ty.parse()?, number);
        Ok(StreamKey { is_created: digits.is_some(), ..key })
    }
}

/// A point in a stream's order: after instruction number `seq`, and after all earlier ones.
///
/// Sequence numbers start at 1. The point with `seq` 0 is the start of the stream: every
/// instruction comes after it. Written `s2:17`.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(Point::new(StreamId(2), 17).to_string(), "s2:17");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// The stream.
    pub stream: StreamId,
    /// The sequence number on it.
    pub seq: u64,
}

impl Point {
    /// Returns the point after instruction `seq` of `stream`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let (early, late) = (Point::new(StreamId(0), 3), Point::new(StreamId(0), 4));
    /// assert!(early < late);
    /// ```
    pub const fn new(stream: StreamId, seq: u64) -> Point {
        Point { stream, seq }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILTER: StreamType = StreamType::new("filter");

    #[test]
    fn types_are_compared_by_name() {
        assert_eq!("filter".parse(), Ok(FILTER));
        assert_eq!(String::from("compute").parse(), Ok(StreamType::COMPUTE));
        assert_ne!(FILTER, StreamType::COMPUTE);
        assert_eq!(FILTER.built_in_work(), None);
        for ty in StreamType::BUILT_IN {
            assert_eq!(ty.name().parse(), Ok(ty));
            assert!(ty.built_in_work().is_some(), "{ty}");
            assert!(ty < FILTER, "{ty}: built-in types come first");
        }
        assert!(StreamType::BUILT_IN.is_sorted());
        assert!(FILTER < StreamType::new("filter-2"));
    }

    #[test]
    fn names_of_another_form_are_refused() {
        let long = "x".repeat(LONGEST_NAME + 1);
        for bad in ["", "Compute", "2d", "-a", "a b", "a:0", "größe", &long] {
            assert!(bad.parse::<StreamType>().is_err(), "{bad}");
        }
        assert!(long[1..].parse::<StreamType>().is_ok());
    }
}
