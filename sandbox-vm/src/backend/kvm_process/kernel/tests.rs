use nix::libc;
use rustix::io::Errno;

use super::{
    Call, CallOutcome, GuestExit, Kernel,
    fuzz::{FakeHost, PAGES, small_kernel as kernel},
};
use crate::backend::kvm_process::{ram::PAGE, space::USER};

#[track_caller]
fn call(kernel: &mut Kernel<FakeHost>, number: i64, args: &[u64]) -> Result<u64, Errno> {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    match kernel.call(Call { number: number as u64, args: all }) {
        CallOutcome::Return(value) if value.cast_signed() < 0 && value.cast_signed() > -4096 => {
            Err(Errno::from_raw_os_error(-(value as i32)))
        }
        CallOutcome::Return(value) => Ok(value),
        other => panic!("{other:?}"),
    }
}

fn text(kernel: &mut Kernel<FakeHost>, text: &str) -> u64 {
    kernel.space.write(PAGES, text.as_bytes()).unwrap();
    kernel.space.write(PAGES + text.len() as u64, b"\0").unwrap();
    PAGES
}

#[test]
fn mappings_are_bounded_and_never_writable_and_executable() {
    let mut kernel = kernel();
    let (none, both) = (0, (libc::PROT_WRITE | libc::PROT_EXEC) as u64);
    let (rw, rx) =
        ((libc::PROT_READ | libc::PROT_WRITE) as u64, (libc::PROT_READ | libc::PROT_EXEC) as u64);
    let (anonymous, fixed) = (libc::MAP_ANONYMOUS as u64, libc::MAP_FIXED as u64);
    let map = |kernel: &mut _, at, len, access, flags| {
        call(kernel, libc::SYS_mmap, &[at, len, access, flags, u64::MAX, 0])
    };
    let at = map(&mut kernel, 0, 100, rw, anonymous).unwrap();
    kernel.space.write(at + PAGE - 1, b"x").unwrap();
    assert_eq!(map(&mut kernel, 0, PAGE, both, anonymous), Err(Errno::ACCESS));
    assert_eq!(call(&mut kernel, libc::SYS_mprotect, &[at, PAGE, both]), Err(Errno::ACCESS));
    assert_eq!(call(&mut kernel, libc::SYS_mprotect, &[at, PAGE, rx]), Ok(0));
    assert_eq!(kernel.space.write(at, b"x"), Err(Errno::FAULT));
    for (at, len) in
        [(0, PAGE), (0x6000, PAGE), (USER.end, PAGE), (!0xfff, PAGE), (at + 1, PAGE), (at, 0)]
    {
        assert_eq!(map(&mut kernel, at, len, rw, anonymous | fixed), Err(Errno::INVAL), "{at:#x}");
    }
    assert_eq!(map(&mut kernel, 0, u64::MAX, none, anonymous), Err(Errno::NOMEM));
    assert_eq!(map(&mut kernel, 0, PAGE, rw, 0), Err(Errno::BADF));
    let channel = call(&mut kernel, libc::SYS_mmap, &[0, PAGE, rw, libc::MAP_PRIVATE as u64, 0, 0]);
    assert_eq!(channel, Err(Errno::NODEV));
    assert_eq!(map(&mut kernel, 0, 1 << 30, rw, anonymous), Err(Errno::NOMEM));
    let heap = call(&mut kernel, libc::SYS_brk, &[0]).unwrap();
    assert_eq!(call(&mut kernel, libc::SYS_brk, &[heap + 10]), Ok(heap + 10));
    assert_eq!(call(&mut kernel, libc::SYS_brk, &[heap + (1 << 30)]), Ok(heap + 10));
}

#[test]
fn files_are_accessed_through_descriptors() {
    let mut kernel = kernel();
    let path = text(&mut kernel, "note");
    let flags = (libc::O_RDWR | libc::O_CREAT) as u64;
    let cwd = libc::AT_FDCWD as u64;
    let fd = call(&mut kernel, libc::SYS_openat, &[cwd, path, flags, 0o644]).unwrap();
    kernel.space.write(PAGES, b"hello").unwrap();
    assert_eq!(call(&mut kernel, libc::SYS_write, &[fd, PAGES, 5]), Ok(5));
    assert_eq!(call(&mut kernel, libc::SYS_lseek, &[fd, 1, 0]), Ok(1));
    assert_eq!(call(&mut kernel, libc::SYS_read, &[fd, PAGES + 100, 50]), Ok(4));
    assert_eq!(kernel.read_bytes(PAGES + 100, 4).unwrap(), b"ello");
    // A write far beyond the end of the file fails, because the file would not fit on the disk.
    assert_eq!(call(&mut kernel, libc::SYS_pwrite64, &[fd, PAGES, 5, 1 << 40]), Err(Errno::NOSPC));
    for path in [
        "/etc/passwd", "/etc/ld.so.cache", "/proc/self/exe", "/dev/kvm", "/lib", "/lib/libc.so.6",
        "/lib/../lib/x.so", "lib/x.so", "../etc", "",
    ] {
        let path = text(&mut kernel, path);
        assert_eq!(call(&mut kernel, libc::SYS_openat, &[cwd, path, 0, 0]), Err(Errno::NOENT));
    }
    let path = text(&mut kernel, "/owned");
    assert_eq!(call(&mut kernel, libc::SYS_openat, &[cwd, path, flags, 0]), Err(Errno::ROFS));
}

