//! Parts of tensors copied, and values set: what [`parts`](crate::parts) does its ops with.

use super::{copy, create};
use crate::parts::Hands;

pub(super) const HANDS: Hands = Hands { copy: copy::convert, set: create::set };
