//! Runs programs of a few instructions in a real VM. They try operations that user mode does not permit.

use std::{fs::File, io::Write};

use nix::libc;

use super::{GuestExit, Machine};
use crate::backend::kvm_process::{
    KVM_DEVICE, boot,
    disk::Capacity,
    elf::{self, ProgramArgs},
    kernel::{Kernel, fuzz::FakeHost},
    ram::Ram,
    space::{AddressSpace, USER},
};

/// Environment variable that makes the tests fail, instead of being skipped, if KVM is not available.
const REQUIRE: &str = "GRAPH_REQUIRE_KVM";

/// Address at which the programs map a page.
const AT: u64 = 0x5000_0000;

const READ: i32 = libc::PROT_READ;
const WRITE: i32 = libc::PROT_WRITE;
const EXECUTE: i32 = libc::PROT_EXEC;

/// Runs a program until it ends. Returns `None` if the test has to be skipped.
fn run(code: &[u8]) -> Option<(GuestExit, FakeHost)> {
    let kvm = match File::options().read(true).write(true).open(KVM_DEVICE) {
        Ok(kvm) => kvm,
        Err(error) => {
            assert!(std::env::var_os(REQUIRE).is_none(), "{KVM_DEVICE}: {error}");
            // Write directly to standard error, because the test harness hides the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED: tests in KVM; {KVM_DEVICE}: {error}");
            return None;
        }
    };
    let mut space = AddressSpace::new(Ram::new(8 << 20).unwrap(), boot::RESERVED).unwrap();
    let mut machine = Machine::new(kvm.into(), &mut space).unwrap();
    let args = ProgramArgs { args: &["test".to_owned()], environment: &[], random: [0; 16] };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&program(code)).unwrap();
    let loaded = elf::load(&file, None, &args, &mut space).unwrap();
    let capacity = Capacity { bytes: 1 << 20, files: 64 };
    let mut kernel = Kernel::new(space, loaded.heap, Vec::new(), capacity, FakeHost::default());
    let exit = machine.run(loaded.entry, &mut kernel).unwrap();
    Some((exit, kernel.into_host()))
}

/// Returns a minimal executable file that contains `code`.
fn program(code: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 120;
    let base = USER.start;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |it: u16| it.to_le_bytes().to_vec();
    let word = |it: u32| it.to_le_bytes().to_vec();
    let long = |it: u64| it.to_le_bytes().to_vec();
    let len = HEADERS + code.len() as u64;
    for part in [
        half(2),
        half(62),
        word(1),
        long(base + HEADERS),
        long(64),
        long(0),
        word(0),
        half(64),
        half(56),
        half(1),
        half(0),
        half(0),
        half(0),
        word(1),
        word(5),
        long(0),
        long(base),
        long(base),
        long(len),
        long(len),
        long(4096),
    ] {
        file.extend(part);
    }
    assert_eq!(file.len() as u64, HEADERS);
    file.extend(code);
    file
}

/// Returns instructions that make a system call.
fn call(number: i64, args: &[u64]) -> Vec<u8> {
    let registers: [[u8; 2]; 6] =
        [[0x48, 0xbf], [0x48, 0xbe], [0x48, 0xba], [0x49, 0xba], [0x49, 0xb8], [0x49, 0xb9]];
    let mut code = [&[0x48, 0xb8][..], &number.to_le_bytes()].concat();
    for (register, value) in registers.iter().zip(args) {
        code.extend([&register[..], &value.to_le_bytes()].concat());
    }
    code.extend([0x0f, 0x05]);
    code
}

fn map(access: i32) -> Vec<u8> {
    let flags = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_FIXED;
    call(libc::SYS_mmap, &[AT, 4096, access as u64, flags as u64, u64::MAX, 0])
}

fn protect(access: i32) -> Vec<u8> {
    call(libc::SYS_mprotect, &[AT, 4096, access as u64])
}

/// Returns `mov rcx, at`, followed by an instruction that uses `rcx`.
fn with(at: u64, instruction: &[u8]) -> Vec<u8> {
    [&[0x48, 0xb9][..], &at.to_le_bytes(), instruction].concat()
}

/// Returns `mov byte [rcx], 0xc3`. The stored byte is also the instruction `ret`, so it can be called as a function
/// that returns immediately.
fn store(at: u64) -> Vec<u8> {
    with(at, &[0xc6, 0x01, 0xc3])
}

/// Returns `movzx edi, byte [rcx]`.
fn load(at: u64) -> Vec<u8> {
    with(at, &[0x0f, 0xb6, 0x39])
}

