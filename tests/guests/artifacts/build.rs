//! Compiles the test guests to components.

use guest_build::Guest;

fn main() {
    guest_build::compile(&[
        Guest {
            package: "guest-misbehaving",
            folder: "tests/guests/misbehaving",
        },
        Guest {
            package: "guest-witness",
            folder: "tests/guests/witness",
        },
    ]);
}
