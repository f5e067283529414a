//! The coordinator from outside: what it answers over real sockets, and what becomes of its terms.

mod coordinator;
mod credentials;
mod lists;
mod planned_leave;
mod server;
mod terms;
