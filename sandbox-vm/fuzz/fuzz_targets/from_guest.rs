//! Parses arbitrary bytes as messages from a guest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_vm::protocol::{Assembler, Frame, from_guest, message};

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes;
    let mut assembler = Assembler::default();
    while let Ok(Some(frame)) = Frame::take(&mut bytes) {
        match assembler.push(frame) {
            Ok(Some(message)) => {
                match from_guest::request_id(&message).and_then(|_| from_guest::parse(message)) {
                    Ok(from_guest::GuestMessage::Reply(_, payload)) => {
                        let _ = from_guest::reply::<message::ExecResult>(&payload);
                        let _ = from_guest::reply::<message::GraphOutcome>(&payload);
                        let _ = from_guest::reply::<Vec<message::Entry>>(&payload);
                        let _ = from_guest::reply::<message::FileContents>(&payload);
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
});
