use rustix::io::Errno;

use super::{Access, AddressSpace, NO_EXECUTE, PRESENT, Ram, USER, WRITABLE};
use crate::backend::kvm_process::ram::PAGE;

const START: u64 = USER.start;

fn space(pages: u64) -> AddressSpace {
    AddressSpace::new(Ram::new(pages * PAGE).unwrap(), PAGE).unwrap()
}

#[test]
fn monitor_accesses_only_what_the_guest_can_access() {
    let mut space = space(64);
    space.map(&(START..START + 2 * PAGE), Access::Write).unwrap();
    space.write(START + PAGE - 2, b"over").unwrap();
    let mut bytes = [0; 4];
    space.read(START + PAGE - 2, &mut bytes).unwrap();
    assert_eq!(&bytes, b"over");
    space.protect(&(START + PAGE..START + 2 * PAGE), Access::Read).unwrap();
    assert_eq!(space.write(START + PAGE - 2, b"over"), Err(Errno::FAULT));
    space.read(START + PAGE - 2, &mut bytes).unwrap();
    space.protect(&(START..START + PAGE), Access::None).unwrap();
    for at in [START, START + 2 * PAGE - 2, 0, 0x6000, USER.end - 1, u64::MAX - 1, 1 << 63] {
        assert_eq!(space.read(at, &mut bytes), Err(Errno::FAULT), "{at:#x}");
        assert_eq!(space.write(at, &bytes), Err(Errno::FAULT), "{at:#x}");
    }
    // The content is unchanged after the access rights are restored.
    space.protect(&(START..START + PAGE), Access::Read).unwrap();
    space.read(START + PAGE - 2, &mut bytes).unwrap();
    assert_eq!(&bytes, b"over");
}

#[test]
fn pages_are_zeroed_and_reused() {
    let mut space = space(64);
    let range = START..START + 40 * PAGE;
    for _ in 0..10 {
        space.map(&range, Access::Write).unwrap();
        let mut byte = [1];
        space.read(range.end - 1, &mut byte).unwrap();
        assert_eq!(byte, [0]);
        space.write(range.end - 1, b"x").unwrap();
        space.unmap(&range).unwrap();
    }
    assert!(!space.ran_out_of_memory());
    let large = START..START + 64 * PAGE;
    assert_eq!(space.map(&large, Access::Write), Err(Errno::NOMEM));
    assert!(space.ran_out_of_memory());
    // Reserving inaccessible memory takes no frames, so a range that is larger than the memory can be reserved.
    space.map(&(START..START + (1 << 40)), Access::None).unwrap();
    space.unmap(&(START..START + (1 << 40))).unwrap();
    space.map(&range, Access::Write).unwrap();
}

#[test]
fn only_whole_guest_pages_can_be_mapped() {
    let mut space = space(64);
    for range in [
        0..PAGE,
        START - PAGE..START + PAGE,
        START + 1..START + PAGE + 1,
        START..START,
        USER.end - PAGE..USER.end + PAGE,
        u64::MAX - PAGE + 1..u64::MAX,
    ] {
        assert_eq!(space.map(&range, Access::Read), Err(Errno::INVAL), "{range:x?}");
        assert_eq!(space.unmap(&range), Err(Errno::INVAL), "{range:x?}");
        assert_eq!(space.protect(&range, Access::Read), Err(Errno::INVAL), "{range:x?}");
    }
    assert_eq!(space.protect(&(START..START + PAGE), Access::Read), Err(Errno::NOMEM));
}

#[test]
fn no_access_is_writable_and_executable() {
    for access in [Access::None, Access::Read, Access::Write, Access::Execute] {
        let bits = access.bits();
        let (writable, executable) =
            (bits & WRITABLE != 0, bits & (PRESENT | NO_EXECUTE) == PRESENT);
        assert!(!(writable && executable), "{access:?}");
    }
}
