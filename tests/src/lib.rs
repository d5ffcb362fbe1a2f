//! End-to-end tests of mcad.
