//! How two runs differ.
