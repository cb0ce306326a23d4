//! Device ids.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};

/// A device: a kind, which names a backend, and an index within the backend. Written `cpu:0`.
///
/// ```
/// # use millstream_types::*;
/// let device: DeviceId = "cuda:1".parse()?;
/// assert_eq!(device, DeviceId::cuda(1));
/// assert_eq!("cpu".parse(), Ok(DeviceId::cpu(0)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    kind: Kind,
    index: u32,
}

/// The name of a backend. Each call compares devices and copies one, so the usual names are no
/// strings.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    Cpu,
    Pinned,
    Sim,
    Cuda,
    Other(Arc<str>),
}

impl Kind {
    fn name(&self) -> &str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Pinned => "pinned",
            Kind::Sim => "sim",
            Kind::Cuda => "cuda",
            Kind::Other(name) => name,
        }
    }

    fn of(name: &str) -> Kind {
        match name {
            "cpu" => Kind::Cpu,
            "pinned" => Kind::Pinned,
            "sim" => Kind::Sim,
            "cuda" => Kind::Cuda,
            other => Kind::Other(other.into()),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name(), f)
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl DeviceId {
    /// Returns the id of device `index` of the backend `kind`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let device = DeviceId::new("npu", 3)?; // of a backend of the program
    /// assert_eq!(device.to_string(), "npu:3");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `kind` is empty or has a character other than lower-case letters, digits, `_` and `-`.
    pub fn new(kind: impl Into<Cow<'static, str>>, index: u32) -> Result<DeviceId> {
        let kind = kind.into();
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
        if kind.is_empty() || !kind.bytes().all(fits) {
            return Err(Error::Invalid {
                what: "device",
                message: format!(
                    "kind '{kind}': expected lower-case letters, digits, '_' or '-', as in cpu:0"
                ),
            });
        }
        Ok(DeviceId { kind: Kind::of(&kind), index })
    }

    /// Returns the id of the host's device `index`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DeviceId::cpu(0).to_string(), "cpu:0");
    /// ```
    pub const fn cpu(index: u32) -> DeviceId {
        DeviceId { kind: Kind::Cpu, index }
    }

    /// Returns the id of pinned host memory `index`. The host computes in pinned memory, and
    /// devices copy to and from it at full speed; it has no streams of its own.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DeviceId::pinned(0).is_host());
    /// ```
    pub const fn pinned(index: u32) -> DeviceId {
        DeviceId { kind: Kind::Pinned, index }
    }

    /// Returns whether this is host memory, pinned or not. Streams of the host work on both kinds.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(DeviceId::cpu(1).is_host() && !DeviceId::cuda(0).is_host());
    /// ```
    pub fn is_host(&self) -> bool {
        matches!(self.kind, Kind::Cpu | Kind::Pinned)
    }

    /// Returns the id of the simulated device `index`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DeviceId::sim(0).to_string(), "sim:0");
    /// ```
    pub const fn sim(index: u32) -> DeviceId {
        DeviceId { kind: Kind::Sim, index }
    }

    /// Returns the id of the NVIDIA device `index`.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DeviceId::cuda(1).to_string(), "cuda:1");
    /// ```
    pub const fn cuda(index: u32) -> DeviceId {
        DeviceId { kind: Kind::Cuda, index }
    }

    /// Returns the backend's name.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DeviceId::cuda(1).kind(), "cuda");
    /// ```
    pub fn kind(&self) -> &str {
        self.kind.name()
    }

    /// Returns the index among the backend's devices.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(DeviceId::cuda(1).index(), 1);
    /// ```
    pub const fn index(&self) -> u32 {
        self.index
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.index)
    }
}

impl FromStr for DeviceId {
    type Err = Error;

    /// Parses `kind:index`; a kind alone stands for its device 0.
    fn from_str(text: &str) -> Result<DeviceId> {
        let (kind, index) = match text.split_once(':') {
            None => (text, 0),
            Some((kind, digits)) => {
                let index = digits.parse().map_err(|_| Error::Invalid {
                    what: "device",
                    message: format!("'{text}': expected KIND:INDEX, as in cpu:0"),
                })?;
                (kind, index)
            }
        };
        DeviceId::new(kind.to_owned(), index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_parse_round_trip() {
        assert_eq!("cpu:0".parse(), Ok(DeviceId::cpu(0)));
        assert_eq!("sim".parse(), Ok(DeviceId::sim(0)));
        for bad in ["", ":1", "cpu:", "cpu:x", "cpu:-1", "CPU:0", "cpu:99999999999", "a b:0"] {
            assert!(bad.parse::<DeviceId>().is_err(), "{bad}");
        }
    }
}
