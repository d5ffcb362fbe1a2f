//! Broker that feeds assembly text, objects or hex bytes.
