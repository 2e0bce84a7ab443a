//! The descriptor tables that the processor needs before it can run a program, and the few instructions that do not
//! belong to the guest's program.
//!
//! There is no kernel in the guest. A system call jumps to two instructions, the first of which notifies the monitor
//! through an I/O port. An exception jumps to one instruction, which reports the number of the exception to the
//! monitor. Nothing else ever runs in kernel mode.

use kvm_bindings::{kvm_dtable, kvm_msr_entry, kvm_segment, kvm_sregs};
use rustix::io::Errno;

use super::space::{AddressSpace, SystemPage};

/// I/O port that is written to when the guest makes a system call.
pub(super) const CALL_PORT: u16 = 0x42;

/// First of the I/O ports that are written to when the guest causes an exception. The exception number is added to it.
pub(super) const FAULT_PORT: u16 = 0x80;

/// Number of exceptions that the processor defines.
pub(super) const EXCEPTIONS: u16 = 32;

/// Number of bytes at the start of memory that are reserved for this module.
pub(super) const RESERVED: u64 = 0x7000;

const GDT: u64 = 0x1000;
const IDT: u64 = 0x2000;
const TSS: u64 = 0x3000;
const STACK: u64 = 0x4000;
const FAULT_CODE: u64 = 0x5000;
const CALL_CODE: u64 = 0x6000;

/// Address of a `syscall` instruction that the monitor runs as a test, to find out how the processor executes system
/// calls.
pub(super) const PROBE_CALL: u64 = CALL_CODE + 0x10;

const KERNEL_CODE: u16 = 0x08;
const USER_DATA: u16 = 0x18 | 3;
const USER_CODE: u16 = 0x20 | 3;
const TSS_SELECTOR: u16 = 0x28;

/// Size of the task state segment in bytes, without the I/O permission bitmap.
const TSS_SIZE: usize = 104;

/// Number of ports that the I/O permission bitmap covers. All other ports are closed.
const IO_BITMAP_PORTS: usize = 256;

/// Writes the tables and the code into the guest's memory and maps them. Only the processor itself can access them,
/// except for the code of system calls, which the guest can also execute and read.
pub(super) fn write(space: &mut AddressSpace) -> Result<(), Errno> {
    for (page, kind) in [
        (GDT, SystemPage::Data),
        (IDT, SystemPage::Data),
        (TSS, SystemPage::Data),
        (STACK, SystemPage::Stack),
        (FAULT_CODE, SystemPage::Code),
        (CALL_CODE, SystemPage::SharedCode),
    ] {
        space.map_system(page, kind)?;
    }
    let parts = [
        (GDT, gdt()),
        (IDT, idt()),
        (TSS, tss()),
        (FAULT_CODE, fault_code()),
        (CALL_CODE, call_code()),
    ];
    for (at, bytes) in parts {
        space.ram_mut().write(at, &bytes).ok_or(Errno::NOMEM)?;
    }
    Ok(())
}

/// Denies the guest's user-mode code access to the system call port. Used if the processor executes system calls in
/// kernel mode, because then only kernel-mode code writes to the port.
pub(super) fn close_call_port(space: &mut AddressSpace) -> Result<(), Errno> {
    let at = TSS + TSS_SIZE as u64 + u64::from(CALL_PORT) / 8;
    space.ram_mut().write(at, &[0xff]).ok_or(Errno::NOMEM)
}

/// Returns the special registers of a processor that runs a user program in 64-bit mode. `root` is the address of the
/// top-level page table. All other values are taken from `before`.
pub(super) fn sregs(root: u64, before: kvm_sregs) -> kvm_sregs {
    /// Protected mode, paging, the floating-point unit, and write protection that also applies to kernel mode.
    const CR0: u64 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1;
    /// 64-bit page table entries, and vector registers.
    const CR4: u64 = 1 << 18 | 1 << 10 | 1 << 9 | 1 << 5;
    /// System calls, 64-bit mode, and no-execute pages.
    const EFER: u64 = 1 << 11 | 1 << 10 | 1 << 8 | 1;
    let table = |base, len: usize| kvm_dtable { base, limit: len as u16 - 1, ..Default::default() };
    let code = kvm_segment {
        limit: u32::MAX,
        selector: USER_CODE,
        type_: 0xb,
        present: 1,
        dpl: 3,
        s: 1,
        l: 1,
        g: 1,
        ..Default::default()
    };
    let data = kvm_segment { selector: USER_DATA, type_: 3, l: 0, db: 1, ..code };
    let task = kvm_segment {
        base: TSS,
        limit: tss().len() as u32 - 1,
        selector: TSS_SELECTOR,
        type_: 0xb,
        present: 1,
        ..Default::default()
    };
    kvm_sregs {
        cs: code,
        ds: data,
        es: data,
        fs: data,
        gs: data,
        ss: data,
        tr: task,
        gdt: table(GDT, gdt().len()),
        idt: table(IDT, idt().len()),
        cr0: CR0,
        cr3: root,
        cr4: CR4,
        efer: EFER,
        ..before
    }
}

