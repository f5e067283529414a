//! The coordinator from outside: what it answers over real sockets, and what becomes of its terms.

mod agent;
mod coordinator;
mod credentials;
mod events;
mod full_store;
mod lists;
mod logs;
mod metrics;
mod planned_leave;
mod server;
mod standing_by;
mod terms;
