//! Interprets arbitrary bytes as the actions of a guest without a kernel, whose system calls the monitor handles.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| sandbox_vm::backend::kvm_process::fuzz_kernel(bytes));
