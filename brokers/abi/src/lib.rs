//! C ABI between the daemon and its brokers.
