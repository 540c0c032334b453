// SPDX-License-Identifier: GPL-2.0-only
//! Texts that the kernel gives when it ends the scheduler.

/// Puts `?` for each byte that is not ASCII.
pub fn to_ascii(text: &mut [i8]) {
    for byte in text.iter_mut().filter(|byte| **byte < 0) {
        *byte = b'?' as i8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_cut_inside_a_letter_becomes_ascii() {
        // The name of a task, cut after 15 bytes.
        let cut = "планировщик".as_bytes()[..15]
            .iter()
            .map(|&byte| byte as i8);
        let mut text: Vec<i8> = cut
            .chain(b"[17] failed\0".iter().map(|&byte| byte as i8))
            .collect();
        to_ascii(&mut text);
        let text: Vec<u8> = text.iter().map(|&byte| byte as u8).collect();
        assert_eq!(text, b"???????????????[17] failed\0");
    }
}
