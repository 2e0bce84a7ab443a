//! Interprets arbitrary bytes as the actions of a guest that has no kernel. The monitor handles the guest's system
//! calls.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| sandbox_vm::backend::fuzz_kernel(bytes));
