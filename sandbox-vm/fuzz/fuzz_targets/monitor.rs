//! Does what bytes say as the guest of a VM without a kernel, whose system calls the monitor answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| sandbox_vm::backend::kvm_process::fuzz_kernel(bytes));
