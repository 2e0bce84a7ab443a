//! The machine, which is a VM with one processor. It runs the guest's program from one system call to the next.
#![expect(unsafe_code, reason = "KVM takes memory by its address")]

use std::{
    io,
    os::fd::{FromRawFd, IntoRawFd, OwnedFd},
    rc::Rc,
};

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, Msrs, kvm_fpu, kvm_regs, kvm_sregs, kvm_userspace_memory_region,
    kvm_xcr, kvm_xcrs,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use super::{
    boot::{self, CALL_PORT, EXCEPTIONS, FAULT_PORT},
    kernel::{Call, CallOutcome, GuestExit, HostIo, Kernel},
    ram::Mapping,
    space::{AddressSpace, USER},
};

/// Processor flags that the guest may set for itself when a system call returns.
const USER_FLAGS: u64 = 0x0024_0cd5;

/// Addresses of the first instruction and of the stack with which a program starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPoint {
    pub(super) address: u64,
    pub(super) stack: u64,
}

/// A VM with a program in its memory.
#[derive(Debug)]
pub(super) struct Machine {
    // The fields are in drop order, because the memory has to outlive the VM.
    processor: VcpuFd,
    _vm: VmFd,
    _memory: Rc<Mapping>,
    syscall_privilege: SyscallPrivilege,
}

/// Privilege level in which KVM on this host executes a guest's system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyscallPrivilege {
    /// The call arrives in kernel mode, as on a physical processor. The `sysretq` instruction that the monitor has
    /// placed in the VM returns to the guest.
    Kernel,
    /// The call arrives in user mode, because it jumps without changing the privilege level. The monitor itself then
    /// returns to the guest.
    User,
}

impl Machine {
    /// Creates a VM that uses the memory of the address space.
    pub(super) fn new(kvm: OwnedFd, space: &mut AddressSpace) -> Result<Self, MachineError> {
        boot::write(space).map_err(io::Error::from).map_err(failed_to("write its boot tables"))?;
        // SAFETY: the descriptor is open and its ownership is transferred. It was opened as `/dev/kvm`. If it is
        // another file, its ioctls fail.
        let kvm = unsafe { Kvm::from_raw_fd(kvm.into_raw_fd()) };
        let vm = kvm.create_vm().map_err(failed_to("create a VM"))?;
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: space.ram().len(),
            userspace_addr: space.ram().host_address(),
        };
        // SAFETY: the region is the complete mapping of `Ram`, and the machine keeps the mapping alive for as long as
        // the VM exists. The guest writes to the mapping only while this thread is in `run`, and no other code accesses
        // the mapping during that time.
        unsafe { vm.set_user_memory_region(region) }
            .map_err(failed_to("assign memory to the VM"))?;
        let processor = vm.create_vcpu(0).map_err(failed_to("create a virtual processor"))?;
        configure_processor(&kvm, &processor, space)?;
        let memory = space.ram().mapping();
        let mut machine = Self {
            processor,
            _vm: vm,
            _memory: memory,
            syscall_privilege: SyscallPrivilege::Kernel,
        };
        machine.syscall_privilege = machine.probe_syscall_privilege()?;
        if machine.syscall_privilege == SyscallPrivilege::Kernel {
            boot::close_call_port(space)
                .map_err(io::Error::from)
                .map_err(failed_to("close the system call port"))?;
        }
        let sregs = machine.sregs()?;
        let user = boot::sregs(space.root(), sregs);
        machine.processor.set_sregs(&user).map_err(failed_to("set its registers"))?;
        Ok(machine)
    }

    /// Makes a test system call in the VM before the guest has run, and returns the privilege level in which the call
    /// arrives.
    fn probe_syscall_privilege(&mut self) -> Result<SyscallPrivilege, MachineError> {
        let regs = kvm_regs { rip: boot::PROBE_CALL, rflags: 2, ..Default::default() };
        self.processor.set_regs(&regs).map_err(failed_to("set its registers"))?;
        loop {
            match self.processor.run() {
                Ok(VcpuExit::IoOut(CALL_PORT, _)) => break,
                Err(error) if is_interrupted(&error) => {}
                other => {
                    let other = io::Error::other(format!("{other:?}"));
                    return Err(failed_to("make a test system call")(other));
                }
            }
        }
        match self.sregs()?.cs.dpl {
            0 => Ok(SyscallPrivilege::Kernel),
            _ => Ok(SyscallPrivilege::User),
        }
    }

    pub(super) fn run(
        &mut self,
        entry: EntryPoint,
        kernel: &mut Kernel<impl HostIo>,
    ) -> Result<GuestExit, MachineError> {
        let regs =
            kvm_regs { rip: entry.address, rsp: entry.stack, rflags: 2, ..Default::default() };
        self.processor.set_regs(&regs).map_err(failed_to("set its registers"))?;
        loop {
            let port = match self.processor.run() {
                Ok(VcpuExit::IoOut(port, _)) => port,
                Ok(other) => {
                    return Ok(GuestExit::Fault(format!(
                        "caused an unexpected VM exit: {other:?}"
                    )));
                }
                Err(error) if is_interrupted(&error) => continue,
                Err(error) => return Err(failed_to("run the virtual processor")(error)),
            };
            match port {
                CALL_PORT => {
                    if let Some(exit) = self.call(kernel)? {
                        return Ok(exit);
                    }
                }
                _ => return Ok(GuestExit::Fault(self.describe_exception(port, kernel.space())?)),
            }
        }
    }

    /// Handles a system call of the guest. Returns how the guest ended, or `None` if it continues.
    fn call(
        &mut self,
        kernel: &mut Kernel<impl HostIo>,
    ) -> Result<Option<GuestExit>, MachineError> {
        let mut regs = self.regs()?;
        let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
        match kernel.call(Call { number: regs.rax, args }) {
            CallOutcome::Return(value) => regs.rax = value,
            CallOutcome::SetThreadPointer(base) => {
                let mut sregs = self.sregs()?;
                sregs.fs.base = base;
                self.processor.set_sregs(&sregs).map_err(failed_to("set its registers"))?;
                regs.rax = 0;
            }
            CallOutcome::Exit(exit) => return Ok(Some(exit)),
        }
        if self.syscall_privilege == SyscallPrivilege::User {
            if !USER.contains(&regs.rcx) {
                return Ok(Some(GuestExit::Fault(format!(
                    "returned from a system call to {:#x}, which is outside its memory",
                    regs.rcx
                ))));
            }
            regs.rip = regs.rcx;
            regs.rflags = regs.r11 & USER_FLAGS | 2;
        }
        self.processor.set_regs(&regs).map_err(failed_to("set its registers"))?;
        Ok(None)
    }

    /// Describes the exception that the guest has caused.
    fn describe_exception(&self, port: u16, space: &AddressSpace) -> Result<String, MachineError> {
        let (regs, sregs) = (self.regs()?, self.sregs()?);
        let vector = port.wrapping_sub(FAULT_PORT);
        if vector >= EXCEPTIONS || sregs.cs.dpl != 0 {
            return Ok(format!("wrote to port {port:#x}"));
        }
        // Some exceptions push an error code after the return address, so that the error code is on top of the stack.
        let has_code = matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30);
        let mut at = [0; 8];
        let slot = regs.rsp.wrapping_add(if has_code { 8 } else { 0 });
        let _ = space.ram().read(slot, &mut at);
        let at = u64::from_le_bytes(at);
        let what = match vector {
            0 => "divided by zero",
            1 | 3 => "hit a debug trap",
            6 => "executed an instruction that does not exist",
            13 => "executed an instruction that is not allowed",
            14 => {
                let address = sregs.cr2;
                return Ok(format!(
                    "accessed {address:#x} without permission, by the instruction at {at:#x}"
                ));
            }
            _ => return Ok(format!("caused exception {vector} at {at:#x}")),
        };
        Ok(format!("{what} at {at:#x}"))
    }

    fn regs(&self) -> Result<kvm_regs, MachineError> {
        self.processor.get_regs().map_err(failed_to("read its registers"))
    }

    fn sregs(&self) -> Result<kvm_sregs, MachineError> {
        self.processor.get_sregs().map_err(failed_to("read its registers"))
    }
}

