use rustix::io::Errno;

use super::{Capacity, Disk, FileKind, ROOT};

const SIZE: Capacity = Capacity { bytes: 64 << 10, files: 16 };

fn disk() -> Disk {
    Disk::new(SIZE, &["/workspace", "/tmp"])
}

fn file(disk: &mut Disk, path: &str) -> Result<u64, Errno> {
    disk.make_file(disk.resolve_parent(ROOT, path.as_bytes())?, 0o644)
}

fn names(disk: &Disk, path: &str) -> Vec<String> {
    let dir = disk.resolve(ROOT, path.as_bytes()).unwrap();
    let entries = disk.list(dir, 0).unwrap();
    entries.map(|it| String::from_utf8_lossy(&it.name).into_owned()).collect()
}

#[test]
fn files_are_written_read_moved_and_removed() {
    let mut disk = disk();
    let node = file(&mut disk, "/workspace/a").unwrap();
    assert_eq!(disk.write(node, 5, b"five"), Ok(4));
    assert_eq!(disk.read(node, 0, 100), Ok(&b"\0\0\0\0\0five"[..]));
    assert_eq!(disk.read(node, 100, 100), Ok(&b""[..]));
    let (from, to) = (
        disk.resolve_parent(ROOT, b"/workspace/a").unwrap(),
        disk.resolve_parent(ROOT, b"/tmp//b/").unwrap(),
    );
    disk.rename(from, to).unwrap();
    assert_eq!(names(&disk, "/workspace"), [".", ".."]);
    assert_eq!(names(&disk, "/workspace/../tmp/."), [".", "..", "b"]);
    // An open file stays readable after it is removed.
    let reference = disk.acquire(node).unwrap();
    disk.remove_file(disk.resolve_parent(ROOT, b"/tmp/b").unwrap()).unwrap();
    assert_eq!(disk.resolve(ROOT, b"/tmp/b"), Err(Errno::NOENT));
    assert_eq!(disk.read(node, 5, 4), Ok(&b"five"[..]));
    disk.release(reference);
    assert_eq!(disk.read(node, 5, 4), Err(Errno::NOENT));
    assert_eq!(disk.capacity_and_free().1.bytes, SIZE.bytes);
}

#[test]
fn size_and_number_of_files_are_limited() {
    let mut disk = disk();
    let node = file(&mut disk, "/workspace/a").unwrap();
    // A write stores as many bytes as fit, and the next write fails.
    assert_eq!(disk.write(node, 0, &vec![1; 100 << 10]), Ok(64 << 10));
    assert_eq!(disk.write(node, 64 << 10, b"x"), Err(Errno::NOSPC));
    assert_eq!(disk.write(node, u64::MAX - 1, b"x"), Err(Errno::NOSPC));
    assert_eq!(disk.write(node, u64::MAX, b"x"), Err(Errno::FBIG));
    assert_eq!(disk.resize(node, 1 << 60), Err(Errno::NOSPC));
    assert_eq!(disk.write(node, 10, b"x"), Ok(1));
    disk.resize(node, 1).unwrap();
    assert_eq!(disk.capacity_and_free().1.bytes, 60 << 10);
    for number in 1..16 {
        file(&mut disk, &format!("/tmp/{number}")).unwrap();
    }
    assert_eq!(file(&mut disk, "/tmp/more"), Err(Errno::NOSPC));
    assert_eq!(disk.capacity_and_free().1.files, 0);
}

#[test]
fn root_directory_is_read_only() {
    let mut disk = disk();
    for path in ["/owned", "/workspace/../owned", "/tmp/../../owned"] {
        assert_eq!(file(&mut disk, path), Err(Errno::ROFS), "{path}");
    }
    let workspace = disk.resolve_parent(ROOT, b"/workspace").unwrap();
    assert_eq!(disk.remove_dir(workspace), Err(Errno::ROFS));
    assert_eq!(
        disk.rename(workspace, disk.resolve_parent(ROOT, b"/tmp/w").unwrap()),
        Err(Errno::ROFS)
    );
    for name in ["/tmp/.", "/tmp/..", "/tmp/"] {
        assert!(file(&mut disk, name).is_err(), "{name}");
    }
    let long = format!("/tmp/{}", "x".repeat(256));
    assert_eq!(file(&mut disk, &long), Err(Errno::NAMETOOLONG));
}

#[test]
fn link_and_directory_cycles_are_rejected() {
    let mut disk = disk();
    for (name, target) in [("/tmp/a", "b"), ("/tmp/b", "/tmp/a"), ("/tmp/c", "../workspace")] {
        disk.make_link(disk.resolve_parent(ROOT, name.as_bytes()).unwrap(), target.as_bytes())
            .unwrap();
    }
    assert_eq!(disk.resolve(ROOT, b"/tmp/a"), Err(Errno::LOOP));
    assert_eq!(disk.resolve(ROOT, b"/tmp/c"), disk.resolve(ROOT, b"/workspace"));
    let link = disk.resolve_no_follow(ROOT, b"/tmp/c").unwrap();
    assert_eq!(disk.metadata(link).unwrap().kind, FileKind::Link);
    disk.make_dir(disk.resolve_parent(ROOT, b"/tmp/outer").unwrap(), 0o755).unwrap();
    disk.make_dir(disk.resolve_parent(ROOT, b"/tmp/outer/inner").unwrap(), 0o755).unwrap();
    let (outer, into) = (
        disk.resolve_parent(ROOT, b"/tmp/outer").unwrap(),
        disk.resolve_parent(ROOT, b"/tmp/outer/inner/x").unwrap(),
    );
    assert_eq!(disk.rename(outer, into), Err(Errno::INVAL));
    assert_eq!(disk.remove_dir(outer), Err(Errno::NOTEMPTY));
    let inner = disk.resolve(ROOT, b"/tmp/outer/inner").unwrap();
    assert_eq!(disk.path_of(inner, 10), Ok(b"/tmp/outer/inner".to_vec()));
}

#[test]
fn listing_continues_while_entries_are_removed() {
    let mut disk = disk();
    for number in 0..6 {
        file(&mut disk, &format!("/tmp/{number}")).unwrap();
    }
    let dir = disk.resolve(ROOT, b"/tmp").unwrap();
    let first: Vec<_> = disk.list(dir, 0).unwrap().take(5).collect();
    for entry in &first[2..] {
        disk.remove_file(super::PathTail { dir, name: &entry.name }).unwrap();
    }
    let rest = disk.list(dir, first[4].number).unwrap();
    let rest: Vec<_> = rest.map(|it| String::from_utf8_lossy(&it.name).into_owned()).collect();
    assert_eq!(rest, ["3", "4", "5"]);
}
