//! System calls without a safe wrapper. Programs that attempt to escape make them directly.
#![expect(unsafe_code, reason = "these system calls have no safe wrapper")]

use std::{fs::File, io, os::fd::AsRawFd};

use nix::{errno::Errno, libc};

/// System calls for communication between processes that do not share a file.
const IPC: &[(&str, libc::c_long)] = &[
    ("shmget", libc::SYS_shmget),
    ("shmat", libc::SYS_shmat),
    ("shmctl", libc::SYS_shmctl),
    ("semget", libc::SYS_semget),
    ("semop", libc::SYS_semop),
    ("semctl", libc::SYS_semctl),
    ("msgget", libc::SYS_msgget),
    ("msgsnd", libc::SYS_msgsnd),
    ("msgrcv", libc::SYS_msgrcv),
    ("msgctl", libc::SYS_msgctl),
    ("mq_open", libc::SYS_mq_open),
    ("mq_unlink", libc::SYS_mq_unlink),
    ("mq_timedsend", libc::SYS_mq_timedsend),
    ("mq_notify", libc::SYS_mq_notify),
];

/// System calls that have often had vulnerabilities, that reach other processes, or that change the system.
const KERNEL: &[(&str, libc::c_long)] = &[
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("keyctl", libc::SYS_keyctl),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_setup", libc::SYS_io_setup),
    ("vmsplice", libc::SYS_vmsplice),
    ("clone3", libc::SYS_clone3),
    ("setns", libc::SYS_setns),
    ("chroot", libc::SYS_chroot),
    ("pivot_root", libc::SYS_pivot_root),
    ("fsopen", libc::SYS_fsopen),
    ("fsmount", libc::SYS_fsmount),
    ("open_tree", libc::SYS_open_tree),
    ("move_mount", libc::SYS_move_mount),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("process_madvise", libc::SYS_process_madvise),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("kcmp", libc::SYS_kcmp),
    ("move_pages", libc::SYS_move_pages),
    ("migrate_pages", libc::SYS_migrate_pages),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("kexec_load", libc::SYS_kexec_load),
    ("delete_module", libc::SYS_delete_module),
    ("swapon", libc::SYS_swapon),
    ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl),
    ("syslog", libc::SYS_syslog),
    ("vhangup", libc::SYS_vhangup),
    ("personality", libc::SYS_personality),
    ("settimeofday", libc::SYS_settimeofday),
    ("adjtimex", libc::SYS_adjtimex),
    ("setdomainname", libc::SYS_setdomainname),
    ("setgroups", libc::SYS_setgroups),
    ("sched_setscheduler", libc::SYS_sched_setscheduler),
    ("sched_setattr", libc::SYS_sched_setattr),
    ("ioprio_set", libc::SYS_ioprio_set),
    ("setxattr", libc::SYS_setxattr),
    ("memfd_secret", libc::SYS_memfd_secret),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    ("modify_ldt", libc::SYS_modify_ldt),
    #[cfg(target_arch = "x86_64")]
    ("getpid of the x32 interface", 0x4000_0000 | libc::SYS_getpid),
];

/// Options of `prctl` that no program needs. Some of them make the kernel allocate memory, and others expose rarely
/// used kernel code.
const OPTIONS: &[(&str, libc::c_long)] = &[
    ("PR_SET_SECCOMP", 22),
    ("PR_SET_TSC", 26),
    ("PR_SET_SECUREBITS", 28),
    ("PR_TASK_PERF_EVENTS_DISABLE", 31),
    ("PR_MCE_KILL", 33),
    ("PR_SET_MM", 35),
    ("PR_SET_SPECULATION_CTRL", 53),
    ("PR_SET_SYSCALL_USER_DISPATCH", 59),
    ("PR_SCHED_CORE", 62),
    ("PR_SET_MEMORY_MERGE", 67),
    ("PR_FUTEX_HASH", PR_FUTEX_HASH),
];

/// Option of `prctl` that sets the size of a process's futex hash table, which takes kernel memory.
const PR_FUTEX_HASH: libc::c_long = 78;