#[test]
fn libraries_are_mapped_privately_and_never_written() {
    let mut kernel = kernel();
    let cwd = libc::AT_FDCWD as u64;
    let path = text(&mut kernel, "/lib/x.so");
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC] {
        let opened = call(&mut kernel, libc::SYS_openat, &[cwd, path, flags as u64, 0]);
        assert_eq!(opened, Err(Errno::ROFS), "{flags:#x}");
    }
    let fd = call(&mut kernel, libc::SYS_openat, &[cwd, path, 0, 0]).unwrap();
    assert_eq!(call(&mut kernel, libc::SYS_write, &[fd, PAGES, 4]), Err(Errno::BADF));
    assert_eq!(call(&mut kernel, libc::SYS_ftruncate, &[fd, 0]), Err(Errno::INVAL));
    // The file has two and a half pages.
    assert_eq!(call(&mut kernel, libc::SYS_lseek, &[fd, 0, 2]), Ok(2 * PAGE + 2048));
    assert_eq!(call(&mut kernel, libc::SYS_pread64, &[fd, PAGES, 100, 2 * PAGE + 2000]), Ok(48));
    assert_eq!(call(&mut kernel, libc::SYS_pread64, &[fd, PAGES, 100, 1 << 62]), Ok(0));

    let (read, rw) = (libc::PROT_READ as u64, (libc::PROT_READ | libc::PROT_WRITE) as u64);
    let (private, shared) = (libc::MAP_PRIVATE as u64, libc::MAP_SHARED as u64);
    let map = |kernel: &mut _, len, access, flags, offset| {
        call(kernel, libc::SYS_mmap, &[0, len, access, flags, fd, offset])
    };
    let every = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    assert_eq!(map(&mut kernel, PAGE, every, private, 0), Err(Errno::ACCESS));
    assert_eq!(map(&mut kernel, PAGE, read, shared, 0), Err(Errno::ACCESS));
    assert_eq!(map(&mut kernel, PAGE, read, private, 1), Err(Errno::INVAL));
    // Pages after the end of the file are zero, even if the whole mapping is after it.
    let at = map(&mut kernel, 5 * PAGE, rw, private, PAGE).unwrap();
    assert_eq!(kernel.read_bytes(at + PAGE + 2047, 3).unwrap(), b"l\0\0");
    assert_eq!(
        kernel.read_bytes(at + 2 * PAGE, 3 * PAGE as usize).unwrap(),
        [0; 3 * PAGE as usize]
    );
    let beyond = map(&mut kernel, PAGE, read, private, !(PAGE - 1)).unwrap();
    assert_eq!(kernel.read_bytes(beyond, 1).unwrap(), [0]);
    kernel.space.write(at, b"changed").unwrap();
    let again = map(&mut kernel, PAGE, read, private, PAGE).unwrap();
    assert_eq!(kernel.read_bytes(again, 7).unwrap(), b"lllllll");
    assert_eq!(kernel.space.write(again, b"x"), Err(Errno::FAULT));
    kernel.space.audit();
}

#[test]
fn repeated_library_mappings_exhaust_only_the_guest() {
    let mut kernel = kernel();
    let path = text(&mut kernel, "/lib/x.so");
    let fd = call(&mut kernel, libc::SYS_openat, &[libc::AT_FDCWD as u64, path, 0, 0]).unwrap();
    let (read, private) = (libc::PROT_READ as u64, libc::MAP_PRIVATE as u64);
    let error = (0..1000).find_map(|_| {
        let at = call(&mut kernel, libc::SYS_mmap, &[0, 3 * PAGE, read, private, fd, 0]);
        at.and_then(|at| call(&mut kernel, libc::SYS_munmap, &[at, 3 * PAGE])).err()
    });
    assert_eq!(error, Some(Errno::NOMEM));
    assert!(kernel.space.ran_out_of_memory());
    // The pages of earlier mappings are available as anonymous memory.
    let (rw, anonymous) = ((libc::PROT_READ | libc::PROT_WRITE) as u64, libc::MAP_ANONYMOUS as u64);
    let at = call(&mut kernel, libc::SYS_mmap, &[0, 64 * PAGE, rw, anonymous, 0, 0]).unwrap();
    assert_eq!(kernel.read_bytes(at, 64 * PAGE as usize).unwrap(), [0; 64 * PAGE as usize]);
    kernel.space.audit();
}

