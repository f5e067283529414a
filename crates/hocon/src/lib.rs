//! A strict HOCON parser with positions.
