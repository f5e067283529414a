//! Container secrets: derived from the store's key, so that an adopted container keeps working with the
//! next coordinator.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use steadfast_model::ExecutionId;
use steadfast_store::SecretKey;

/// Derives and checks container secrets.
#[derive(Clone)]
pub(crate) struct Secrets(Hmac<Sha256>);

impl Secrets {
    pub fn new(key: &SecretKey) -> Self {
        // HMAC takes keys of any length, so a key of 32 bytes cannot be refused.
        Self(Hmac::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length"))
    }

    fn mac(&self, execution: ExecutionId) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(execution.to_string().as_bytes());
        mac
    }

    /// The secret of one container, in hexadecimal digits.
    pub fn of(&self, execution: ExecutionId) -> String {
        hexadecimal(&self.mac(execution).finalize().into_bytes())
    }

    /// What tells this store's cluster from any other. It is no secret, and says nothing of the key.
    pub fn cluster(&self) -> String {
        let mut mac = self.0.clone();
        mac.update(b"cluster");
        hexadecimal(&mac.finalize().into_bytes()[..8])
    }

    /// Whether this is its secret. Takes the same time whatever differs.
    pub fn is_of(&self, execution: ExecutionId, secret: &str) -> bool {
        bytes_of(secret).is_some_and(|bytes| self.mac(execution).verify_slice(&bytes).is_ok())
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 64 hexadecimal digits as bytes.
fn bytes_of(secret: &str) -> Option<[u8; 32]> {
    let nibble = |digit: u8| (digit as char).to_digit(16);
    let pairs = secret.as_bytes().chunks_exact(2);
    if secret.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok()?;
    }
    Some(bytes)
}
