//! Elements on their way between ranks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use millstream_types::DType;

use crate::error::CommError;

/// Elements that a rank gives or gets: dense, row-major, in memory of their own.
#[derive(Clone)]
pub struct Buffer {
    dtype: DType,
    numel: usize,
    /// The bytes of the elements. They are stored in words, which aligns them for every dtype; the
    /// elements may end inside the last word.
    words: Arc<Vec<u64>>,
}

/// The elements that a rank expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elements {
    /// The type of the elements.
    pub dtype: DType,
    /// The number of elements.
    pub numel: usize,
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.dtype, self.numel)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.elements())
    }
}

impl Buffer {
    /// Returns zeros.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub fn zeros(Elements { dtype, numel }: Elements) -> Result<Buffer, CommError> {
        let bytes = numel.checked_mul(dtype.size());
        let Some(bytes) = bytes else { return Err(no_memory(usize::MAX)) };
        let count = bytes.div_ceil(size_of::<u64>());
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| no_memory(bytes))?;
        words.resize(count, 0);
        Ok(Buffer { dtype, numel, words: Arc::new(words) })
    }

    /// Returns elements whose bytes begin at the first word.
    ///
    /// # Errors
    /// The words hold fewer elements.
    pub fn of_words(
        Elements { dtype, numel }: Elements,
        words: Vec<u64>,
    ) -> Result<Buffer, CommError> {
        let is_enough = numel.checked_mul(dtype.size()).is_some_and(|b| b <= words.len() * 8);
        match is_enough {
            true => Ok(Buffer { dtype, numel, words: Arc::new(words) }),
            false => {
                let (wanted, bytes) = (Elements { dtype, numel }, words.len() * 8);
                Err(CommError::new(format!("expected the bytes of {wanted}, got {bytes}")))
            }
        }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> usize {
        self.numel
    }

    /// Returns dtype and number of elements.
    pub fn elements(&self) -> Elements {
        Elements { dtype: self.dtype, numel: self.numel }
    }

    /// Returns the bytes of the elements.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.numel * self.dtype.size()]
    }

    /// Returns the bytes of the elements, to be written. Other handles of the elements keep theirs.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.numel * self.dtype.size();
        let words: &mut Vec<u64> = Arc::make_mut(&mut self.words);
        &mut bytemuck::cast_slice_mut(words)[..bytes]
    }

    /// Returns the elements as values of a type of the dtype's size.
    pub(crate) fn values<T: Pod>(&self) -> &[T] {
        bytemuck::cast_slice(self.bytes())
    }

    /// Returns the elements as [`Buffer::values`] does, to be written.
    pub(crate) fn values_mut<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    /// Returns a range of the elements, in memory of their own.
    ///
    /// # Errors
    /// There are fewer elements, or memory is exhausted.
    pub fn part(&self, range: Range<usize>) -> Result<Buffer, CommError> {
        let size = self.dtype.size();
        if range.start > range.end || range.end > self.numel {
            return Err(CommError::new(format!("elements {range:?} of {self:?}")));
        }
        let numel = range.len();
        let mut part = Buffer::zeros(Elements { dtype: self.dtype, numel })?;
        part.bytes_mut().copy_from_slice(&self.bytes()[range.start * size..range.end * size]);
        Ok(part)
    }

    /// Returns the elements of several buffers of one dtype, one after the other.
    ///
    /// # Errors
    /// The dtypes differ, or memory is exhausted.
    pub fn concat(dtype: DType, parts: &[&Buffer]) -> Result<Buffer, CommError> {
        let numel = parts.iter().map(|part| part.numel).sum();
        let mut whole = Buffer::zeros(Elements { dtype, numel })?;
        let mut rest = whole.bytes_mut();
        for part in parts {
            if part.dtype != dtype {
                return Err(CommError::new(format!("expected elements of {dtype}, got {part:?}")));
            }
            let (to, after) = rest.split_at_mut(part.bytes().len());
            to.copy_from_slice(part.bytes());
            rest = after;
        }
        Ok(whole)
    }
}

fn no_memory(bytes: usize) -> CommError {
    CommError::new(format!("out of memory for {bytes} bytes between ranks"))
}
