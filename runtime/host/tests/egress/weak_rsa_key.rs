//! An authority with an RSA key of 512 bits, which no library generates any more: just the arithmetic of its
//! signatures.

use rcgen::{Error, PKCS_RSA_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey};
use sha2::{Digest as _, Sha256};

/// 512 bits, the least significant part first.
type Number = [u64; 8];

/// The product of two primes.
const MODULUS: Number = [
    0x5343_0e63_f069_3ed9,
    0xa822_10b9_0894_37c7,
    0x068f_b762_7abb_cb23,
    0x29f6_41fe_636c_af42,
    0xb913_6293_fd2a_0a1f,
    0x7c82_c063_febc_960b,
    0x59c8_da7d_e34f_dd78,
    0x99ad_dddf_661c_6856,
];
/// The private exponent for [`PUBLIC`].
const PRIVATE: Number = [
    0x7d3a_8739_33ab_f181,
    0xd249_4a10_f568_b5cf,
    0xf653_72ee_9b85_d981,
    0xe105_f8c9_b542_f266,
    0xc69b_3f26_fbaa_f881,
    0x0d42_cb9d_2d95_48e3,
    0x2924_5e3d_9021_b597,
    0x24d7_ea39_84e1_8aa2,
];
const PUBLIC: Number = [65_537, 0, 0, 0, 0, 0, 0, 0];

/// The key of the authority.
pub(crate) struct Weak {
    /// Modulus and exponent (RFC 8017, A.1.1).
    public: Vec<u8>,
}

impl Weak {
    pub(crate) fn new() -> Weak {
        // A sequence of two integers; the first begins with a bit that would be its sign.
        let mut public = vec![0x30, 72, 2, 65, 0];
        public.extend(bytes(&MODULUS));
        public.extend([2, 3, 1, 0, 1]);
        Weak { public }
    }
}

impl PublicKeyData for Weak {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_RSA_SHA256
    }
}

impl SigningKey for Weak {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = power(&encoded(message), &PRIVATE);
        assert_eq!(power(&signature, &PUBLIC), encoded(message), "it is one");
        Ok(bytes(&signature))
    }
}

/// The message as it is signed (RFC 8017, 9.2).
fn encoded(message: &[u8]) -> Number {
    const SHA256: [u8; 19] = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01,
        0x05, 0x00, 0x04, 0x20,
    ];
    let digest = Sha256::digest(message);
    let mut text = vec![0xff; 64 - SHA256.len() - digest.len()];
    (text[0], text[1]) = (0, 1);
    *text.last_mut().unwrap() = 0;
    text.extend(SHA256);
    text.extend(digest);
    let mut number = [0; 8];
    for (part, bytes) in number.iter_mut().rev().zip(text.chunks(8)) {
        *part = u64::from_be_bytes(bytes.try_into().unwrap());
    }
    number
}

fn bytes(number: &Number) -> Vec<u8> {
    let parts = number.iter().rev();
    parts.flat_map(|part| part.to_be_bytes()).collect()
}

/// The bits of a number, the most significant one first.
fn bits(number: &Number) -> impl Iterator<Item = bool> {
    let parts = number.iter().rev();
    parts.flat_map(|part| (0..64).rev().map(move |bit| part >> bit & 1 == 1))
}

fn power(base: &Number, exponent: &Number) -> Number {
    let mut result = [1, 0, 0, 0, 0, 0, 0, 0];
    for bit in bits(exponent) {
        result = product(&result, &result);
        if bit {
            result = product(&result, base);
        }
    }
    result
}

fn product(one: &Number, other: &Number) -> Number {
    let mut result = [0; 8];
    for bit in bits(other) {
        result = sum(&result, &result);
        if bit {
            result = sum(&result, one);
        }
    }
    result
}

fn sum(one: &Number, other: &Number) -> Number {
    let (mut result, mut carry) = ([0; 8], false);
    for (part, (one, other)) in result.iter_mut().zip(one.iter().zip(other)) {
        (*part, carry) = one.carrying_add(*other, carry);
    }
    match carry || result.iter().rev().ge(MODULUS.iter().rev()) {
        true => difference(&result),
        false => result,
    }
}

/// The number minus the modulus.
fn difference(number: &Number) -> Number {
    let (mut result, mut borrow) = ([0; 8], false);
    for (part, (one, other)) in result.iter_mut().zip(number.iter().zip(&MODULUS)) {
        (*part, borrow) = one.borrowing_sub(*other, borrow);
    }
    result
}
