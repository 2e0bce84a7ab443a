//! Random ids of messages and tool calls.

/// Returns a new random id, a version 4 UUID.
pub(crate) fn new_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut id = String::with_capacity(36);
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            id.extend(char::from_digit(digit.into(), 16));
        }
    }
    id
}
