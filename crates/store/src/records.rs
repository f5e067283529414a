//! How records are written down. (being written)

/// The format that this binary writes, one number for all kinds of record.
pub(crate) const FORMAT: u32 = 1;
