//! Fuzz target for a hostile guest, whose actions are determined by a byte string.

use std::{
    collections::VecDeque, fs::File, os::unix::fs::FileExt, rc::Rc, sync::LazyLock, time::Duration,
};

use fuzz_testkit::Fuzzer;
use nix::libc;
use rustix::io::Errno;

use super::{Call, CallOutcome, Clock, HostIo, Kernel, Readiness};
use crate::backend::kvm_process::{
    boot,
    disk::Capacity,
    library::Library,
    ram::{PAGE, Ram},
    space::{Access, AddressSpace, USER},
};

pub(super) const PAGES: u64 = USER.start;

pub(super) const HEAP: u64 = USER.start + 0x10_0000;

/// Maximum number of actions of one guest. Longer scripts would only make failures harder to analyse.
const MAX_ACTIONS: usize = 200;

/// Runs a guest whose actions are determined by the bytes. An action is a system call, a write to the guest's own
/// memory, or the arrival of data from the host. Panics if the bookkeeping of memory or files becomes inconsistent.
/// Returns the distinct actions. Of the results of system calls, only errors are included.
fn run_guest(bytes: &[u8]) -> Vec<Action> {
    let mut kernel = small_kernel();
    let mut script = Script(bytes);
    // Write paths and an I/O vector to guest memory, so that pointers in the script can refer to valid data.
    let texts = b"/tmp/a\0b/../c\0../x\0/workspace\0/lib/x.so\0";
    let piece = [PAGES + PAGE, 4096].map(u64::to_le_bytes).concat();
    for (page, content) in [(1, &texts[..]), (2, &piece)] {
        let _ = kernel.space.write(PAGES + page * PAGE, content);
    }
    let mut actions = Vec::new();
    while actions.len() < MAX_ACTIONS && !script.0.is_empty() {
        let action = act(&mut kernel, &mut script);
        actions.push(action);
        if action == Action::Exit {
            break;
        }
    }
    kernel.space.audit();
    let (all, free) = kernel.disk.capacity_and_free();
    assert!(free.bytes <= all.bytes && free.files <= all.files, "{free:?} of {all:?} are free");
    // Neither the order of the actions nor their number is a new behaviour.
    actions.sort_unstable();
    actions.dedup();
    actions
}

#[test]
fn no_guest_behaviour_makes_the_monitor_inconsistent() {
    let call = |number: libc::c_long, args: &[u8]| {
        let number = (number as u16).to_le_bytes();
        [&[2][..], &number, args].concat()
    };
    let pointer = |offset: u16| [&[6][..], &offset.to_le_bytes()].concat();
    let path = [vec![0, 0], pointer(PAGE as u16)].concat();
    let seeds = [
        call(libc::SYS_openat, &[&path[..], &[13, 3]].concat()),
        call(libc::SYS_mmap, &[0, 0, 0, 8, 0, 3, 13, 15]),
        call(libc::SYS_write, &[&[0, 1][..], &pointer(0), &[0, 9]].concat()),
        call(libc::SYS_brk, &[13, 7]),
        call(libc::SYS_mkdirat, &path),
        call(libc::SYS_getdents64, &[0, 3]),
        call(libc::SYS_writev, &[&[0, 1][..], &pointer(2 * PAGE as u16), &[0, 1]].concat()),
        call(libc::SYS_exit_group, &[0, 0]),
        vec![1, 4, b'p', b'i', b'n', b'g'],
    ];
    let all = seeds.concat();
    let numbers = (0..340u16).map(|it| [&[2][..], &it.to_le_bytes()].concat());
    Fuzzer::new("monitor").seeds(seeds).seed(all).words(numbers).run(run_guest);
}

/// Returns a kernel with low limits, so that every limit is reached soon.
pub(super) fn small_kernel() -> Kernel<FakeHost> {
    let ram = Ram::new(1 << 20).expect("a megabyte can be reserved");
    let mut space = AddressSpace::new(ram, boot::RESERVED).expect("the tables fit");
    space.map(&(PAGES..PAGES + 4 * PAGE), Access::Write).expect("four pages fit");
    let library = Library::new(b"x.so", library_file(), 1 << 48).expect("its length can be read");
    let capacity = Capacity { bytes: 64 << 10, files: 32 };
    Kernel::new(space, HEAP, vec![Rc::new(library)], capacity, FakeHost::default())
}

