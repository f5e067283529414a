//! Wire types, paths and the error body; no I/O.
