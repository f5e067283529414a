//! What nobody can guess.

use std::io;

/// So many random bytes in hexadecimal digits, at most 256 of them, which the kernel gives in one go.
///
/// # Errors
/// The system gives none.
pub fn hex<const N: usize>() -> io::Result<String> {
    let mut bytes = [0; N];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled < N {
        return Err(io::Error::other(format!("asked for {N} random bytes, and got {filled}")));
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