#[test]
fn channel_is_reported_again_after_new_input() {
    let mut kernel = kernel();
    let poll = call(&mut kernel, libc::SYS_epoll_create1, &[0]).unwrap();
    let event = [(libc::EPOLLIN | libc::EPOLLET) as u32, 42, 0].map(u32::to_le_bytes).concat();
    kernel.space.write(PAGES, &event).unwrap();
    call(&mut kernel, libc::SYS_epoll_ctl, &[poll, libc::EPOLL_CTL_ADD as u64, 0, PAGES]).unwrap();
    call(&mut kernel, libc::SYS_fcntl, &[0, libc::F_SETFL as u64, libc::O_NONBLOCK as u64])
        .unwrap();
    let wait = |kernel: &mut _| call(kernel, libc::SYS_epoll_wait, &[poll, PAGES, 8, 0]);
    assert_eq!(wait(&mut kernel), Ok(0));
    kernel.host.inbox.extend(b"twelve bytes");
    assert_eq!(wait(&mut kernel), Ok(1));
    assert_eq!(kernel.read_bytes(PAGES + 4, 8).unwrap(), 42_u64.to_le_bytes());
    assert_eq!(wait(&mut kernel), Ok(0), "reported twice");
    assert_eq!(call(&mut kernel, libc::SYS_read, &[0, PAGES, 6]), Ok(6));
    assert_eq!(wait(&mut kernel), Ok(0), "reported although it can continue reading");
    assert_eq!(call(&mut kernel, libc::SYS_read, &[0, PAGES, 100]), Ok(6));
    assert_eq!(call(&mut kernel, libc::SYS_read, &[0, PAGES, 100]), Err(Errno::AGAIN));
    kernel.host.inbox.extend(b"more");
    assert_eq!(wait(&mut kernel), Ok(1));
}

#[test]
fn short_write_is_followed_by_a_writable_event() {
    let mut kernel = kernel();
    let poll = call(&mut kernel, libc::SYS_epoll_create1, &[0]).unwrap();
    let event = [(libc::EPOLLOUT | libc::EPOLLET) as u32, 0, 0].map(u32::to_le_bytes).concat();
    kernel.space.write(PAGES, &event).unwrap();
    call(&mut kernel, libc::SYS_epoll_ctl, &[poll, libc::EPOLL_CTL_ADD as u64, 0, PAGES]).unwrap();
    let wait = |kernel: &mut _| call(kernel, libc::SYS_epoll_wait, &[poll, PAGES, 8, 0]);
    assert_eq!((wait(&mut kernel), wait(&mut kernel)), (Ok(1), Ok(0)));
    // A write of more bytes than one call transfers is short, although the channel would accept all of them.
    let iovecs = [PAGES, PAGE].map(u64::to_le_bytes).concat().repeat(512);
    kernel.space.write(PAGES + PAGE, &iovecs).unwrap();
    assert_eq!(call(&mut kernel, libc::SYS_writev, &[0, PAGES + PAGE, 512]), Ok(1 << 20));
    assert_eq!((wait(&mut kernel), wait(&mut kernel)), (Ok(1), Ok(0)));
    assert_eq!(call(&mut kernel, libc::SYS_write, &[0, PAGES, 5]), Ok(5));
    assert_eq!(wait(&mut kernel), Ok(0));
}

#[test]
fn waiting_for_another_thread_ends_the_guest() {
    let mut kernel = kernel();
    let waits = [
        (libc::SYS_futex, [PAGES, libc::FUTEX_WAIT as u64, 0, 0]),
        (libc::SYS_poll, [PAGES, 0, u64::MAX, 0]),
    ];
    for (number, [a, b, c, d]) in waits {
        let step = kernel.call(Call { number: number as u64, args: [a, b, c, d, 0, 0] });
        assert!(matches!(step, CallOutcome::Exit(GuestExit::Deadlock)), "{step:?}");
    }
    call(&mut kernel, libc::SYS_pipe2, &[PAGES, 0]).unwrap();
    let step = kernel.call(Call { number: libc::SYS_read as u64, args: [3, PAGES, 1, 0, 0, 0] });
    assert!(matches!(step, CallOutcome::Exit(GuestExit::Deadlock)), "{step:?}");
}

#[test]
fn unlisted_calls_fail_with_enosys() {
    let mut kernel = kernel();
    for number in [
        libc::SYS_socket,
        libc::SYS_execve,
        libc::SYS_fork,
        libc::SYS_clone3,
        libc::SYS_ptrace,
        libc::SYS_mount,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_process_vm_readv,
        9999,
        -1,
        i64::MIN,
    ] {
        assert_eq!(call(&mut kernel, number, &[]), Err(Errno::NOSYS), "{number}");
    }
}
