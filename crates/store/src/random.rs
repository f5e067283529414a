//! Bytes from the system's random source.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::store::StoreError;

/// # Errors
/// Where the system has none.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(length) if length == N => Ok(bytes),
        other => Err(StoreError::Unavailable(format!("no random bytes: {other:?}"))),
    }
}