/// Returns a file of two and a half pages. All guests share it, because they cannot write to it.
fn library_file() -> File {
    static LIBRARY: LazyLock<File> = LazyLock::new(|| {
        let file = tempfile::tempfile().expect("a temporary file can be created");
        file.write_all_at(&[b'l'; 2 * PAGE as usize + 2048], 0).expect("it can be written");
        file
    });
    LIBRARY.try_clone().expect("its descriptor can be duplicated")
}

/// The behaviour of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Action {
    Write,
    Receive,
    /// A system call by its number, and its error.
    Call(u64, Option<u64>),
    SetThreadPointer,
    Exit,
}

fn act(kernel: &mut Kernel<FakeHost>, script: &mut Script<'_>) -> Action {
    match script.byte() % 8 {
        0 => {
            let (at, len) = (script.argument(), script.byte());
            // Ignore a fault, because it affects only the guest itself.
            let _ = kernel.space.write(at, script.take(len.into()));
            Action::Write
        }
        1 => {
            let len = script.byte();
            kernel.host.inbox.extend(script.take(len.into()));
            Action::Receive
        }
        _ => {
            let number = u64::from(u16::from_le_bytes([script.byte(), script.byte()])) % 340;
            let args = std::array::from_fn(|_| script.argument());
            match kernel.call(Call { number, args }) {
                CallOutcome::Return(value) => {
                    let is_error = (-4095..0).contains(&value.cast_signed());
                    Action::Call(number, is_error.then_some(value))
                }
                CallOutcome::SetThreadPointer(_) => Action::SetThreadPointer,
                CallOutcome::Exit(_) => Action::Exit,
            }
        }
    }
}

/// The bytes of a script that have not been interpreted yet.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns the next byte, or zero after the last one.
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Returns an argument of a system call. It is a valid pointer, a small number, an edge case that has broken
    /// kernels before, or an arbitrary number.
    fn argument(&mut self) -> u64 {
        const EDGES: [u64; 16] = [
            u64::MAX,
            1 << 63,
            (1 << 63) - 1,
            1 << 32,
            u32::MAX as u64,
            1 << 31,
            0x6000,
            HEAP,
            USER.end,
            USER.end - 1,
            1 << 47,
            PAGE,
            1 << 20,
            1 << 40,
            libc::AT_FDCWD as u64,
            (libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_FIXED) as u64,
        ];
        match self.byte() % 16 {
            0..=5 => u64::from(self.byte() % 16),
            6..=10 => {
                PAGES + u64::from(u16::from_le_bytes([self.byte(), self.byte()])) % (4 * PAGE)
            }
            11..=12 => PAGES + u64::from(self.byte() % 6) * PAGE,
            13..=14 => EDGES[usize::from(self.byte()) % EDGES.len()],
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }
}

/// A host that never blocks. Waiting only advances its clock.
#[derive(Debug, Default)]
pub(in crate::backend::kvm_process) struct FakeHost {
    pub(in crate::backend::kvm_process) inbox: VecDeque<u8>,
    pub(in crate::backend::kvm_process) sent: Vec<u8>,
    pub(in crate::backend::kvm_process) diagnostics: Vec<u8>,
    now: Duration,
}

impl HostIo for FakeHost {
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.inbox.is_empty() && !into.is_empty() {
            return Err(Errno::AGAIN);
        }
        let count = into.len().min(self.inbox.len());
        for (to, byte) in into.iter_mut().zip(self.inbox.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }

    fn send(&mut self, from: &[u8]) -> Result<usize, Errno> {
        self.sent.extend(from);
        Ok(from.len())
    }

    fn wait(&mut self, wanted: Readiness, timeout: Option<Duration>) -> Readiness {
        let ready = Readiness { input: !self.inbox.is_empty(), output: true, hangup: false };
        let is_ready = wanted.input && ready.input || wanted.output;
        match timeout {
            _ if is_ready => {}
            Some(timeout) => self.now = self.now.saturating_add(timeout),
            // A wait without a timeout ends because input arrives.
            None => self.inbox.push_back(b'!'),
        }
        ready
    }

    fn write_diagnostics(&mut self, bytes: &[u8]) {
        self.diagnostics.extend(bytes);
    }

    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), Errno> {
        into.fill(7);
        Ok(())
    }

    fn clock(&self, _: Clock) -> Duration {
        self.now
    }
}