/// Makes all system calls of a group. Always returns an error: `Unsupported` if every call fails with `ENOSYS`, and
/// otherwise an error that lists the calls with other results.
pub(crate) fn make_all(group: &str) -> io::Result<()> {
    type Call = fn(libc::c_long) -> Result<libc::c_long, Errno>;
    let (calls, call): (_, Call) = match group {
        "ipc" => (IPC, call_without_arguments),
        "kernel" => (KERNEL, call_without_arguments),
        "options" => (OPTIONS, set_option_to_zero),
        _ => return Err(io::Error::other("unknown group of system calls")),
    };
    let answers = calls.iter().map(|(name, number)| (name, call(*number)));
    let answered: Vec<String> = answers
        .filter(|(_, answer)| *answer != Err(Errno::ENOSYS))
        .map(|(name, answer)| format!("{name}: {answer:?}"))
        .collect();
    match answered.is_empty() {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Err(io::Error::other(answered.join(", "))),
    }
}

fn call_without_arguments(number: libc::c_long) -> Result<libc::c_long, Errno> {
    // SAFETY: all arguments are zero, so no call gets a valid pointer. No listed call then changes the memory of this
    // process or closes its descriptors.
    Errno::result(unsafe {
        libc::syscall(number, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize)
    })
}

fn set_option_to_zero(option: libc::c_long) -> Result<libc::c_long, Errno> {
    prctl(option, 0, 0)
}

fn prctl(option: libc::c_long, first: usize, second: usize) -> Result<libc::c_long, Errno> {
    // SAFETY: no option that is used here takes a pointer as one of its first two arguments, except `PR_SET_SECCOMP`,
    // which gets a null pointer.
    Errno::result(unsafe {
        libc::syscall(libc::SYS_prctl, option, first, second, 0_usize, 0_usize)
    })
}

/// Makes the kernel allocate a table with `slots` entries of 64 bytes for this process.
pub(crate) fn allocate_futex_table(slots: usize) -> io::Result<()> {
    /// Suboption that sets the number of entries.
    const PR_FUTEX_HASH_SET_SLOTS: usize = 1;
    Ok(prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, slots).map(drop)?)
}

/// Ends the main thread, from which this function must be called, but not the process.
pub(crate) fn end_main_thread() -> ! {
    loop {
        // SAFETY: the thread ends without unwinding. Nothing borrows from its stack, because the other threads own all
        // that they use.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// `ioctl` requests that put text into the input of a terminal.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// Sends an `ioctl` request that puts text into the input of a terminal, to standard input. The kernel ignores the
/// upper half of the request's number, so a filter must ignore it too.
pub(crate) fn request_of_terminal(request: &str) -> io::Result<()> {
    let request = match request {
        "TIOCSTI" => TIOCSTI,
        "TIOCLINUX" => TIOCLINUX,
        "TIOCSTI-with-upper-half" => TIOCSTI | 1 << 32,
        _ => return Err(io::Error::other("unknown request")),
    };
    // Subcommand 3 of `TIOCLINUX` pastes the selection.
    let argument = [3_u8; 64];
    // SAFETY: the kernel reads at most the bytes of the argument.
    let answer = unsafe { libc::syscall(libc::SYS_ioctl, 0, request, argument.as_ptr()) };
    Ok(Errno::result(answer).map(drop)?)
}

/// Takes a lease on a file, which delays every process that opens the file for writing.
pub(crate) fn lease(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the command changes no memory of this process.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    Ok(Errno::result(answer).map(drop)?)
}

/// Number of the command `F_SETDELEG` of `fcntl`.
const F_SETDELEG: libc::c_int = 1040;

/// Takes a delegation on a file, which has the same effect as a lease. Older kernels do not have the command.
pub(crate) fn delegation(file: &File) -> io::Result<()> {
    // The kernel's `struct delegation` has eight bytes. All of them are zero for `F_RDLCK`.
    let mut argument = [0_u32; 2];
    // SAFETY: the descriptor is open, and the kernel reads and writes at most the argument.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), F_SETDELEG, argument.as_mut_ptr()) };
    Ok(Errno::result(answer).map(drop)?)
}

/// Makes the kernel forget the children of this process when they end.
pub(crate) fn ignore_exits_of_children() -> io::Result<()> {
    // SAFETY: no handler is installed, and nothing in this process depends on the signal.
    match unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Makes the system call `getpid` as a 32-bit program does. Its number is that of the permitted `writev` in a 64-bit
/// program, so a filter that does not check the architecture of the call permits it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_as_32_bit_program() -> io::Result<()> {
    const GETPID: i64 = 20;
    let mut value = GETPID;
    // SAFETY: the call has no arguments and changes no memory. All registers that it may change are listed.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") value,
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
            options(nostack),
        );
    }
    if value > 0 { Ok(()) } else { Err(io::Error::other("the kernel refused the call")) }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn call_as_32_bit_program() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
