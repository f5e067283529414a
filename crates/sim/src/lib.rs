//! The deterministic simulator: engine, fake store, agents and containers, invariants, oracle.
