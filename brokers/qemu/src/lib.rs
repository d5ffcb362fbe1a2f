//! Broker that runs a program under QEMU and drains its ring.