fn configure_processor(
    kvm: &Kvm,
    processor: &VcpuFd,
    space: &AddressSpace,
) -> Result<(), MachineError> {
    let features = kvm
        .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(failed_to("read the supported CPU features"))?;
    processor.set_cpuid2(&features).map_err(failed_to("set the CPU features"))?;
    let before = processor.get_sregs().map_err(failed_to("read its registers"))?;
    processor
        .set_sregs(&boot::sregs(space.root(), before))
        .map_err(failed_to("set its registers"))?;
    /// Processor state components that programs need for vector registers of up to 512 bits.
    const VECTORS: u64 = 0xe7;
    let states = features.as_slice().iter().find(|it| it.function == 0xd && it.index == 0);
    let value = states.map_or(1, |it| u64::from(it.eax)) & VECTORS;
    let mut registers = kvm_xcrs { nr_xcrs: 1, ..Default::default() };
    registers.xcrs[0] = kvm_xcr { xcr: 0, value, ..Default::default() };
    processor.set_xcrs(&registers).map_err(failed_to("set its vector registers"))?;
    // Mask all floating-point exceptions, as programs expect.
    let fpu = kvm_fpu { fcw: 0x37f, mxcsr: 0x1f80, ..Default::default() };
    processor.set_fpu(&fpu).map_err(failed_to("set its floating-point state"))?;
    let entries = boot::msrs();
    let msrs = Msrs::from_entries(&entries).map_err(|error| {
        failed_to("build the list of MSRs")(io::Error::other(format!("{error:?}")))
    })?;
    let written = processor.set_msrs(&msrs).map_err(failed_to("set the system call MSRs"))?;
    if written < entries.len() {
        return Err(failed_to("set the system call MSRs")(io::Error::from(
            io::ErrorKind::Unsupported,
        )));
    }
    Ok(())
}

fn is_interrupted(error: &kvm_ioctls::Error) -> bool {
    let codes = [rustix::io::Errno::INTR, rustix::io::Errno::AGAIN];
    codes.iter().any(|it| it.raw_os_error() == error.errno())
}

/// The error returned when the machine cannot be created or cannot continue.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {error}")]
pub(super) struct MachineError {
    what: &'static str,
    error: io::Error,
}

fn failed_to<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> MachineError {
    move |error| MachineError { what, error: error.into() }
}

#[cfg(test)]
mod tests;
