//! Programs that hold memory which the usual counters do not show: buffers of sockets, pipes and files of `/proc`, file
//! descriptors in flight, watches, locks, page tables, memory mappings, tables of waiting threads, and the memory of a
//! process whose main thread has ended.
#![expect(clippy::print_stdout, reason = "the parent process reads the output of its children")]

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
use rustix::{
    event::epoll,
    fs::{Mode, OFlags, inotify, mkdirat, openat},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair, sockopt,
    },
    pipe::{fcntl_setpipe_size, pipe},
};

use crate::{
    raw_calls::{allocate_futex_table, end_main_thread},
    shared_memory::{fragment_mapping, map_page, touch_sparse_pages},
};

/// Kinds of kernel memory that [`exhaust`] can allocate.
pub(crate) const KINDS: [&str; 13] = [
    "stream-sockets", "datagram-sockets", "listening-sockets", "descriptors-in-flight", "pipes",
    "inotify", "epoll", "locks", "page-tables", "mappings", "files-of-proc", "futex-tables",
    "no-main-thread",
];

/// Number of processes that allocate memory concurrently.
const PROCESSES: usize = 16;

/// Number of bytes that each process tries to make the kernel allocate.
const BYTES_PER_PROCESS: u64 = 48 << 20;

/// Number of bytes that the processes may hold together. It is three times the memory limit of the guest.
const ALLOWED_BYTES: u64 = 3 * (96 << 20);

/// Time in which the memory limit must take effect after all memory is allocated. It is long, because reading the
/// mappings of all processes is slow in gVisor on a busy machine.
const SAMPLING_TIME: Duration = Duration::from_secs(300);

