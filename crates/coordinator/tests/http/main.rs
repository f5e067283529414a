//! The HTTP side of a real coordinator, asked over real sockets.

mod credentials;
mod planned_leave;
mod server;
