//! Numbers of up to 128 bits in LEB128, in the shortest form.

use super::error::FormatError;

pub(super) const MAX_LEN: usize = 19;

pub(super) fn write(mut number: u128, to: &mut Vec<u8>) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return to.push(low & 0x7f);
        }
        to.push(low | 0x80);
    }
}

pub(super) fn read(from: &mut &[u8]) -> Result<u128, FormatError> {
    let mut number = 0;
    for group in 0..MAX_LEN {
        let (&byte, rest) =
            from.split_first().ok_or(FormatError::Invalid("it ends in a number"))?;
        *from = rest;
        let bits = u128::from(byte & 0x7f);
        // The last group has only two bits.
        if group == MAX_LEN - 1 && bits > 0b11 {
            break;
        }
        number |= bits << (7 * group);
        match byte {
            0 if group > 0 => {
                return Err(FormatError::Invalid("a number is longer than it must be"));
            }
            ..0x80 => return Ok(number),
            _ => {}
        }
    }
    Err(FormatError::Invalid("a number has more than 128 bits"))
}

pub(super) fn read_len(from: &mut &[u8]) -> Result<usize, FormatError> {
    let len = read(from)?;
    usize::try_from(len).map_err(|_| FormatError::Invalid("a length exceeds the memory"))
}

pub(super) fn take<'a>(len: usize, from: &mut &'a [u8]) -> Result<&'a [u8], FormatError> {
    let (taken, rest) =
        from.split_at_checked(len).ok_or(FormatError::Invalid("it ends too early"))?;
    *from = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest1::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(number: u128, shift in 0..128u32, rest: [u8; 3]) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            bytes.extend(rest);
            let mut from = &bytes[..];
            prop_assert_eq!(read(&mut from), Ok(number));
            prop_assert_eq!(from, rest);
        }

        #[test]
        fn a_number_has_one_form(bytes: [u8; 20]) {
            let mut from = &bytes[..];
            if let Ok(number) = read(&mut from) {
                let mut again = Vec::new();
                write(number, &mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - from.len()]);
            }
        }
    }

    #[test]
    fn bytes_without_a_number_are_an_error() {
        for bytes in [&[][..], &[0x80], &[0x80, 0x00], &[0xff; 19]] {
            assert!(read(&mut &*bytes).is_err(), "{bytes:?}");
        }
        let mut largest = [0xff; 19];
        largest[18] = 0x03;
        assert_eq!(read(&mut &largest[..]), Ok(u128::MAX));
        largest[18] = 0x04;
        assert!(read(&mut &largest[..]).is_err());
    }
}
