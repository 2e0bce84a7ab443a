//! The list of supported system calls. All others fail with `ENOSYS`.

use nix::libc;
use rustix::io::Errno;

use super::{
    Kernel,
    call::{Call, CallResult, GuestExit},
    files::AT_CWD,
    host::HostIo,
    transfer::Position,
};

impl<O: HostIo> Kernel<O> {
    /// Handles a system call. Fails with `ENOSYS` if the call is not on the list.
    pub(super) fn dispatch(&mut self, call: Call) -> CallResult {
        let [a, b, c, d, e, f] = call.args;
        let Ok(number) = i64::try_from(call.number) else { return Err(Errno::NOSYS.into()) };
        match number {
            // Memory.
            libc::SYS_brk => self.brk(a),
            libc::SYS_mmap => self.mmap([a, b, c, d, e, f]),
            libc::SYS_munmap => self.munmap(a, b),
            libc::SYS_mprotect => self.mprotect(a, b, c),
            libc::SYS_madvise => self.madvise(a, b, c),

            // Descriptors.
            libc::SYS_close => self.close(a),
            libc::SYS_dup => self.dup(a, 0),
            libc::SYS_fcntl => self.fcntl(a, b, c),
            libc::SYS_ioctl => self.ioctl(a, b, c),
            libc::SYS_pipe2 => self.pipe(a, b),
            libc::SYS_socketpair => self.socket_pair(a, b, d),
            libc::SYS_eventfd2 => self.eventfd(a, b),
            libc::SYS_epoll_create1 => self.epoll_create(),
            libc::SYS_epoll_ctl => self.epoll_ctl(a, b, c, d),
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => self.epoll_wait(a, b, c, d),
            libc::SYS_poll => self.poll(a, b, c),

            // Reading and writing.
            libc::SYS_read => self.read(a, b, c, Position::Current),
            libc::SYS_write => self.write(a, b, c, Position::Current),
            libc::SYS_readv => self.read_vector(a, b, c),
            libc::SYS_writev => self.write_vector(a, b, c),
            libc::SYS_pread64 => self.read(a, b, c, Position::At(d)),
            libc::SYS_pwrite64 => self.write(a, b, c, Position::At(d)),
            libc::SYS_recvfrom => self.receive(a, [b, c], d, e),
            libc::SYS_sendto => self.send(a, [b, c], d, e),
            libc::SYS_lseek => self.seek(a, b, c),

            // Files.
            libc::SYS_open => self.open_at(AT_CWD, a, b, c),
            libc::SYS_openat => self.open_at(a, b, c, d),
            libc::SYS_fstat => self.fstat(a, b),
            libc::SYS_newfstatat => self.stat_at(a, b, c, d),
            libc::SYS_statx => self.statx(a, b, c, e),
            libc::SYS_getdents64 => self.getdents(a, b, c),
            libc::SYS_mkdir => self.make_dir(AT_CWD, a, b),
            libc::SYS_mkdirat => self.make_dir(a, b, c),
            libc::SYS_unlink => self.unlink_at(AT_CWD, a, 0),
            libc::SYS_rmdir => self.unlink_at(AT_CWD, a, libc::AT_REMOVEDIR as u64),
            libc::SYS_unlinkat => self.unlink_at(a, b, c),
            libc::SYS_rename => self.rename(AT_CWD, a, AT_CWD, b),
            libc::SYS_renameat => self.rename(a, b, c, d),
            libc::SYS_symlink => self.make_link(a, AT_CWD, b),
            libc::SYS_symlinkat => self.make_link(a, b, c),
            libc::SYS_readlink => self.read_link(AT_CWD, a, b, c),
            libc::SYS_readlinkat => self.read_link(a, b, c, d),
            libc::SYS_access => self.access(AT_CWD, a),
            libc::SYS_faccessat | libc::SYS_faccessat2 => self.access(a, b),
            libc::SYS_chmod => self.chmod(AT_CWD, a, b),
            libc::SYS_fchmodat => self.chmod(a, b, c),
            libc::SYS_ftruncate => self.truncate(a, b),
            libc::SYS_fsync | libc::SYS_fdatasync => self.open(a).map(|_| 0).map_err(Into::into),
            libc::SYS_statfs => self.statfs(b),
            libc::SYS_fstatfs => self.open(a).map_err(Into::into).and_then(|_| self.statfs(b)),
            libc::SYS_getcwd => self.getcwd(a, b),
            libc::SYS_chdir => self.chdir(a),

            // Time, randomness, waiting.
            libc::SYS_clock_gettime => self.clock_gettime(a, b),
            libc::SYS_clock_getres => self.clock_getres(a, b),
            libc::SYS_nanosleep => self.nanosleep(a),
            libc::SYS_clock_nanosleep => self.clock_nanosleep(a, b, c),
            libc::SYS_getrandom => self.getrandom(a, b),
            libc::SYS_futex => self.futex(a, b, c, d),

            // The process, the thread, the user and the processor. There is only one of each.
            libc::SYS_getpid | libc::SYS_gettid | libc::SYS_set_tid_address => Ok(process_id()),
            libc::SYS_getuid | libc::SYS_geteuid | libc::SYS_getgid | libc::SYS_getegid => {
                Ok(65_534)
            }
            libc::SYS_sched_getaffinity => self.affinity(b, c),
            libc::SYS_prlimit64 => self.resource_limits(b, c, d),
            libc::SYS_getrusage => self.usage(b),
            libc::SYS_uname => self.uname(a),
            libc::SYS_set_robust_list | libc::SYS_sched_yield => Ok(0),
            // Creating a thread fails with `EAGAIN`, which programs handle. Creating a process is not supported at all.
            libc::SYS_clone if a & libc::CLONE_THREAD as u64 != 0 => Err(Errno::AGAIN.into()),

            // Signals. Only the guest itself can send a signal, and the signal ends the guest.
            libc::SYS_rt_sigaction => self.ignore_signal_setup(c, 32),
            libc::SYS_rt_sigprocmask => self.ignore_signal_setup(c, 8),
            libc::SYS_sigaltstack => self.ignore_signal_setup(b, 24),
            libc::SYS_kill | libc::SYS_tkill => self.send_signal(a, b),
            libc::SYS_tgkill => self.send_signal(b, c),
            libc::SYS_exit | libc::SYS_exit_group => Self::exit(GuestExit::Code(a as u8 as i32)),
            _ => Err(Errno::NOSYS.into()),
        }
    }
}

/// Returns the id of the guest's only process. It is not 1, because process 1 would be expected to wait for orphaned
/// processes.
pub(super) fn process_id() -> u64 {
    2
}
