//! The durable store: trait, memory and embedded engines, conformance suite.
