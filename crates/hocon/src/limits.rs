//! How much one document may ask for.
//!
//! Documents reach the coordinator over the network, so parsing one has to end soon, in bounded memory
//! and on a bounded stack. The bounds lie far above every honest document.

/// Bytes of text.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Objects and lists inside each other, also after substitution, and parts of one path.
pub(crate) const MAX_NESTING: usize = 64;

/// Calls inside each other while substitutions are followed: a chain of substitutions costs stack
/// just as nesting does, and both together have to fit a thread's two megabytes.
pub(crate) const MAX_DEPTH: usize = 4 * MAX_NESTING;

/// Values visited while a document is resolved. A value that is substituted in many places is visited
/// many times, and this is what ends a document that doubles itself.
pub(crate) const MAX_STEPS: usize = 250_000;

/// Bytes of keys and strings in the resolved document.
pub(crate) const MAX_RESOLVED_BYTES: usize = 4 * MAX_BYTES;

/// Problems in one answer: beyond this nobody reads on.
pub(crate) const MAX_PROBLEMS: usize = 100;
