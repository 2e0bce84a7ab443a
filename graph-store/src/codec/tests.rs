//! Tests of the stored form of values.

use serde_json::{Value, json};

use super::{Codec, CodecError};

fn codec() -> Codec {
    Codec::new(1 << 20)
}

fn what() -> String {
    "field `x`".to_owned()
}

#[test]
fn numbers_round_trip_bit_by_bit() {
    for value in [
        json!(9_399_999_944.939_999_f64),
        json!(-0.0),
        json!(1.0),
        json!(f64::MIN_POSITIVE),
        json!(u64::MAX),
        json!(i64::MIN),
        json!({"a": [1, 2.5, null, true, "é\0\u{1F980}"]}),
    ] {
        let bytes = codec().encode(what, &value).unwrap();
        let back: Value = codec().decode(what, &bytes).unwrap();
        assert_eq!(back.to_string(), value.to_string());
    }
}

#[test]
fn a_value_above_the_limit_is_reported_with_its_size() {
    let error = codec().encode(what, &"x".repeat(2 << 20)).unwrap_err();
    assert!(matches!(error, CodecError::TooLarge { limit, .. } if limit == 1 << 20));
    assert!(error.to_string().starts_with("field `x` has 20971"), "{error}");
}

#[test]
fn a_decode_error_names_the_path() {
    let bytes = codec().encode(what, &json!({"items": [1, "two"]})).unwrap();
    #[derive(Debug, serde::Deserialize)]
    struct Doc {
        #[expect(dead_code, reason = "only read by serde")]
        items: Vec<u8>,
    }
    let error = codec().decode::<Doc>(what, &bytes).unwrap_err();
    assert!(error.to_string().contains("field `x` at `items[1]`"), "{error}");
}

#[test]
fn a_flipped_bit_is_detected() {
    let bytes = codec().encode(what, &json!({"amount": 1000, "to": "Ada"})).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(codec().decode::<Value>(what, &flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn trailing_bytes_are_detected() {
    let mut bytes = codec().encode(what, &1).unwrap();
    bytes.push(0);
    let sum = super::checksum(&bytes[5..]);
    bytes[1..5].copy_from_slice(&sum);
    let error = codec().decode::<u8>(what, &bytes).unwrap_err();
    assert!(error.to_string().contains("unexpected bytes follow"), "{error}");
}

#[test]
fn bytes_in_unknown_formats_are_rejected() {
    for bytes in [&[][..], &[9, 1], &[1], &[1, 0, 0, 0, 0], &[1, 1, 1], &[2, 0, 0]] {
        assert!(codec().decode::<Value>(what, bytes).is_err(), "{bytes:?}");
    }
    let format = codec().decode::<Value>(what, &[9]).unwrap_err();
    assert_eq!(format, CodecError::UnknownFormat { what: what(), format: 9 });
    let locked = codec().decode::<Value>(what, &[2, 0]).unwrap_err();
    assert_eq!(locked, CodecError::KeyRequired { what: what() });
}

/// Tests of encrypted values.
#[cfg(feature = "encryption")]
mod encrypted {
    use serde_json::{Value, json};

    use super::what;
    use crate::codec::{Codec, Keys};

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn codec(keys: &str) -> Codec {
        Codec::new(1 << 20).with_keys(Some(Keys::parse(keys).unwrap()))
    }

    #[test]
    fn encrypted_values_are_only_readable_with_their_key() {
        let secret = json!("the launch code");
        let bytes = codec(OLD).encode(what, &secret).unwrap();
        assert!(!bytes.windows(6).any(|it| it == b"launch"));
        assert_eq!(codec(OLD).decode::<Value>(what, &bytes).unwrap(), secret);
        let rotated = codec(&format!("{NEW}, {OLD}"));
        assert_eq!(rotated.decode::<Value>(what, &bytes).unwrap(), secret);
        let error = codec(NEW).decode::<Value>(what, &bytes).unwrap_err();
        assert!(error.to_string().contains("another key"), "{error}");
        assert!(Codec::new(99).decode::<Value>(what, &bytes).is_err());
    }

    #[test]
    fn changed_or_truncated_ciphertexts_are_rejected() {
        let bytes = codec(OLD).encode(what, &json!([1, 2, 3])).unwrap();
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            assert!(codec(OLD).decode::<Value>(what, &changed).is_err(), "byte {position}");
        }
        for length in 0..bytes.len() {
            assert!(codec(OLD).decode::<Value>(what, &bytes[..length]).is_err());
        }
    }

    #[test]
    fn equal_values_have_different_ciphertexts() {
        let codec = codec(OLD);
        assert_ne!(codec.encode(what, &1).unwrap(), codec.encode(what, &1).unwrap());
    }
}

#[cfg(feature = "compression")]
mod compression {
    use super::{super::COMPRESSED, *};

    fn compressing() -> Codec {
        codec().with_compression(true)
    }

    #[test]
    fn large_values_are_compressed_and_readable_without_the_setting() {
        let value = json!({ "text": "the same words again and again; ".repeat(100) });
        let bytes = compressing().encode(what, &value).unwrap();
        assert!(bytes[0] == COMPRESSED && bytes.len() < 300, "{} bytes", bytes.len());
        assert_eq!(codec().decode::<Value>(what, &bytes), Ok(value));
        let small = json!("short");
        assert_eq!(compressing().encode(what, &small), codec().encode(what, &small));
    }

    #[test]
    fn changed_and_oversized_compressed_values_are_rejected() {
        let value = json!("x".repeat(100_000));
        let bytes = compressing().encode(what, &value).unwrap();
        let error = Codec::new(1_000).decode::<Value>(what, &bytes).unwrap_err();
        assert!(error.to_string().contains("exceeds the limit of 1000 bytes"), "{error}");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(codec().decode::<Value>(what, &flipped).is_err(), "bit {bit}");
        }
    }
}
