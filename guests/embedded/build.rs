//! Compiles the shipped guests to components.

use guest_build::Guest;

fn main() {
    guest_build::compile(&[Guest {
        package: "guest-hcloud",
        folder: "guests/hcloud",
    }]);
}
