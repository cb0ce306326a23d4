//! The ways of table lookups and their gradient: by index, by column, by row.

use millstream_types::{Result, sbp};

use super::axes::P;
use super::{Local, Parts, Rules, Way, Whole};

pub(super) const RULES: Rules = &[("embedding", lookup), ("embedding_dense_backward", backward)];

fn lookup(whole: Whole<'_>) -> Result<Vec<Way>> {
    let rank = whole.shape(1).len();
    let by_index = (0..rank).map(|dim| Way::new([sbp::B, sbp::S(dim)], [sbp::S(dim)]));
    let by_column = Way::new([sbp::S(1), sbp::B], [sbp::S(rank)]);
    // Others' rows are read as row 0, which has to exist.
    let rows = Local::Rows { indices: 1, table: 0 };
    let by_row = Way::new([sbp::S(0), sbp::B], [P]).local(rows).parts(Parts::NotEmpty);
    Ok(by_index.chain([by_column, by_row]).chain(whole.moved(&[0])).collect())
}

/// The number of a row's uses counts all indices.
fn backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let rank = whole.shape(1).len();
    let counts_uses = whole.attrs().bool("scale_grad_by_freq")?.unwrap_or(false);
    let by_index =
        (0..rank).filter(|_| !counts_uses).map(|dim| Way::new([sbp::S(dim), sbp::S(dim)], [P]));
    let by_column = Way::new([sbp::S(rank), sbp::B], [sbp::S(1)]);
    Ok([by_column].into_iter().chain(by_index).chain(whole.linear(&[0])).collect())
}