/// Returns `call rcx`.
fn jump(at: u64) -> Vec<u8> {
    with(at, &[0xff, 0xd1])
}

fn exit(code: u64) -> Vec<u8> {
    call(libc::SYS_exit_group, &[code])
}

/// Returns instructions that exit with the last loaded value as the exit code.
fn exit_with_loaded() -> Vec<u8> {
    call(libc::SYS_exit_group, &[])
}

#[track_caller]
fn assert_faults(name: &str, code: &[u8], expected: &str) {
    // If the code does not fault, it exits with 77.
    let Some((exit, _)) = run(&[code, &exit(77)].concat()) else { return };
    assert!(
        matches!(&exit, GuestExit::Fault(message) if message.contains(expected)),
        "{name}: {exit:?}"
    );
}

#[test]
fn program_writes_and_exits() {
    let text = b"hello, host";
    // The text precedes the code that sends it, so the code first jumps over the text.
    let mut code = vec![0xeb, text.len() as u8];
    code.extend(text);
    let at = USER.start + 120 + 2;
    code.extend(call(libc::SYS_write, &[0, at, text.len() as u64]));
    code.extend(call(libc::SYS_write, &[2, at, 5]));
    code.extend(exit(7));
    let Some((exit, host)) = run(&code) else { return };
    assert_eq!(exit, GuestExit::Code(7));
    assert_eq!((host.sent.as_slice(), host.diagnostics.as_slice()), (&text[..], &b"hello"[..]));
}

#[test]
fn privileged_instructions_end_the_guest() {
    const REFUSED: &str = "an instruction that is not allowed";
    let cases: &[(&str, &[u8], &str)] = &[
        ("hlt", &[0xf4], REFUSED),
        ("cli", &[0xfa], REFUSED),
        ("sti", &[0xfb], REFUSED),
        ("in al, 0x60", &[0xe4, 0x60], REFUSED),
        ("out 0x60, al", &[0xe6, 0x60], REFUSED),
        ("out 0x43, al", &[0xe6, 0x43], REFUSED),
        ("out 0x8e, al", &[0xe6, 0x8e], REFUSED),
        ("out 0x142, al", &[0x66, 0xba, 0x42, 0x01, 0xee], REFUSED),
        ("out 0x42, ax", &[0x66, 0xe7, 0x42], REFUSED),
        ("insb", &[0x6c], REFUSED),
        ("rdmsr", &[0x0f, 0x32], REFUSED),
        ("wrmsr", &[0x0f, 0x30], REFUSED),
        ("mov rax, cr3", &[0x0f, 0x20, 0xd8], REFUSED),
        ("mov cr3, rax", &[0x0f, 0x22, 0xd8], REFUSED),
        ("mov cr0, rax", &[0x0f, 0x22, 0xc0], REFUSED),
        ("mov cr4, rax", &[0x0f, 0x22, 0xe0], REFUSED),
        ("mov dr7, rax", &[0x0f, 0x23, 0xf8], REFUSED),
        ("lgdt", &[0x0f, 0x01, 0x14, 0x24], REFUSED),
        ("lidt", &[0x0f, 0x01, 0x1c, 0x24], REFUSED),
        ("ltr", &[0x0f, 0x00, 0xd8], REFUSED),
        ("lldt", &[0x0f, 0x00, 0xd0], REFUSED),
        ("invlpg", &[0x0f, 0x01, 0x38], REFUSED),
        ("wbinvd", &[0x0f, 0x09], REFUSED),
        ("swapgs", &[0x0f, 0x01, 0xf8], REFUSED),
        ("sysretq", &[0x48, 0x0f, 0x07], REFUSED),
        ("sysexit", &[0x0f, 0x35], REFUSED),
        // Depending on the host, instructions without a configured target are reported either as not allowed or as
        // nonexistent. The expected text is the part that both messages have in common.
        ("sysenter", &[0x0f, 0x34], "an instruction that"),
        ("xsetbv", &[0x31, 0xc9, 0x0f, 0x01, 0xd1], REFUSED),
        ("int 0x80", &[0xcd, 0x80], "an instruction that"),
        ("int 14", &[0xcd, 0x0e], "an instruction that"),
        ("far return to the kernel's code", &[0x6a, 0x08, 0x50, 0x48, 0xcb], REFUSED),
        // Pushes the kernel's stack segment, a stack address, flags, the kernel's code segment and an address, and then
        // returns to that address as if from an interrupt.
        (
            "iretq to the kernel's code",
            &[0x6a, 0x10, 0x54, 0x6a, 0x02, 0x6a, 0x08, 0x50, 0x48, 0xcf],
            REFUSED,
        ),
        ("ud2", &[0x0f, 0x0b], "an instruction that does not exist"),
        ("division by zero", &[0x31, 0xc9, 0xf7, 0xf1], "divided by zero"),
    ];
    for (name, code, expected) in cases {
        assert_faults(name, code, expected);
    }
}

