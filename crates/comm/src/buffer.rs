//! Elements on their way between ranks.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytemuck::Pod;
use millstream_types::DType;

use crate::error::CommError;

/// Elements that a rank gives or gets: dense, row-major, in memory of their own.
#[derive(Clone)]
pub struct Buffer {
    dtype: DType,
    numel: usize,
    /// The bytes of the elements. They are stored in words, which aligns them for every dtype; the
    /// elements may end inside a word, and before the last one.
    words: Arc<Words>,
}

/// The memory of a buffer.
#[derive(Clone)]
struct Words {
    words: Vec<u64>,
    /// Where the memory is kept once no buffer uses it.
    home: Weak<Mutex<Vec<Vec<u64>>>>,
}

impl Words {
    fn of(words: Vec<u64>) -> Arc<Words> {
        Arc::new(Words { words, home: Weak::new() })
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut spare = home.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push(std::mem::take(&mut self.words));
            let mut words: usize = spare.iter().map(Vec::len).sum();
            while words * size_of::<u64>() > Spare::MOST {
                words -= spare.remove(0).len();
            }
        }
    }
}

/// The memory of large buffers that are used no more, for the next ones: the system gives new
/// memory page by page, which takes longer than to fill it.
#[derive(Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Vec<u64>>>>);

impl Spare {
    /// The bytes from which on memory is kept.
    const LEAST: usize = 64 << 10;

    /// The most bytes that are kept.
    const MOST: usize = 256 << 20;

    /// Returns elements of any values.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub(crate) fn buffer(&self, elements: Elements) -> Result<Buffer, CommError> {
        let Elements { dtype, numel } = elements;
        let bytes = numel.checked_mul(dtype.size()).filter(|bytes| *bytes >= Spare::LEAST);
        let Some(count) = bytes.map(|bytes| bytes.div_ceil(size_of::<u64>())) else {
            return Buffer::zeros(elements);
        };
        let found = {
            let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Much longer memory is left for larger buffers.
            let fits = |words: &Vec<u64>| (count..=2 * count).contains(&words.len());
            let at = spare.iter().rposition(fits);
            at.map(|at| spare.remove(at))
        };
        let words = match found {
            Some(words) => words,
            None => cleared(count)?,
        };
        let words = Arc::new(Words { words, home: Arc::downgrade(&self.0) });
        Ok(Buffer { dtype, numel, words })
    }
}

/// Returns so many words of zeros.
fn cleared(count: usize) -> Result<Vec<u64>, CommError> {
    let mut words = Vec::new();
    let size = count.saturating_mul(size_of::<u64>());
    words.try_reserve_exact(count).map_err(|_| no_memory(size))?;
    words.resize(count, 0);
    Ok(words)
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
        Ok(Buffer { dtype, numel, words: Words::of(cleared(count)?) })
    }

    /// Returns a number, as one element.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub(crate) fn of_number(number: u64) -> Result<Buffer, CommError> {
        Buffer::of_words(Elements { dtype: DType::I64, numel: 1 }, vec![number])
    }

    /// Returns the number that is the only element.
    #[cfg(feature = "nccl")]
    pub(crate) fn number(&self) -> Option<u64> {
        (self.dtype == DType::I64 && self.numel == 1).then(|| self.values::<u64>()[0])
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
            true => Ok(Buffer { dtype, numel, words: Words::of(words) }),
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
        &bytemuck::cast_slice(&self.words.words)[..self.numel * self.dtype.size()]
    }

    /// Returns the bytes of the elements, to be written. Other handles of the elements keep theirs.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.numel * self.dtype.size();
        let words: &mut Words = Arc::make_mut(&mut self.words);
        &mut bytemuck::cast_slice_mut(&mut words.words)[..bytes]
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

#[cfg(test)]
mod tests {
    use millstream_types::DType;

    use super::{Elements, Spare};

    #[test]
    fn memory_is_used_again_once_no_buffer_has_it() {
        let spare = Spare::default();
        let of = |numel| spare.buffer(Elements { dtype: DType::U8, numel }).unwrap();
        let mut one = of(Spare::LEAST);
        one.bytes_mut().fill(7);
        let at = one.bytes().as_ptr();
        let same = one.clone();
        drop(one);
        assert_ne!(of(Spare::LEAST).bytes().as_ptr(), at, "another buffer has it");
        drop(same);
        let smaller = of(Spare::LEAST + 8);
        assert_eq!(smaller.bytes(), vec![0; Spare::LEAST + 8], "too short to be used again");
        let again = of(Spare::LEAST);
        assert!(again.bytes().as_ptr() == at && again.bytes().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn the_oldest_memory_goes_first() {
        let spare = Spare::default();
        let quarter = Spare::MOST / 4;
        let of = |numel| spare.buffer(Elements { dtype: DType::U8, numel }).unwrap();
        let all: Vec<_> = (0..5).map(|k| of(quarter - 8 * k)).collect();
        all.into_iter().for_each(drop);
        let kept = spare.0.lock().unwrap();
        let kept: Vec<usize> = kept.iter().map(|words| words.len() * 8).collect();
        assert_eq!(kept, [1, 2, 3, 4].map(|k| quarter - 8 * k));
    }
}
