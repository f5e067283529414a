//! The coordinator from outside: what it answers, and what becomes of its terms.

mod lists;
mod server;
mod terms;