#[test]
fn memory_of_the_monitor_is_inaccessible() {
    for (name, at) in [
        ("address zero", 0),
        ("the descriptor tables", 0x1000),
        ("the interrupt table", 0x2000),
        ("the exception stack", 0x4fff),
        ("the exception handlers", 0x5000),
        ("the page tables", boot::RESERVED),
        ("the end of the user addresses", USER.end),
        ("kernel addresses", 0xffff_8000_0000_0000),
    ] {
        let expected = format!("accessed {at:#x}");
        assert_faults(&format!("read {name}"), &load(at), &expected);
        assert_faults(&format!("write to {name}"), &store(at), &expected);
        assert_faults(&format!("execute {name}"), &jump(at), &expected);
    }
    assert_faults("write to the system call code", &store(0x6000), "accessed 0x6000");
    assert_faults("write to its own code", &store(USER.start), "accessed 0x400000");
    assert_faults("read a non-canonical address", &load(1 << 63), "");
    assert_faults("execute a non-canonical address", &jump(1 << 63), "");
    // `jmp rsp`
    assert_faults("execute its stack", &[0xff, 0xe4], "accessed 0x7f");
}

#[test]
fn page_access_follows_the_requested_rights() {
    let reached = format!("accessed {AT:#x}");
    let cases = [
        (
            "write to a page made read-only",
            vec![map(READ | WRITE), store(AT), protect(READ), load(AT), store(AT)],
        ),
        ("execute a writable page", vec![map(READ | WRITE), store(AT), jump(AT)]),
        ("read a page made inaccessible", vec![map(READ | WRITE), store(AT), protect(0), load(AT)]),
        (
            "read an unmapped page",
            vec![map(READ | WRITE), store(AT), call(libc::SYS_munmap, &[AT, 4096]), load(AT)],
        ),
        (
            "write to an executable page",
            vec![map(READ | WRITE), store(AT), protect(READ | EXECUTE), jump(AT), store(AT)],
        ),
        (
            "execute a page that is writable again",
            vec![
                map(READ | WRITE),
                store(AT),
                protect(READ | EXECUTE),
                jump(AT),
                protect(READ | WRITE),
                store(AT),
                jump(AT),
            ],
        ),
    ];
    for (name, parts) in cases {
        assert_faults(name, &parts.concat(), &reached);
    }
    let cases = [
        (
            "protection changes keep the content",
            vec![map(READ | WRITE), store(AT), protect(0), protect(READ), load(AT)],
            0xc3,
        ),
        (
            "MADV_DONTNEED zeroes the page",
            vec![
                map(READ | WRITE),
                store(AT),
                call(libc::SYS_madvise, &[AT, 4096, libc::MADV_DONTNEED as u64]),
                load(AT),
            ],
            0,
        ),
        (
            "a new mapping is zero",
            vec![
                map(READ | WRITE),
                store(AT),
                call(libc::SYS_munmap, &[AT, 4096]),
                map(READ | WRITE),
                load(AT),
            ],
            0,
        ),
        (
            "writable and executable together is rejected",
            vec![map(READ | WRITE), store(AT), protect(WRITE | EXECUTE), store(AT), load(AT)],
            0xc3,
        ),
    ];
    for (name, parts, code) in cases {
        let Some((exit, _)) = run(&[parts.concat(), exit_with_loaded()].concat()) else { return };
        assert_eq!(exit, GuestExit::Code(code), "{name}");
    }
}

#[test]
fn system_calls_return_only_to_guest_memory() {
    // The code `mov rax, 0x6000; jmp rax` jumps to the code that handles system calls. The register `rcx` contains the
    // address to which that code returns.
    for at in [0x5000, 0x6000, USER.end, 0xffff_8000_0000_0000, 1 << 63] {
        let code = with(at, &[0x48, 0xc7, 0xc0, 0, 0x60, 0, 0, 0xff, 0xe0]);
        assert_faults(&format!("return to {at:#x}"), &code, "");
    }
}
