//! Tests that parsing arbitrary bytes from a guest neither panics nor allocates more memory than estimated.

use proptest::prelude::*;
use sandbox_vm::protocol::{Assembler, Frame, Kind, MAX_FRAME, frame, from_guest, shape};
use serde_json::Value;

/// Parses bytes as the host does, until the first error.
fn read(mut bytes: &[u8]) {
    let mut assembler = Assembler::default();
    while let Ok(Some(frame)) = Frame::take(&mut bytes) {
        assert!(frame.payload.len() <= MAX_FRAME);
        let Ok(message) = assembler.push(frame) else { return };
        let Some(message) = message else { continue };
        let _ = from_guest::request_id(&message);
        if from_guest::parse(message).is_err() {
            return;
        }
    }
}

/// Generates bytes that resemble MessagePack, with many markers and wrong lengths.
fn nearly_msgpack() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => 0x80u8..0xa8,
        2 => prop::sample::select(vec![0xc0u8, 0xc4, 0xc6, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xcb, 0xcf]),
        2 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..200)
}

/// Returns an upper bound on the memory that a value takes. A map's nodes have space for eleven entries and are at
/// least half full.
fn memory(value: &Value) -> u64 {
    let own = size_of::<Value>() as u64;
    own + match value {
        Value::String(text) => text.capacity() as u64,
        Value::Array(list) => {
            let free = (list.capacity() - list.len()) as u64;
            free * own + list.iter().map(memory).sum::<u64>()
        }
        Value::Object(map) => {
            let pieces = (map.len() as u64).div_ceil(5);
            let keys: u64 = map.keys().map(|it| it.capacity() as u64).sum();
            pieces * 11 * (own + size_of::<String>() as u64)
                + keys
                + map.values().map(|it| memory(it) - own).sum::<u64>()
        }
        _ => 0,
    }
}

proptest! {
    #[test]
    fn memory_estimate_covers_lists_and_maps(maps in any::<bool>(), count in 1u32..3000) {
        let inner: &[u8] = if maps { &[0x81, 0xa0, 0x00] } else { &[0x91, 0x00] };
        let mut payload = [&[0xdd][..], &count.to_be_bytes()].concat();
        payload.extend(inner.repeat(count as usize));
        let value: Value = rmp_serde::from_slice(&payload).unwrap();
        prop_assert!(memory(&value) <= shape::check(&payload).unwrap());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes);
    }

    #[test]
    fn arbitrary_payloads_of_any_kind_do_not_panic(kind in 1u8..=12, id in any::<u64>(), payload in nearly_msgpack()) {
        let mut bytes = frame::encode(Kind::Hello, id, &payload);
        bytes[4] = kind;
        read(&bytes);
    }

    #[test]
    fn memory_estimate_is_an_upper_bound(payload in nearly_msgpack()) {
        if let Ok(estimate) = shape::check(&payload) {
            let value: Result<Value, _> = rmp_serde::from_slice(&payload);
            if let Ok(value) = value {
                prop_assert!(memory(&value) <= estimate, "{value}");
            }
        }
    }
}
