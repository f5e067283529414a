//! The container's side of validity: lease, poll, deadline, and the ladder that ends a process.
