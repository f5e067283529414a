//! Counts words.
fn main() {}
