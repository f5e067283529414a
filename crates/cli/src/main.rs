//! The one binary, `steadfast`.
fn main() {}
