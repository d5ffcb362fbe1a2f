//! Broker that reads recorded traces.