/// Returns the model-specific registers that define where system calls jump to and which flags they clear.
pub(super) fn msrs() -> [kvm_msr_entry; 3] {
    const STAR: u32 = 0xc000_0081;
    const LSTAR: u32 = 0xc000_0082;
    const SFMASK: u32 = 0xc000_0084;
    /// The flags that a system call clears: trap, interrupt, direction, I/O privilege, nested task and alignment check.
    const OFF: u64 = 1 << 8 | 1 << 9 | 1 << 10 | 0b11 << 12 | 1 << 14 | 1 << 18;
    let segments = u64::from(KERNEL_CODE) << 32 | u64::from(USER_DATA - 8) << 48;
    [(STAR, segments), (LSTAR, CALL_CODE), (SFMASK, OFF)].map(|(index, data)| kvm_msr_entry {
        index,
        data,
        ..Default::default()
    })
}

fn gdt() -> Vec<u8> {
    let entries: [u64; 7] = [
        0,
        // Kernel code, kernel data, user data and user code. Each entry is marked as accessed, because the processor
        // could not set that bit in a read-only page.
        0x00af_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        0x00cf_f300_0000_ffff,
        0x00af_fb00_0000_ffff,
        0x0000_8b00_0000_0000 | (tss().len() as u64 - 1) | TSS << 16,
        0,
    ];
    entries.iter().flat_map(|it| it.to_le_bytes()).collect()
}

/// Returns the interrupt descriptor table. Each exception has its own entry point. All of them use one stack, which is
/// separate from the stack of the guest's program. The guest cannot invoke any gate with `int`, because all gates
/// require kernel privilege.
fn idt() -> Vec<u8> {
    let gate = |vector: u64| {
        let at = FAULT_CODE + vector * FAULT_STUB_SIZE as u64;
        // A present gate with kernel privilege that uses the first interrupt stack of the task.
        let low = at & 0xffff | u64::from(KERNEL_CODE) << 16 | 1 << 32 | 0x8e << 40;
        [low, 0]
    };
    let gates = (0..u64::from(EXCEPTIONS)).flat_map(gate);
    gates.flat_map(u64::to_le_bytes).collect()
}

fn tss() -> Vec<u8> {
    let mut task = vec![0; TSS_SIZE];
    let stack = (STACK + 0x1000).to_le_bytes();
    task[4..12].copy_from_slice(&stack);
    task[36..44].copy_from_slice(&stack);
    task[102..104].copy_from_slice(&(TSS_SIZE as u16).to_le_bytes());
    let mut ports = [0xff; IO_BITMAP_PORTS / 8];
    ports[usize::from(CALL_PORT) / 8] &= !(1 << (CALL_PORT % 8));
    task.extend(ports);
    // The processor requires the bitmap to end with a byte of ones.
    task.push(0xff);
    task
}

const FAULT_STUB_SIZE: usize = 4;

/// Returns the instructions `out PORT, al; hlt` for each exception.
fn fault_code() -> Vec<u8> {
    let each = |vector| [0xe6, (FAULT_PORT + vector) as u8, 0xf4, 0xf4];
    (0..EXCEPTIONS).flat_map(each).collect()
}

/// Returns the instructions `out CALL_PORT, al; sysretq`, and a `syscall` instruction at [`PROBE_CALL`].
fn call_code() -> Vec<u8> {
    let mut code = vec![0xf4; 0x20];
    code[..5].copy_from_slice(&[0xe6, CALL_PORT as u8, 0x48, 0x0f, 0x07]);
    let first = (PROBE_CALL - CALL_CODE) as usize;
    code[first..first + 2].copy_from_slice(&[0x0f, 0x05]);
    code
}
