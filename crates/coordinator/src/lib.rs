//! The coordinator: the loop, effects, HTTP.
