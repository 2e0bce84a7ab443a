//! `consulting serve` under load, in its own process. With `GRAPH_NIGHTLY=1`, 200 runs have 1,000 readers, and the
//! memory of the server is measured after many concurrent runs. To see the measured times and the memory:
//!
//! ```sh
//! GRAPH_NIGHTLY=1 cargo test --release -p consulting-graph --test load -- --nocapture --test-threads 1
//! ```
//!
//! `LOAD_ENV` sets environment variables of the server, so that allocators and their settings can be compared without
//! rebuilding the program, and `LOAD_RUNS` replaces the numbers of runs of the memory test. The libraries are those of
//! the Debian packages `libmimalloc3` and `libjemalloc2`. `trim.so` returns free memory to the system every second:
//!
//! ```sh
//! cc -shared -fPIC -o trim.so -x c - <<'END'
//! #include <malloc.h>
//! #include <pthread.h>
//! #include <unistd.h>
//! static void *trim(void *unused) { for (;;) { sleep(1); malloc_trim(0); } return unused; }
//! __attribute__((constructor)) static void start(void) { pthread_t it; pthread_create(&it, 0, trim, 0); }
//! END
//! for env in A=1 LD_PRELOAD=$PWD/trim.so GLIBC_TUNABLES=glibc.malloc.arena_max=1 \
//!     GLIBC_TUNABLES=glibc.malloc.arena_max=2 \
//!     GLIBC_TUNABLES=glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536 \
//!     LD_PRELOAD=libmimalloc.so.3 LD_PRELOAD=libjemalloc.so.2; do
//!     LOAD_ENV=$env LOAD_RUNS=48 GRAPH_NIGHTLY=1 \
//!         cargo test --release -p consulting-graph --test load memory -- --nocapture
//! done
//! ```
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "prints what it measured")]
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

mod memory;
mod readers;
mod server;
