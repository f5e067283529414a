//! The HTTP side of a real coordinator, asked over real sockets.

mod credentials;
mod metrics;
mod planned_leave;
mod server;