/// Makes the kernel allocate memory for several processes. Returns the error `PermissionDenied` if the memory limit is
/// enforced: if the processes cannot allocate more than allowed, or if one of them is ended.
pub(crate) fn exhaust(program: &str, kind: &str) -> io::Result<()> {
    let start = |_| {
        let mut command = Command::new(program);
        command.args(["hold", kind]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    // A process without its main thread has two threads, which count against the limit on processes.
    let n_processes = if kind == "no-main-thread" { PROCESSES / 2 } else { PROCESSES };
    let mut children = (0..n_processes).map(start).collect::<io::Result<Vec<Child>>>()?;
    let mut held = 0;
    for child in &mut children {
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        held += line.trim().parse::<u64>().unwrap_or(0);
    }
    println!("{kind}: the processes hold {held} bytes of kernel memory");
    if held <= ALLOWED_BYTES {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let deadline = Instant::now() + SAMPLING_TIME;
    let ended = |it: &mut Child| it.try_wait().is_ok_and(|it| it.is_some());
    while Instant::now() < deadline {
        if children.iter_mut().any(ended) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Makes the kernel allocate memory of one kind, prints the number of bytes, and holds them until standard input
/// closes.
pub(crate) fn hold(kind: &str) -> io::Result<()> {
    if kind == "no-main-thread" {
        std::thread::spawn(hold_in_thread);
        end_main_thread();
    }
    let mut held = Held::default();
    // An error is expected, because the number of objects is limited.
    let _ = match kind {
        "stream-sockets" => held.sockets(SocketType::STREAM),
        "datagram-sockets" => held.sockets(SocketType::DGRAM),
        "listening-sockets" => held.listening_sockets(),
        "descriptors-in-flight" => held.descriptors_in_flight(),
        "pipes" => held.pipes(),
        "inotify" => held.inotify(),
        "epoll" => held.epoll(),
        "locks" => held.locks(),
        "page-tables" => held.page_tables(),
        "mappings" => held.mappings(),
        "files-of-proc" => held.files_of_proc(),
        "futex-tables" => held.futex_table(),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    println!("{}", held.bytes);
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// Holds ordinary memory, prints the number of bytes, and exits when standard input closes.
fn hold_in_thread() {
    let memory = vec![1_u8; BYTES_PER_PROCESS as usize];
    println!("{}", memory.len());
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    drop(std::hint::black_box(memory));
    std::process::exit(0);
}

#[derive(Default)]
struct Held {
    bytes: u64,
    descriptors: Vec<OwnedFd>,
}

impl Held {
    fn is_enough(&self) -> bool {
        self.bytes >= BYTES_PER_PROCESS
    }

    /// Writes to a descriptor that does not block until the kernel accepts no more.
    fn fill(&mut self, into: impl AsFd) -> io::Result<()> {
        let block = [1; 4096];
        while let Ok(count @ 1..) = rustix::io::write(into.as_fd(), &block) {
            self.bytes += count as u64;
        }
        self.descriptors.push(into.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    fn sockets(&mut self, kind: SocketType) -> io::Result<()> {
        while !self.is_enough() {
            let (left, right) = socketpair(AddressFamily::UNIX, kind, SocketFlags::NONBLOCK, None)?;
            // Where this call is refused, the buffers keep their default size.
            let _ = sockopt::set_socket_send_buffer_size(&left, 4 << 20);
            self.fill(&left)?;
            self.fill(&right)?;
        }
        Ok(())
    }

    /// Fills connections that nobody accepts. The kernel keeps them although their descriptors are closed.
    fn listening_sockets(&mut self) -> io::Result<()> {
        let path = format!("/tmp/listener-{}", std::process::id());
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        while !self.is_enough() {
            let mut connection = UnixStream::connect(&path)?;
            connection.set_nonblocking(true)?;
            while let Ok(count @ 1..) = connection.write(&[1; 4096]) {
                self.bytes += count as u64;
            }
        }
        self.descriptors.push(listener.into());
        Ok(())
    }

    /// Sends filled sockets through another socket and closes them, so that they count for no process.
    fn descriptors_in_flight(&mut self) -> io::Result<()> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        self.descriptors.extend([sender.as_fd().try_clone_to_owned()?, receiver.into()]);
        while !self.is_enough() {
            let mut batch = Self::default();
            batch.sockets_once()?;
            let fds: Vec<_> = batch.descriptors.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut message = SendAncillaryBuffer::new(&mut space);
            message.push(SendAncillaryMessage::ScmRights(&fds));
            sendmsg(&sender, &[IoSlice::new(b"x")], &mut message, SendFlags::empty())?;
            self.bytes += batch.bytes;
        }
        Ok(())
    }

    fn sockets_once(&mut self) -> io::Result<()> {
        let (left, right) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None)?;
        self.fill(left)?;
        self.fill(right)
    }

    fn pipes(&mut self) -> io::Result<()> {
        while !self.is_enough() {
            let (reader, writer) = pipe()?;
            let _ = fcntl_setpipe_size(&writer, 1 << 20);
            let flags = rustix::fs::fcntl_getfl(&writer)? | rustix::fs::OFlags::NONBLOCK;
            rustix::fs::fcntl_setfl(&writer, flags)?;
            self.fill(writer)?;
            self.descriptors.push(reader);
        }
        Ok(())
    }

    /// Queues events that nobody reads.
    fn inotify(&mut self) -> io::Result<()> {
        let name = format!("/tmp/{}{}", "x".repeat(200), std::process::id());
        while !self.is_enough() {
            let watcher = inotify::init(inotify::CreateFlags::NONBLOCK)?;
            inotify::add_watch(&watcher, "/tmp", inotify::WatchFlags::ALL_EVENTS)?;
            for _ in 0..4000 {
                File::create(&name)?;
                std::fs::remove_file(&name)?;
                self.bytes += 4 * 300;
            }
            self.descriptors.push(watcher);
        }
        Ok(())
    }

    /// Watches many descriptors with many epoll instances. A watch takes about 200 bytes.
    fn epoll(&mut self) -> io::Result<()> {
        let (reader, _writer) = pipe()?;
        let mut watched = vec![reader];
        while watched.len() < 64 {
            watched.push(watched[0].try_clone()?);
        }
        while !self.is_enough() {
            let instance = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            for fd in &watched {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&instance, fd, data, epoll::EventFlags::IN)?;
                self.bytes += 200;
            }
            self.descriptors.push(instance);
        }
        Ok(())
    }

    /// Locks every second byte of a file, starting at the end, because the kernel is fastest in this order.
    fn locks(&mut self) -> io::Result<()> {
        let file = File::create(format!("/tmp/locks-{}", std::process::id()))?;
        for number in (0..BYTES_PER_PROCESS / 256).rev() {
            let lock = libc::flock {
                l_type: libc::F_WRLCK as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                l_start: i64::try_from(2 * number).unwrap_or(0),
                l_len: 1,
                l_pid: 0,
            };
            fcntl(&file, FcntlArg::F_SETLK(&lock))?;
            self.bytes += 256;
        }
        self.descriptors.push(file.into());
        Ok(())
    }

    /// Reads one byte in every 2 MiB, for each of which the kernel needs a table of 4 KiB.
    fn page_tables(&mut self) -> io::Result<()> {
        let tables = BYTES_PER_PROCESS / 4096;
        touch_sparse_pages(tables as usize)?;
        self.bytes += tables * 4096;
        Ok(())
    }

    fn mappings(&mut self) -> io::Result<()> {
        self.bytes += 320 * fragment_mapping(60_000)? as u64;
        Ok(())
    }

    /// Maps a file in a deep directory, and reads the list of mappings through many descriptors. Each of them has a
    /// buffer for the path of the file, in which the kernel replaces a line break by four characters.
    fn files_of_proc(&mut self) -> io::Result<()> {
        const DEPTH: usize = 300;
        let name = "\n".repeat(255);
        let mut dir: OwnedFd = File::open("/tmp")?.into();
        for _ in 0..DEPTH {
            // Another process may have created the directory.
            let _ = mkdirat(&dir, &*name, Mode::RWXU);
            dir = openat(&dir, &*name, OFlags::PATH, Mode::empty())?;
        }
        let flags = OFlags::CREATE | OFlags::RDWR;
        let file = File::from(openat(&dir, "file", flags, Mode::RUSR | Mode::WUSR)?);
        file.set_len(4096)?;
        map_page(&file)?;
        let mut text = Vec::new();
        while !self.is_enough() {
            let mut list = File::open("/proc/self/maps")?;
            text.clear();
            self.bytes += list.read_to_end(&mut text)? as u64;
            self.descriptors.push(list.into());
        }
        Ok(())
    }

    fn futex_table(&mut self) -> io::Result<()> {
        let slots = 1 << 19;
        allocate_futex_table(slots)?;
        self.bytes += 64 * slots as u64;
        Ok(())
    }
}
